#!/usr/bin/env bash
# fuzz.sh [TARGET...] - the long run: every fuzz target (or those named) under libFuzzer, guided by coverage.
#
# FUZZ_SECONDS is the time of all targets together, in seconds of one core (an hour unless set); FUZZ_JOBS how many run at once. What
# is found new stays in fuzz/corpus, so that the next run begins where this one ended; inputs that fail are left in
# fuzz/artifacts. Prints a table and writes one line of JSON per target to target/fuzz.jsonl. Fails if an input failed.
#
# Only the target with unsafe code below it (server) runs with AddressSanitizer: the rest is faster without.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-3600} jobs=${FUZZ_JOBS:-2}
# Seconds of wall clock after which one input counts as hanging.
hang=60
memory=2048

tests/install-fuzz-deps.sh
declare -A sanitizer=([server]=address)
if [ $# -gt 0 ]; then
	targets=("$@")
else
	mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v -x gimbal-fuzz)
fi

report=${CARGO_TARGET_DIR:-target}
mkdir -p "$report"
report=$(cd "$report" && pwd)/fuzz.jsonl
logs=fuzz/target/logs
mkdir -p "$logs"
: >"$report"
# The fuzzers' own target directory: other flags, another compiler.
unset CARGO_TARGET_DIR

for target in "${targets[@]}"; do
	[ -e "fuzz/fuzz_targets/$target.rs" ] || {
		echo "fuzz.sh: there is no target $target; the targets are: $(cd fuzz/fuzz_targets && echo *.rs)" >&2
		exit 2
	}
	cargo +nightly fuzz build -s "${sanitizer[$target]:-none}" "$target"
done

each=$((seconds / ${#targets[@]}))
run() { # run TARGET: fuzzes it for its share of the time; its figures go to the report
	local target=$1 log=$logs/$1.log status=0 began=$SECONDS
	local corpora=("fuzz/corpus/$target") kind
	mkdir -p "${corpora[0]}" "fuzz/artifacts/$target"
	for kind in corpus regressions; do
		[ ! -d "crates/fuzz/$kind/$target" ] || corpora+=("crates/fuzz/$kind/$target")
	done
	cargo +nightly fuzz run -s "${sanitizer[$target]:-none}" "$target" "${corpora[@]}" -- \
		-max_total_time="$each" -timeout="$hang" -rss_limit_mb="$memory" -max_len=4096 \
		-print_final_stats=1 >"$log" 2>&1 || status=$?
	# The last line that libFuzzer printed about its progress, and its final statistics.
	awk -v target="$target" -v seconds="$((SECONDS - began))" -v status="$status" '
		/^#[0-9]+[ \t]/ { for (i = 2; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "corp:") { split($(i + 1), c, "/"); corpus = c[1] } } }
		/stat::number_of_executed_units/ { runs = $2 }
		/stat::peak_rss_mb/ { rss = $2 }
		END {
			printf "{\"target\":\"%s\",\"seconds\":%d,\"executions\":%d,\"edges\":%d,\"corpus\":%d,\"peak_rss_mb\":%d,\"failures\":%d}\n",
				target, seconds, runs, cov, corpus, rss, status != 0
		}' "$log" >>"$report"
	if [ "$status" -ne 0 ]; then
		echo "fuzz.sh: $target failed; the end of $log:" >&2
		grep -E "panicked|^thread|assertion|SUMMARY|Test unit written" -A 3 "$log" | tail -n 20 >&2
		echo "fuzz.sh: replay it with: cargo run -p fuzz -- $target fuzz/artifacts/$target/FILE" >&2
	fi
}

for target in "${targets[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n || :
	done
	run "$target" &
done
wait

printf '%-16s %8s %12s %8s %8s %9s %9s\n' target seconds executions edges corpus "RSS MiB" failures
sed 's/[{}"]//g; s/[a-z_]*://g' "$report" | sort |
	awk -F, '{ printf "%-16s %8d %12d %8d %8d %9d %9d\n", $1, $2, $3, $4, $5, $6, $7; runs += $3; failures += $7 }
		END { printf "%-16s %8s %12d %8s %8s %9s %9d\n", "all", "", runs, "", "", "", failures }'
! grep -q '"failures":1' "$report"
