#!/bin/bash
# rdma-devices.sh - a target with two devices of RDMA, as an adapter with two ports has: the host has a path by each, under Linux's own multipath. One
# device is removed under load, which goes on by the other. The target is in the guest; the first device is on end 1 of a link that has no other end.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
second=10.0.2.15
prepare_target() {
	run ip link set eth0 mtu 5000
	run rdma link add rxe1 type rxe netdev eth0
	until_true 20 "rxe1 to have the card's address" grep -qr 'ffff:0a00:020f' /sys/class/infiniband/rxe1/ports/1/gids
	cat >/tmp/gimbal.toml <<-TOML
		state_dir = "/tmp/state"
		listen = ["rdma://$address:4420", "rdma://$second:4420"]
		[admin]
		socket = "/tmp/admin.sock"
		[limits]
		queue_depth = 64
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN")
	TOML
}
begin
allow 'eth0 speed is unknown' 'a virtual card has none'
allow 'queue_size .* > ctrl sqsize .*clamping' 'more was asked for than the target has'
allow 'no available path|no usable path|failed to|I/O error|Connect command failed|Failover|rdma' 'a device is removed'

say "a path by each device"
connect
first=$controller
run nvme connect -t rdma -a $second -s 4420 -n "$NQN" --keep-alive-tmo=60
other=$(controllers | grep -vx "$first")
until_true 20 "$other to be live" is_live "$other"
for one in "$address" "$second"; do
	LINES_SHOWN=4 shows "$one.* RDMA" gimbal ctl --socket /tmp/admin.sock connections
done
rdma resource show qp >/tmp/pairs
for device in rxe0 rxe1; do
	grep -q "link $device/1 .*state RTS" /tmp/pairs || fail "no queue pair on $device: $(cat /tmp/pairs)"
done

echo round-robin >"$(dirname "$(grep -lx "$NQN" /sys/class/nvme-subsystem/*/subsysnqn)")/iopolicy"
ios() { awk '{print $1 + $5}' "/sys/class/nvme/$1"/nvme*c*n*/stat; }
start_loads "$namespace" 2m
another_load
for one in $first $other; do
	[ "$(ios "$one")" -gt 100 ] || fail "$one had $(ios "$one") of the IOs"
done

say "one device is removed under load, which goes on by the other"
# It ends when the last program lets go of the device, which librdmacm does at the end of the process.
rdma link delete rxe1 &
removal=$!
only_first() { [ "$(controllers)" = "$first" ]; }
until_true 120 "the host's kernel to let go of $other" only_first
until_true 60 "the target to notice it" grep -q 'the RDMA device of this address was removed' /tmp/target.log
another_load
end_loads
shows "$address.* RDMA" gimbal ctl --socket /tmp/admin.sock connections
! grep -q "$second" /tmp/output || fail "there are connections by the removed device"
kill -0 "$target" || fail "the target has ended"
disconnect
run kill "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
wait "$removal" || fail "the device was not removed"
finish
