# shellcheck shell=bash
# run.sh - how a guest is booted and its script's outcome brought back: sourced by guest.sh.
#
#   initramfs of the guest + a second cpio with the script and its files --> QEMU
#   guest port "out"    --> our standard output
#   guest port "status" --> our exit status
#   serial console      --> kept, shown when there is no status

run_guest() {
	local suite=bookworm limit=300 memory=768 processors=1 forward='' option drives=0
	local files=() environment=() devices=()
	OPTIND=1
	while getopts g:t:m:c:d:x:e:f: option; do
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
		x) files+=("$OPTARG") ;;
		e) environment+=("$OPTARG") ;;
		f) forward=$OPTARG ;;
		*) die "see guest.sh --help" ;;
		esac
	done
	shift $((OPTIND - 1))
	[ $# = 1 ] || die "run: name one script, or - for standard input"
	command -v qemu-system-x86_64 >/dev/null || die "qemu-system-x86_64 is missing: run 'make test-deps'"

	local folder
	folder=$(ensure_guest "$suite")
	session=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-guest.XXXXXX")
	trap 'end_session' EXIT
	trap 'exit 143' TERM
	trap 'exit 130' INT
	trap 'exit 129' HUP

	pack_script "$1"
	(cat "$folder/initramfs" && cd "$session/files" && find . | cpio --quiet -o -H newc -R 0:0) >"$session/initramfs"
	: >"$session/console"
	: >"$session/status"
	mkfifo "$session/out" "$session/monitor.in" "$session/monitor.out"
	exec 6<>"$session/out" # so that nobody waits for the other to open it; closed when QEMU is gone
	cat "$session/out" 6>&- &
	local copier=$!
	boot "$folder" 6>&- &
	qemu=$!
	[ -z "$forward" ] || announce_forward

	local qemu_status=0 status
	wait "$qemu" || qemu_status=$?
	exec 6>&-
	wait "$copier" || true
	status=$(sed -n 's/^status=//p' "$session/status")
	[ -z "$status" ] || exit "$status"
	if [ "$qemu_status" = 124 ] || [ "$qemu_status" = 137 ]; then
		qemu_status=124
		echo "guest.sh: the $suite guest was out of time after $limit s" >&2
	else
		echo "guest.sh: the $suite guest ended without a result (QEMU's status $qemu_status)" >&2
		qemu_status=125
	fi
	{
		cat "$session/qemu.err"
		echo "guest.sh: the end of its console:"
		tail -n 25 "$session/console"
	} >&2
	exit "$qemu_status"
}

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

# Becomes QEMU. It dies with this script (pdeathsig) even if that is killed outright.
boot() {
	local network=user,id=net ports=() number=0 name
	[ -z "$forward" ] || network+=",hostfwd=tcp:127.0.0.1:0-:$forward"
	for name in out status; do
		number=$((number + 1))
		ports+=(-chardev "file,id=$name,path=$session/$name"
			-device "virtserialport,bus=ports.0,nr=$number,chardev=$name,name=$name")
	done
	exec setpriv --pdeathsig TERM timeout -k 2 "$limit" qemu-system-x86_64 \
		-accel tcg -machine q35,hpet=off,smm=off -cpu max -m "$memory" -smp "$processors" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$1/vmlinuz" -initrd "$session/initramfs" \
		-append "console=ttyS0 quiet panic=-1 oops=panic mitigations=off no_timer_check tsc=reliable cryptomgr.notests random.trust_cpu=on" \
		-chardev "file,id=console,path=$session/console" -serial chardev:console \
		-chardev "pipe,id=monitor,path=$session/monitor" -mon chardev=monitor \
		-device virtio-serial-pci,id=ports "${ports[@]}" \
		-netdev "$network" -device virtio-net-pci,netdev=net,romfile= \
		"${devices[@]}" </dev/null >"$session/qemu.err" 2>&1
}

# Asks QEMU's monitor which port the kernel gave to the forwarding; prints it.
announce_forward() {
	local line port=''
	exec 7<>"$session/monitor.in" 8<>"$session/monitor.out"
	echo "info usernet" >&7
	while kill -0 "$qemu" 2>/dev/null && [ -z "$port" ]; do
		IFS= read -r -t 1 line <&8 || continue
		port=$(awk '/HOST_FORWARD/ {print $4}' <<<"$line")
	done
	exec 7>&- 8>&-
	[ -z "$port" ] || echo "forward 127.0.0.1:$port"
}
