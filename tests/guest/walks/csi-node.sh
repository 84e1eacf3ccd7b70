#!/bin/bash
# csi-node.sh - both halves of gimbal-csi in this guest, with a target outside: a node's own nvme-cli, udev, blkid, mkfs and mount.
#
# The harness stops the target when it reads "stop the target", and lets it go on at "go on". From outside: ADMIN_PORT and the token in
# /gimbal/token; /gimbal/gimbal-csi, /gimbal/call (a client of drivers) and /gimbal/csi-sanity.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin
LINES_SHOWN=2
host=$(cat /etc/nvme/hostnqn)
portal=$address:$PORT
kubelet=/var/lib/kubelet
mkdir -p /csi $kubelet /tmp/cut/bin

say "udev names devices by their identifiers"
mkdir -p /run/udev
ln -sf "$(command -v udevadm)" /tmp/systemd-udevd
/tmp/systemd-udevd --daemon

# start NAME HALF [ARGUMENT...]: a driver at /csi/NAME, whose process is in `started`.
start() {
	local name=$1
	shift
	"$LOADER" --library-path /gimbal /gimbal/gimbal-csi --endpoint "unix:///csi/$name" "$@" 2>"/tmp/$name.log" &
	started=$!
	until_true 60 "the driver $name to listen" grep -q ready "/tmp/$name.log"
}
start controller controller --url "http://$address:$ADMIN_PORT" --token-file /gimbal/token --portal "$portal"
start node node

call() { "$LOADER" --library-path /gimbal /gimbal/call "$@"; }
controller() { call /csi/controller "$@"; }
node() { call "/csi/${asked:-node}" "$@"; }
steps=0
ok() {
	steps=$((steps + 1))
	run "$@"
}
no() { # no CODE WORDS COMMAND...: refused with this code, and with these words
	local code=$1 words=$2
	shift 2
	steps=$((steps + 1))
	! captured "$@" || fail "$*: should have been refused"
	tr '\n' ' ' </tmp/output | grep -q "^$code: .*$words" || fail "$*: refused otherwise than by '$code: $words': $(cat /tmp/output)"
}

# make NAME KIND MIB [WORD...]: a volume that this node may use; sets `id`, `context`, `device`, and the paths of it.
make() {
	local name=$1
	kind=$2
	id=$(controller CreateVolume name="$name" as="$kind" size="$3" "${@:4}") || fail "no volume $name: $id"
	of "$id" "$kind"
	ok controller ControllerPublishVolume id="$id" node="$host" as="$kind"
}
# of ID KIND: the volume that the next steps are about.
of() {
	id=$1 kind=$2
	context=(nqn="nqn.2025-01.io.gimbal:csi:$id" uuid="$id" portals="$portal")
	device=/dev/disk/by-id/nvme-uuid.$id
	staged=$kubelet/staged-$id
	at=$kubelet/pods/$id
}
stage() { node NodeStageVolume id="$id" staged="$staged" as="$kind" "${context[@]}" "$@"; }
unstage() { node NodeUnstageVolume id="$id" staged="$staged"; }
publish() { node NodePublishVolume id="$id" staged="$staged" at="$at" as="$kind" "$@"; }
unpublish() { node NodeUnpublishVolume id="$id" at="$at"; }
stats() { node NodeGetVolumeStats id="$id" at="$at"; }
drop() { # the volume goes
	ok controller ControllerUnpublishVolume id="$id" node="$host"
	ok controller DeleteVolume id="$id"
}
twice() {
	ok "$@"
	ok "$@"
}
is_gone_from() { ! findmnt --noheadings --list --output TARGET | grep -q "$1"; }
gone() { # nothing of the volume is left on the node
	is_gone_from "$id" || fail "mounts are left: $(findmnt --list)"
	[ ! -e "$at" ] || fail "$at is still there"
	until_true 20 "the device to go" [ ! -e "$device" ]
}
size_of() { blockdev --getsize64 "$device"; }
space_at() { echo $(($(stat -f -c '%b * %S' "$at"))); }
digest() { sha256sum <"$1" | cut -d' ' -f1; }

say "the node is known by its host NQN"
shows "node_id: \"$host\"" node NodeGetInfo

