#!/usr/bin/env bash
# build.sh - builds the release binary that packages have, and prints its path.
#
# The same source gives the same bytes in any folder: paths of this machine (cargo's folder of sources, this folder)
# are replaced, and there is no debug information, which has more of them: the build ID is a hash of it, too, and stays in a
# stripped binary. These flags change every crate's fingerprint, so this build has a target folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/package
export RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$target=/target"
export CARGO_PROFILE_RELEASE_DEBUG=false
cargo build --release --locked -p gimbal --target-dir "$target" >&2
echo "$target/release/gimbal"
