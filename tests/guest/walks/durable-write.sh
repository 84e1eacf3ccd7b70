#!/bin/bash
# durable-write.sh - writes pieces, each followed by a flush, and prints "flushed N SUM" only after
# the flush was answered. The harness kills the target outright after some of them, and this guest
# too; durable-check.sh then finds every printed piece on the restarted target.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
CONNECT_ARGS="--reconnect-delay=1 --ctrl-loss-tmo=300" connect
for ((piece = 0; piece < 2048; piece++)); do # no place twice: a newer write may survive unflushed
	head -c 16384 /dev/urandom >/tmp/piece
	dd if=/tmp/piece of="$namespace" bs=16k seek="$piece" oflag=direct conv=notrunc,fsync status=none
	echo "flushed $piece $(sha256sum </tmp/piece | cut -d' ' -f1)"
done
fail "nobody killed the target"
