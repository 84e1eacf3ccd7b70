#!/bin/sh
# fakes.sh - the programs that a node runs, without a kernel: found first in PATH under their names.
#
# What they would change is kept in $FAKES: the devices in by-id, the mounts in mounts ("TARGET SOURCE" a line), the
# file systems in TYPE.DEVICE, and every call in calls. A test writes what it wants of nvme connect: nvme-says has the message of a failure,
# nvme-refuses a part of the addresses that refuse.
set -eu

name=${0##*/}
mounts=$FAKES/mounts
echo "$name $*" >>"$FAKES/calls"
touch "$mounts"

last() {
	for argument; do :; done
	echo "$argument"
}

case $name in
nvme)
	nqn='' address=''
	while [ $# -gt 0 ]; do
		case $1 in
		connect | disconnect) verb=$1 ;;
		--nqn) nqn=$2 && shift ;;
		--traddr) address=$2 && shift ;;
		esac
		shift
	done
	device=$FAKES/by-id/nvme-uuid.${nqn##*:}
	case $verb in
	connect)
		if [ -e "$FAKES/nvme-says" ]; then
			cat "$FAKES/nvme-says" >&2
			exit 1
		fi
		if [ -e "$FAKES/nvme-refuses" ] && echo "$address" | grep -q "$(cat "$FAKES/nvme-refuses")"; then
			echo "could not add new controller: Connection refused" >&2
			exit 1
		fi
		if [ -e "$device" ]; then
			echo "already connected" >&2
			exit 1
		fi
		: >"$device"
		;;
	disconnect) rm -f "$device" ;;
	esac
	;;
mount)
	target=$(last "$@")
	case $1 in
	--bind)
		source=$(sed -n "s|^$2 ||p" "$mounts" | tail -n 1)
		echo "$target ${source:-$2}" >>"$mounts"
		;;
	-t) echo "$target $5" >>"$mounts" ;;
	-o) grep -q "^$target " "$mounts" ;;
	esac
	;;
umount)
	grep -q "^$1 " "$mounts"
	grep -v "^$1 " "$mounts" >"$mounts.new" || true
	mv "$mounts.new" "$mounts"
	;;
findmnt)
	[ -s "$mounts" ] || exit 1
	sed 's|^\(.*\) \(.*\)$|{"target": "\1", "source": "\2"}|' "$mounts" | paste -sd, |
		sed 's|^|{"filesystems": [|; s|$|]}|'
	;;
blkid)
	type=$FAKES/TYPE.$(basename "$(last "$@")")
	[ -e "$type" ] || exit 2
	cat "$type"
	;;
mkfs.*) echo "TYPE=${name#mkfs.}" >"$FAKES/TYPE.$(basename "$(last "$@")")" ;;
blockdev) echo 1099511627776 ;;
resize2fs | xfs_growfs) ;;
*)
	echo "$name: there is no such fake" >&2
	exit 127
	;;
esac
