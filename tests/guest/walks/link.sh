#!/bin/bash
# link.sh - host and target are two guests on one link (link-target.sh). What a host held that was killed before is free. Under load, which is verified, the
# cable is pulled out of the host for longer than a keep-alive takes, and out of the target for a moment.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'starting error recovery|Reconnecting in|Successfully reconnected|no usable path - requeuing I/O|Failed reconnect attempt' 'the cable was pulled'
allow 'I/O (tag )?[0-9]+ .*timeout|timeout, completing|keep_alive_end_io|[Kk]eep.?[Aa]live' 'the same'
allow 'rdma connection establishment failed|address resolution|failed to connect|(receive|send) failed|failed to send' 'the same'
allow 'rxe_reg_fast_mr: .* not free' "rxe registers again what it sends again, and ends the queue pair"
allow 'queue [0-9]+: timeout request|for CQE 0x[0-9a-f]+ failed with status|timeout draining sock wmem allocation expired' 'what was on the wire'

say "what the killed host held comes back"
gives_back() { until_true 40 "the target to have everything back" on_target is_free; } # a question takes it up to a second, so this is minutes
gives_back

say "discovery"
run nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT"
for record in 'trtype: *rdma' 'trtype: *tcp' "traddr: *$address"; do
	grep -q "$record" /tmp/output || fail "no '$record': $(cat /tmp/output)"
done
KEEP_ALIVE=5 CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=600" connect
queues=$(cat "/sys/class/nvme/$controller/queue_count") pairs=0
[ "$TRANSPORT" != rdma ] || pairs=$queues

say "load: fio writes and verifies, again and again, and pieces are written"
(
	until [ -e /tmp/enough ]; do
		fio --name=load --filename="$namespace" --rw=randwrite --bsrange=4k-64k --size=4m --ioengine=libaio --direct=1 --iodepth=8 \
			--verify=crc32c --verify_fatal=1 --output-format=terse || exit 1
	done
) >/tmp/load 2>&1 &
load=$!
write_pieces
is_back() { is_live "$controller" && on_target "is_carrying $queues $pairs"; }

say "the cable is pulled out of the host until the target has given up on it"
cable off
gives_back
LINES_SHOWN=12 run on_target serve_beside
cable on
until_true 120 "the host to be back" is_back
more_pieces

say "the cable is pulled out of the target for a moment"
stands_still() {
	local before
	before=$(cat "/sys/block/${namespace##*/}/stat")
	sleep 0.5
	[ "$(cat "/sys/block/${namespace##*/}/stat")" = "$before" ]
}
on_target "cable off"
until_true 60 "the load to stand still" stands_still
LINES_SHOWN=12 run on_target serve_beside
on_target "cable on"
until_true 120 "the host to be back" is_back
more_pieces

touch /tmp/enough
wait $writer || fail "a write of the writer failed"
wait $load || fail "fio failed: $(tail -n 20 /tmp/load)"
read_pieces
[ "$TRANSPORT" != rdma ] || LINES_SHOWN=20 run rdma statistic show link rxe0/1
LINES_SHOWN=12 run on_target held
disconnect
gives_back
finish
