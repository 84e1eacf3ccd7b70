# shellcheck shell=bash disable=SC2154 # here, guest_dir and suites are set by guest.sh
# run.sh - how a guest is booted and its script's outcome brought back: sourced by guest.sh.
#
#   initramfs of the guest + a second cpio with the script and its files --> QEMU
#   guest port "out"    --> our standard output; with -l, its lines "cable off" and "cable on" go to QEMU, too
#   guest port "status" --> our exit status
#   serial console      --> kept, shown when there is no status

run_guest() {
	local suite=bookworm limit=300 memory=768 processors=1 forward='' append='' option drives=0 namespaces=0
	local files=() environment=() devices=() has_rdma='' has_link=''
	OPTIND=1
	while getopts g:t:m:c:d:n:x:e:f:a:rl: option; do
		case $option in
		g) suite=$OPTARG ;;
		t) limit=$OPTARG ;;
		m) memory=$OPTARG ;;
		c) processors=$OPTARG ;;
		d)
			devices+=(-drive "if=none,id=disk$drives,format=raw,discard=unmap,file=$OPTARG"
				-device "virtio-blk-pci,drive=disk$drives")
			drives=$((drives + 1))
			;;
		n)
			[ $namespaces -gt 0 ] || devices+=(-device "nvme,id=ssd,serial=GUEST")
			namespaces=$((namespaces + 1))
			devices+=(-drive "if=none,id=namespace$namespaces,format=raw,discard=unmap,file=${OPTARG%%,*}"
				-device "nvme-ns,bus=ssd,nsid=$namespaces,drive=namespace$namespaces${OPTARG#"${OPTARG%%,*}"}")
			;;
		x) files+=("$OPTARG") ;;
		e) environment+=("$OPTARG") ;;
		f) forward=$OPTARG ;;
		a) append=$OPTARG ;;
		r) has_rdma=yes ;;
		l)
			[[ $OPTARG == */[12] ]] || die "run: -l FOLDER/1 or FOLDER/2"
			has_link=yes
			devices+=(-netdev "dgram,id=link,local.type=unix,local.path=$OPTARG,remote.type=unix,remote.path=${OPTARG%?}$((3 - ${OPTARG##*/}))"
				-device "virtio-net-pci,netdev=link,mac=52:54:00:00:00:0${OPTARG##*/},romfile=")
			;;
		*) die "see guest.sh --help" ;;
		esac
	done
	shift $((OPTIND - 1))
	[ $# = 1 ] || die "run: name one script, or - for standard input"

	local folder emulator=qemu-system-x86_64
	[[ $suite != *-arm64 ]] || emulator="qemu-system-aarch64"
	command -v "$emulator" >/dev/null ||
		die "$emulator is missing: run 'make test-deps'; for arm64, apt-get install qemu-system-arm qemu-user"
	folder=$(ensure_guest "$suite")
	session=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-guest.XXXXXX")
	trap 'end_session' EXIT
	trap 'exit 143' TERM
	trap 'exit 130' INT
	trap 'exit 129' HUP

	pack_script "$1"
	[ -z "$has_rdma" ] || pack_rdma
	(cat "$folder/initramfs" && cd "$session/files" && find . | cpio --quiet -o -H newc -R 0:0) >"$session/initramfs"
	mkfifo "$session/out" "$session/monitor.in" "$session/monitor.out"

	local attempt outcome
	for attempt in 1 2 3; do
		run_once
		outcome=$(outcome)
		[ "$outcome" = "died booting" ] || break
		echo "guest.sh: the $suite guest died while booting (attempt $attempt)" >&2
	done
	case $outcome in
	status=*) exit "${outcome#status=}" ;;
	"out of time") echo "guest.sh: the $suite guest was out of time after $limit s" >&2 ;;
	*) echo "guest.sh: the $suite guest $outcome (QEMU's status $qemu_status)" >&2 ;;
	esac
	{
		cat "$session/qemu.err"
		echo "guest.sh: the end of its console:"
		tail -n 60 "$session/console"
	} >&2
	[ "$outcome" = "out of time" ] && exit 124
	exit 125
}

# One boot, from QEMU's start to its end; what came of it is in $session and in qemu_status.
run_once() {
	local copier
	: >"$session/console"
	: >"$session/status"
	exec 6<>"$session/out" # so that nobody waits for the other to open it; closed when QEMU is gone
	if [ -z "$has_link" ]; then cat "$session/out"; else obey_output; fi 6>&- &
	copier=$!
	boot 6>&- &
	qemu=$!
	[ -z "$forward" ] || announce_forward
	qemu_status=0
	wait "$qemu" || qemu_status=$?
	exec 6>&-
	wait "$copier" || true
}

# Copies what the script writes, and does what it asks for with its cable.
obey_output() {
	local line
	while IFS= read -r line; do
		printf '%s\n' "$line"
		case $line in
		"cable off" | "cable on") echo "set_link link ${line#cable }" 1<>"$session/monitor.in" ;;
		esac
	done <"$session/out"
}

