#!/bin/bash
# restart.sh - the target goes away under load and comes back: the host reconnects, IO goes on, and
# nothing that was written is lost. The harness stops the target when it reads "restart me", and
# starts it again, on the same port and the same medium.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'starting error recovery|Reconnecting in|Successfully reconnected|no usable path - requeuing I/O' \
	'the target was stopped, and is back'
allow 'failed to connect socket|Failed reconnect attempt' 'the host tried before it was back'
allow 'Connect rejected: status 8|rdma connection establishment failed' 'the same by RDMA'
allow 'queue [0-9]+: (receive failed|failed to send)|failed to send request' 'what was on the wire when it broke'
CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=300" connect

say "load: random writes that must all succeed, and pieces written one after the other, remembered"
fio --name=load --filename="$namespace" --rw=randwrite --bs=16k --size=16m --ioengine=libaio --direct=1 \
	--iodepth=4 --rate_iops=60 --time_based --runtime="${RUNTIME:-25}" --output-format=terse >/tmp/load 2>&1 &
load=$!
(
	n=0
	while head -c 65536 /dev/urandom >"/tmp/piece"; do
		dd if=/tmp/piece of="$namespace" bs=64k seek=$((512 + n)) oflag=direct conv=notrunc,fsync status=none || exit 1
		sha256sum </tmp/piece >>/tmp/pieces
		n=$((n + 1))
		[ ! -e /tmp/enough ] || exit 0
	done
) &
writer=$!
enough_pieces() { [ "$(wc -l </tmp/pieces)" -ge "$1" ]; }
until_true 60 "the first writes" enough_pieces 5

target_goes
gone() { ! is_live "$controller"; }
until_true 120 "the loss of the target to be noticed" gone
say "the host noticed"
target_returns
until_true 120 "the reconnection" is_live "$controller"
say "the host is back"
pieces=$(wc -l </tmp/pieces)
until_true 60 "new writes after the reconnection" enough_pieces $((pieces + 5))
touch /tmp/enough
wait $writer || fail "a write of the writer failed"
wait $load || fail "fio failed: $(cat /tmp/load)"

say "every acknowledged piece reads back"
n=0
while read -r sum _; do
	[ "$(dd if="$namespace" bs=64k skip=$((512 + n)) count=1 iflag=direct status=none | sha256sum | cut -d' ' -f1)" = "$sum" ] ||
		fail "piece $n differs"
	n=$((n + 1))
done </tmp/pieces
say "$n pieces"
disconnect
finish
