#!/bin/bash
# durable-check.sh - finds what durable-write.sh said was flushed: lines "flushed N SUM" in /flushed.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
connect
while read -r _ piece sum; do
	found=$(dd if="$namespace" bs=16k skip="$piece" count=1 iflag=direct status=none | sha256sum | cut -d' ' -f1)
	[ "$found" = "$sum" ] || fail "piece $piece was flushed as $sum and now reads $found"
done </flushed
say "$(wc -l </flushed) flushed pieces are there"
disconnect
finish
