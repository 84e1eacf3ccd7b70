#!/bin/bash
# rdma.sh - everything of RDMA that no other walk has: discovery over both transports, refusals as the host's kernel prints them, proofs of identity, a reload
# that adds and removes an address, and a device that is removed under load and comes back. The target is in the guest; $KEY is the key of the host.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
prepare_target() {
	echo "$KEY" >/tmp/key
	chmod 600 /tmp/key
	write_config "$both"
}
six=fd00:9::15
both='"rdma://10.0.2.15:4420", { address = "10.0.2.15:4421", transport = "tcp" }'

# write_config ADDRESSES
write_config() {
	cat >/tmp/gimbal.toml <<-TOML
		state_dir = "/tmp/state"
		listen = [$1]
		[admin]
		socket = "/tmp/admin.sock"
		[limits]
		queue_depth = 64
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN" 'size = "64M"')
		$(a_subsystem "$NQN:proved" 'offset = "64M"' 'size = "64M"')
		[[host]]
		nqn = "nqn.2024-06.io.gimbal:with-a-key"
		dhchap_key = "/tmp/key"
	TOML
}
reload() { # reload ADDRESSES
	local before
	before=$(grep -c reloaded /tmp/target.log || true)
	write_config "$@"
	kill -HUP "$target"
	until_true 30 "the reload" eval "[ \$(grep -c reloaded /tmp/target.log) -gt $before ]"
}
begin
allow 'rdma connection establishment failed|failed to connect (queue|socket)|Failed to (connect|create)' 'connections that are refused'
allow 'Connect command failed|DH-HMAC-CHAP|authentication|qid [0-9]+: (no key|auth)' 'proofs that are to fail'
allow 'queue_size .* > ctrl sqsize .*clamping' 'more was asked for than the target has'
allow 'address (resolved|error)|Connect rejected: status 8|error [0-9-]+|CM error' 'nobody listens'

say "discovery has a record for each transport, whichever it comes by"
for how in "rdma -s 4420" "tcp -s 4421"; do
	# shellcheck disable=SC2086 # two words
	run nvme discover -t $how -a "$address"
	for trtype in rdma tcp; do
		grep -q "trtype: *$trtype" /tmp/output || fail "no record of $trtype: $(cat /tmp/output)"
	done
done

say "nobody listens on another port"
! captured nvme connect -t rdma -a "$address" -s 4499 -n "$NQN" --ctrl-loss-tmo=0 || fail "it got in"

CONNECT_ARGS="--queue-size=64" connect
shows 'rdma' cat "/sys/class/nvme/$controller/transport"
shows 'RDMA' gimbal ctl --socket /tmp/admin.sock connections
shows 'sgls *: 0x5' nvme id-ctrl "/dev/$controller"
disconnect

say "the same by IPv6: discovery, a host that writes and verifies, our initiator"
# An address is used at once when nobody is asked whether it is taken.
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
run ip -6 addr add $six/64 dev eth0
reload "$both, \"rdma://[$six]:4420\""
run nvme discover -t rdma -a $six -s 4420
for line in 'adrfam: *ipv6' "traddr: *$six"; do
	grep -q "$line" /tmp/output || fail "no record of IPv6: $(cat /tmp/output)"
done
four=$address address=$six CONNECT_ARGS="--queue-size=64"
connect
run fio --name=verify --filename="$namespace" --rw=randwrite --bs=16k --size=4m --ioengine=libaio --direct=1 --iodepth=4 --verify=crc32c \
	--verify_fatal=1 --output-format=terse
shows "$six" gimbal ctl --socket /tmp/admin.sock connections
disconnect
shows 'read' gimbal bench --addr "[$six]:4420" --transport rdma --nqn "$NQN" --rw randread --bs 4k --iodepth 4 --size 1m
address=$four CONNECT_ARGS=

say "a host proves who it is, or does not get in"
all=$NQN NQN=$NQN:proved HOST_NQN=nqn.2024-06.io.gimbal:with-a-key HOST_ID=6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0042
! captured nvme connect -t rdma -a "$address" -s 4420 -n "$NQN" --hostnqn "$HOST_NQN" --hostid "$HOST_ID" --queue-size=64 --ctrl-loss-tmo=0 ||
	fail "it got in without a key"
case $(uname -r) in
6.1.*) say "this kernel has no DH-HMAC-CHAP" ;;
*)
	CONNECT_ARGS="--queue-size=64 --dhchap-secret=$KEY" connect
	run dd if=/dev/urandom of="$namespace" bs=1M count=4 oflag=direct status=none
	disconnect
	;;
esac
NQN=$all HOST_NQN=

say "a reload removes an address, and adds it again"
reload '{ address = "10.0.2.15:4421", transport = "tcp" }'
! captured nvme connect -t rdma -a "$address" -s 4420 -n "$NQN" --queue-size=64 --ctrl-loss-tmo=0 || fail "it got in"
reload "$both"
can_connect() { captured nvme connect -t rdma -a "$address" -s 4420 -n "$NQN" --ctrl-loss-tmo=300 --reconnect-delay=1 --keep-alive-tmo=60; }
until_true 60 "the address to come back" can_connect
look_around

say "the device is removed under load, which ends no target and no other transport, and comes back"
allow 'no available path|starting error recovery|Reconnecting in|Successfully reconnected|no usable path|Failed reconnect|failed to|I/O error|rdma|Removing after' 'the device was removed'
fio --name=load --filename="$namespace" --rw=randwrite --bs=16k --size=8m --ioengine=libaio --direct=1 --iodepth=4 --rate_iops=40 \
	--time_based --runtime=20 --output-format=terse >/tmp/load 2>&1 &
load=$!
sleep 2
# It ends when the last program lets go of the device, which librdmacm does at the end of the process.
rdma link delete rxe0 &
removal=$!
until_true 120 "the host's kernel to let go of its controllers" no_controllers
until_true 60 "the target to notice it" grep -q 'the RDMA device of this address was removed' /tmp/target.log
kill -0 "$target" || fail "the target has ended"
run nvme discover -t tcp -a "$address" -s 4421
kill "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
wait "$removal" || fail "the device was not removed"
run rdma link add rxe0 type rxe netdev eth0
until_true 20 "rxe0 to be active" is_rdma_active
until_true 20 "rxe0 to have the card's address" grep -qr 'ffff:0a00:020f' /sys/class/infiniband/rxe0/ports/1/gids
serve_by_rdma
wait $load || true # its device has gone
CONNECT_ARGS="--queue-size=64" connect
run fio --name=verify --filename="$namespace" --rw=randwrite --bs=16k --size=4m --ioengine=libaio --direct=1 --iodepth=4 --verify=crc32c \
	--verify_fatal=1 --output-format=terse
disconnect
run kill "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
finish
