#!/bin/bash
# rdma-bench.sh - our initiator by RDMA: `gimbal bench` against our own target, which is killed and started again under load, and against the kernel's own
# (nvmet-rdma). Both are in the guest. What was written is read back and compared.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
host=nqn.2024-06.io.gimbal:with-a-key
prepare_target() {
	[ -e /tmp/key ] || gimbal key gen /tmp/key
	cat >/tmp/gimbal.toml <<-TOML
		state_dir = "/tmp/state"
		listen = ["rdma://$address:$PORT"]
		spin = "0s"
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN" 'size = "64M"')
		[[subsystem]]
		nqn = "$NQN:proved"
		hosts = ["$host"]
		[[subsystem.namespace]]
		nsid = 1
		device = "ssd"
		offset = "64M"
		size = "64M"
		[[host]]
		nqn = "$host"
		dhchap_key = "/tmp/key"
	TOML
}
begin

# bench [OPTION...]: against the target at $port.
port=$PORT
bench() { LINES_SHOWN=12 run gimbal bench --transport rdma --addr "$address:$port" --nqn "$NQN" "$@"; }
verifies() { bench "$@" --verify; }

# is_refused REGEX OPTION...: must fail, and say so.
is_refused() {
	local regex=$1
	shift
	! captured gimbal bench --transport rdma "$@" || fail "bench $*: should have failed"
	grep -Eq -- "$regex" /tmp/output || fail "bench $*: does not say '$regex'"
}

# use_everything: reads, writes and trims of all sizes, by one queue and by several.
use_everything() {
	verifies --rw randwrite --bs 4k --iodepth 32 --size 2m
	verifies --rw randrw --bssplit 4k/50:16k/30:64k/20 --iodepth 8 --size 8m
	verifies --rw write --bs 256k --iodepth 2 --size 8m --numjobs 3 --offset_increment 8m
	verifies --rw trimwrite --bs 16k --iodepth 8 --size 2m
	bench --job name=a,rw=randread,bs=4k,iodepth=4,number_ios=200,numjobs=2 --job name=b,rw=read,bs=64k,iodepth=2,number_ios=50 --threads 2 --backend epoll
}

# load_begins SIZE: two queues write as much each, in the background. load_ends: all of it is there, though the connection was lost.
load_begins() {
	(
		trap - ERR
		gimbal bench --transport rdma --addr "$address:$port" --nqn "$NQN" --rw randwrite --bs 16k --iodepth 8 --size "$1" --numjobs 2 \
			--offset_increment "$1" --rate_iops 60 --verify --json /tmp/bench.json
	) >/tmp/bench 2>&1 &
	load=$!
}
load_ends() {
	wait $load || fail "bench failed: $(cat /tmp/bench)"
	tr -cd '\n\t -~' </tmp/bench | sed 's/^/    /'
	grep -Eq '"connection_losses": *[1-9]' /tmp/bench.json || fail "it has noticed nothing: $(cat /tmp/bench.json)"
}

say "what cannot be is said"
is_refused 'nobody listens there for RDMA' --addr "$address:4499" --nqn "$NQN"
is_refused 'no RDMA device|no way to the address|nobody answers|the RDMA connection' --addr 192.0.2.2:4420 --nqn "$NQN"
is_refused 'digests cannot be had by RDMA' --addr "$address:$port" --nqn "$NQN" --data-digest

say "memory that may not be locked is said, too"
allow '(rxe_create_cq|rxe_reg_user_mr): returned err|Unable to pin memory region err = -12' 'more is asked for than may be locked'
(
	ulimit -l 2048
	! captured setpriv --reuid 65534 --regid 65534 --clear-groups "$LOADER" --library-path /gimbal /gimbal/gimbal bench --transport rdma \
		--addr "$address:$port" --nqn "$NQN" --rw read --bs 1m --iodepth 8 --number_ios 8 || fail "it got more than 2 MiB"
	grep -q 'LimitMEMLOCK=' /tmp/output || fail "it does not say what to do"
)

