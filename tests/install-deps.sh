#!/usr/bin/env bash
# install-deps.sh [--long] - the Debian packages that the tests need, installed if any is missing;
# with --long, those that only the long tests need as well, and Debian's source of RocksDB.
#
# Quiet and without need of root when all are there. Otherwise apt-get runs, with sudo unless
# this is root. The Rust toolchain is not installed, only asked for.
set -euo pipefail

# What is looked for, and the package that brings it.
needed=(
	"cc                     gcc"
	"c++                    g++"
	"qemu-system-x86_64     qemu-system-x86"
	"depmod                 kmod"
	"cpio                   cpio"
	"xz                     xz-utils"
	"flock                  util-linux"
	"fio                    fio"
	"prlimit                util-linux"
	"losetup                mount"
	"mkfs.ext4              e2fsprogs"
	"mkfs.xfs               xfsprogs"
	"mkfs.btrfs             btrfs-progs"
	"dmsetup                dmsetup"
	"shellcheck             shellcheck"
	"valgrind               valgrind"
	"chrt                   util-linux"
	"etcd                   etcd-server"
	"openssl                openssl"
	"nvme                   nvme-cli"
	"promtool               prometheus"
	"chromedriver           chromium-driver"
	"pkg-config             pkg-config"
	"/usr/include/rocksdb/db.h librocksdb-dev"
	"db_bench               rocksdb-tools"
	"lintian                lintian"
	"systemd-analyze        systemd"
	"/usr/include/infiniband/verbs.h libibverbs-dev"
	"/usr/include/rdma/rdma_cma.h librdmacm-dev"
	"/usr/lib/*/libibverbs/librxe-rdmav*.so ibverbs-providers"
	"mmdebstrap             mmdebstrap"
	"umoci                  umoci"
	"skopeo                 skopeo"
	"/usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring"
)

if [ "${1:-}" = --long ]; then
	needed+=("/usr/lib/llvm-*/lib/libclang.so libclang-dev" "dpkg-source dpkg-dev")
fi

is_there() {
	case $1 in
	/*) compgen -G "$1" >/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

PATH=$PATH:/usr/sbin:/sbin
missing=()
for line in "${needed[@]}"; do
	read -r thing package <<<"$line"
	is_there "$thing" || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
	echo "install-deps.sh: missing: ${missing[*]}"
	command -v apt-get >/dev/null || {
		echo "install-deps.sh: this is not Debian or a relative: install the like of ${missing[*]} by hand" >&2
		exit 1
	}
	as_root=()
	[ "$(id -u)" = 0 ] || as_root=(sudo)
	"${as_root[@]}" apt-get -q update
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"
fi

# The source of the RocksDB that is installed, for its own tests (rocksdb/suites.sh). It is unpacked in cargo's target folder, and nothing is installed. Where apt
# has no deb-src lines, the machine's own deb lines are read as such for this one download: its lists of sources stay as they are.
fetch_rocksdb() {
	local folder version lists='' options=()
	folder=$(dirname "$0")/../${CARGO_TARGET_DIR:-target}/rocksdb-source
	[[ ${CARGO_TARGET_DIR:-} != /* ]] || folder=$CARGO_TARGET_DIR/rocksdb-source
	version=$(dpkg-query -W -f='${source:Version}' librocksdb-dev)
	! compgen -G "$folder/$version/rocksdb-*" >/dev/null || return 0
	folder+=/$version
	mkdir -p "$folder"
	cd "$folder"
	# shellcheck disable=SC2016 # apt's names
	if [ -z "$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Sources')" ]; then
		echo "install-deps.sh: apt has no deb-src lines; RocksDB's source is looked for where its packages come from"
		lists=$PWD/apt
		mkdir -p "$lists/lists/partial"
		apt-get indextargets --format 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' \
			'Created-By: Packages' 'Origin: Debian' >"$lists/sources"
		options=(-o "Dir::Etc::SourceList=$lists/sources" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$lists/lists")
		apt-get -q "${options[@]}" update
	fi
	apt-get -q "${options[@]}" source "rocksdb=$version"
	[ -z "$lists" ] || rm -rf "$lists"
}
[ "${1:-}" != --long ] || (fetch_rocksdb)

for command in "cargo" "cargo fmt" "cargo clippy"; do
	$command --version >/dev/null || {
		echo "install-deps.sh: '$command' does not work: install Rust with its rustfmt and clippy (https://rustup.rs)" >&2
		exit 1
	}
done
