#!/bin/bash
# arm64.sh - `gimbal serve` in a guest with a Cortex-A72, on io_uring and on epoll, by TCP and by RDMA: this very kernel is the host. fio writes and
# verifies, and a file system is checked. The device is null_blk with memory, as tmpfs has no direct IO.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
PORT=4420 NQN=nqn.2024-06.io.gimbal:tested
say "$(uname -m), $(grep -c ^processor /proc/cpuinfo) processors, part $(sed -n 's/^CPU part.*: //p' /proc/cpuinfo | head -n 1)"
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 bs=4096
shows '^gimbal ' /gimbal/gimbal --version

start_rdma
modprobe nvme_rdma

for how in io_uring/tcp epoll/tcp io_uring/rdma epoll/rdma; do
	backend=${how%/*} TRANSPORT=${how#*/} address=127.0.0.1 listen=$address:$PORT
	[ "$TRANSPORT" = tcp ] || address=10.0.2.15 listen=rdma://$address:$PORT
	say "the target on $backend, by $TRANSPORT"
	rm -f /tmp/listening
	/gimbal/gimbal serve --device /dev/nullb0 --listen "$listen" --nqn $NQN --backend "$backend" --state-dir /tmp/state \
		>/tmp/listening 2>/tmp/target.log &
	target=$!
	until_true 60 "the target to listen" grep -q listening /tmp/listening
	connect
	shows 'mn +: Gimbal' nvme id-ctrl "/dev/$controller"
	run fio --name=verify --filename="$namespace" --rw=randwrite --bsrange=4k-64k --size=16m --ioengine=libaio --direct=1 \
		--iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1 --output-format=terse
	run mkfs.ext4 -q -F "$namespace"
	run mount "$namespace" /mnt
	head -c 3000001 /dev/urandom >/mnt/file
	before=$(sha256sum </mnt/file)
	run umount /mnt
	run e2fsck -f -n "$namespace"
	run mount "$namespace" /mnt
	[ "$(sha256sum </mnt/file)" = "$before" ] || fail "the file has changed"
	run umount /mnt
	disconnect
	kill $target
	wait $target || fail "the target did not end in order: $(cat /tmp/target.log)"
done
finish
