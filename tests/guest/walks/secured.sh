#!/bin/bash
# secured.sh - every queue is encrypted (TLS 1.3 by tlshd, then by the kernel), with pre-shared keys that nvme-cli derives. The target
# has $KEY and $NEXT_KEY for TLS of this host and asks for TLS; $WRONG_KEY is none of them.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'failed to (connect|write)|Connect command failed|failed to start TLS|TLS handshake (failed|complete)|qid [0-9]+: TLS' 'handshakes that are to fail'
allow 'failed to connect socket: -|Connect for subsystem .* is not allowed' 'as before'
allow 'resetting controller' 'a reset that is asked for'

host=$(cat /etc/nvme/hostnqn)
start_tlshd

use_key() { # use_key KEY VERSION: the key of this host for the target from now on, as an identity of this version
	shows 'Inserted TLS key' nvme check-tls-key --identity="$2" --subsysnqn="$NQN" --hostnqn="$host" --keydata="$1" --insert
	tls=(--tls --tls-key="0x$(sed -n 's/.*Inserted TLS key //p' /tmp/output)")
}
secure_connect() {
	CONNECT_ARGS="${tls[*]} ${1:-}" connect
	[ -s "/sys/class/nvme/$controller/tls_key" ] || fail "$controller has no key for TLS"
}
try() { # try WHY ARGUMENTS...: a connection that must not come to be
	local why=$1
	shift
	! captured nvme connect -t tcp -a "$address" -s "$PORT" -n "$NQN" --ctrl-loss-tmo=0 "$@" || fail "$why: it got in"
	no_controllers || fail "$why: there is a controller"
}

say "without TLS, and with a wrong key"
try "without TLS"
use_key "$WRONG_KEY" 1
try "a wrong key" "${tls[@]}"

say "discovery is open, and says that the subsystem needs TLS"
LINES_SHOWN=40 shows 'sectype: +tls13' nvme discover -t tcp -a "$address" -s "$PORT"

for version in 0 1; do
	say "identities of version $version"
	use_key "$KEY" "$version"
	secure_connect --nr-io-queues=2
	run fio --name=verify --filename="$namespace" --rw=randrw --bsrange=4k-256k --size=16m --ioengine=libaio --direct=1 \
		--iodepth=8 --verify=crc32c --verify_fatal=1 --output-format=terse
	disconnect
done

say "the other key, with digests"
use_key "$NEXT_KEY" 1
secure_connect "--hdr-digest --data-digest"
queues=$(cat "/sys/class/nvme/$controller/queue_count")
say "$queues queues are encrypted"
[ "$queues" -gt "${QUEUES_LEAST:-1}" ] || fail "only $queues queues"
run fio --name=verify --filename="$namespace" --rw=randwrite --bs=16k --size=16m --ioengine=libaio --direct=1 \
	--iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=terse
say "a reset makes every handshake anew"
run nvme reset "/dev/$controller"
until_true 60 "$controller to be live" is_live "$controller"
run dd if="$namespace" of=/dev/null bs=1M count=8 iflag=direct
disconnect
finish
