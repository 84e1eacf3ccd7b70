#!/usr/bin/env bash
# export.sh DIRECTORY - what a real RocksDB reads and writes, kept beside this script; the databases are made in DIRECTORY.
#
# Needs `cargo build --release -p gimbal -p gimbal-ycsb`. `make test` only reads what is kept. Between the runs, others only read for
# some seconds: meanwhile RocksDB does the compactions that it owes, and they are not counted to the next.
set -euo pipefail
cd "$(dirname "$0")"
gimbal=${CARGO_TARGET_DIR:-../../../../target}/release/gimbal
dir=$1

bench() { # bench NAME OPTIONS...
	local name=$1
	shift
	"$gimbal" bench ycsb --dir "$dir" --instances 1 --threads 1 --records 200000 --json "$name.json" "$@" >"$dir.log"
}

mkdir -p "$dir"
bench load --workload C --operations 0 --runtime 20s
bench a --no-load --workload A --operations 300000
bench rest --no-load --workload C --operations 0 --runtime 20s
bench c --no-load --workload C --operations 100000
date --iso-8601 >date.txt
