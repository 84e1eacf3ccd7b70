#!/bin/sh
# Changes the code a little, one place at a time, and tells which changes no test notices: docs/mutants.md.
#
#   tests/mutants.sh CRATE [SHARD]      SHARD as 0/25: of every 25 mutants the first; without one, all of them (hours)
#
# Works on a copy next to this tree, made from the last commit. Needs `cargo install cargo-mutants`.
set -eu

crate=${1:?usage: tests/mutants.sh CRATE [SHARD]}
shard=${2:-0/1}
command -v cargo-mutants >/dev/null || { echo "cargo-mutants is missing: cargo install cargo-mutants" >&2; exit 1; }

here=$(cd "$(dirname "$0")/.." && pwd)
copy=${MUTANTS_DIR:-$here/target/mutants}
if [ -e "$copy/.git" ]; then
    git -C "$copy" checkout --quiet --force --detach "$(git -C "$here" rev-parse HEAD)"
else
    git -C "$here" worktree add --quiet --detach "$copy" HEAD
fi

# Optimised a little: most of the time goes to tests, and a mutant that survives runs all of them.
export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=0 CARGO_INCREMENTAL=1
cd "$copy"
exec nice -n 10 cargo mutants --in-place --package "$crate" --sharding round-robin --shard "$shard" \
    --timeout "${MUTANTS_TIMEOUT:-240}" --caught --output "$here/target/mutants-$crate"
