#!/bin/bash
# snapshots.sh - a writer on XFS, of whose namespace ROUNDS snapshots are taken. The harness takes one when it reads "snapshot N", gives
# it to this host as namespace N + 1, and takes that away at "remove N". In each are all files that were synced before, none that was
# begun later, and xfs_repair finds nothing.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
modprobe xfs
connect
run mkfs.xfs -q "$namespace"
mkdir -p /mnt /copy
run mount -t xfs "$namespace" /mnt

# content N: the bytes of file N. `yes` ends when nobody reads any more.
content() { (set +o pipefail && yes "file $1" | head -c $((($1 * 7919) % 16384 + 1))); }
note() { echo "$2" >"/tmp/$1.new" && mv "/tmp/$1.new" "/tmp/$1"; }

echo 0 >/tmp/begun
echo 0 >/tmp/synced
(
	n=0
	while [ ! -e /tmp/enough ]; do
		n=$((n + 1))
		note begun $n
		content $n | dd of=/mnt/$n bs=64k conv=fsync status=none || exit 1
		note synced $n
	done
) &
writer=$!
has_synced() { [ "$(cat /tmp/synced)" -ge "$1" ]; }
is_gone() { ! disk_of "$1"; }

before=0
for round in $(seq "$ROUNDS"); do
	until_true 60 "more files" has_synced $((before + 10))
	synced=$(cat /tmp/synced)
	echo "snapshot $round"
	until_true 120 "the copy" disk_of $((round + 1))
	begun=$(cat /tmp/begun)
	copy=$(disk_of $((round + 1)))
	# The copy has the identity of the original, and a log to be replayed.
	run mount -t xfs -o nouuid "$copy" /copy
	# shellcheck disable=SC2012 # the names are numbers
	last=$(ls /copy | sort -n | tail -n 1)
	[ "$last" -le "$begun" ] || fail "file $last of the copy was begun after it: $begun"
	# shellcheck disable=SC2012
	[ "$(ls /copy | wc -l)" -ge "$synced" ] || fail "$synced files were synced, the copy has $(ls /copy | wc -l)"
	# All new ones, and some of the last round.
	for n in $(seq $((before > 20 ? before - 20 : 1)) "$synced"); do
		content "$n" | cmp -s - "/copy/$n" || fail "file $n of the copy was synced, and is wrong"
	done
	run umount /copy
	run xfs_repair -n "$copy"
	say "round $round: files up to $synced were synced, the copy has $last, $begun were begun"
	before=$synced
	echo "remove $round"
	until_true 60 "the copy to go" is_gone $((round + 1))
done

touch /tmp/enough
wait $writer || fail "the writer failed"
run umount /mnt
run xfs_repair -n "$namespace"
disconnect
finish
