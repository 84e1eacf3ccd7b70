#!/usr/bin/env bash
# compare.sh [ROUNDS [SECONDS [THREADS]]] - db_bench on a volume of two targets, beside db_bench in a local directory (docs/rocksdb.md).
#
# Everything lies in one folder under TMPDIR: the files of the two targets, the local databases and the metadata store. In each round every load
# runs in every place, one after the other, so that what else the machine does hits all of them alike. Prints a table: operations per
# second, the median of the rounds with the lowest and the highest.
#
#   local      a directory, as RocksDB uses it by itself: through the page cache
#   direct     the same with direct reads, and direct writes of tables; RocksDB always writes its log through the page cache
#   volume     gimbal://, default options
#   buffered   gimbal://, flush=buffered
#
# Needs the release build of gimbal and the plug-in. BINARY and PLUGIN name others. LOADS="read sync" and PLACES="local volume" choose.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

rounds=${1:-3} seconds=${2:-2} threads=${3:-1 4 16}
release=${CARGO_TARGET_DIR:-target}/release
binary=${BINARY:-$release/gimbal} plugin=${PLUGIN:-$release/libgimbal_rocksdb.so}
read -ra loads <<<"${LOADS:-fill sync read}"
read -ra places <<<"${PLACES:-local direct volume buffered}"
for file in "$binary" "$plugin"; do
	[ -e "$file" ] || {
		echo "compare.sh: $file does not exist; run 'cargo build --release -p gimbal -p gimbal-rocksdb'" >&2
		exit 1
	}
done
plugin=$(realpath "$plugin")

folder=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-compare.XXXXXX")
# shellcheck source=rocksdb/targets.sh
. rocksdb/targets.sh
clean_up() {
	stop_targets
	rm -rf "$folder"
}
trap clean_up EXIT


# How to reach a place, into `options`.
reach() { # reach PLACE
	local uri="gimbal://db?store=$folder/store"
	case $1 in
	local) options=("--db=$folder/db") ;;
	direct) options=("--db=$folder/db" --use_direct_reads --use_direct_io_for_flush_and_compaction) ;;
	volume) options=("--fs_uri=$uri" --db=/db) ;;
	buffered) options=("--fs_uri=$uri&flush=buffered" --db=/db) ;;
	esac
}

bench() { # bench PLACE OPTIONS...
	local options
	reach "$1"
	LD_PRELOAD=$plugin db_bench "${options[@]}" --value_size=400 --num=100000 --cache_size=1048576 --compression_type=none \
		--seed=1 "${@:2}" 2>"$folder/errors" || { cat "$folder/errors" >&2 && exit 1; }
}

measure() { # measure PLACE LOAD THREADS - answers operations per second
	local text
	# What others have left in the page cache is not written at its expense.
	sync
	case $2 in
	fill) text=$(bench "$1" --benchmarks=fillrandom --threads="$3" --duration="$seconds" --sync=0) ;;
	sync) text=$(bench "$1" --benchmarks=fillrandom --threads="$3" --duration="$seconds" --sync=1) ;;
	read) text=$(bench "$1" --benchmarks=readrandom --threads="$3" --duration="$seconds" --use_existing_db) ;;
	esac
	awk '$1 ~ /random$/ { for (i = 2; i < NF; i++) if ($(i + 1) == "ops/sec") print $i }' <<<"$text"
}

for number in 0 1; do
	# Full: a hole would cost an allocation at the first write, which no SSD does.
	dd if=/dev/zero of="$folder/medium-$number" bs=1M count=1024 oflag=direct status=none
	serve $number
done
"$binary" volume create --store "$folder/store" --mega 64M db >"$folder/created"

results=$folder/results
for ((round = 0; round < rounds; round++)); do
	for load in "${loads[@]}"; do
		for place in "${places[@]}"; do
			# The reads of a place all have the same database.
			[ "$load" != read ] || bench "${place/volume/buffered}" --benchmarks=fillseq,compact >"$folder/filled"
			for count in $threads; do
				speed=$(measure "$place" "$load" "$count")
				echo "$load $count $place $speed" | tee -a "$results" >&2
			done
		done
	done
done

sort -k1,3 -k4n "$results" | awk '
	{ key = $1 " " $2 " " $3; values[key] = values[key] " " $4 }
	END {
		for (key in values) {
			count = split(values[key], all)
			print key, all[int((count + 1) / 2)], all[1], all[count]
		}
	}' | sort -k1,1 -k2,2n | awk -v places="${places[*]}" '
	{ median[$1, $2, $3] = $4; range[$1, $2, $3] = " (" $5 "–" $6 ")"; if (!(($1, $2) in seen)) { seen[$1, $2]; rows[++count] = $1 " " $2 } }
	END {
		split(places, names, " ")
		printf "| load | threads |"; for (i = 1; i in names; i++) printf " %s |", names[i]; print ""
		printf "|---|---|"; for (i = 1; i in names; i++) printf "---|"; print ""
		for (row = 1; row <= count; row++) {
			split(rows[row], of, " ")
			printf "| %s | %s |", of[1], of[2]
			for (i = 1; i in names; i++) printf " %s%s |", median[of[1], of[2], names[i]], range[of[1], of[2], names[i]]
			print ""
		}
	}'
