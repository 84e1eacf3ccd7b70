#!/bin/bash
# reload.sh - the target's configuration changes while a host is connected: a namespace appears by
# itself, grows, shrinks, becomes read-only and writable, and disappears by itself, and IO on the other namespace never notices. The
# harness changes the configuration and sends SIGHUP when it reads "add", "grow", "shrink", "protect",
# "release" or "remove" namespace 3.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
third=''
prepare_target() { # of a target in the guest
	cat >/tmp/gimbal.toml <<-TOML
		state_dir = "/tmp/state"
		listen = ["rdma://$address:$PORT"]
		$(an_ssd /dev/vda)
		$(a_subsystem "$NQN" 'size = "64M"')
		$third
	TOML
}
ask() { # ask WISH FIELDS: for namespace 3; a target in the guest gets the fields here
	echo "$1 namespace 3"
	[ "$TRANSPORT" = rdma ] || return 0
	third=
	[ -z "$2" ] || third=$(printf '[[subsystem.namespace]]\nnsid = 3\ndevice = "ssd"\noffset = "128M"\n%s' "$2")
	prepare_target
	kill -HUP "$target"
}
begin
connect

say "load on namespace 1 all the while: random writes, verified, again and again"
start_loads "$namespace" 2m --rate_iops=100

has_mib() { [ "$(blockdev --getsize64 "$disk")" = $(($1 << 20)) ]; }
writes_and_reads() { # writes_and_reads MIB: at this place of the new disk
	head -c 1048576 /dev/urandom >/tmp/written
	run dd if=/tmp/written of="$disk" bs=1M seek="$1" count=1 oflag=direct conv=notrunc,fsync status=none
	[ "$(sum "$disk" "$1" 1)" = "$(sha256sum </tmp/written | cut -d' ' -f1)" ] || fail "$disk differs at $1 MiB"
}

for round in 1 2; do
	ask add 'size = "32M"'
	until_true 60 "namespace 3 to appear" disk_of 3
	disk=$(disk_of 3)
	has_mib 32 || fail "$disk has $(blockdev --getsize64 "$disk") bytes"
	writes_and_reads 31

	ask grow 'size = "64M"'
	until_true 60 "$disk to grow" has_mib 64
	writes_and_reads 63

	ask shrink 'size = "16M"'
	until_true 60 "$disk to shrink" has_mib 16
	writes_and_reads 15

	ask protect $'size = "16M"\nread_only = true'
	is_read_only() { [ "$(blockdev --getro "$disk")" = "$1" ]; }
	until_true 60 "$disk to become read-only" is_read_only 1
	! dd if=/dev/zero of="$disk" bs=1M count=1 oflag=direct conv=notrunc status=none 2>/dev/null || fail "$disk was written"
	[ "$(sum "$disk" 15 1)" = "$(sha256sum </tmp/written | cut -d' ' -f1)" ] || fail "$disk cannot be read"

	ask release 'size = "16M"'
	until_true 60 "$disk to become writable" is_read_only 0
	writes_and_reads 0

	ask remove ''
	is_gone() { ! disk_of 3; }
	until_true 60 "$disk to disappear" is_gone
	say "round $round is right"
done

end_loads
disconnect
finish
