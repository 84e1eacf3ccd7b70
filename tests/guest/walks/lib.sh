# shellcheck shell=bash
# lib.sh - sourced by every walk, in the guest: steps that print themselves and check their result.
#
#   begin                          the kernel's messages count from here
#   run COMMAND                    must succeed
#   shows REGEX COMMAND            must succeed and print a line that matches
#   refused REGEX COMMAND          must fail, with an NVMe status that matches
#   optional COMMAND               must succeed, or be refused in the specification's way
#   start_tlshd                    makes the handshakes of TLS
#   start_rdma                     makes rxe0, a device of RDMA, of the guest's network card and its addresses
#   cable off / cable on           pulls the cable out of this guest, and plugs it in
#   on_target COMMAND              must succeed in the guest of the target, which link-target.sh has made ready for that
#   write_pieces / read_pieces     a writer in the background, and the proof that all it wrote is there
#   start_loads / end_loads        a load in the background that verifies what it writes; another_load waits for it
#   connect / disconnect           this target; waits until the namespaces are there or gone
#   connect_beside NQN ID          the same target again, from another host or from the same
#   allow REGEX REASON             a kernel message that belongs to what the walk does
#   finish                         fails if the kernel warned of anything not allowed
#
#   target_goes / target_returns   the target is killed, or stopped, and comes back
#
# From outside: PORT and NQN of the target under test, and, if wanted, CONNECT_ARGS, KEEP_ALIVE
# (seconds; 60, as an emulated host on a busy machine can miss the usual 5), HOST_NQN with HOST_ID.
# The target is on the machine that runs QEMU. With TRANSPORT=rdma it is in the guest itself, on /dev/vda: host and target
# meet over the guest's own address. With LINK=2 it is in another guest, which has end 1 of a link between the two; CONTROL is
# the port of this machine behind which that guest takes commands.
set -euo pipefail

address=10.0.2.2 TRANSPORT=${TRANSPORT:-tcp} card=eth0 card_address=10.0.2.15
# What a kernel says when its clock runs on while its processor waits for a busy machine to emulate it:
# about no device, so no target can cause it.
allowed=(
	'hrtimer: interrupt took [0-9]+ ns'
	'workqueue: [A-Za-z_0-9]+ (\[[a-z_0-9]+\] )?hogged CPU for >[0-9]+us'
	'clocksource: .*'
	'sched: RT throttling activated'
	'perf: interrupt took too long'
	# After ten messages of one place, which are judged themselves.
	'[a-z_0-9]+: [0-9]+ callbacks suppressed$'
)
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR
set -E

say() { echo "--- $*"; }

fail() {
	trap - ERR
	echo "FAILED: $*"
	echo "the kernel's last messages:"
	dmesg | tail -n 30
	[ ! -s /tmp/load ] || { echo "the load said:" && tail -n 5 /tmp/load; }
	describe_target
	if [ -n "${CONTROL:-}" ]; then
		echo "in the guest of the target:"
		on_target 'dmesg | tail -n 30; describe_target; connections; rdma resource show qp' || true
	fi
	exit 1
}

describe_target() {
	local log=/tmp/target.log
	[ ! -e $log ] || { echo "the target's log:" && tail -n 30 $log; }
	[ ! -d /sys/class/infiniband/rxe0 ] || { echo "the counters of the device:" && rdma statistic show link rxe0/1; }
}

# The kernel's ring buffer is marked, so that what it said while booting is not judged.
begin() {
	say "walk begins: $(uname -r), $(nvme version | head -n 1)"
	echo "<6>walk begins" >/dev/kmsg
	[ -z "${LINK:-}" ] || join_link
	[ "$TRANSPORT" = rdma ] || return 0
	start_rdma
	modprobe nvme_rdma
	[ "${LINK:-1}" = 1 ] || return 0
	address=$card_address PORT=4420
	serve_by_rdma
}

# captured COMMAND...: runs it with its output in /tmp/output; shows the first lines of that.
captured() {
	local status=0
	echo "\$ $*"
	"$@" 2>&1 | tr -cd '\n\t -~' >/tmp/output || status=$?
	head -n "${LINES_SHOWN:-4}" /tmp/output | sed 's/^/    /'
	return $status
}

run() { captured "$@" || fail "$*: $(tail -n 5 /tmp/output)"; }

