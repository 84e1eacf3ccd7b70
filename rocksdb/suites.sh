#!/usr/bin/env bash
# suites.sh [--short] [--local] [--build] SOURCE [SUITE...] - RocksDB's own test programs on a volume of two targets (docs/rocksdb.md).
#
# SOURCE is the source of RocksDB. Its library is SOURCE/librocksdb.so, or else the system's, of the same version and compiled with assertions, as Debian's is. A
# program that is not there (SOURCE/db_basic_test) is compiled, into SOURCE/gimbal-suites. Each suite has a rack and a volume of its own, the plug-in loaded, and
# TEST_FS_URI. A suite that crashes is started again without the tests that ran; one that takes longer than LIMIT seconds (1200) is killed,
# and its test said to be stopped.
#
# Prints a line for each suite, with the counts, and one for each test that failed. rocksdb/suites/expected.txt says which fail, and why. The exit status is 0 if
# exactly those failed, else 1.
#
#   --short   the suites of rocksdb/suites/short.txt
#   --build   compiles the programs, and runs none
#   --local   in a local directory, on RocksDB's own file system: what fails there as well is none of ours. 1 if any fails
#
# Needs the release build of gimbal, and the plug-in built for that RocksDB. BINARY and PLUGIN name others. Logs are kept in LOGS, if that is set. JOBS
# compilers run at the same time, one for each processor. FILTER leaves tests out, as gtest has it.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

fail() {
	echo "suites.sh: $*" >&2
	exit 2
}

place=volume short='' build='' suites=()
while [[ ${1:-} == --* ]]; do
	case $1 in
	--short) short=yes ;;
	--local) place=local ;;
	--build) build=yes ;;
	*) fail "no option $1" ;;
	esac
	shift
