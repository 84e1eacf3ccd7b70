#!/bin/bash
# concatenated.sh - the host makes its key for TLS by DH-HMAC-CHAP on its admin queue (secure channel concatenation), and then every queue
# is encrypted with it. The target has $KEY of this host and $CTRL_KEY of controllers, for DH-HMAC-CHAP; it asks for TLS, and has no key
# for TLS; $WRONG_KEY is another one.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'qid [0-9]+: (authentication|no key|DH-HMAC-CHAP|auth)' 'proofs that are to fail'
allow 'failed to (connect|write)|Connect command failed|authentication (setup|request) failed|Failed to (connect|authenticate)' 'as before'
allow 'qid [0-9]+ invalid message 00/f0' 'a Failure1 where the host awaits another message'
allow 're-authentication|qid [0-9]+: secure|authenticated|qid [0-9]+: TLS' 'a host that makes a key says so'
allow 'resetting controller' 'a reset that is asked for'

start_tlshd
try() { # try WHY ARGUMENTS...: a connection that must not come to be
	local why=$1
	shift
	! captured nvme connect -t tcp -a "$address" -s "$PORT" -n "$NQN" --ctrl-loss-tmo=0 "$@" || fail "$why: it got in"
	no_controllers || fail "$why: there is a controller"
}
secure_connect() {
	CONNECT_ARGS="--concat $*" connect
	[ -s "/sys/class/nvme/$controller/tls_key" ] || fail "$controller has no key for TLS"
	say "$controller has key $(cat "/sys/class/nvme/$controller/tls_key")"
}

say "without a key for TLS, and with a wrong key"
try "without TLS" --dhchap-secret="$KEY"
try "a wrong key" --concat --dhchap-secret="$WRONG_KEY"

say "one way"
secure_connect --dhchap-secret="$KEY" --nr-io-queues=2
run fio --name=verify --filename="$namespace" --rw=randrw --bsrange=4k-256k --size=16m --ioengine=libaio --direct=1 \
	--iodepth=8 --verify=crc32c --verify_fatal=1 --output-format=terse
disconnect

say "with a key of the controller, and digests"
secure_connect --dhchap-secret="$KEY" --dhchap-ctrl-secret="$CTRL_KEY" --hdr-digest --data-digest
queues=$(cat "/sys/class/nvme/$controller/queue_count")
say "$queues queues are encrypted"
[ "$queues" -gt "${QUEUES_LEAST:-1}" ] || fail "only $queues queues"
run fio --name=verify --filename="$namespace" --rw=randwrite --bs=16k --size=16m --ioengine=libaio --direct=1 \
	--iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=terse

say "the host proves itself anew"
echo "$KEY" >"/sys/class/nvme/$controller/dhchap_secret"
run dd if="$namespace" of=/dev/null bs=1M count=8 iflag=direct
is_live "$controller" || fail "$controller is $(controller_state "$controller")"

say "a reset makes a new key, and every handshake anew"
run nvme reset "/dev/$controller"
until_true 120 "$controller to be live" is_live "$controller"
run dd if="$namespace" of=/dev/null bs=1M count=8 iflag=direct
disconnect
finish
