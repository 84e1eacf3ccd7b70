#!/bin/bash
# rdma-loop.sh - the claims of crates/reactor/examples/rdma_loop.rs on a device of software: both ends in one process, over the guest's own
# addresses, with IPv4 and IPv6; and without the right to lock as much memory as it likes.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
start_rdma
allow 'rxe_invalidate_mr: mr->type .* is wrong type' "a claim invalidates a key that cannot be"
allow 'non-flush error status = (2|9|10|11)$' "the connections that a claim ends by a mistake"
allow '(rxe_create_cq|rxe_reg_user_mr): returned err|Unable to pin memory region err = -12' "claims ask for more than there is"
ip addr add 192.0.2.1/32 dev lo
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad # nobody else has it
ip -6 addr add fd00::15/64 dev eth0
until_true 20 "the device to know its addresses" grep -q '^fd00:' -r /sys/class/infiniband/rxe0/ports/1/gids
is_removed() { ! rdma link show | grep -q rxe0; }
loop() { "$@" || fail "$(rdma statistic show link rxe0/1)"; }
program=("$LOADER" --library-path /gimbal /gimbal/rdma_loop)

loop "${program[@]}" 10.0.2.15 fd00::15
say "without rights, with 2 MiB that may be locked"
ulimit -l 2048
loop setpriv --reuid 65534 --regid 65534 --clear-groups "${program[@]}" locked 10.0.2.15
say "the device is removed"
ulimit -l unlimited
loop "${program[@]}" removed 10.0.2.15
until_true 20 "rxe0 to be gone" is_removed
finish
