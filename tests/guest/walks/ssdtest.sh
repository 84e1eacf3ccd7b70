#!/bin/bash
# ssdtest.sh - `gimbal ssdtest` in the guest, on a virtio disk and on an NVMe namespace that this very kernel is the host of: what
# carries something, or is mounted, is refused and stays as it is; the rest is probed. The profiles go out as lines "PLACE: LINE".
#
# QEMU's own NVMe SSD is not probed: QEMU 7.2 left two reads of a probe unanswered until the kernel reset it.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
probe() { # probe PLACE DEVICE OPTION...
	gimbal ssdtest "$2" --out "/tmp/$1" --quick "${@:3}"
}
few=(--writes 1g --time 40s) # suits an emulated machine

allow "extends beyond EOD" "the guest's fdisk counts in sectors of 512 bytes"
connect
# shellcheck disable=SC2154 # lib.sh sets namespace
for place in vda nvme; do
	disk=/dev/vda
	[ $place = vda ] || disk=$namespace
	say "$disk with a partition table, a file system, and mounted"
	printf 'n\np\n1\n\n\nw\n' | fdisk "$disk" >/dev/null 2>&1 || true
	before=$(sum "$disk")
	refused 'carries a partition table' probe $place "$disk"
	run mkfs.ext4 -q -F "$disk"
	refused 'carries an ext2, ext3 or ext4 file system.*--force' probe $place "$disk"
	mount "$disk" /mnt
	refused "in use: $disk is mounted on /mnt" probe $place "$disk"
	refused "in use: $disk is mounted on /mnt" probe $place "$disk" --read-only
	umount /mnt
	run e2fsck -f -n "$disk"
	[ ! -e /tmp/$place/profile.toml ] || fail "a probe that was refused has a result"

	say "$disk is probed"
	shows 'sequential write' probe $place "$disk" --force "${few[@]}"
	[ -s /tmp/$place/report.html ] || fail "there is no report"
	[ "$(sum "$disk")" != "$before" ] || fail "the probe wrote nothing"
	sed "s/^/$place: /" /tmp/$place/profile.toml
	echo "$place: # end"
done
say "what a probe wrote, another one may overwrite"
run probe again /dev/vda "${few[@]}"
disconnect
finish