say "our own target"
LINES_SHOWN=12 run gimbal bench --transport rdma --addr "$address:$port" --rw randread --bs 4k --iodepth 8 --number_ios 100
use_everything
is_refused 'no subsystem with this NQN' --addr "$address:$port" --nqn "$NQN:other"

# sleeps: how often the thread of the SSD has slept, and been woken.
sleeps() {
	local comm
	comm=$(grep -l '^ssd ' /proc/"$target"/task/*/comm)
	grep '^voluntary' "${comm%comm}status" | cut -f 2
}

# wakes MOST OPTION...: that thread is woken at most so often, in hundredths, for each of 1000 IOs of 4 KiB.
wakes() {
	local most=$1 before after
	shift
	before=$(sleeps)
	bench --bs 4k --number_ios 1000 "$@"
	after=$(sleeps)
	echo "    woken $((after - before)) times for 1000 IOs: $*"
	[ $((after - before)) -le $((most * 10)) ] || fail "more than $most hundredths for each"
}

say "the target's thread wakes for what it waits for: a command, a disk, the host's data, the end of an answer"
wakes 330 --rw randread --iodepth 1
wakes 430 --rw randwrite --iodepth 1
wakes 330 --rw randread --iodepth 8
wakes 430 --rw randwrite --iodepth 8

say "a host proves who it is to our own target"
is_refused 'requires authentication' --addr "$address:$port" --nqn "$NQN:proved" --hostnqn $host
all=$NQN NQN=$NQN:proved
verifies --hostnqn $host --dhchap-key-file /tmp/key --rw randwrite --bs 4k --size 1m
NQN=$all

say "our own target is killed under load, and comes back"
load_begins 24m
sleep 5
target_goes
target_returns
load_ends

say "our own target hangs under load, and goes on with what it was told before"
load_begins 12m
sleep 3
kill -STOP "$target"
sleep 12
kill -CONT "$target"
load_ends

say "the kernel's own target"
modprobe null_blk nr_devices=0
for module in nvmet nvmet_rdma; do modprobe $module; done
disk=/sys/kernel/config/nullb/nullb0
mkdir $disk
for setting in size=64 memory_backed=1 discard=1 blocksize=4096 power=1; do echo "${setting#*=}" >"$disk/${setting%%=*}"; done
nvmet=/sys/kernel/config/nvmet
# serve_by_kernel NQN: the disk as its namespace 1, without a way to it yet.
serve_by_kernel() {
	mkdir "$nvmet/subsystems/$1" "$nvmet/subsystems/$1/namespaces/1"
	printf %s /dev/nullb0 >"$nvmet/subsystems/$1/namespaces/1/device_path"
	echo 1 >"$nvmet/subsystems/$1/namespaces/1/enable"
}
NQN=nqn.2024-06.io.gimbal:kernel port=4421
serve_by_kernel $NQN
echo 1 >"$nvmet/subsystems/$NQN/attr_allow_any_host"
mkdir $nvmet/ports/1
for setting in trtype=rdma adrfam=ipv4 traddr=$address trsvcid=$port; do echo "${setting#*=}" >"$nvmet/ports/1/addr_${setting%%=*}"; done
ln -s "$nvmet/subsystems/$NQN" $nvmet/ports/1/subsystems/
LINES_SHOWN=12 run gimbal bench --transport rdma --addr "$address:$port" --rw randread --bs 4k --iodepth 8 --number_ios 100
use_everything

say "the kernel's own target throws its hosts out under load, and lets them in again"
load_begins 8m
sleep 3
rm "$nvmet/ports/1/subsystems/$NQN"
sleep 1
ln -s "$nvmet/subsystems/$NQN" $nvmet/ports/1/subsystems/
load_ends

say "the device is removed under load, which ends the run with an error"
load_begins 8m
sleep 3
# It ends when the last program lets go of the device, which librdmacm does at the end of the process.
rdma link delete rxe0 &
removal=$!
! wait $load || fail "it has written by a device that is gone"
tr -cd '\n\t -~' </tmp/bench | sed 's/^/    /'
grep -Eq 'given up after .*(no RDMA device|cannot connect)' /tmp/bench || fail "it does not say why"
kill "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
wait $removal || fail "the device was not removed"
finish
