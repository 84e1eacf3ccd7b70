#!/bin/bash
# block.sh - the block commands beyond read and write: discard, write zeroes, flush, compare,
# verify, dataset management, as the kernel's block layer and as nvme-cli send them; and what lies
# past the end is refused. Checks what the medium holds after each.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
connect

block=$(blockdev --getss "$namespace")
blocks_per_mib=$((1048576 / block))
zeros=$(head -c 1048576 /dev/zero | sha256sum | cut -d' ' -f1)

# fill: known non-zero bytes in the first 4 MiB.
head -c 1048576 /dev/urandom >/tmp/pattern
pattern=$(sha256sum </tmp/pattern | cut -d' ' -f1)
fill() {
	local mib
	for mib in 0 1 2 3; do
		dd if=/tmp/pattern of="$namespace" bs=1M seek=$mib oflag=direct conv=notrunc,fsync status=none
	done
	blockdev --flushbufs "$namespace"
}
holds() { # holds MIB SUM WHAT
	[ "$(sum "$namespace" "$1" 1)" = "$2" ] || fail "MiB $1 does not hold $3"
}

say "writes of many sizes come back"
for size in 4096 8192 16384 20480 131072 1048576; do
	head -c $size /dev/urandom >/tmp/written
	run dd if=/tmp/written of="$namespace" bs=$size count=1 oflag=direct conv=notrunc status=none
	run dd if="$namespace" of=/tmp/back bs=$size count=1 iflag=direct status=none
	run cmp /tmp/written /tmp/back
done

say "discard"
fill
run blkdiscard -f -o 1048576 -l 1048576 "$namespace"
holds 0 "$pattern" "what was written"
holds 1 "$zeros" "zeros after a discard"
holds 2 "$pattern" "what was written"
run blkdiscard -f "$namespace"
holds 0 "$zeros" "zeros after the whole was discarded"

say "write zeroes"
fill
run blkdiscard -f -z -o 1048576 -l 1048576 "$namespace"
holds 0 "$pattern" "what was written"
holds 1 "$zeros" "zeros"
run fallocate -n -z -o 2097152 -l 1048576 "$namespace"
holds 2 "$zeros" "zeros"
run fallocate -n -p -o 3145728 -l 1048576 "$namespace"
holds 3 "$zeros" "zeros after a hole was punched"
fill
run nvme write-zeroes "$namespace" -s 0 -c $((blocks_per_mib - 1))
holds 0 "$zeros" "zeros"
holds 1 "$pattern" "what was written"
run nvme write-zeroes "$namespace" -s "$blocks_per_mib" -c $((blocks_per_mib - 1)) -d
holds 1 "$zeros" "zeros after a deallocating write zeroes"

say "dataset management of several ranges"
fill
run nvme dsm "$namespace" -n 1 -d -s "0,$((2 * blocks_per_mib))" -b "$blocks_per_mib,$blocks_per_mib"
holds 0 "$zeros" "zeros"
holds 1 "$pattern" "what was written"
holds 2 "$zeros" "zeros"

say "flush and forced unit access"
run nvme flush "$namespace" -n 1
run dd if=/tmp/pattern of="$namespace" bs=1M count=1 oflag=direct,dsync conv=notrunc status=none
holds 0 "$pattern" "what was written through"

say "nvme-cli's own read, write, compare and verify"
head -c 8192 /dev/urandom >/tmp/eight
last=$((8192 / block - 1))
run nvme write "$namespace" -s 8 -c $last -z 8192 -d /tmp/eight
rm /tmp/back
run nvme read "$namespace" -s 8 -c $last -z 8192 -d /tmp/back
run cmp /tmp/eight /tmp/back
if captured nvme compare "$namespace" -s 8 -c $last -z 8192 -d /tmp/eight; then
	head -c 8192 /dev/urandom >/tmp/other
	refused 'compare|0x[0-9a-f]*285' nvme compare "$namespace" -s 8 -c $last -z 8192 -d /tmp/other
else
	grep -Eiq -- "$unsupported" /tmp/output || fail "compare: $(cat /tmp/output)"
fi
optional nvme verify "$namespace" -s 8 -c $last
allow 'I/O error.*sector|Write Uncorrectable' 'write-uncor marks blocks that the next read must fail on, where it is supported'
optional nvme write-uncor "$namespace" -s 64 -c 0
run nvme write-zeroes "$namespace" -s 64 -c 0

say "copy"
fill
head -c $((16 * block)) /dev/zero >/tmp/blank
run nvme write "$namespace" -s 8192 -c 15 -z $((16 * block)) -d /tmp/blank
if captured nvme copy "$namespace" --sdlba=8192 --slbs=4,100 --blocks=7,7; then
	for part in 0 1; do
		from=$((part == 0 ? 4 : 100))
		run nvme read "$namespace" -s $((8192 + 8 * part)) -c 7 -z $((8 * block)) -d /tmp/copied
		run nvme read "$namespace" -s $from -c 7 -z $((8 * block)) -d /tmp/original
		run cmp /tmp/copied /tmp/original
	done
	refused 'overlap|0x[0-9a-f]*187' nvme copy "$namespace" --sdlba=8 --slbs=4 --blocks=7
else
	grep -Eiq -- "$unsupported" /tmp/output || fail "copy: $(cat /tmp/output)"
	[ -n "${KERNEL_TARGET:-}" ] || fail "copy is not there"
fi

say "past the end"
past_end='out.of.range|capacity|0x[0-9a-f]*080'
[ -z "${KERNEL_TARGET:-}" ] || past_end+='|internal.error' # what the kernel's own target says
size=$(($(blockdev --getsize64 "$namespace") / block))
run nvme read "$namespace" -s $((size - 1)) -c 0 -z "$block" -d /tmp/back
refused "$past_end" nvme read "$namespace" -s "$size" -c 0 -z "$block" -d /tmp/back
refused "$past_end" nvme write "$namespace" -s $((size - 1)) -c 1 -z $((2 * block)) -d /tmp/eight
refused "$past_end" nvme write-zeroes "$namespace" -s $((size - 1)) -c 1

disconnect
finish
