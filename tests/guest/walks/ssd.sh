#!/bin/bash
# ssd.sh - an NVMe SSD served in the guest in every way there is (interrupts, polled, NVMe commands, both), and used by this very
# kernel as the host. What the host wrote is looked for on the SSD itself. Namespaces of the SSD:
#
#   1 block   2 block, polled   3 commands   4 commands, polled   5 commands, some reads fail   6 has metadata   7 zoned
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
# shellcheck disable=SC2034 # lib.sh connects there
address=127.0.0.1
nqn=nqn.2024-06.io.gimbal

# The number in nvme0n1 is an order of arrival: these are the devices of a namespace by its identifier.
disk() {
	local folder
	for folder in /sys/class/nvme/nvme0/nvme0n*; do
		[ "$(cat "$folder/nsid")" != "$1" ] || echo "/dev/${folder##*/}"
	done
}
generic() { disk "$1" | sed s/nvme0n/ng0n/; }

# config NAME KIND PATH LINES: one device and its subsystem.
config() {
	printf '[[device]]\nname = "%s"\nkind = "%s"\npath = "%s"\nscheduler = "none"\n%b\n' "$@"
	printf '[[subsystem]]\nnqn = "%s:%s"\nallow_any_host = true\n' $nqn "$1"
	printf '[[subsystem.namespace]]\nnsid = 1\ndevice = "%s"\nblock_size = 4096\n\n' "$1"
}
refuses() { # refuses REGEX NAME KIND PATH LINES: that device is not served, and the error says why.
	local regex=$1
	shift
	{ echo 'listen = ["127.0.0.1:0"]' && config "$@"; } >/tmp/refused.toml
	refused "$regex" gimbal serve -c /tmp/refused.toml --state-dir /tmp/state
}

say "an SSD whose driver was given no polled queues"
modprobe nvme
until_true 60 "the SSD" test -c /dev/ng0n7
refuses 'no polled queues.*nvme.poll_queues' polled block "$(disk 2)" 'polled = true'
refuses 'no polled queues' both nvme "$(generic 4)" 'polled = true'
refuses '8 bytes of metadata.*nvme format' metadata nvme "$(generic 6)" ''
refuses 'zoned' zoned nvme "$(generic 7)" ''
refuses 'write kind = "block"' block nvme "$(disk 3)" ''
refuses 'kind = "nvme"' file block "$(generic 3)" ''

say "the same with polled queues"
slot=$(basename "$(readlink -f /sys/class/nvme/nvme0/device)")
echo "$slot" >/sys/bus/pci/drivers/nvme/unbind
until_true 60 "the SSD to go" test ! -e /dev/ng0n1
echo 1 >/sys/module/nvme/parameters/poll_queues
echo "$slot" >/sys/bus/pci/drivers/nvme/bind
until_true 60 "the SSD" test -c /dev/ng0n7
mkfs.ext4 -q -F "$(disk 3)"
mount "$(disk 3)" /mnt
refuses 'is mounted on /mnt' mounted nvme "$(generic 3)" ''
umount /mnt
{
	echo 'listen = ["127.0.0.1:4420"]'
	config block block "$(disk 1)" ''
	config polled block "$(disk 2)" 'polled = true'
	config commands nvme "$(generic 3)" ''
	config both nvme "$(generic 4)" 'polled = true'
	config faulty nvme "$(generic 5)" ''
} >/tmp/gimbal.toml
# Without the function: it would run in a shell of its own, and the signal at the end would end that shell.
"$LOADER" --library-path /gimbal /gimbal/gimbal serve -c /tmp/gimbal.toml --state-dir /tmp/state >/tmp/listening 2>/tmp/log &
target=$!
until_true 60 "the target to listen" grep -q listening /tmp/listening
allow "Can't open blockdev" 'a mount is tried, and refused'
! mount "$(disk 3)" /mnt 2>/dev/null || fail "the block device of a namespace that is shared was mounted"

PORT=4420
head -c 4194304 /dev/urandom >/tmp/pattern
pattern=$(sha256sum </tmp/pattern | cut -d' ' -f1)
head -c 16384 /tmp/pattern >/tmp/start
zeros=$(head -c 1048576 /dev/zero | sha256sum | cut -d' ' -f1)
number=0
for way in block polled commands both; do
	number=$((number + 1))
	own=$(disk $number)
	NQN=$nqn:$way
	say "served as '$way'"
	connect
	run dd if=/tmp/pattern of="$namespace" bs=1M oflag=direct status=none
	[ "$(sum "$own" 0 4)" = "$pattern" ] || fail "the SSD does not hold what was written"
	[ "$(sum "$namespace" 0 4)" = "$pattern" ] || fail "what was written does not come back"
	run fio --name=verify --filename="$namespace" --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-64k \
		--size=2M --offset=8M --verify=crc32c --verify_fatal=1
	run nvme flush "$namespace" -n 1
	run dd if=/tmp/pattern of="$namespace" bs=4k count=4 seek=4096 oflag=direct,dsync conv=notrunc status=none
	run dd if="$own" of=/tmp/back bs=4k count=4 skip=4096 iflag=direct status=none
	cmp /tmp/start /tmp/back || fail "what was written through is not on the SSD"
	run nvme write-zeroes "$namespace" -s 256 -c 255
	[ "$(sum "$own" 1 1)" = "$zeros" ] || fail "the SSD does not hold zeros"
	run blkdiscard -f -o 2097152 -l 1048576 "$namespace"
	[ "$(sum "$own" 2 1)" = "$zeros" ] || fail "the SSD was not told to discard"
	[ "$(sum "$own" 3 1)" = "$(tail -c 1048576 /tmp/pattern | sha256sum | cut -d' ' -f1)" ] || fail "too much was discarded"
	disconnect
done

say "what the SSD fails is the host's to know, in the SSD's words"
NQN=$nqn:faulty
connect
allow 'I/O error|critical|I/O Error|Unrecovered Read Error' 'the SSD is made to fail'
allow 'bogus Namespace Identifiers' 'QEMU gives none by default'
run nvme read "$namespace" -s 0 -c 0 -z 4096 -d /tmp/read
refused 'unrecovered|0x4?281' nvme read "$namespace" -s 256 -c 0 -z 4096 -d /tmp/read
disconnect

say "the end"
kill "$target"
wait "$target" || fail "the target ended with status $?: $(tail -n 20 /tmp/log)"
! grep -E 'registers no more|panicked|WARN.*io_uring' /tmp/log || fail "the target complains"
finish
