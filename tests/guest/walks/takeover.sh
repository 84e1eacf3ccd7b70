#!/bin/bash
# takeover.sh - two targets (PORT and OTHER_PORT) before one back-end, one of which holds the namespace. ROUNDS times each, the harness takes it from
# the holder when it reads "lose by KIND", for each of KINDS, and gives it to the other one: Linux's own multipath has to follow. At "restore", the former
# holder may go on; what it still has of before must not reach the disk. /writer finds every block that is not as it was written last.
# Prints the longest time of an IO in each round: "gap MILLISECONDS".
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'ctrl_loss_tmo < 0 will reconnect forever' 'as --ctrl-loss-tmo says'
allow 'starting error recovery|Reconnecting in|Successfully reconnected|no usable path|failed nvme_keep_alive_end_io' 'a target went away, or hung'
allow 'opcode 0x18 \(Admin Cmd\) QID 0 timeout' 'a keep-alive of a target that is stopped'
allow 'failed to connect socket|Failed reconnect attempt|failed to receive icresp' 'the host tried before it was back'
allow 'queue [0-9]+: (receive failed|failed to send)|failed to send request' 'data that was on the wire'

blocks=32
ways="--reconnect-delay=1 --ctrl-loss-tmo=-1"
# A target that is stopped is found out by a keep-alive without an answer.
KEEP_ALIVE=5 CONNECT_ARGS=$ways connect
# shellcheck disable=SC2086 # a list of words
run nvme connect -t tcp -a "$address" -s "$OTHER_PORT" -n "$NQN" --keep-alive-tmo=5 $ways

# controller_at PORT: the name of the controller there.
controller_at() {
	local name
	for name in $(controllers); do
		[[ $(cat "/sys/class/nvme/$name/address"), != *trsvcid="$1",* ]] || echo "$name"
	done
}
# is PATH STATE: whether the namespace is in this access state by this controller, which is live.
is() { is_live "$1" && [ "$(cat "/sys/class/nvme/$1"/nvme*c*n*/ana_state)" = "$2" ]; }
two_paths() { [ "$(controllers | wc -l)" = 2 ]; }
until_true 20 "two controllers" two_paths
holder=$(controller_at "$PORT")
other=$(controller_at "$OTHER_PORT")
until_true 20 "the path by the holder" is "$holder" optimized
until_true 20 "the path by the other one" is "$other" inaccessible

# One IO at a time: with three and more, QEMU's user network alone lets some wait for a second.
/writer "$namespace" 0 $blocks /tmp/report &
writer=$!
writes() { cut -d' ' -f1 /tmp/report; }
before=0
# more_writes COUNT: whether so many blocks have been written since `before`. A writer that fails says so itself.
more_writes() { [ "$(writes)" -ge $((before + $1)) ]; }
until_true 60 "all blocks to be written" more_writes $((2 * blocks))

for kind in $KINDS; do
	for round in $(seq "$ROUNDS"); do
		say "$kind $round: from $holder to $other"
		kill -USR1 $writer
		echo "lose by $kind"
		until_true 120 "the path by the new holder" is "$other" optimized
		before=$(writes)
		# Until every block has been written once more: a late write is found only if it would be an old one.
		until_true 120 "writes by the new holder" more_writes $((blocks + 1))
		echo "restore"
		until_true 120 "the path by the former holder" is "$holder" inaccessible
		before=$(writes)
		until_true 60 "all blocks to be read and written again" more_writes $((2 * blocks + 1))
		is "$other" optimized || fail "the path by the holder has changed"
		LINES_SHOWN=20 shows "trsvcid=$OTHER_PORT.* live" nvme list-subsys
		grep -q "trsvcid=$PORT.* live" /tmp/output || fail "the other path is missing"
		echo "gap $(cut -d' ' -f2 /tmp/report)"
		last=$holder holder=$other other=$last
	done
done

kill $writer
wait $writer || fail "the writer failed"
disconnect

say "the back-end is given up: any host that it lets in may clear the reservation"
NQN=$BACK_END_NQN PORT=$BACK_END_PORT
connect
LINES_SHOWN=20 shows 'rtype *: *3' nvme resv-report "$namespace" --eds
run nvme resv-register "$namespace" --nrkey=1 --rrega=0
run nvme resv-release "$namespace" --crkey=1 --rrela=1
LINES_SHOWN=20 shows 'regctl *: *0' nvme resv-report "$namespace" --eds
disconnect
finish
