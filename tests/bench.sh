#!/usr/bin/env bash
# bench.sh - what the switch does per second on this machine: a null device over loopback, `gimbal` beside `none`.
#
# Both run in turn, several rounds, and the medians are compared, as the machine may be busy with
# other things. SECONDS_EACH and ROUNDS change how long it takes.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-3} rounds=${ROUNDS:-3}
binary=${CARGO_TARGET_DIR:-target}/release/gimbal

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || :; rm -rf "$work"' EXIT

declare -A at
for scheduler in none gimbal; do
	mkfifo "$work/$scheduler"
	"$binary" serve --device null --listen 127.0.0.1:0 --scheduler "$scheduler" --log warn >"$work/$scheduler" &
	pids+=($!)
	read -r _ _ address <"$work/$scheduler"
	at[$scheduler]=$address
done

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

measure() { # measure SCHEDULER ARGUMENTS...: IOPS
	local scheduler=$1
	shift
	"$binary" bench --addr "${at[$scheduler]}" --runtime "${seconds}s" --json - "$@" 2>/dev/null |
		sed -n 's/^ *"iops": *\([0-9]*\).*/\1/p' | head -n 1
}

printf '%-28s %12s %12s %8s\n' "null device, loopback" "none IOPS" "gimbal IOPS" "ratio"
row() { # row NAME ARGUMENTS...
	local name=$1 round none=() gimbal=()
	shift
	for ((round = 0; round < rounds; round++)); do
		none+=("$(measure none "$@")")
		gimbal+=("$(measure gimbal "$@")")
	done
	local a b
	a=$(printf '%s\n' "${none[@]}" | median) b=$(printf '%s\n' "${gimbal[@]}" | median)
	printf '%-28s %12s %12s %8s\n' "$name" "$a" "$b" "$(awk "BEGIN { printf \"%.2f\", $b / $a }")"
}

row "4 KiB randread QD 1" --rw randread --bs 4k --iodepth 1
row "4 KiB randread QD 32" --rw randread --bs 4k --iodepth 32
row "4 KiB randread QD 128" --rw randread --bs 4k --iodepth 128
row "4 KiB randwrite QD 32" --rw randwrite --bs 4k --iodepth 32
row "4 KiB randread 64 × QD 2" --rw randread --bs 4k --iodepth 2 --numjobs 64
row "128 KiB read QD 4" --rw read --bs 128k --iodepth 4
row "128 KiB write QD 4" --rw write --bs 128k --iodepth 4
