# shellcheck shell=bash disable=SC2154 # here and guest_dir are set by guest.sh
# root.sh - the root file system of a guest that is a whole Debian 12 with systemd: sourced by guest.sh.
#
# An archive, made once by mmdebstrap without root; KEY is a digest of this file, as for guests. `init-systemd` unpacks it.

root_packages=systemd-sysv,adduser,init-system-helpers,kmod,procps,iproute2,nvme-cli,fio

# ensure_root: makes the archive if it is not there; prints its path.
ensure_root() {
	local key archive mirror
	key=$(sha256sum <"$here/root.sh" | cut -c1-12)
	archive=$guest_dir/root-$key.tar
	if [ ! -f "$archive" ]; then
		command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: run 'make test-deps'"
		mkdir -p "$guest_dir"
		(
			exec 9>"$guest_dir/root.lock"
			flock 9
			[ ! -f "$archive" ] || exit 0
			mirror=${GIMBAL_GUEST_MIRROR:-http://deb.debian.org/debian}
			mmdebstrap --quiet --variant=minbase --include="$root_packages" \
				--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
				--dpkgopt='path-exclude=/usr/share/man/*' --format=tar bookworm "$archive.new" "$mirror" &&
				mv "$archive.new" "$archive"
		) >&2 || die "the root file system cannot be made"
	fi
	echo "$archive"
}
