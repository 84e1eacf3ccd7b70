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
write_pieces

target_goes
gone() { ! is_live "$controller"; }
until_true 120 "the loss of the target to be noticed" gone
say "the host noticed"
target_returns
until_true 120 "the reconnection" is_live "$controller"
say "the host is back"
more_pieces
touch /tmp/enough
wait $writer || fail "a write of the writer failed"
wait $load || fail "fio failed: $(cat /tmp/load)"

say "every acknowledged piece reads back"
read_pieces
disconnect
finish
