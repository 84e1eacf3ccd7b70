#!/bin/bash
# persistent-reservations.sh - reservations by Linux's own call (IOC_PR_*, as cluster software and
# dm-multipath have it), which always asks for persistence through power loss: register, reserve,
# release, pre-empt, clear, between two hosts. In the middle the target is killed outright and started
# again: who is registered and who holds the reservation is as it was.
#
# One guest plays both hosts: it is booted with nvme_core.multipath=N. /pr is tests/guest/pr.c. The
# harness kills and restarts the target when it reads "restart me".
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = N ] || fail "boot with nvme_core.multipath=N"

first_key=0x1111 second_key=0x2222
write_exclusive=1 exclusive_access=2
conflict='refused 0x(4083|83|18)$|invalid exchange' # an NVMe status or PR_STS_RESERVATION_CONFLICT
allow 'shared namespace' 'the two controllers are kept apart on purpose'
allow 'reservation conflict|critical nexus error|I/O (E|e)rror|Operation not supported' 'a host without the reservation wrote'
allow 'starting error recovery|Reconnecting in|Successfully reconnected|no usable path - requeuing I/O' \
	'the target was killed, and is back'
allow 'failed to connect socket|Failed reconnect attempt' 'the host tried before it was back'
allow 'queue [0-9]+: (receive failed|failed to send)|failed to send request' 'what was on the wire when it broke'
CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=300"
HOST_NQN=nqn.2024-06.io.gimbal:first HOST_ID=6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0011 connect
first=$namespace first_controller=$controller
connect_beside nqn.2024-06.io.gimbal:second 6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0022,reconnect_delay=1
second=$namespace second_controller=$controller
[ "$first" != "$second" ] || fail "both hosts have the same device"

say "a host that uses the identifier of another is refused"
allow 'Connect (Invalid Data Parameter|.*failed)|failed to connect|Failed to (write|connect)|HOSTID|hostid' 'the identifier is the first one'\''s'
refuse_stranger() {
	! echo "transport=tcp,traddr=$address,trsvcid=$PORT,nqn=$NQN,duplicate_connect,hostnqn=nqn.2024-06.io.gimbal:stranger,hostid=6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0011" \
		2>/dev/null >/dev/nvme-fabrics || fail "a stranger is let in with the first host's identifier"
}
refuse_stranger

say "what the namespace says of itself"
rescap=$(nvme id-ns "$first" | sed -n 's/^rescap *: *//p')
[ $((rescap & 1)) = 1 ] || fail "RESCAP is $rescap: nothing persists through power loss"

say "register and reserve"
run /pr "$first" register 0 $first_key
run /pr "$second" register 0 $second_key
LINES_SHOWN=20 shows 'regctl *: *2' nvme resv-report "$first" -n 1 --eds
shows 'ptpls *: *1' nvme resv-report "$first" -n 1 --eds
run /pr "$first" reserve $first_key $write_exclusive
refused "$conflict" /pr "$second" reserve $second_key $write_exclusive
write() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct status=none; }
run write "$first"
refused 'invalid exchange' write "$second"

say "the target is killed and started again"
loss() { ! is_live "$first_controller" && ! is_live "$second_controller"; }
echo "restart me"
until_true 120 "the loss of the target to be noticed" loss
say "the host noticed"
until_true 180 "the first host to be back" is_live "$first_controller"
until_true 180 "the second host to be back" is_live "$second_controller"
LINES_SHOWN=20 shows 'regctl *: *2' nvme resv-report "$second" -n 1 --eds
shows 'rtype *: *1' nvme resv-report "$second" -n 1 --eds
shows 'ptpls *: *1' nvme resv-report "$second" -n 1 --eds
run write "$first"
refused 'invalid exchange' write "$second"
refused "$conflict" /pr "$second" reserve $second_key $write_exclusive
refuse_stranger

say "release, reserve anew, pre-empt, pre-empt with abort"
run /pr "$first" release $first_key $write_exclusive
run write "$second"
run /pr "$first" reserve $first_key $exclusive_access
run /pr "$second" preempt $second_key $first_key $write_exclusive
run write "$second"
refused 'invalid exchange' write "$first"
LINES_SHOWN=20 shows 'regctl *: *1' nvme resv-report "$second" -n 1 --eds
run /pr "$first" register 0 $first_key
run /pr "$first" abort $first_key $second_key $write_exclusive
run write "$first"
refused 'invalid exchange' write "$second"

say "replace a key, clear"
run /pr "$first" register $first_key 0x3333
refused "$conflict" /pr "$first" clear $first_key
run /pr "$first" clear 0x3333
LINES_SHOWN=20 shows 'regctl *: *0' nvme resv-report "$first" -n 1 --eds
run write "$second"

if command -v blkpr >/dev/null; then
	say "blkpr of util-linux"
	run blkpr --command register --key $first_key "$first"
	run blkpr --command reserve --key $first_key --type write-exclusive "$first"
	refused 'invalid exchange' write "$second"
	run blkpr --command release --key $first_key --type write-exclusive "$first"
	run blkpr --command clear --key $first_key "$first"
fi

say "the feature, from both sides"
run nvme resv-register "$first" -n 1 --nrkey=$first_key --rrega=0 --cptpl=2
shows 'ptpls *: *0' nvme resv-report "$first" -n 1 --eds
run nvme set-feature "/dev/$first_controller" -n 1 -f 0x83 --value=1
shows '0x0*1$|value: *0x0*1' nvme get-feature "/dev/$first_controller" -n 1 -f 0x83
shows 'ptpls *: *1' nvme resv-report "$first" -n 1 --eds
run nvme resv-register "$first" -n 1 --crkey=$first_key --rrega=1 --cptpl=2

disconnect
finish
