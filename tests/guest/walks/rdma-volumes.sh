#!/bin/bash
# rdma-volumes.sh - a volume on the SSDs of two targets, by RDMA: files that go in and come out, RocksDB's own programs with the plug-in, and targets that are
# killed under load. Targets and clients are in the guest, on /dev/vda and /dev/vdb.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
export GIMBAL_STORE=/tmp/store
disks=(/dev/vda /dev/vdb) targets=()

# serve NUMBER: the target with this disk, by RDMA alone; the second one is reached by TCP too.
serve() {
	local listen="\"rdma://$address:$((4420 + $1))\""
	[ "$1" = 0 ] || listen+=", \"$address:4450\""
	cat >"/tmp/target-$1.toml" <<-TOML
		state_dir = "/tmp/state-$1"
		listen = [$listen]
		[admin]
		socket = "/tmp/admin-$1.sock"
		[rack]
		store = "$GIMBAL_STORE"
		name = "target-$1"
		subsystems = ["$NQN-$1"]
		mega = "16M"
		ttl = "3s"
		$(an_ssd "${disks[$1]}")
		$(a_subsystem "$NQN-$1")
	TOML
	"$LOADER" --library-path /gimbal /gimbal/gimbal serve -c "/tmp/target-$1.toml" >/dev/null 2>>/tmp/target.log &
	targets[$1]=$!
	until_true 60 "the SSD of target $1 to be registered" is_live_ssd "$1"
}
is_live_ssd() { gimbal targets --json | grep "\"target\":\"target-$1\"" | grep -q '"live":true'; }
serve_by_rdma() {
	serve 0
	serve 1
}

kill_target() {
	say "target $1 is killed"
	kill -KILL "${targets[$1]}"
	wait "${targets[$1]}" || true
}

# stock PROGRAM OPTION...: a program of RocksDB's, with the plug-in, on the volume by RDMA.
uri="gimbal://v?store=$GIMBAL_STORE&transport=rdma&ttl=3s&quarantine=30s&lock_patience=120s&io_timeout=20s&patience=60s&memory=32M"
stock() {
	local program=$1
	shift
	"$LOADER" --library-path /gimbal --preload /gimbal/libgimbal_rocksdb.so "/gimbal/$program" --fs_uri="$uri" "$@"
}

# begins ID COMMAND...: in the background. ends ID: it has succeeded.
declare -A started
begins() {
	local id=$1
	shift
	(
		trap - ERR
		"$@"
	) >"/tmp/$id" 2>&1 &
	started[$id]=$!
}
ends() { wait "${started[$1]}" || fail "$1 failed: $(tail -n 20 "/tmp/$1")"; }

begin

say "the store names both addresses"
shows "rdma://$address:4420" gimbal targets
shows "$address:4450 rdma://$address:4421" gimbal targets
run gimbal volume create v --mega 16M --micro 64K --slots 4

say "files go in by RDMA, and come out the same"
mkdir -p /tmp/in/below
dd if=/dev/urandom of=/tmp/in/large bs=1M count=6 status=none
for number in 1 2 3 4 5; do head -c $((number * 4099)) /dev/urandom >/tmp/in/below/$number; done
LINES_SHOWN=8 run gimbal volume import v /tmp/in /files --transport rdma
LINES_SHOWN=8 run gimbal volume export v /files /tmp/out --transport rdma
run diff -r /tmp/in /tmp/out
shows ' 0 corrupt; 0 copies made anew' gimbal volume scrub v --transport rdma

say "RocksDB writes and reads the volume by RDMA"
LINES_SHOWN=30 run stock db_bench --db=/bench --benchmarks=fillrandom,readrandom --num=3000 --write_buffer_size=65536 --target_file_size_base=65536 --seed=1
for benchmark in fillrandom readrandom; do
	grep -q "^$benchmark .*ops/sec" /tmp/output || fail "$benchmark has not reported"
done
shows '^OK$' stock ldb --db=/bench checkconsistency

say "a target is killed while RocksDB writes, and comes back"
begins bench stock db_bench --db=/synced --benchmarks=fillrandom --num=2000 --sync=1 --seed=2
sleep 3
kill_target 0
sleep 2
serve 0
ends bench
tail -n 2 /tmp/bench
shows '^OK$' stock ldb --db=/synced checkconsistency

say "a target is killed while files go in"
rm -rf /tmp/out
begins import gimbal volume import v /tmp/in /again --transport rdma --rate 1M
sleep 2
kill_target 1
sleep 1
serve 1
ends import
run gimbal volume export v /again /tmp/out --transport rdma
run diff -r /tmp/in /tmp/out
LINES_SHOWN=12 run gimbal volume scrub v --transport rdma
for target in "${targets[@]}"; do
	kill "$target"
	wait "$target" || fail "a target did not end in order: $(tail -n 20 /tmp/target.log)"
done
finish
