#!/usr/bin/env bash
# arm64.sh - builds gimbal for arm64 on another machine, runs the tests of the core crates under QEMU's user emulation, and the target
# in a guest with a Cortex-A72, whose kernel is its host.
#
# Neither has a speed that means anything: they show that the code computes the same there, and that the target serves on io_uring and
# on epoll. What is missing is named, and nothing is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

triple=aarch64-unknown-linux-gnu
library=/usr/aarch64-linux-gnu
# Without a clock, socket or thread; `sim` is left out, because its worlds take too long under emulation.
core=(units measures sched nvme auth ssd probe ais blob)

missing=()
need() { # need ADVICE COMMAND...
	local advice=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$advice")
}
# shellcheck disable=SC2016 # the inner shell expands it
need "Rust's library for $triple: rustup target add $triple" sh -c '[ -d "$(rustc --print target-libdir --target '$triple')" ]'
need "the compiler: apt-get install gcc-aarch64-linux-gnu" command -v aarch64-linux-gnu-gcc
need "the C library: apt-get install libc6-dev-arm64-cross" test -e $library/lib/libc.so.6
need "the emulator of programs: apt-get install qemu-user" command -v qemu-aarch64
need "the emulator of machines: apt-get install qemu-system-arm" command -v qemu-system-aarch64
if [ ${#missing[@]} -gt 0 ]; then
	printf 'arm64.sh: missing: %s\n' "${missing[@]}" >&2
	exit 1
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $library"
packages=()
for crate in "${core[@]}"; do packages+=(-p "$crate"); done
report=$(mktemp)
trap 'rm -f "$report"' EXIT
failed=
cargo test --locked --no-fail-fast --target $triple "${packages[@]}" "$@" | tee "$report" || failed=yes
# shellcheck disable=SC2016 # awk's own fields
awk '/^test result:/ {ran += $4 + $6; bad += $6; left += $8}
	END {printf "core crates under qemu-aarch64: %d tests run, %d failed, %d left out as too long (ignored)\n", ran, bad, left}' "$report"
[ -z "$failed" ] || exit 1
cargo build --locked --release --target $triple -p gimbal

tests/guest/guest.sh run -g trixie-arm64 -m 2048 -t 900 -x "${CARGO_TARGET_DIR:-target}/$triple/release/gimbal:/gimbal/gimbal" \
	-x "$library/lib/libgcc_s.so.1:/usr/lib/libgcc_s.so.1" -x tests/guest/walks/lib.sh:/walks/lib.sh tests/guest/walks/arm64.sh
