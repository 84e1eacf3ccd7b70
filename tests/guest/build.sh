# shellcheck shell=bash disable=SC2154 # here, guest_dir and the lists of suites are set by guest.sh
# build.sh - how a guest is made: sourced by guest.sh.
#
#   Debian mirror --apt, signed--> packages --unpack--> kernel, its modules, a few programs
#                                                           |
#                                  guest_dir/SUITE-KEY/{vmlinuz,initramfs,versions}
#
# A guest is a kernel and one initramfs that holds everything; there is no disk image. KEY is a
# digest of what decides its content, so an edit here makes a new guest and never a stale one.
# A guest appears by one rename: whoever finds the folder finds it whole, and builds at the same
# time wait for one another.

# What the walks call, with the libraries these programs load; the rest is busybox.
guest_packages=(busybox-static bash coreutils util-linux util-linux-extra mount udev e2fsprogs xfsprogs kmod nvme-cli fio mdadm
	iproute2 libibverbs1 librdmacm1 ibverbs-providers)
# The daemon that makes the handshakes of TLS; not every suite has it.
guest_packages_if_there=(ktls-utils)
guest_programs=(bash dd sha256sum dmesg blkdiscard blockdev fallocate mount umount findmnt blkid udevadm
	mkfs.ext4 e2fsck resize2fs mkfs.xfs xfs_repair xfs_growfs nvme fio mdadm rdma setpriv)
# What udev names disks by.
guest_rules=60-persistent-storage.rules
# Not every suite has these: blkpr came with util-linux 2.39; Debian has it in util-linux-extra.
guest_programs_if_there=(blkpr tlshd)
# The paravirtual devices, the NVMe/TCP host, the kernel's own target, what to put under it, and what proofs of
# identity and TLS compute with; mirrors; and RDMA, of software over any network card, with host and target.
guest_modules=(virtio_pci virtio_net virtio_console virtio_blk
	nvme nvme_tcp nvmet nvmet_tcp configfs null_blk loop ext4 xfs crc32_generic crc32c_generic crc32c_intel
	dh_generic hmac sha256_generic sha512_generic
	tls gcm ctr ghash_generic ghash_clmulni_intel aesni_intel md_mod raid1
	rdma_rxe rdma_ucm ib_uverbs nvme_rdma nvmet_rdma)

# ensure_guest SUITE: builds the guest if it is not there; prints its folder.
ensure_guest() {
	local suite=$1 key folder
	local all="${suites[*]} ${moving_suites[*]} ${foreign_suites[*]}"
	[[ " $all " == *" $suite "* ]] || die "no guest is called $suite: there are $all"
	key=$(cat "$here/build.sh" "$here/init" | sha256sum | cut -c1-12)
	folder=$guest_dir/$suite-$key
	if [ ! -d "$folder" ]; then
		mkdir -p "$guest_dir"
		(
			exec 9>"$guest_dir/$suite.lock"
			flock 9
			[ -d "$folder" ] || build_guest "$suite" "$folder"
		) >&2
	fi
	echo "$folder"
}

