#!/bin/bash
# mirror.sh - a mirror of Linux (md RAID 1) over two targets: PORT with NQN, OTHER_PORT with OTHER_NQN. The harness kills the other
# target when it reads "kill the other", and starts it again when it reads "start the other". Writes go on, what comes back is
# brought up to date by the bitmap, and both copies are the same in the end. Prints the longest pause of a writer for each setting.
# docs/high-availability.md has the recipe.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'starting error recovery|Reconnecting in|Successfully reconnected|no usable path|no available path' 'a target was killed'
allow 'failed to connect socket|Failed reconnect attempt|failed to receive icresp' 'the host tried before it was back'
allow 'queue [0-9]+: (receive failed|failed to send)|failed to send request' 'data that was on the wire'
allow 'I/O error, dev|md/raid1|md: |md0|super_written' 'the mirror loses a half'
allow 'failfast expired|I/O fail on reconnect controller after' 'as --fast_io_fail_tmo says'
modprobe raid1
CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=600" connect
first=$namespace

# connect_other WORDS: the other half, with these time-outs; sets `other` to its disk, `other_controller` to its controller.
connect_other() {
	# shellcheck disable=SC2086 # a list of words
	run nvme connect -t tcp -a "$address" -s "$OTHER_PORT" -n "$OTHER_NQN" --keep-alive-tmo=60 --reconnect-delay=1 \
		--ctrl-loss-tmo=600 $1
	NQN=$OTHER_NQN
	other_controller=$(controllers)
	controller=$other_controller
	until_true 20 "the other namespace" disk_of 1
	other=$(disk_of 1)
}

degraded() { cat /sys/block/md0/md/degraded; }
is_degraded() { [ "$(degraded)" = "$1" ]; }
milliseconds() { read -r seconds _ </proc/uptime; echo $((10#${seconds/./} * 10)); }

# A writer of pieces, one after the other, which notes the longest time that one took.
write_pieces() {
	local n=0 began took
	echo 0 >/tmp/longest
	while [ ! -e /tmp/enough ]; do
		began=$(milliseconds)
		dd if=/dev/urandom of=/dev/md0 bs=16k count=1 seek=$((n % 2048 + 1024)) oflag=direct conv=notrunc status=none || exit 1
		took=$(($(milliseconds) - began))
		[ "$took" -le "$(cat /tmp/longest)" ] || echo "$took" >/tmp/longest
		n=$((n + 1))
		echo $n >/tmp/pieces.new
		mv /tmp/pieces.new /tmp/pieces
	done
}
more_pieces() { [ "$(cat /tmp/pieces)" -gt "$1" ]; }

connect_other --fast_io_fail_tmo=1
export MDADM_NO_UDEV=1
mkdir -p /run/mdadm
# Both are new files, so they are the same: zeroes.
run mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 --bitmap=internal --bitmap-chunk=64K \
	--assume-clean "$first" --write-mostly "$other"
is_degraded 0 || fail "the mirror begins with one half"

say "load all the while: random writes, verified, again and again; and a writer that is timed"
write_pieces &
writer=$!
start_loads /dev/md0 1m
until_true 60 "the first pieces" more_pieces 5

# lose SECONDS: the other target is killed; the mirror goes on with one half, and takes the other one again.
lose() {
	local before
	say "IO fails $1 s after the loss"
	echo "$1" >"/sys/class/nvme/$other_controller/fast_io_fail_tmo"
	echo 0 >/tmp/longest
	echo "kill the other"
	until_true 120 "the mirror to go on with one half" is_degraded 1
	before=$(cat /tmp/pieces)
	until_true 60 "pieces on one half" more_pieces "$before"
	another_load
	echo "pause $1: $(cat /tmp/longest) ms"
	run mdadm /dev/md0 --remove "$other"
	echo "start the other"
	until_true 120 "the other target" is_live "$other_controller"
	LINES_SHOWN=20 shows 'Bitmap : .* dirty' mdadm --examine-bitmap "$first"
	before=$(awk '{print $7}' "/sys/block/${other#/dev/}/stat")
	run mdadm /dev/md0 --re-add --write-mostly "$other"
	until_true 300 "both halves" is_degraded 0
	echo "brought up to date: $((($(awk '{print $7}' "/sys/block/${other#/dev/}/stat") - before) / 2)) KiB written, new writes among them"
}
lose 1
lose 5

say "IO waits for the target, however long it is away"
echo -1 >"/sys/class/nvme/$other_controller/fast_io_fail_tmo"
echo 0 >/tmp/longest
echo "kill the other"
gone() { ! is_live "$other_controller"; }
until_true 120 "the loss of the target to be noticed" gone
sleep 3
is_degraded 0 || fail "the mirror lost a half"
before=$(cat /tmp/pieces)
echo "start the other"
until_true 120 "the other target" is_live "$other_controller"
until_true 60 "new pieces" more_pieces "$((before + 2))"
echo "pause without: $(cat /tmp/longest) ms"
is_degraded 0 || fail "the mirror lost a half"

touch /tmp/enough
end_loads
wait $writer || fail "a write of the writer failed"
say "$(cat /tmp/pieces) pieces were written beside it"

say "both halves are the same"
idle() { [ "$(cat /sys/block/md0/md/sync_action)" = idle ]; }
until_true 60 "the mirror to be idle" idle
echo check >/sys/block/md0/md/sync_action
until_true 300 "the comparison" idle
[ "$(cat /sys/block/md0/md/mismatch_cnt)" = 0 ] || fail "sectors that differ: $(cat /sys/block/md0/md/mismatch_cnt)"
LINES_SHOWN=20 run cat /proc/mdstat
run mdadm --stop /dev/md0
run nvme disconnect-all
until_true 20 "the controllers to go" no_controllers
finish