# A guest whose kernel, or whose QEMU (SIGSEGV: 139), dies before the script began may be booted
# again: no test has anything to do with that, it is the emulator's fault (see boot).
outcome() {
	if grep '^status=' "$session/status"; then
		return
	elif [ "$qemu_status" = 124 ] || [ "$qemu_status" = 137 ]; then
		echo "out of time"
	elif { [ -s "$session/console" ] || [ "$qemu_status" = 139 ]; } && ! script_began; then
		echo "died booting"
	else
		echo "ended without a result"
	fi
}
script_began() { grep -q '^script begins' "$session/status"; }

# Ends our own QEMU, if it still runs, and forgets the session. `timeout` passes the signal on.
end_session() {
	[ -z "${qemu:-}" ] || { kill "$qemu" && wait "$qemu"; } 2>/dev/null || true
	rm -rf "$session"
}

# pack_script FILE: lays /etc/script and the copied-in files out under $session/files.
pack_script() {
	local entry
	mkdir -p "$session/files/etc"
	{
		for entry in ${environment[@]+"${environment[@]}"}; do
			printf 'export %s=%q\n' "${entry%%=*}" "${entry#*=}"
		done
		if [ "$1" = - ]; then cat; else cat "$1"; fi
	} >"$session/files/etc/script"
	for entry in ${files[@]+"${files[@]}"}; do
		mkdir -p "$session/files/$(dirname "${entry#*:}")"
		cp -pL "${entry%%:*}" "$session/files/${entry#*:}"
	done
}

# Lays out the libraries that a program of this machine loads to use RDMA, and the driver of the software device, in place of those of the
# guest's own programs.
pack_rdma() {
	local driver folder=$session/files/gimbal
	driver=$(compgen -G "/usr/lib/$(uname -m)-linux-gnu/libibverbs/librxe-rdmav*.so" | head -n 1) ||
		die "ibverbs-providers is missing: run 'make test-deps'"
	mkdir -p "$folder" "$session/files/etc/libibverbs.d"
	{
		printf '%s\n' "$driver" "${driver%/*/*}/librdmacm.so.1"
		ldd "$driver" "${driver%/*/*}/librdmacm.so.1" | awk '$3 ~ /^\// {print $3}'
	} | sort -u | xargs cp -L -t "$folder"
	echo "driver /gimbal/librxe" >"$session/files/etc/libibverbs.d/rxe.driver"
}

# Becomes QEMU. It dies with this script (pdeathsig) even if that is killed outright. The processor
# has no CMPXCHG16B: QEMU 7.2 sometimes leaves garbage in the flags behind it, of which 3 of 9 boots
# of Linux 6.12 died, all in __kmalloc; none of 9 without.
boot() {
	local network=user,id=net ports=() number=0 name
	local machine=(-machine "q35,hpet=off,smm=off" -cpu "max,-cx16") console=ttyS0
	[ "$emulator" = qemu-system-x86_64 ] || machine=(-machine virt -cpu cortex-a72) console=ttyAMA0
	[ -z "$forward" ] || network+=",hostfwd=tcp:127.0.0.1:0-:$forward"
	for name in out status; do
		number=$((number + 1))
		ports+=(-chardev "file,id=$name,path=$session/$name"
			-device "virtserialport,bus=ports.0,nr=$number,chardev=$name,name=$name")
	done
	exec setpriv --pdeathsig TERM timeout -k 2 "$limit" "$emulator" \
		-accel tcg "${machine[@]}" -m "$memory" -smp "$processors" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$folder/vmlinuz" -initrd "$session/initramfs" \
		-append "console=$console quiet panic=-1 oops=panic mitigations=off no_timer_check tsc=reliable cryptomgr.notests random.trust_cpu=on $append" \
		-chardev "file,id=console,path=$session/console" -serial chardev:console \
		-chardev "pipe,id=monitor,path=$session/monitor" -mon chardev=monitor \
		-device virtio-serial-pci,id=ports "${ports[@]}" \
		-netdev "$network" -device virtio-net-pci,netdev=net,romfile= \
		"${devices[@]}" </dev/null >"$session/qemu.err" 2>&1
}

# Asks QEMU's monitor which port the kernel gave to the forwarding, and prints it once the script
# has begun: a guest that died before gets another port.
announce_forward() {
	local line port=''
	until script_began; do
		kill -0 "$qemu" 2>/dev/null || return 0
		sleep 0.1
	done
	exec 7<>"$session/monitor.in" 8<>"$session/monitor.out"
	echo "info usernet" >&7
	while [ -z "$port" ] && kill -0 "$qemu" 2>/dev/null; do
		IFS= read -r -t 1 line <&8 || continue
		port=$(awk '/HOST_FORWARD/ {print $4}' <<<"$line")
	done
	exec 7>&- 8>&-
	[ -z "$port" ] || echo "forward 127.0.0.1:$port"
}
