#!/bin/bash
# identity.sh - the host proves who it is on every queue (DH-HMAC-CHAP), and the target proves itself if it is asked to; wrong keys
# are refused, and a key is rotated while IO goes on. The target has the key $KEY of the host, and $CTRL_KEY of controllers. The harness
# gives it $NEXT_KEY, too, when it reads "add the next key", and takes $KEY away when it reads "remove the old key"; with each change
# namespace 2 gets another size, by which the change is seen here.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'qid [0-9]+: (authentication|no key|DH-HMAC-CHAP|auth)' 'proofs that are to fail'
allow 'failed to (connect|write)|Connect command failed|authentication (setup|request) failed|Failed to (connect|authenticate)' 'as before'
allow 'qid [0-9]+ invalid message 00/f0' 'a Failure1 where the host awaits another message'
allow 'qid [0-9]+: controller authentication failed' 'a proof of the controller that is to fail'
allow 're-authentication|qid [0-9]+: secure|authenticated' 'a host that proves itself anew says so'

host=$(cat /etc/nvme/hostnqn)
try() { # try ARGUMENTS...: a connection that must not come to be
	! captured nvme connect -t "$TRANSPORT" -a "$address" -s "$PORT" -n "$NQN" --ctrl-loss-tmo=0 "$@" || fail "$*: it got in"
	no_controllers || fail "$*: there is a controller"
}

say "$host without a key, and with others"
try
try --dhchap-secret="$NEXT_KEY"
try --dhchap-secret="$KEY" --dhchap-ctrl-secret="$NEXT_KEY"

say "discovery is open"
shows "$NQN" nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT"

say "one way, and both"
CONNECT_ARGS="--dhchap-secret=$KEY" connect
disconnect
CONNECT_ARGS="--dhchap-secret=$KEY --dhchap-ctrl-secret=$CTRL_KEY" connect
queues=$(cat "/sys/class/nvme/$controller/queue_count")
say "$queues queues have proved themselves"
[ "$queues" -gt "${QUEUES_LEAST:-1}" ] || fail "only $queues queues"

say "load: random writes, verified, again and again"
start_loads "$namespace" 2m

second=$(disk_of 2)
has_mib() { [ "$(blockdev --getsize64 "$second")" = $(($1 << 20)) ]; }
has_mib 64 || fail "$second has $(blockdev --getsize64 "$second") bytes"

say "the host proves itself anew, with the same key"
echo "$KEY" >"/sys/class/nvme/$controller/dhchap_secret"
another_load

echo "add the next key"
until_true 120 "the next key" has_mib 32
echo "$NEXT_KEY" >"/sys/class/nvme/$controller/dhchap_secret"
another_load
is_live "$controller" || fail "$controller is $(controller_state "$controller")"

echo "remove the old key"
until_true 120 "the end of the old key" has_mib 64
echo "$NEXT_KEY" >"/sys/class/nvme/$controller/dhchap_secret"
another_load
end_loads
disconnect
try --dhchap-secret="$KEY"
CONNECT_ARGS="--dhchap-secret=$NEXT_KEY" connect
disconnect
finish
