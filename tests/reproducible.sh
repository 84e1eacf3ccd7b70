#!/usr/bin/env bash
# reproducible.sh - one small experiment in a release build, in a debug build and on one core: the same
# records, claims, figures and page, byte for byte.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cargo build --locked --release -p gimbal
cargo build --locked -p gimbal

report() { # report NAME COMMAND...
	local name=$1
	shift
	"$@" lab report tests/reproducible.toml --out "$scratch/$name" >"$scratch/$name.log" 2>&1 || {
		cat "$scratch/$name.log" >&2
		return 1
	}
}

core=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
report release "$target/release/gimbal"
report debug "$target/debug/gimbal"
report one-core taskset -c "$core" "$target/release/gimbal"

diff -r "$scratch/release" "$scratch/debug"
diff -r "$scratch/release" "$scratch/one-core"
records=$(wc -l <"$scratch/release/records.jsonl")
[ "$records" -gt 0 ]
echo "$records runs are the same bytes in release and debug builds and on one core"