# build_guest SUITE FOLDER, with the suite's lock held.
build_guest() {
	local suite=$1 folder=$2 tool
	for tool in apt-get dpkg-deb depmod modprobe cpio xz; do
		command -v "$tool" >/dev/null || die "$tool is missing: run 'make test-deps'"
	done
	echo "guest.sh: building the $suite guest"
	set_architecture "$suite"
	work=$(mktemp -d "$guest_dir/$suite.work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/guest" "$work/initramfs"

	use_apt "${suite%-arm64}"
	unpack_kernel
	unpack_programs
	pick_programs
	pick_rdma
	pick_modules
	lay_skeleton
	(cd "$work/initramfs" && find . | sort | cpio --quiet -o -H newc -R 0:0) >"$work/guest/initramfs"
	record_versions

	mv -T "$work/guest" "$folder"
	echo "guest.sh: $folder: $(head -n 1 "$folder/versions"), initramfs $(du -m "$folder/initramfs" | cut -f1) MiB"
}

# Sets what depends on the architecture of SUITE: its name for Debian, its loader of programs, and what runs its programs here.
set_architecture() {
	architecture=amd64 loader_name=ld-linux-x86-64.so.2 runner=()
	[[ $1 == *-arm64 ]] || return 0
	architecture=arm64 loader_name=ld-linux-aarch64.so.1 runner=(qemu-aarch64)
	command -v qemu-aarch64 >/dev/null || die "qemu-aarch64 is missing: apt-get install qemu-user"
}

# Makes apt work on SUITE in a world of its own: nothing of this machine's lists, packages or
# locks is read or written, but its proxy settings and its mirror are used. An empty status file
# makes apt believe that nothing is installed, so that it fetches whole dependency trees.
use_apt() {
	local suite=$1 key=/usr/share/keyrings/debian-archive-keyring.gpg mirror
	[ -f "$key" ] || die "$key is missing: run 'make test-deps'"
	mirror=${GIMBAL_GUEST_MIRROR:-$(
		# shellcheck disable=SC2016 # $(SITE) is apt's own placeholder
		apt-get indextargets --format '$(SITE)' | grep -E '/debian/?$' | head -n 1 || true
	)}
	mirror=${mirror:-http://deb.debian.org/debian}
	mkdir -p "$work/apt/lists/partial" "$guest_dir/packages/partial"
	: >"$work/apt/status"
	echo "deb [arch=$architecture signed-by=$key] $mirror $suite main" >"$work/apt/sources.list"
	cat >"$work/apt/apt.conf" <<-CONF
		Dir::State "$work/apt";
		Dir::State::status "$work/apt/status";
		Dir::State::lists "$work/apt/lists";
		Dir::Cache "$work/apt";
		Dir::Cache::archives "$guest_dir/packages";
		Dir::Etc::sourcelist "$work/apt/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		APT::Architecture "$architecture";
		APT::Architectures "$architecture";
		APT::Install-Recommends "false";
		APT::Sandbox::User "";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Debug::NoLocking "true";
	CONF
	export APT_CONFIG=$work/apt/apt.conf
	apt-get -q -q update || die "cannot read $suite from $mirror"
}

# The metapackage names the kernel of the day; only that one is wanted, not its dependencies. The smaller kernels for clouds have no RDMA.
# Newer ones are in three packages more: the kernel itself, its modules, and what belongs to both.
unpack_kernel() {
	local name part package
	name=$(apt-cache depends "linux-image-$architecture" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
	[ -n "$name" ] || die "linux-image-$architecture names no kernel"
	mkdir "$work/kernel" "$work/kernel-package"
	(cd "$work/kernel-package" && apt-get -q -q download "$name") || die "cannot download $name"
	for part in binary modules base; do
		package=linux-$part-${name#linux-image-}
		! apt-cache show "$package" >/dev/null 2>&1 ||
			(cd "$work/kernel-package" && apt-get -q -q download "$package") || die "cannot download $package"
	done
	# Some packages have their modules in /lib, some in /usr/lib.
	mkdir -p "$work/kernel/usr/lib"
	ln -s usr/lib "$work/kernel/lib"
	for package in "$work"/kernel-package/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/kernel" --keep-directory-symlink --no-same-owner
	done
	kernel_version=$(basename "$work"/kernel/lib/modules/*)
	find "$work/kernel" -name "vmlinuz*" -type f -exec cp {} "$work/guest/vmlinuz" ';' -quit
	[ -s "$work/guest/vmlinuz" ] || die "there is no kernel in $name"
}

# Fetches the programs' packages with all they depend on, and unpacks them into one tree.
unpack_programs() {
	local directory package
	for package in "${guest_packages_if_there[@]}"; do
		# An installation that is only simulated finds out whether its dependencies are there, too.
		! apt-get -q -q -s install "$package" >/dev/null 2>&1 || guest_packages+=("$package")
	done
	apt-get -q -q -y -d install "${guest_packages[@]}" >/dev/null || die "cannot download ${guest_packages[*]}"
	# apt lists only what it would still download: with an empty cache that is all of it.
	apt-get -q -q -y --print-uris -o Dir::Cache::archives=/nonexistent install "${guest_packages[@]}" \
		2>/dev/null | awk '{print $2}' >"$work/plan" || true
	[ -s "$work/plan" ] || die "apt names no package to unpack"
	for directory in bin sbin lib lib64; do
		mkdir -p "$work/tree/usr/$directory"
		ln -s "usr/$directory" "$work/tree/$directory"
	done
	while read -r package; do
		dpkg-deb --fsys-tarfile "$guest_dir/packages/$package" |
			tar -x -C "$work/tree" --keep-directory-symlink --no-same-owner --exclude='./usr/share/*'
	done <"$work/plan"
}

# Copies the programs, the libraries they load (asked of the unpacked loader) and busybox.
pick_programs() {
	local usr=$work/initramfs/usr loader search program file applet
	loader=$(find "$work/tree/usr/" -name "$loader_name" -print -quit)
	mkdir -p "$usr"/{bin,sbin,lib,lib64}
	search=$(find "$work/tree/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -s -d :)
	for program in "${guest_programs[@]}" "${guest_programs_if_there[@]}"; do
		file=$(find "$work"/tree/usr/{bin,sbin} -name "$program" -print -quit)
		if [ -z "$file" ]; then
			[[ " ${guest_programs_if_there[*]} " == *" $program "* ]] || die "no program $program in these packages"
			continue
		fi
		cp -L "$file" "$usr/bin/$program"
		"${runner[@]}" "$loader" --inhibit-cache --library-path "$search" --list "$file" | awk '$3 ~ /^\// {print $3}'
	done | sort -u | xargs cp -L -t "$usr/lib"
	cp -L "$loader" "$usr/lib64/"
	[ "$architecture" = amd64 ] || cp -L "$loader" "$usr/lib/" # where its programs look for it
	cp "$work/tree/usr/bin/busybox" "$usr/bin/"
	for applet in $("${runner[@]}" "$usr/bin/busybox" --list); do
		[ -e "$usr/bin/$applet" ] || ln -s busybox "$usr/bin/$applet"
	done
	ln -sf bash "$usr/bin/sh"
	ln -s ../bin/busybox "$usr/sbin/modprobe" # where the kernel looks for it
}

# Copies what programs of the guest's own load to use RDMA: the two libraries, and the driver of the software device where they look for it.
pick_rdma() {
	local usr=$work/initramfs/usr loader search driver library libraries=()
	loader=$(find "$work/tree/usr/" -name "$loader_name" -print -quit)
	search=$(find "$work/tree/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -s -d :)
	driver=$(find "$work/tree/usr/lib" -name 'librxe-rdmav*.so' -print -quit)
	for library in libibverbs.so.1 librdmacm.so.1; do
		libraries+=("$(find "$work/tree/usr/lib" -name "$library" -print -quit)")
	done
	for library in "$driver" "${libraries[@]}"; do
		[ -n "$library" ] || die "these packages have no libibverbs, no librdmacm, or no driver for rxe"
		"${runner[@]}" "$loader" --inhibit-cache --library-path "$search" --list "$library" | awk '$3 ~ /^\// {print $3}'
	done | sort -u | xargs cp -L -t "$usr/lib"
	cp -L "${libraries[@]}" "$usr/lib/"
	mkdir -p "$work/initramfs/etc/libibverbs.d"
	driver=${driver#"$work/tree/usr/"}
	mkdir -p "$usr/${driver%/*}"
	cp -L "$work/tree/usr/$driver" "$usr/$driver"
	echo "driver rxe" >"$work/initramfs/etc/libibverbs.d/rxe.driver"
}

# Copies the modules and those they need, unpacked, as busybox loads no .ko.xz.
pick_modules() {
	local root=$work/kernel module modules=lib/modules/$kernel_version
	find "$root/lib/modules" -name '*.ko.xz' -exec xz -d {} +
	depmod -b "$root" "$kernel_version"
	for module in "${guest_modules[@]}"; do
		modprobe -C /dev/null -d "$root" -S "$kernel_version" --show-depends "$module" ||
			echo "guest.sh: $module is not a module of $kernel_version" >&2
	done | sed -n "s|^insmod $root/\([^ ]*\).*|\1|p" | sort -u >"$work/modules"
	tar -C "$root" -h -c -T "$work/modules" | tar -C "$work/initramfs/usr" -x
	cp "$root/$modules"/modules.{order,builtin,builtin.modinfo} "$work/initramfs/usr/$modules/"
	ln -s usr/lib "$work/initramfs/lib"
	depmod -b "$work/initramfs" "$kernel_version"
}

lay_skeleton() {
	local root=$work/initramfs link
	mkdir -p "$root"/{proc,sys,dev,run,tmp,mnt,root,etc/nvme}
	for link in bin sbin lib64; do ln -s "usr/$link" "$root/$link"; done
	cp "$work/tree/etc/mke2fs.conf" "$root/etc/"
	mkdir -p "$root/usr/lib/udev/rules.d"
	cp "$work/tree/usr/lib/udev/rules.d/$guest_rules" "$root/usr/lib/udev/rules.d/"
	echo "root:x:0:0:root:/root:/bin/bash" >"$root/etc/passwd"
	echo "root:x:0:" >"$root/etc/group"
	ln -s /proc/mounts "$root/etc/mtab"
	# The host's identity towards a target; a walk that plays a second host names another.
	echo "nqn.2014-08.org.nvmexpress:uuid:6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0001" >"$root/etc/nvme/hostnqn"
	echo "6f2a1d52-3c7b-4f0e-9a51-0b6d1c9e0001" >"$root/etc/nvme/hostid"
	cp "$here/init" "$root/init"
	chmod 755 "$root/init"
}

record_versions() {
	{
		echo "Linux $kernel_version"
		grep -E '^(nvme-cli|fio|e2fsprogs|xfsprogs|ktls-utils|iproute2|libibverbs1)_' "$work/plan"
	} >"$work/guest/versions"
}
