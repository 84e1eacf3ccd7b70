#!/bin/bash
# rdma-strangers.sh - hosts that break the rules of NVMe/RDMA (crates/gimbal/examples/rdma_strangers.rs) get what they deserve, and a host that keeps
# to them connects and reads what it wrote. The target in the guest has short time limits and few places.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
prepare_target() {
	cat >/tmp/gimbal.toml <<-TOML
		listen = ["rdma://10.0.2.15:4420"]
		[limits]
		connections_waiting = 16
		stall_timeout = "2s"
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN")
	TOML
}
begin
allow 'non-flush error status = (2|9|10|11|13)$' "connections that end by a mistake"
connect
head -c 1048576 /dev/urandom >/tmp/written
run dd if=/tmp/written of="$namespace" bs=64k oflag=direct conv=notrunc status=none
LINES_SHOWN=20 shows '^all strangers got what they deserve' "$LOADER" --library-path /gimbal /gimbal/rdma_strangers 10.0.2.15:4420 64
for line in 'a queue pair is rejected.*sts=3' 'a queue pair is rejected.*sts=4' 'sts=7' 'connection dropped: the read of a write.s data from the host failed: remote access error' \
	'neither read its replies|did not read its replies' 'evicted by a newer connection: limits.connections_waiting is reached'; do
	grep -qE "$line" /tmp/target.log || fail "the log does not say '$line'"
done
is_live "$controller" || fail "the controller is $(controller_state "$controller")"
run dd if="$namespace" of=/tmp/back bs=64k count=16 iflag=direct status=none
run cmp /tmp/written /tmp/back
disconnect
connect
disconnect
finish
