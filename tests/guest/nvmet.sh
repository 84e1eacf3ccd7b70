#!/bin/bash
# nvmet.sh - runs in a guest: the kernel's own NVMe/TCP target, on port 4420, until killed.
#
# It serves $NVMET_NQN with the namespaces 1, 2, ... of $NVMET_SIZES (MiB each), which are RAM
# disks that know discard. Prints "target ready" when hosts can connect. It is what our initiator
# is tried against, and what the walks are tried on before they judge our target.
#
# With $NVMET_HOST, it serves this host alone, which has to prove that it has $NVMET_KEY with the group
# $NVMET_GROUP; with $NVMET_CTRL_KEY the target proves itself, too.
#
# With $NVMET_TLS_KEY its port asks for TLS, with the key of the host $NVMET_TLS_HOST.
#
# With $NVMET_OUTAGE=N it throws its hosts out once namespace 1 has taken N writes, refuses them for
# a second, and lets them in again.
set -euo pipefail

nqn=${NVMET_NQN:-nqn.2024-06.io.gimbal:kernel}
sizes=${NVMET_SIZES:-64 64}
target=/sys/kernel/config/nvmet
subsystem=$target/subsystems/$nqn
port=$target/ports/1

modprobe null_blk nr_devices=0
modprobe nvmet
modprobe nvmet_tcp

mkdir "$subsystem"
if [ -n "${NVMET_HOST:-}" ]; then
	host=$target/hosts/$NVMET_HOST
	mkdir "$host"
	echo "$NVMET_KEY" >"$host/dhchap_key"
	[ -z "${NVMET_CTRL_KEY:-}" ] || echo "$NVMET_CTRL_KEY" >"$host/dhchap_ctrl_key"
	echo "${NVMET_GROUP:-null}" >"$host/dhchap_dhgroup"
	echo 0 >"$subsystem/attr_allow_any_host"
	ln -s "$host" "$subsystem/allowed_hosts/"
else
	echo 1 >"$subsystem/attr_allow_any_host"
fi
nsid=0
for mib in $sizes; do
	nsid=$((nsid + 1))
	disk=/sys/kernel/config/nullb/nullb$nsid
	mkdir "$disk"
	echo "$mib" >"$disk/size"
	echo 1 >"$disk/memory_backed"
	echo 1 >"$disk/discard"
	echo 4096 >"$disk/blocksize"
	echo 1 >"$disk/power"
	namespace=$subsystem/namespaces/$nsid
	mkdir "$namespace"
	printf %s "/dev/nullb$nsid" >"$namespace/device_path"
	echo 1 >"$namespace/enable"
done

mkdir "$port"
echo tcp >"$port/addr_trtype"
echo ipv4 >"$port/addr_adrfam"
echo 0.0.0.0 >"$port/addr_traddr"
echo 4420 >"$port/addr_trsvcid"
if [ -n "${NVMET_TLS_KEY:-}" ]; then
	modprobe tls
	printf '[authenticate]\nkeyrings=.nvme\n[authenticate.client]\n[authenticate.server]\n' >/tmp/tlshd.conf
	tlshd -s -c /tmp/tlshd.conf >/tmp/tlshd.log 2>&1 &
	for version in 0 1; do
		nvme check-tls-key --identity="$version" --subsysnqn="$nqn" --hostnqn="$NVMET_TLS_HOST" --keydata="$NVMET_TLS_KEY" --insert
	done
	echo tls1.3 >"$port/addr_tsas"
	echo required >"$port/addr_treq"
fi
ln -s "$subsystem" "$port/subsystems/"
echo "target ready"

if [ -n "${NVMET_OUTAGE:-}" ]; then
	writes() { tr -s " " </sys/block/nullb1/stat | cut -d " " -f 6; }
	until [ "$(writes)" -ge "$NVMET_OUTAGE" ]; do sleep 0.1; done
	rm "$port/subsystems/$nqn"
	echo "hosts thrown out"
	sleep 1
	ln -s "$subsystem" "$port/subsystems/"
	echo "hosts let in"
fi
while sleep 60; do :; done