for fs in ext4 xfs; do
	say "$fs: every step twice"
	make "$fs" $fs 512
	twice stage
	shows "TYPE=\"$fs\"" blkid "$device"
	twice publish
	head -c 5000001 /dev/urandom >"$at/file"
	sum=$(digest "$at/file")
	sync
	shows 'unit: Inodes|unit: 2' stats

	say "$fs: it grows under its workload"
	before=$(space_at)
	ok controller ControllerExpandVolume id="$id" size=768 as=$fs
	twice node NodeExpandVolume id="$id" at="$at" staged="$staged" size=768 as=$fs
	[ "$(size_of)" = $((768 << 20)) ] || fail "the device has $(size_of) bytes"
	[ "$(space_at)" -gt $((before + (200 << 20))) ] || fail "the file system had $before bytes and has $(space_at)"

	say "$fs: a volume still in use stays: unstaging is refused, and the file is there"
	no FailedPrecondition "$at" unstage
	[ "$(digest "$at/file")" = "$sum" ] || fail "the file has changed"
	ok stage
	exec 5<"$at/file"
	no FailedPrecondition "end what uses it" unpublish
	exec 5<&-
	twice unpublish
	twice unstage
	gone

	say "$fs: it comes back with its file, and is not made anew; another file system is refused"
	ok stage
	ok publish readonly=true
	[ "$(digest "$at/file")" = "$sum" ] || fail "the file has changed"
	no sh 'Read-only' sh -c "echo >$at/other"
	ok unpublish
	ok unstage
	gone
	no FailedPrecondition 'nothing is overwritten' stage as="$([ $fs = ext4 ] && echo xfs || echo ext4)"
	ok unstage
	gone

	say "$fs: a snapshot becomes a larger volume, used on the same node at the same time"
	ok stage
	ok publish
	cp "$at/file" "$at/later"
	sync
	snapshot=$(controller CreateSnapshot id="$id" name="of-$fs") || fail "no snapshot: $snapshot"
	echo changed >"$at/file"
	sync
	origin=$id
	make "copy-of-$fs" $fs 1024 snapshot="$snapshot"
	twice stage
	ok publish
	[ "$(digest "$at/file")" = "$sum" ] || fail "the copy has not what the snapshot had"
	[ "$(space_at)" -gt $((900 << 20)) ] || fail "the file system of the copy has $(space_at) bytes"
	echo copy >"$at/file"
	of "$origin" $fs
	[ "$(cat "$at/file")" = changed ] || fail "the origin has what was written to the copy"
	ok unpublish
	ok unstage
	gone
	drop
	of "$(controller CreateVolume name="copy-of-$fs" as=$fs size=1024 snapshot="$snapshot")" $fs
	[ "$(cat "$at/file")" = copy ] || fail "the copy has lost its file"
	ok unpublish
	ok unstage
	gone
	drop
	ok controller DeleteSnapshot snapshot="$snapshot"
done

say "a block volume"
make block block 64
twice stage
no NotFound "is not at" stats
twice publish
[ -b "$at" ] || fail "$at is no block device"
head -c 1048576 /dev/urandom >/tmp/bytes
run dd if=/tmp/bytes of="$at" bs=1M oflag=direct status=none
run cmp -n 1048576 /tmp/bytes "$device"
shows 'total: 67108864' stats
no FailedPrecondition "$at" unstage
ok controller ControllerExpandVolume id="$id" size=96 as=block
ok node NodeExpandVolume id="$id" at="$at" staged="$staged" size=96 as=block
[ "$(size_of)" = $((96 << 20)) ] || fail "the device has $(size_of) bytes"
twice unpublish
twice unstage
gone

say "what this node has nothing to do with"
no InvalidArgument 'of another volume' stage nqn=nqn.2025-01.io.gimbal:csi:00000000-0000-4000-8000-000000000000
no InvalidArgument 'of another volume' stage uuid=00000000-0000-4000-8000-000000000000
no FailedPrecondition 'not staged' publish
ok controller ControllerUnpublishVolume id="$id" node="$host"
no Unavailable 'nvme connect' stage
ok controller DeleteVolume id="$id"

say "a node without nvme-cli, and one without the module"
make without ext4 64
mv /usr/bin/nvme /usr/bin/nvme.away
no FailedPrecondition 'install nvme-cli on the node' stage
mv /usr/bin/nvme.away /usr/bin/nvme
module=$(modprobe -D nvme_tcp | tail -n 1 | awk '{print $2}')
rmmod nvme_tcp
mv "$module" "$module.away"
no FailedPrecondition 'modprobe nvme-tcp' stage
rmmod nvme_fabrics
mv "${module/tcp/fabrics}" "${module/tcp/fabrics}.away"
no FailedPrecondition 'modprobe nvme-tcp' stage
mv "${module/tcp/fabrics}.away" "${module/tcp/fabrics}"
mv "$module.away" "$module"
modprobe nvme_tcp
ok stage
ok unstage
gone
drop

