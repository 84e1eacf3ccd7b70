#!/usr/bin/env bash
# install-fuzz-deps.sh - what the long run of the fuzz targets needs beyond the rest: nightly Rust, cargo-fuzz, a C++
# compiler for libFuzzer.
#
# Quiet when all is there. rustup and cargo install what is missing; the compiler comes from tests/install-deps.sh.
set -euo pipefail

command -v c++ >/dev/null || {
	echo "install-fuzz-deps.sh: no C++ compiler: run tests/install-deps.sh, or install g++ by hand" >&2
	exit 1
}
if ! cargo +nightly --version >/dev/null 2>&1; then
	command -v rustup >/dev/null || {
		echo "install-fuzz-deps.sh: nightly Rust is missing, and so is rustup to install it (https://rustup.rs)" >&2
		exit 1
	}
	rustup toolchain install nightly --profile minimal
fi
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