done
[ $# -gt 0 ] || fail "which source? suites.sh [--short] [--local] [--build] SOURCE [SUITE...]"
source=$1
shift
suites=("$@")
if [ -n "$short" ]; then
	mapfile -t listed < <(sed 's/#.*//; s/ *$//; /^$/d' rocksdb/suites/short.txt)
	suites+=("${listed[@]}")
fi
[ ${#suites[@]} -gt 0 ] || fail "which suites? --short, or names such as db_basic_test"
[ -e "$source/include/rocksdb/version.h" ] || fail "$source is no source of RocksDB"
source=$(realpath "$source")

version=$(awk '/#define ROCKSDB_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' "$source/include/rocksdb/version.h")
release=${CARGO_TARGET_DIR:-target}/release
binary=${BINARY:-$release/gimbal} plugin=${PLUGIN:-$release/libgimbal_rocksdb.so}
if [ "$place" = volume ] && [ -z "$build" ]; then
	for file in "$binary" "$plugin"; do
		[ -e "$file" ] || fail "$file does not exist; run 'cargo build --release -p gimbal -p gimbal-rocksdb'"
	done
	binary=$(realpath "$binary") plugin=$(realpath "$plugin")
fi
limit=${LIMIT:-1200}
built=$source/gimbal-suites

# The library, and how it was compiled: classes differ by some of these.
if [ -e "$source/librocksdb.so" ]; then
	library=("-L$source" -lrocksdb "-Wl,-rpath,$source")
	[ ! -e "$source/librocksdb_tools_debug.so" ] || library+=(-lrocksdb_tools_debug)
	read -ra flags < <(sed -n 's/^PLATFORM_CXXFLAGS=//p' "$source/make_config.mk")
else
	system=$(pkg-config --modversion rocksdb)
	[ "$system" = "$version" ] || fail "$source is RocksDB $version, but the system's library is $system; build $source/librocksdb.so"
	library=(-lrocksdb)
	flags=(-std=c++17 -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DOS_LINUX -DROCKSDB_FALLOCATE_PRESENT -DROCKSDB_RANGESYNC_PRESENT
		-DROCKSDB_PTHREAD_ADAPTIVE_MUTEX -DROCKSDB_MALLOC_USABLE_SIZE -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT
		-DGFLAGS=1 -DSNAPPY -DZLIB -DBZIP2 -DLZ4 -DZSTD)
fi
# Compiled quickly: RocksDB itself is in the library.
gtest=third-party/gtest-1.8.1/fused-src
flags+=(-O0 -g0 -w -pthread -I. -Iinclude -isystem "$gtest")

object() { # object FILE - compiles a file of the source, unless that was done
	local object=$built/${1%.cc}.o
	[ ! "$object" -nt "$source/$1" ] || return 0
	mkdir -p "$(dirname "$object")"
	(cd "$source" && c++ "${flags[@]}" -c "$1" -o "$object.new") && mv "$object.new" "$object"
}

# Programs, by the names of their suites.
declare -A programs
compile() {
	local suite file files=() shared=() missing=()
	mapfile -t shared < <(awk '
		/^(TEST|MOCK)_LIB_SOURCES/ { on = 1 }
		on { for (i = 1; i <= NF; i++) if ($i ~ /\.cc$/) print $i }
		!/\\$/ { on = 0 }' "$source/src.mk")
	shared+=("$gtest/gtest/gtest-all.cc")
	for suite in "${suites[@]}"; do
		programs[$suite]=$source/$suite
		[ ! -x "$source/$suite" ] || continue
		programs[$suite]=$built/$suite
		file=$(cd "$source" && find . -path ./gimbal-suites -prune -o -name "$suite.cc" -printf '%P\n')
		[ -n "$file" ] || fail "$source has no $suite"
		missing+=("$suite") files+=("$file")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	# Compiled with other flags: all anew.
	if [ "$(cat "$built/flags" 2>/dev/null)" != "${flags[*]}" ]; then rm -rf "$built"; fi
	mkdir -p "$built"
	echo "${flags[*]}" >"$built/flags"
	local jobs=()
	for file in "${shared[@]}" "${files[@]}"; do
		[ "$(jobs -rp | wc -l)" -lt "${JOBS:-$(nproc)}" ] || wait -n || true
		object "$file" &
		jobs+=($!)
	done
	for file in "${jobs[@]}"; do wait "$file" || fail "a test of RocksDB $version was not compiled"; done
	# Only what the library does not have: Debian's has a part of it.
	shared=("${shared[@]/#/$built/}")
	rm -f "$built/shared.a"
	ar rc "$built/shared.a" "${shared[@]/%.cc/.o}"
	for i in "${!missing[@]}"; do
		c++ -pthread -o "$built/${missing[i]}" "$built/${files[i]%.cc}.o" "${library[@]}" "$built/shared.a" "${library[@]}" -lsnappy -lbz2 -lz -llz4 -lzstd -lgflags -ldl
	done
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-suites.XXXXXX")
# shellcheck source=rocksdb/targets.sh
. rocksdb/targets.sh
stop() {
	stop_targets
	rm -rf "${folder:?}"/*
}
clean_up() {
	stop
	rmdir "$folder"
}
trap clean_up EXIT


# Runs a suite's program for as many seconds at most. All that it prints goes to a file.
start() { # start SUITE SECONDS FILE OPTION...
	# A crash would be looked at with gdb, if that is there.
	local settings=("LD_LIBRARY_PATH=$source:${LD_LIBRARY_PATH:-}" ROCKSDB_NO_STACK=1)
	# Also on a volume: some tests use RocksDB's own file system besides, under the same names.
	settings+=("TEST_TMPDIR=$folder/tests")
	[ "$place" = local ] || settings+=("LD_PRELOAD=$plugin" "TEST_FS_URI=gimbal://db?store:$folder/store")
	# Assertions that fail and death tests would leave memory of hundreds of MiB.
	(
		ulimit -c 0
		cd "$folder"
		timeout --kill-after=5 "$2" env "${settings[@]}" "${programs[$1]}" "${@:4}" --gtest_color=no || exit
	) >"$3" 2>&1 </dev/null
}

# What came of each test, from what a program printed: `passed NAME`, `failed NAME`, `skipped NAME`, `began NAME` for one that did not end.
outcomes() { # outcomes FILE
	tr -d '\0' <"$1" | awk '
		# Tests print into these lines.
		match($0, /\[ RUN      \] [^ ]+$/) { name = substr($0, RSTART + 13); began[name]; order[++count] = name }
		match($0, /\[       OK \] [^ ]+ \([0-9]+ ms\)$/) { split(substr($0, RSTART + 13), part, " "); how[part[1]] = "passed" }
		match($0, /\[  FAILED  \] [^ ,]+,? .*\([0-9]+ ms\)$/) { split(substr($0, RSTART + 13), part, /[ ,]/); how[part[1]] = "failed" }
		match($0, /\[  SKIPPED \] [^ ]+ \([0-9]+ ms\)$/) { split(substr($0, RSTART + 13), part, " "); how[part[1]] = "skipped" }
		END { for (i = 1; i <= count; i++) print ((order[i] in how) ? how[order[i]] : "began"), order[i] }'
}

# The tests of a suite that have to fail here, as lines of expected.txt: VERSION SUITE TEST WHEN REASON, the first and the third with wildcards.
known() { # known SUITE TEST - answers WHEN and REASON
	local of suite test when reason
	[ "$place" = volume ] || return 1
	while read -r of suite test when reason; do
		[[ $of != "#"* ]] || continue
		# shellcheck disable=SC2053 # wildcards
		[[ $suite = "$1" && $version = $of && $2 = $test ]] || continue
		echo "$when $reason"
		return
	done <rocksdb/suites/expected.txt
	return 1
}

wrong=0
complain() { # complain TEXT
	echo "  $*"
	wrong=1
}

run() { # run SUITE
	local suite=$1 began=$SECONDS all=$folder/all wanted=${FILTER:-*} filter left rc how name reason start_count=0 fine=0 skipped=0 bad=0 absent=0
	local failures=() listed
	mkdir "$folder/tests"
	if [ "$place" = volume ]; then
		for number in 0 1; do
			truncate -s 8G "$folder/medium-$number"
			serve $number
		done
		"$binary" volume create --store "$folder/store" --mega 64M db >"$folder/created"
	fi
	: >"$all"
	filter=$wanted
	start "$suite" 60 "$folder/listed" --gtest_list_tests "--gtest_filter=$filter" || true
	# gtest leaves out those whose name, or whose group's, begins with DISABLED_.
	listed=$(awk '/^[^ ]/ { off = /^([^ ]*\/)?DISABLED_/ } /^  [^ ]/ && !off && !/^  DISABLED_/' "$folder/listed" | wc -l)
	while true; do
		# 0 would be no limit.
		left=$((limit - (SECONDS - began))) rc=0
		[ "$left" -gt 0 ] || left=1
		start "$suite" "$left" "$folder/output" "--gtest_filter=$filter" || rc=$?
		outcomes "$folder/output" >"$folder/outcomes"
		[ -z "${LOGS:-}" ] || { mkdir -p "$LOGS" && cp "$folder/output" "$LOGS/$suite.$version.$place.$start_count"; }
		grep -v '^began' "$folder/outcomes" >>"$all" || true
		name=$(sed -n 's/^began //p' "$folder/outcomes")
		start_count=$((start_count + 1))
		if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
			echo "stopped ${name:-(between tests)}" >>"$all"
			break
		elif [ -n "$name" ]; then
			echo "crashed $name" >>"$all"
			# The rest of them.
			[[ $wanted = *-* ]] || wanted+=-
			filter=$wanted:$(cut -d' ' -f2 "$all" | paste -sd:)
			[ "$(wc -l <"$all")" -lt "$listed" ] || break
		else
			# All ended, and yet it did not say so: it crashed at its end, or never began.
			if [ "$rc" != 0 ] && ! grep -q '^failed' "$folder/outcomes"; then
				echo "crashed (at its end: exit status $rc)" >>"$all"
			fi
			break
		fi
	done
	while read -r how name; do
		case $how in
		passed) fine=$((fine + 1)) ;;
		skipped) skipped=$((skipped + 1)) ;;
		*) bad=$((bad + 1)) failures+=("$how $name") ;;
		esac
	done <"$all"
	absent=$((listed - fine - skipped - bad))
	printf '%-32s %5d passed %4d failed %4d skipped %4d not run, of %d, %d s\n' \
		"$suite" $fine $bad $skipped $((absent > 0 ? absent : 0)) "$listed" $((SECONDS - began))
	for how in "${failures[@]}"; do
		if reason=$(known "$suite" "${how#* }"); then
			echo "  $how, as expected: ${reason#* }"
		else
			complain "$how"
		fi
	done
	if [ "$fine" = 0 ] && [ "$bad" = 0 ]; then
		complain "no test ran: $(tail -n 1 "$folder/output")"
	elif [ "$absent" -gt 0 ]; then
		complain "$absent were not run"
	fi
	# Those that have to fail, and did not.
	while read -r how name; do
		if reason=$(known "$suite" "$name") && [ "${reason%% *}" = always ]; then
			complain "passed $name, though expected.txt says: ${reason#* }"
		fi
	done < <(grep '^passed' "$all" || true)
	stop
}

compile
[ -z "$build" ] || exit 0
echo "RocksDB $version, on a ${place/local/local directory}"
for suite in "${suites[@]}"; do run "$suite"; done
[ $wrong = 0 ]
