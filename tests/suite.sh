#!/usr/bin/env bash
# suite.sh [--long] - everything a change must pass, in phases; stops at the first that fails.
#
# Ends with how long each phase took. --long adds the tests marked #[ignore = "..."], which are
# right but too long for every change, the tests of the target once more with two threads, the lab
# in debug and release builds (tests/reproducible.sh), the package from two folders
# (tests/reproducible-package.sh), a short list of RocksDB's own suites on a volume
# (rocksdb/suites.sh), loom, Miri and ThreadSanitizer
# (tests/sanitizers.sh), and an hour of fuzzing (tests/fuzz.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

long=
case ${1:-} in
'') ;;
--long) long=yes ;;
*)
	echo "suite.sh: no option $1" >&2
	exit 2
	;;
esac

report=()
phase() { # phase NAME COMMAND...
	local name=$1 began=$SECONDS line
	shift
	echo "== $name: $*"
	if ! "$@"; then
		echo "== $name: failed after $((SECONDS - began)) s" >&2
		exit 1
	fi
	printf -v line '%5d s  %s' $((SECONDS - began)) "$name"
	report+=("$line")
	echo "== $name: passed after $((SECONDS - began)) s"
}

# A full disk ends a build in its middle, with words of the compiler: the space is looked at first.
# It is that of a run without --long, which builds several variants more.
space() { # space GIB: what is free beside what earlier runs have built
	local folder=${CARGO_TARGET_DIR:-target} free built
	mkdir -p "$folder" || return
	free=$(df --output=avail -k "$folder" | tail -n 1)
	built=$(du -sk "$folder" | cut -f 1)
	echo "suite.sh: $((free >> 20)) GiB are free, $((built >> 20)) GiB are built"
	[ $((free + built)) -ge $(($1 << 20)) ] && return
	echo "suite.sh: all that is built and written needs $1 GiB in $(realpath "$folder"): make room," \
		"or name a folder with more in CARGO_TARGET_DIR" >&2
	return 1
}

scripts() {
	find tests rocksdb packaging crates -name '*.sh' -print0 |
		xargs -0 shellcheck -x tests/guest/init tests/guest/init-systemd packaging/debian/{postinst,prerm,postrm} \
		packaging/ocf/gimbal-group
}

format() {
	cargo fmt --all --check && cargo fmt --manifest-path rocksdb/bundled/Cargo.toml --all --check
}

phase "space" space 10
phase "format" format
phase "scripts" scripts
phase "unsafe" tests/unsafe.sh
phase "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
phase "build tests" cargo test --workspace --locked --no-run
# With the tests of the package gimbal, its binary: rocksdb/tests/common/built.rs.
export GIMBAL_IS_BUILT=yes
phase "build release" cargo build --release --locked -p gimbal -p counts
phase "build guests" tests/guest/guest.sh build
phase "counts" "${CARGO_TARGET_DIR:-target}/release/counts"
phase "tests" cargo test --workspace --locked --no-fail-fast
phase "claims" "${CARGO_TARGET_DIR:-target}/release/gimbal" lab claims --quick --expect experiments/verdicts.txt
[ -z "$long" ] || phase "long tests" cargo test --workspace --locked --no-fail-fast -- --ignored
# With one thread more than SSDs, queues lie on two threads: all that is promised holds as well.
two_threads() {
	local tests=() file name
	for file in crates/server/tests/*; do
		name=$(basename "$file" .rs)
		[ "$name" = common ] || tests+=(--test "$name")
	done
	GIMBAL_TEST_THREADS=2 cargo test --workspace --locked --no-fail-fast "${tests[@]}" -- --include-ignored
}
[ -z "$long" ] || phase "two threads" two_threads
[ -z "$long" ] || phase "reproducible" tests/reproducible.sh
[ -z "$long" ] || phase "reproducible package" tests/reproducible-package.sh
# Debian's source of RocksDB is there since tests/install-deps.sh --long.
rocksdb_suites() {
	local version source
	version=$(dpkg-query -W -f='${source:Version}' librocksdb-dev)
	source=$(compgen -G "${CARGO_TARGET_DIR:-target}/rocksdb-source/$version/rocksdb-*/") || {
		echo "suite.sh: RocksDB's source is not there: run tests/install-deps.sh --long" >&2
		return 1
	}
	cargo build --release --locked -p gimbal-rocksdb && rocksdb/suites.sh --short "$source"
}
[ -z "$long" ] || phase "RocksDB's suites" rocksdb_suites
[ -z "$long" ] || phase "sanitizers" tests/sanitizers.sh
[ -z "$long" ] || phase "fuzz" tests/fuzz.sh

echo "== all passed"
printf '%s\n' "${report[@]}"
printf '%5d s  in all\n' "$SECONDS"
