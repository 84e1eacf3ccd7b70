#!/bin/bash
# disk-path.sh - not a test but a measure (tests/disk-path.sh runs it): 4 KiB random reads of an NVMe SSD through the target, in every
# way there is to reach it, beside fio with the same options on the SSD itself, in turns. Two CPUs: fio and the target have the
# first, the target's client has the second.
set -euo pipefail
nqn=nqn.2024-06.io.gimbal

disk() {
	local folder
	for folder in /sys/class/nvme/nvme0/nvme0n*; do
		[ "$(cat "$folder/nsid")" != "$1" ] || echo "/dev/${folder##*/}"
	done
}
config() { # config NAME KIND PATH LINES
	printf '[[device]]\nname = "%s"\nkind = "%s"\npath = "%s"\nscheduler = "%s"\n%b\n' "$1" "$2" "$3" "$SCHEDULER" "$4"
	printf '[[subsystem]]\nnqn = "%s:%s"\nallow_any_host = true\n' $nqn "$1"
	printf '[[subsystem.namespace]]\nnsid = 1\ndevice = "%s"\n\n' "$1"
}
cpu_ns() { # cpu_ns PID: CPU time of all its threads
	cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { print sum }'
}

modprobe nvme
until [ -c /dev/ng0n4 ]; do sleep 0.1; done
slot=$(basename "$(readlink -f /sys/class/nvme/nvme0/device)")
echo "$slot" >/sys/bus/pci/drivers/nvme/unbind
until [ ! -e /dev/ng0n1 ]; do sleep 0.1; done
echo 1 >/sys/module/nvme/parameters/poll_queues
echo "$slot" >/sys/bus/pci/drivers/nvme/bind
for ((tries = 0; tries < 600; tries++)); do
	[ -c /dev/ng0n4 ] && break
	sleep 0.1
done
{
	printf 'listen = ["127.0.0.1:4420"]\nthreads = 1\n'
	config block block "$(disk 1)" ''
	config polled block "$(disk 2)" 'polled = true'
	config commands nvme "$(disk 3 | sed s/nvme0n/ng0n/)" ''
	config both nvme "$(disk 4 | sed s/nvme0n/ng0n/)" 'polled = true'
} >/tmp/gimbal.toml

number_of() { # number_of KEY FILE: the first number of that key in a JSON file
	grep -o "\"$1\" *: *[0-9.]*" "$2" | head -n 1 | grep -o '[0-9.]*$'
}
raw() { # raw WAY DISK: IOPS, and CPU time per read in ns
	local options=()
	case $1 in
	block) options+=(--ioengine=io_uring --direct=1 --filename="$2") ;;
	polled) options+=(--ioengine=io_uring --direct=1 --hipri --filename="$2") ;;
	commands) options+=(--ioengine=io_uring_cmd --cmd_type=nvme --filename="$2") ;;
	both) options+=(--ioengine=io_uring_cmd --cmd_type=nvme --hipri --filename="$2") ;;
	esac
	# The engine comes first: fio knows its options only then.
	taskset -c 0 fio --name=raw "${options[@]}" --fixedbufs --registerfiles --rw=randread --bs=4k --iodepth=32 --time_based --runtime=3 \
		--norandommap --readonly --output-format=json >/tmp/fio.json
	awk -v iops="$(number_of iops /tmp/fio.json)" -v own="$(number_of usr_cpu /tmp/fio.json)" -v kernel="$(number_of sys_cpu /tmp/fio.json)" \
		'BEGIN { printf "%d %d\n", iops, (own + kernel) * 1e7 / iops }'
}
through() { # through WAY: the same
	local before after
	before=$(cpu_ns "$target")
	taskset -c 1 "$LOADER" --library-path /gimbal /gimbal/gimbal bench --nqn "$nqn:$1" --rw randread --bs 4k --iodepth 32 \
		--runtime 3 --time_based --json /tmp/bench.json >/dev/null
	after=$(cpu_ns "$target")
	awk -v iops="$(number_of iops /tmp/bench.json)" -v used=$((after - before)) 'BEGIN { printf "%d %d\n", iops, used / (iops * 3) }'
}

taskset -c 0 "$LOADER" --library-path /gimbal /gimbal/gimbal serve -c /tmp/gimbal.toml --state-dir /tmp/state >/tmp/listening 2>/tmp/log &
target=$!
for ((tries = 0; tries < 600; tries++)); do
	grep -q listening /tmp/listening && break
	kill -0 $target || { cat /tmp/log && exit 1; }
	sleep 0.1
done
echo "way round: fio's IOPS, its CPU ns per read; the target's IOPS, its CPU ns per read"
for round in 1 2 3; do
	number=0
	for way in block polled commands both; do
		number=$((number + 1))
		path=$(disk $number)
		[[ $way = block || $way = polled ]] || path=${path/nvme0n/ng0n}
		echo "$way $round: $(raw $way "$path"); $(through $way)"
	done
done
kill "$target"
wait "$target" || cat /tmp/log
