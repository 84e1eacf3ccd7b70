#!/usr/bin/env bash
# guest.sh - a real Linux kernel (Debian's) under QEMU's software emulation.
#
#   guest.sh build [SUITE...]             make the guests that are not there yet
#   guest.sh run -g SUITE [options] FILE  boot one, run FILE in it, exit with its status
#   guest.sh root                         make the root file system of Debian 12 with systemd, print its path (root.sh)
#
# SUITE      kernel        nvme-cli
# bookworm   Linux 6.1     2.3
# trixie     Linux 6.12    2.13
# testing    Debian's newest, which moves: for the long tests only; `build` makes it when it is named
# trixie-arm64  Linux 6.12 on a Cortex-A72: needs qemu-system-arm and qemu-user as well; `build` makes it when it is named
#
# Neither KVM nor root nor a kernel module of this machine is needed. In the guest
# 10.0.2.2 is this machine's 127.0.0.1, which is how a guest reaches a target here.
#
# FILE is a bash script ("-": standard input). It runs as root when the network and the
# NVMe/TCP host driver are up; what it writes appears on standard output as it is written.
#
# run options:
#   -g SUITE       which guest (bookworm)     -t SECONDS   time limit (300)
#   -m MIB         memory (768)               -c COUNT     processors (1)
#   -d FILE        a raw disk for the guest: vda, vdb, ... (repeatable)
#   -n FILE[,OPTION] a namespace of an NVMe SSD, with options of QEMU's nvme-ns: nvme0n1, ... (repeatable),
#                  once the script has loaded the driver
#   -x FILE:PATH   put FILE into the guest as PATH (repeatable)
#   -e NAME=VALUE  an environment variable of the script (repeatable)
#   -a ARGUMENTS   for the kernel's command line
#   -r             with this machine's libraries of RDMA in /gimbal, for programs of this machine that are there
#   -f PORT        let this machine reach the guest's PORT; a line of output then says
#                  "forward 127.0.0.1:P", P being a port the kernel chose
#   -l FOLDER/END  a second network card, eth1, on a link between two guests, which have its ends 1 and 2. The link's
#                  sockets are in FOLDER. "cable off" and "cable on", as lines of the script's output, pull this
#                  guest's end out and plug it in: its card loses its carrier, the other does not
#
# Exit status: the script's; 124 = out of time; 125 = guest or QEMU failed (the end of the
# guest's console is then on standard error).
#
# Guests are kept in $GIMBAL_GUEST_DIR (default: target/guest of this repository). Packages
# come from this machine's Debian mirror ($GIMBAL_GUEST_MIRROR to choose another).
set -euo pipefail
umask 022

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest_dir=${GIMBAL_GUEST_DIR:-$(cd "$here/../.." && pwd)/target/guest}
suites=(bookworm trixie)
moving_suites=(testing)
foreign_suites=(trixie-arm64)

die() {
	echo "guest.sh: $*" >&2
	exit 125
}

# shellcheck source=tests/guest/build.sh
. "$here/build.sh"
# shellcheck source=tests/guest/run.sh
. "$here/run.sh"
# shellcheck source=tests/guest/root.sh
. "$here/root.sh"

usage() {
	sed -n '2,/^set -/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed '$d'
}

verb=${1:-}
[ $# = 0 ] || shift
case $verb in
build)
	[ $# -gt 0 ] || set -- "${suites[@]}"
	for suite in "$@"; do ensure_guest "$suite" >/dev/null; done
	;;
run) run_guest "$@" ;;
root) ensure_root ;;
-h | --help) usage ;;
*)
	usage >&2
	exit 125
	;;
esac
