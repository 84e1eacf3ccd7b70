#!/bin/bash
# link-target.sh - a target at end 1 of a link between two guests, for the walks link.sh and link-killed.sh of the other guest. It serves by RDMA and TCP
# there, and another subsystem to this guest itself. Until /tmp/enough is there, it does what it is told at port 4499 (on_target).
set -a # what is told may use all of this
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
prepare_target() {
	cat >/tmp/gimbal.toml <<-TOML
		listen = ["rdma://10.9.0.1:4420", "10.9.0.1:4421", "127.0.0.1:4421"]
		[admin]
		socket = "/tmp/admin.sock"
		[metrics]
		listen = "127.0.0.1:9100"
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN" 'size = "64M"')
		$(a_subsystem "$NQN:beside" 'offset = "64M"' 'size = "64M"')
	TOML
}
begin
connections() { gimbal ctl --socket /tmp/admin.sock connections; }
queue_pairs() { rdma resource show qp | grep -v 'comm \[ib_core\]' || true; } # that one is the kernel's own
# is_carrying CONNECTIONS QUEUE-PAIRS
is_carrying() { [ "$(connections | wc -l) $(queue_pairs | wc -l)" = "$1 $2" ]; }

# All that is held for hosts: nothing, if none is there.
held() {
	local metrics
	metrics=$(wget -qO- http://127.0.0.1:9100/metrics) || fail "the target gives no metrics"
	grep -E '^gimbal_(connections|handshakes|device_connections|device_memory_bytes)(\{.*\})? ' <<<"$metrics" | grep -v ' 0$' || true
	connections || fail "the target does not list its connections"
	queue_pairs
}
is_free() { [ -z "$(held)" ]; }

# The target serves others meanwhile.
serve_beside() {
	gimbal bench --transport tcp --addr 127.0.0.1:4421 --nqn "$NQN:beside" --rw randwrite --bs 4k --size 256k --verify
}
nc -ll -p 4499 -e bash &
listener=$!
until_true 20 "the port to be open" grep -q ':1193 ' /proc/net/tcp /proc/net/tcp6
echo "ready for hosts"
until [ -e /tmp/enough ]; do # for as long as the guest may run
	kill -0 "$target" || fail "the target has ended"
	sleep 0.2
done
kill $listener "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
finish
