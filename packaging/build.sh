#!/usr/bin/env bash
# build.sh - builds the release binary that packages have, and prints its path.
#
# The same source gives the same bytes in any folder: paths of this machine (cargo's folder of sources, this folder)
# are replaced, and debug information, which has more of them, is left to `strip`. These flags change every crate's
# fingerprint, so this build has a target folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/package
export RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$target=/target"
cargo build --release --locked -p gimbal --target-dir "$target" >&2
echo "$target/release/gimbal"
