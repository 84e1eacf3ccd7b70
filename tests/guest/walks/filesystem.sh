#!/bin/bash
# filesystem.sh - an ext4 file system lives on the namespace: files come back as they were written,
# discarded space is given back, and the checker finds nothing. Then fio writes at random and
# verifies every block. CONNECT_ARGS says how to connect (digests).
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
connect

say "a file system"
run mkfs.ext4 -q -F "$namespace"
run mount "$namespace" /mnt
mkdir /mnt/files
for size in 1 4095 65536 1000003 4194304; do
	head -c "$size" /dev/urandom >"/mnt/files/$size"
done
cp -r /usr/bin/busybox /etc /mnt/files/
(cd /mnt/files && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/tmp/sums
run umount /mnt
run e2fsck -f -n "$namespace"
run mount "$namespace" /mnt
(cd /mnt/files && run sha256sum -c --quiet /tmp/sums)
rm -r /mnt/files/4194304
shows 'trimmed' fstrim -v /mnt
(cd /mnt/files && sed -i '/4194304/d' /tmp/sums && run sha256sum -c --quiet /tmp/sums)
run umount /mnt
run e2fsck -f -n "$namespace"

say "random writes, verified"
run fio --name=verify --filename="$namespace" --rw=randwrite --bsrange=4k-64k --size="${FIO_SIZE:-12m}" \
	--ioengine=libaio --direct=1 --iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1 --output-format=terse

disconnect
finish
