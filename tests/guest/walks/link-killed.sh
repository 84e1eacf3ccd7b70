#!/bin/bash
# link-killed.sh - a host on a link to the target (link-target.sh), which writes until the machine that runs QEMU reads "kill me".
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
KEEP_ALIVE=5 CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=600" connect
fio --name=load --filename="$namespace" --rw=randrw --bs=64k --size=16m --ioengine=libaio --direct=1 --iodepth=16 --time_based --runtime=600 \
	--output-format=terse >/tmp/load 2>&1 &
write_pieces
LINES_SHOWN=20 run on_target held
echo "kill me"
wait