shows() {
	local regex=$1
	shift
	run "$@"
	grep -Eq -- "$regex" /tmp/output || fail "$*: no line of its output matches '$regex': $(head -n 40 /tmp/output)"
}

refused() {
	local regex=$1
	shift
	! captured "$@" || fail "$*: should have been refused"
	grep -Eiq -- "$regex" /tmp/output || fail "$*: refused otherwise than by '$regex': $(cat /tmp/output)"
}

# What a controller may answer to a command, log page or feature it does not have.
unsupported='invalid.field|invalid.log|invalid.*opcode|invalid.command|feature.not.(changeable|saveable)|0x[2-7]00[12]|0x[2-7]109'
[ -z "${KERNEL_TARGET:-}" ] || unsupported+='|data sgl length invalid' # how the kernel's own target says it
optional() {
	captured "$@" || grep -Eiq -- "$unsupported" /tmp/output || fail "$*: $(cat /tmp/output)"
}

# until_true SECONDS WHAT COMMAND...: asks again and again.
until_true() {
	local tries=$(($1 * 10)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || fail "in vain waited for $what"
		sleep 0.1
	done
}

controllers() {
	local directory
	for directory in /sys/class/nvme/nvme*; do
		[ ! -e "$directory/subsysnqn" ] || [ "$(cat "$directory/subsysnqn")" != "$NQN" ] || echo "${directory##*/}"
	done
}

controller_state() { cat "/sys/class/nvme/$1/state"; }
is_live() { [ "$(controller_state "$1")" = live ]; }

# disk_of NSID: its block device, as `controller` sees it. The number in nvme0n1 is an order of
# arrival, not a namespace id. Without multipath the disk belongs to the controller, else to the
# subsystem (and the controller's own nvme0c0n1 is no device).
disk_of() {
	local subsystem disk
	for subsystem in /sys/class/nvme-subsystem/nvme-subsys*; do
		[ "$(cat "$subsystem/subsysnqn" 2>/dev/null)" = "$NQN" ] || continue
		for disk in "/sys/class/nvme/$controller"/nvme*n* "$subsystem"/nvme*n*; do
			if [ -b "/dev/${disk##*/}" ] && [ "$(cat "$disk/nsid")" = "$1" ]; then
				echo "/dev/${disk##*/}"
				return
			fi
		done
	done
	return 1
}

# Sets `controller` (nvme0) and `namespace` (/dev/nvme0n1, of namespace 1).
connect() {
	local identity=()
	[ -z "${HOST_NQN:-}" ] || identity=(--hostnqn "$HOST_NQN" --hostid "$HOST_ID")
	# shellcheck disable=SC2086 # CONNECT_ARGS is a list of words
	run nvme connect -t "$TRANSPORT" -a "$address" -s "$PORT" -n "$NQN" --keep-alive-tmo="${KEEP_ALIVE:-60}" \
		${identity[@]+"${identity[@]}"} ${CONNECT_ARGS:-}
	look_around
}

# connect_beside HOST-NQN HOST-ID: one more controller of a subsystem that is connected already. Told
# to the kernel itself, as nvme-cli 2.3 would say "already connected".
connect_beside() {
	say "connect $1 beside"
	echo "transport=$TRANSPORT,traddr=$address,trsvcid=$PORT,nqn=$NQN,keep_alive_tmo=60,duplicate_connect,hostnqn=$1,hostid=$2" >/dev/nvme-fabrics
	look_around
}

# shellcheck disable=SC2034 # the walks use what is set here
look_around() {
	controller=$(controllers | tail -n 1)
	[ -n "$controller" ] || fail "connected, but there is no controller of $NQN"
	until_true 20 "namespace 1" disk_of 1
	namespace=$(disk_of 1)
	until_true 20 "$controller to be live" is_live "$controller"
}

# The daemon that makes the handshakes of TLS, with keys of the keyring into which nvme-cli and the kernel put them.
start_tlshd() {
	modprobe tls
	printf '[debug]\nloglevel=1\ntls=1\nnl=0\n[authenticate]\nkeyrings=.nvme\n[authenticate.client]\n[authenticate.server]\n' >/tmp/tlshd.conf
	tlshd -s -c /tmp/tlshd.conf >/tmp/tlshd.log 2>&1 &
	until_true 20 "the keyring" grep -q '\.nvme' /proc/keys
}

# A packet of RDMA carries a power of two that fits the card's: 4096 bytes with an MTU of 5000, 1024 with the usual 1500.
start_rdma() {
	local module
	allow "$card speed is unknown" "a virtual card has none"
	for module in rdma_rxe rdma_ucm ib_uverbs; do modprobe $module; done
	run ip link set $card mtu 5000
	run rdma link add rxe0 type rxe netdev $card
	until_true 20 "rxe0 to be active" is_rdma_active
	# shellcheck disable=SC2046,SC2086 # four numbers
	until_true 20 "rxe0 to have the card's address" \
		grep -qr "$(printf 'ffff:%02x%02x:%02x%02x' ${card_address//./ })" /sys/class/infiniband/rxe0/ports/1/gids
}
is_rdma_active() { rdma link show rxe0/1 | grep -q 'state ACTIVE'; }

# The target has end 1 of the link, and the address 10.9.0.1.
join_link() {
	card=eth1 card_address=10.9.0.$LINK address=10.9.0.1
	run ip addr add "$card_address/24" dev $card
	run ip link set $card mtu 5000 up
	until_true 20 "$card to have a carrier" has_carrier 1
}
has_carrier() { [ "$(cat /sys/class/net/$card/carrier)" = "$1" ]; }

# The machine that runs QEMU does it when it reads the line.
cable() {
	local carrier=0
	[ "$1" = off ] || carrier=1
	echo "<6>cable $1" >/dev/kmsg
	echo "cable $1" >&3
	until_true 20 "the cable to be $1" has_carrier $carrier
}
exec 3>&1

# The way there is not the link. Prints what the command prints.
on_target() {
	local answer
	answer=$({ echo "{ $1; } </dev/null 2>&1; echo status=\$?; exit" >&4 && cat <&4; } 4<>"/dev/tcp/10.0.2.2/$CONTROL") || return
	printf %s "${answer%status=*}"
	[ "${answer##*status=}" = 0 ]
}

# The binary under test, where it is not installed. Not for the background: $! would be a shell.
if [ -n "${LOADER:-}" ]; then
	gimbal() { "$LOADER" --library-path /gimbal /gimbal/gimbal "$@"; }
fi

# Parts of a target's configuration.
an_ssd() { # an_ssd DISK: the device `ssd`
	printf '[[device]]\nname = "ssd"\nkind = "block"\npath = "%s"\n' "$1"
}
a_subsystem() { # a_subsystem NQN [FIELD...]: open to every host, with namespace 1 on the SSD, which has these fields
	printf '[[subsystem]]\nnqn = "%s"\nallow_any_host = true\n' "$1"
	printf '[[subsystem.namespace]]\nnsid = 1\ndevice = "ssd"\n'
	printf '%s\n' "${@:2}"
}

# Serves /dev/vda by RDMA, as NQN; or as /tmp/gimbal.toml says, if the walk has a function that writes it.
serve_by_rdma() {
	local how=(--device /dev/vda --listen "rdma://$address:$PORT" --nqn "$NQN" --state-dir /tmp/state)
	rm -f /tmp/listening
	[ "$(type -t prepare_target)" != function ] || { prepare_target && how=(-c /tmp/gimbal.toml); }
	"$LOADER" --library-path /gimbal /gimbal/gimbal serve "${how[@]}" >/tmp/listening 2>>/tmp/target.log &
	target=$!
	until_true 60 "the target to listen" grep -q listening /tmp/listening
}

# Pieces of 64 KiB, one after the other, from 32 MiB on, until /tmp/enough is there.
write_pieces() {
	rm -f /tmp/enough /tmp/pieces
	(
		n=0
		while head -c 65536 /dev/urandom >"/tmp/piece"; do
			dd if=/tmp/piece of="$namespace" bs=64k seek=$((512 + n)) oflag=direct conv=notrunc,fsync status=none || exit 1
			sha256sum </tmp/piece >>/tmp/pieces
			n=$((n + 1))
			[ ! -e /tmp/enough ] || exit 0
		done
	) &
	# shellcheck disable=SC2034 # the walks wait for it
	writer=$!
	until_true 60 "the first writes" enough_pieces 5
}
enough_pieces() { [ "$(wc -l </tmp/pieces)" -ge "$1" ]; }
more_pieces() { until_true 60 "new writes" enough_pieces $(($(wc -l </tmp/pieces) + 5)); }

read_pieces() {
	local n=0 sum
	while read -r sum _; do
		[ "$(dd if="$namespace" bs=64k skip=$((512 + n)) count=1 iflag=direct status=none | sha256sum | cut -d' ' -f1)" = "$sum" ] ||
			fail "piece $n differs"
		n=$((n + 1))
	done </tmp/pieces
	say "$n pieces are right"
}

# Writes at random to the first part of a disk and verifies it, again and again until end_loads.
start_loads() { # start_loads DISK SIZE [ARGUMENT-OF-FIO...]
	rm -f /tmp/loads-end
	: >/tmp/loads
	(
		while [ ! -e /tmp/loads-end ]; do
			fio --name=load --filename="$1" --rw=randwrite --bs=16k --size="$2" --ioengine=libaio --direct=1 --iodepth=4 \
				--verify=crc32c --verify_fatal=1 --output-format=terse "${@:3}" >/tmp/load 2>&1 || exit 1
			echo right >>/tmp/loads
		done
	) &
	load=$!
	until_true 120 "the first load" more_loads 0
}
loads() { wc -l </tmp/loads; }
more_loads() { [ "$(loads)" -gt "$1" ]; }
# One that began after now.
another_load() { until_true 120 "the load to go on" more_loads $(($(loads) + 1)); }
end_loads() {
	touch /tmp/loads-end
	wait "$load" || fail "the load has failed"
	say "the load was right $(loads) times"
}

target_goes() {
	echo "restart me"
	[ "$TRANSPORT" = rdma ] || return 0
	kill -KILL "$target"
	wait "$target" || true
}

target_returns() { [ "$TRANSPORT" != rdma ] || serve_by_rdma; }

disconnect() {
	run nvme disconnect -n "$NQN"
	until_true 20 "the controllers to go" no_controllers
}
no_controllers() { [ -z "$(controllers)" ]; }

# sum DEVICE [OFFSET-MIB LENGTH-MIB]: the SHA-256 of what the medium holds, past every cache.
sum() { dd if="$1" bs=1M skip="${2:-0}" ${3:+count="$3"} iflag=direct status=none | sha256sum | cut -d' ' -f1; }

allow() { allowed+=("$1"); say "allowed in the kernel's log: '$1' ($2)"; }

# keep_alives_of_the_removed FILE: what FILE, a part of the kernel's log, has of keep-alives of
# controllers that a disconnect had begun to remove. Linux 6.12 stops the timer of keep-alives late in
# a removal; one that comes due meanwhile fails in the host, unsent (its "RTT" is the whole uptime).
keep_alives_of_the_removed() {
	local line
	local -A removed=()
	while IFS= read -r line; do
		if [[ $line =~ nvme\ (nvme[0-9]+):\ Removing\ ctrl ]]; then
			removed[${BASH_REMATCH[1]}]=yes
		elif [[ $line =~ nvme\ (nvme[0-9]+):\ (new|creating)\  ]]; then
			unset "removed[${BASH_REMATCH[1]}]"
		elif [[ $line =~ nvme\ (nvme[0-9]+):\ (long\ keepalive\ RTT|failed\ nvme_keep_alive_end_io) ]]; then
			[ -z "${removed[${BASH_REMATCH[1]}]:-}" ] || printf '%s\n' "$line"
		fi
	done <"$1"
}

finish() {
	local message pattern bad=
	say "what the kernel said of nvme"
	dmesg | sed '1,/walk begins/d' | grep -Ei 'nvme|i/o error' | sed 's/^/    /' || true
	# Warnings and worse from anyone, and whatever NVMe says that sounds like trouble.
	{
		dmesg --level=warn,err,crit,alert,emerg
		dmesg | grep -Ei 'nvme.*(error|fail|timeout|reconnect|invalid|abort|unexpected|changed)' || true
	} | sort -u >/tmp/suspicious
	dmesg | sed '1,/walk begins/d' >/tmp/since
	keep_alives_of_the_removed /tmp/since >/tmp/farewells
	while IFS= read -r message; do
		grep -Fxq -- "$message" /tmp/since || continue
		! grep -Fxq -- "$message" /tmp/farewells || continue
		for pattern in ${allowed[@]+"${allowed[@]}"}; do
			[[ $message =~ $pattern ]] && continue 2
		done
		echo "unexpected: $message"
		bad=yes
	done </tmp/suspicious
	[ -z "$bad" ] || fail "the kernel warned of what this walk does not explain"
	say "walk is right"
}
