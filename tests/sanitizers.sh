#!/usr/bin/env bash
# sanitizers.sh [interleavings|miri|tsan]... - the same tests again, under tools that see what a passing test does not show.
#
#   interleavings  what threads share, by loom, with more forced switches than `cargo test` has time for
#   miri           undefined behaviour and races in the unit tests of the core crates and of the reactor's own parts
#   tsan           ThreadSanitizer: races in the tests that run threads, over sockets and files
#
# All of them without an argument. Prints how many tests ran under each, and how long they took; fails if one fails or none
# ran. docs/sanitizers.md tells what each covers, and what it cannot see. Miri and TSan need nightly Rust, which this installs.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "sanitizers.sh: $*" >&2
	exit 1
}

# Times that a thread which could go on has to give way to another: what is feasible (docs/sanitizers.md).
preemptions=${LOOM_MAX_PREEMPTIONS:-5}
target=${CARGO_TARGET_DIR:-target}
logs=$target/sanitizers
report=()

install_nightly() {
	local component missing=()
	for component in miri rust-src; do
		rustup +nightly component list --installed 2>/dev/null | grep -q "^$component" || missing+=(--component "$component")
	done
	[ ${#missing[@]} -eq 0 ] && return
	command -v rustup >/dev/null || fail "nightly Rust is missing, and so is rustup to install it (https://rustup.rs)"
	rustup toolchain install nightly --profile minimal "${missing[@]}" || fail "rustup could not install nightly Rust with ${missing[*]}"
}

# counted TOOL PACKAGE COMMAND...: runs it, shows what failed, and notes how many tests passed.
counted() {
	local tool=$1 package=$2 began=$SECONDS log passed line
	shift 2
	log=$logs/$tool-$package.log
	mkdir -p "$logs"
	echo "-- $tool: $package"
	if ! "$@" >"$log" 2>&1; then
		grep -v -E '^ *(Compiling|Running|Downloaded)|\.\.\. (ok|ignored)' "$log" | tail -n 60 >&2
		fail "$tool: $package failed; all of it is in $log"
	fi
	passed=$(awk '/^test result: ok\./ { passed += $4 } END { print passed + 0 }' "$log")
	[ "$passed" -gt 0 ] || fail "$tool: no test of $package ran; see $log"
	printf -v line '%-14s %-8s %4d tests %5d s' "$tool" "$package" "$passed" $((SECONDS - began))
	report+=("$line")
}

interleavings() {
	local package
	for package in reactor server; do
		counted interleavings "$package" env LOOM_MAX_PREEMPTIONS="$preemptions" \
			cargo test --locked -p "$package" --lib interleavings
	done
}

# loom switches stacks by itself, which neither Miri nor TSan can follow; a guest is another machine.
miri() {
	local package tests=() kinds
	for package in units reactor nvme measures sched; do
		# What its threads share is its interface, so that test is not in the library.
		kinds=(--lib)
		[ "$package" != measures ] || kinds+=(--tests)
		# The schedulers are arithmetic, by the hour, with no unsafe code below them: what is of interest is what threads share.
		[ "$package" != sched ] || tests=(credit_window)
		# Tests read the clock and what the environment says.
		counted miri "$package" env MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR="$target/miri" \
			cargo +nightly miri test --locked -p "$package" "${kinds[@]}" -- --skip interleavings "${tests[@]}"
	done
}

tsan() {
	local package host
	host=$(rustc +nightly -vV | sed -n 's/^host: //p')
	for package in reactor host server; do
		# The standard library is built anew, as TSan has to see its locks and channels.
		counted tsan "$package" env RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR="$target/tsan" \
			TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" \
			cargo +nightly test --locked -Zbuild-std --target "$host" -p "$package" --lib --tests -- --skip interleavings \
			--skip every_claim_about_rdma
	done
}

tools=("$@")
[ $# -gt 0 ] || tools=(interleavings miri tsan)
for tool in "${tools[@]}"; do
	case $tool in
	interleavings) interleavings ;;
	miri | tsan)
		install_nightly
		"$tool"
		;;
	*)
		echo "sanitizers.sh: there is no tool $tool" >&2
		exit 2
		;;
	esac
done
printf '%s\n' "${report[@]}"
