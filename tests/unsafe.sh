#!/usr/bin/env bash
# unsafe.sh - `unsafe` lives in crates/reactor, and where we meet C (crates/tls/src/wire.rs) and C++ (rocksdb/core/src/ffi.rs,
# rocksdb/src/register.rs, rocksdb/bundled/src/env.rs, rocksdb/ycsb/src/database.rs). There every block says why it is sound.
#
# The workspace denies `unsafe_code`; what could get around that is a crate that does not take the workspace's lints, or an
# `allow`. That each block has its comment is clippy's to see; this checks that clippy is told to.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
	echo "unsafe.sh: $*" >&2
	exit 1
}

grep -q '^unsafe_code = "deny"' Cargo.toml || fail "Cargo.toml no longer denies unsafe_code"
for manifest in crates/*/Cargo.toml rocksdb/Cargo.toml rocksdb/{core,shim,ycsb}/Cargo.toml \
	rocksdb/bundled/{example,rust-rocksdb}/Cargo.toml; do
	grep -A1 '^\[lints\]' "$manifest" | grep -q '^workspace = true' || fail "$manifest does not take the workspace's lints"
done
allowing=$(grep -rlE --include='*.rs' '(allow|expect|warn)\([^)]*unsafe_code' crates rocksdb || true)
for file in $allowing; do
	case $file in
	crates/reactor/* | crates/tls/src/wire.rs | rocksdb/core/src/ffi.rs | rocksdb/src/register.rs | \
		rocksdb/bundled/src/env.rs | rocksdb/ycsb/src/database.rs) grep -qE 'deny\(.*clippy::undocumented_unsafe_blocks' "$file" ||
		fail "$file allows unsafe code, but not only with a SAFETY comment" ;;
	*) fail "$file allows unsafe code" ;;
	esac
done
places() {
	grep -rE --include='*.rs' '\bunsafe (\{|impl|fn|extern)' "$1" | wc -l
}
echo "unsafe.sh: $(places crates/reactor) places in crates/reactor, $(places crates/tls) in crates/tls/src/wire.rs, $(places rocksdb) in rocksdb, none elsewhere"