# The driver is killed before and after each program that it runs. A program of /tmp/cut/bin does that, and else is the real one.
for program in nvme mount umount findmnt blkid mkfs.ext4 resize2fs blockdev; do
	cat >/tmp/cut/bin/$program <<'CUT'
#!/bin/bash
number=$(($(cat /tmp/cut/number) + 1))
echo $number >/tmp/cut/number
[ $number.before != "$(cat /tmp/cut/at)" ] || { kill -9 $PPID; exit 1; }
PATH=${PATH#/tmp/cut/bin:} "${0##*/}" "$@"
status=$?
[ $number.after != "$(cat /tmp/cut/at)" ] || kill -9 $PPID
exit $status
CUT
	chmod +x /tmp/cut/bin/$program
done
kills=0
# cuts NAME UNDO COMMAND...: COMMAND with kills at each place, each time repeated, and undone.
cuts() {
	local name=$1 undo=$2 number=0 when ended
	shift 2
	while :; do
		number=$((number + 1))
		for when in before after; do
			echo 0 >/tmp/cut/number
			echo $number.$when >/tmp/cut/at
			PATH=/tmp/cut/bin:$PATH start victim node
			victim=$started
			ended=0
			asked=victim
			"$@" >/dev/null || ended=$?
			asked=node
			kill -9 "$victim" 2>/dev/null || true
			wait "$victim" 2>/dev/null || true
			ok "$@"
			$undo
			# No kill any more: that was all of it.
			[ $ended != 0 ] || break 2
			kills=$((kills + 1))
		done
	done
	say "$name: $((number - 1)) programs"
	[ $number -gt 2 ] || fail "$name: no kill"
}
again() { # an empty volume, as at first
	ok unstage
	gone
	ok controller ControllerUnpublishVolume id="$id" node="$host"
	ok controller DeleteVolume id="$id"
	make killed ext4 64
}
say "kills"
make killed ext4 64
cuts stage again stage
ok stage
cuts publish "ok unpublish" publish
ok publish
echo kept >"$at/file"
ok controller ControllerExpandVolume id="$id" size=128 as=ext4
cuts expand : node NodeExpandVolume id="$id" at="$at" staged="$staged" size=128 as=ext4
cuts unpublish "ok publish" unpublish
ok unpublish
cuts unstage "ok stage" unstage
ok unstage
gone
ok stage
ok publish
[ "$(cat "$at/file")" = kept ] || fail "the file is gone"
say "$kills kills"

say "a path that is connecting counts, and the workload goes on when it is back"
is_connecting() { [ "$(controller_state "$(NQN=nqn.2025-01.io.gimbal:csi:$id controllers | tail -n 1)")" = connecting ]; }
is_back() { [ "$(controller_state "$(NQN=nqn.2025-01.io.gimbal:csi:$id controllers | tail -n 1)")" = live ]; }
echo "stop the target"
until_true 120 "the path to be lost" is_connecting
ok stage
ok publish
echo "go on"
until_true 120 "the path to come back" is_back
[ "$(cat "$at/file")" = kept ] || fail "the file is gone"
echo more >"$at/more"
sync
ok unpublish
ok unstage
gone
drop

say "csi-sanity"
LINES_SHOWN=0
captured /gimbal/csi-sanity --csi.endpoint=unix:///csi/node --csi.controllerendpoint=unix:///csi/controller \
	--csi.stagingdir=/tmp/staging --csi.mountdir=/tmp/target --ginkgo.no-color || fail "csi-sanity: $(grep -A 12 '\[FAILED\]' /tmp/output)"
grep -E '^Ran | Passed' /tmp/output
grep -q ' 0 Failed' /tmp/output || fail "csi-sanity has counted no test"
say "in all: $steps steps and $kills kills"
allow 'nvme nvme[0-9]+: (failed|starting error|Reconnecting|rescanning|reading|queue|Property|Connect|failed to|Failed|Removing|long keepalive RTT|Successfully reconnected).*' \
	'nodes are let out, volumes grow, a target stops'
allow 'opcode 0x18 \(Admin Cmd\) QID 0 timeout' 'a keep-alive of a target that is stopped'
allow 'nvme_fabrics: (ctrl_loss_tmo < 0 will reconnect forever|no handler found for transport tcp.*)' 'the driver asks for that; the module is away'
allow 'block nvme[0-9]+n[0-9]+: no usable path - requeuing I/O' 'a target stops'
allow '(EXT4-fs|XFS|EXT4-fs warning) ?\(.*' 'file systems say that they are mounted'
finish
