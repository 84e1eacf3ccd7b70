#!/bin/bash
# paths.sh - two paths to one target, by two of its addresses (PORT and OTHER_PORT), under Linux's own multipath. Namespace 2 is in a
# group whose access state the harness changes when it reads "make it STATE": the host follows, IO waits while no path may be used, and a
# path is taken away under load.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
allow 'no usable path - requeuing I/O' 'no path may be used for a while'
connect
run nvme connect -t tcp -a "$address" -s "$OTHER_PORT" -n "$NQN" --keep-alive-tmo=60
both_live() { [ "$(cat /sys/class/nvme/*/state | grep -cx live)" = 2 ]; }
until_true 20 "two live controllers" both_live
[ "$(controllers | wc -l)" = 2 ] || fail "there are not two controllers: $(controllers)"
until_true 20 "namespace 2" disk_of 2
disk=$(disk_of 2)
LINES_SHOWN=20 shows "trsvcid=$OTHER_PORT.* live" nvme list-subsys
LINES_SHOWN=20 shows "trsvcid=$PORT.* live" nvme list-subsys

# The states of the paths of namespace 2, each once.
states() {
	local path
	for path in /sys/class/nvme/nvme*/nvme*c*n*; do
		[ "$(cat "$path/nsid")" != 2 ] || cat "$path/ana_state"
	done | sort -u
}
all_are() { [ "$(states)" = "$1" ]; }
until_true 20 "optimized paths" all_are optimized

say "load on namespace 2 all the while: random writes, verified, again and again"
start_loads "$disk" 1m

echo "make it inaccessible"
until_true 60 "inaccessible paths" all_are inaccessible
LINES_SHOWN=20 shows 'state[[:space:]]*:[[:space:]]*inaccessible' nvme ana-log "/dev/$controller"
LINES_SHOWN=20 run nvme list-subsys
dd if="$disk" bs=4096 count=1 iflag=direct status=none >/tmp/late &
late=$!
[ "$(dd if="$namespace" bs=4096 count=1 iflag=direct status=none | wc -c)" = 4096 ] || fail "namespace 1 is not in the group"
sleep 2
kill -0 $late || fail "IO went on without a path"

echo "make it optimized"
until_true 60 "optimized paths" all_are optimized
wait $late || fail "IO that waited for a path failed"
another_load

echo "make it non-optimized"
until_true 60 "non-optimized paths" all_are non-optimized
another_load # there is no better path

echo "make it optimized"
until_true 60 "optimized paths" all_are optimized

say "a path goes under load"
run nvme disconnect -d "$(controllers | head -n 1)"
another_load
end_loads
disconnect
finish
