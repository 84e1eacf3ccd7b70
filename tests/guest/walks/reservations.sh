#!/bin/bash
# reservations.sh - two hosts and one namespace: who holds a reservation writes, who does not is
# refused, and the holder's key can be pre-empted. One guest plays both hosts, so its kernel must not
# merge the two controllers into one multipath device: it is booted with nvme_core.multipath=N.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = N ] || fail "boot with nvme_core.multipath=N"

first_key=0x1111 second_key=0x2222
allow 'shared namespace' 'the two controllers are kept apart on purpose'
HOST_NQN=nqn.2024-06.io.gimbal:first HOST_ID=6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0011 connect
first=$namespace
connect_beside nqn.2024-06.io.gimbal:second 6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0022
second=$namespace
[ "$first" != "$second" ] || fail "both hosts have the same device"

head -c 4096 /dev/urandom >/tmp/block
block=$(blockdev --getss "$first")
write() { run nvme write "$1" -s 0 -c $((4096 / block - 1)) -z 4096 -d /tmp/block; }
write_conflicts() {
	refused 'reservation|0x[0-9a-f]*083' nvme write "$1" -s 0 -c $((4096 / block - 1)) -z 4096 -d /tmp/block
}
allow 'reservation conflict|I/O (E|e)rror' 'a host without the reservation wrote'

say "register"
run nvme resv-register "$first" -n 1 --nrkey=$first_key --rrega=0
run nvme resv-register "$second" -n 1 --nrkey=$second_key --rrega=0
LINES_SHOWN=20 shows 'regctl *: *2' nvme resv-report "$first" -n 1 --eds
write "$second"

say "write exclusive: only the holder writes, everyone reads"
run nvme resv-acquire "$first" -n 1 --crkey=$first_key --rtype=1 --racqa=0
write "$first"
write_conflicts "$second"
run nvme read "$second" -s 0 -c $((4096 / block - 1)) -z 4096 -d /tmp/back
refused 'reservation|0x[0-9a-f]*083' nvme resv-acquire "$second" -n 1 --crkey=$second_key --rtype=1 --racqa=0
LINES_SHOWN=20 shows 'rtype *: *1' nvme resv-report "$first" -n 1 --eds

say "release: both write"
run nvme resv-release "$first" -n 1 --crkey=$first_key --rtype=1 --rrela=0
write "$second"

say "exclusive access: nobody else even reads; pre-empting takes it over"
run nvme resv-acquire "$first" -n 1 --crkey=$first_key --rtype=2 --racqa=0
refused 'reservation|0x[0-9a-f]*083' nvme read "$second" -s 0 -c 0 -z "$block" -d /tmp/back
run nvme resv-acquire "$second" -n 1 --crkey=$second_key --prkey=$first_key --rtype=1 --racqa=1
write "$second"
write_conflicts "$first"
LINES_SHOWN=20 shows 'regctl *: *1' nvme resv-report "$second" -n 1 --eds

say "unregister: the reservation is gone"
run nvme resv-register "$second" -n 1 --crkey=$second_key --rrega=1
write "$first"

disconnect
finish
