#!/bin/bash
# tenant.sh - one of several hosts at once: fills its own part of a namespace, and verifies it when
# all have written. HOST_NQN and HOST_ID say who, NSID and OFFSET (MiB) which part. They wait for one
# another by marks in namespace 1, from GATHER_AT (MiB) on: TENANT is this one's number of TENANTS.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
connect
disk=$(disk_of "$NSID") || fail "namespace $NSID is not there"
say "$HOST_NQN on $disk from $OFFSET MiB"

# gather STAGE: leaves a mark of this stage and goes on when everybody else has left theirs.
mark() { dd if="$namespace" bs=4k skip=$((GATHER_AT * 256 + $1)) count=1 iflag=direct status=none | head -n 1; }
is_marked() { [ "$(mark "$1" | tr -d '\0')" = "$2" ]; }
gather() {
	local other
	{ echo "$1" && head -c 4096 /dev/zero; } | head -c 4096 >/tmp/mark
	dd if=/tmp/mark of="$namespace" bs=4k seek=$((GATHER_AT * 256 + TENANT)) oflag=direct conv=notrunc,fsync status=none
	for ((other = 0; other < TENANTS; other++)); do
		until_true 180 "tenant $other to reach '$1'" is_marked "$other" "$1"
	done
}

fill() { # fill FIO-ARGUMENTS
	run fio --name=tenant --filename="$disk" --offset="${OFFSET}m" --size="${SIZE:-12}m" --rw=randwrite --bs=16k \
		--ioengine=libaio --direct=1 --iodepth=8 --verify=crc32c --verify_fatal=1 --randseed=$((TENANT + 1)) \
		--output-format=terse "$@"
}
gather "connected"
fill --do_verify=0 --end_fsync=1
gather "written"
fill --verify_only
gather "verified"
disconnect
finish
