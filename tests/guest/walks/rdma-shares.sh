#!/bin/bash
# rdma-shares.sh - two tenants share an emulated SSD by RDMA: one reads 4 KiB, the other 128 KiB, 32 outstanding each. First in, first out, the second has
# about thirty times the bytes; under `gimbal` about three times. Shares, not speed: the SSD is slowed down to what an emulated machine can do.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
scheduler=none
prepare_target() {
	cat >/tmp/gimbal.toml <<-TOML
		listen = ["rdma://10.0.2.15:4420"]
		[[device]]
		name = "ssd"
		kind = "emulated"
		profile = "dct983"
		condition = "fragmented"
		size = "1G"
		backing = "none"
		speed = 0.01
		scheduler = "$scheduler"
		$(a_subsystem "$NQN")
	TOML
}
begin
# bytes_of JOB: the first number of bytes behind the job's name, that of all its reads.
bytes_of() { sed -n "/\"name\": \"$1\"/,/\"bytes\":/s/[^0-9]*\([0-9]*\),/\1/p" /tmp/results | tail -n 1; }

# Sets `ratio`: bytes of the second tenant for a hundred of the first.
ratio() {
	local small large
	gimbal bench --transport rdma --addr 10.0.2.15:4420 --nqn "$NQN" --runtime "${1}s" --json - \
		--job name=small,rw=randread,bs=4k,iodepth=32 --job name=large,rw=randread,bs=128k,iodepth=32 >/tmp/results || fail "bench: $(tail -n 20 /tmp/results)"
	small=$(bytes_of small)
	large=$(bytes_of large)
	say "$scheduler: $small and $large bytes"
	[ "${small:-0}" -gt 1000000 ] || fail "too few reads to compare"
	ratio=$((100 * large / small))
}
ratio 20
[ "$ratio" -gt 1000 ] || fail "first in, first out, the second has $ratio % of the first"
kill "$target"
wait "$target" || fail "the target did not end in order: $(tail -n 20 /tmp/target.log)"
scheduler=gimbal
serve_by_rdma
ratio 20
[ "$ratio" -lt 600 ] || fail "under gimbal the second has $ratio % of the first"
finish
