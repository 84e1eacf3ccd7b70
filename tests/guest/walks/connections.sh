#!/bin/bash
# connections.sh - the ways a host may connect: digests, several queues, small and large queues, no
# flow control, another identity. After each, what is written is read back.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
round() { # round CONNECT-ARGUMENTS
	local size
	say "connect $1"
	CONNECT_ARGS=$1 connect
	for size in 4096 20480 1048576; do
		head -c $size /dev/urandom >/tmp/written
		run dd if=/tmp/written of="$namespace" bs=$size count=1 oflag=direct conv=notrunc status=none
		run dd if="$namespace" of=/tmp/back bs=$size count=1 iflag=direct status=none
		run cmp /tmp/written /tmp/back
		rm /tmp/back
	done
	disconnect
}
round ""
round "--hdr-digest"
round "--data-digest"
round "--hdr-digest --data-digest"
round "--nr-io-queues=2"
round "--nr-io-queues=1 --nr-write-queues=1 --nr-poll-queues=1"
round "--queue-size=16"
allow 'queue_size .* > ctrl (sqsize|maxcmd).*clamping|ctrl sqsize .* > max queue size .*clamping' 'more was asked for than the target has'
round "--queue-size=1024"
round "--disable-sqflow"
HOST_NQN=nqn.2024-06.io.gimbal:another HOST_ID=6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e00ff round ""

say "an idle host stays connected on its keep-alive"
KEEP_ALIVE=10 connect
# Not when the kernel sends one, which it does every 5 s: one that is under way when it disconnects makes it warn.
sleep 13
is_live "$controller" || fail "the controller is $(controller_state "$controller") after some idle time"
disconnect
finish
