#!/bin/bash
# commands.sh - a Linux host looks at the target from every side: discovery, identify data, log
# pages, features, properties; what must be refused is refused; reset, rescan, disconnect.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin

say "discovery"
shows "subnqn: *$NQN" nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT"
shows "^trtype: *$TRANSPORT" nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT"
LINES_SHOWN=20 shows 'current discovery' nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT"
allow 'Connect (Invalid Data Parameter|.*failed)|failed to connect|Failed to (write|connect)' 'a subsystem that is not there was asked for'
refused 'invalid|failed|could not|no such|input/output' \
	nvme connect -t "$TRANSPORT" -a "$address" -s "$PORT" -n nqn.2024-06.io.gimbal:nobody

say "connect"
connect
shows "$namespace" nvme list
shows "$controller $TRANSPORT traddr=$address.*live" nvme list-subsys

say "identify"
LINES_SHOWN=30 shows '^cntlid *: *0x' nvme id-ctrl "/dev/$controller"
shows '^subnqn *: *'"$NQN" nvme id-ctrl "/dev/$controller"
LINES_SHOWN=30 shows '^nsze *: *0x[0-9a-f]*[1-9a-f]' nvme id-ns "$namespace"
shows '(in use)' nvme id-ns "$namespace"
shows '^(nguid|uuid|eui64) *: *[0-9a-f-]*[1-9a-f]' nvme ns-descs "$namespace"
if [ -z "${KERNEL_TARGET:-}" ]; then
	# What a host that knows no UUID goes by, ESXi for one.
	for id in nguid eui64; do
		shows "^$id *: *[0-9a-f-]*[1-9a-f]" nvme ns-descs "$namespace"
		LINES_SHOWN=50 shows "^$id *: *[0-9a-f]*[1-9a-f]" nvme id-ns "$namespace"
	done
	LINES_SHOWN=1 shows '^fuses *: *0x1' nvme id-ctrl "/dev/$controller"
fi
shows ':0x1$' nvme list-ns "/dev/$controller"
optional nvme list-ns "/dev/$controller" --all
optional nvme list-ctrl "/dev/$controller"
optional nvme id-iocs "/dev/$controller"
optional nvme id-nvmset "/dev/$controller"
optional nvme cmdset-ind-id-ns "/dev/$controller" -n 1
optional nvme nvm-id-ctrl "/dev/$controller"
optional nvme nvm-id-ns "/dev/$controller" -n 1
optional nvme id-uuid "/dev/$controller"
optional nvme id-domain "/dev/$controller"
optional nvme list-endgrp "/dev/$controller"
optional nvme primary-ctrl-caps "/dev/$controller"
# A namespace that is not there: refused, or all zeros.
captured nvme id-ns "/dev/$controller" -n 4000000 || grep -Eiq 'invalid.(namespace|field)' /tmp/output ||
	fail "id-ns of no namespace: $(cat /tmp/output)"
grep -Eiq 'invalid|^nsze *: *0$' /tmp/output || fail "there is a namespace 4000000"

say "log pages"
LINES_SHOWN=30 shows '^critical_warning[[:space:]]*: *0' nvme smart-log "/dev/$controller"
run nvme error-log "/dev/$controller" -e 4
shows 'Firmware' nvme fw-log "/dev/$controller"
# nvme-cli 2.13 also asks for the Zoned command set's effects, and fails if there are none.
optional nvme effects-log "/dev/$controller" --human-readable
run nvme changed-ns-list-log "/dev/$controller"
optional nvme ana-log "/dev/$controller"
optional nvme supported-log-pages "/dev/$controller"
optional nvme self-test-log "/dev/$controller"
optional nvme endurance-log "/dev/$controller"
optional nvme persistent-event-log "/dev/$controller" -a 0
optional nvme get-log "/dev/$controller" -i 0x12 -l 1024
refused "$unsupported" nvme get-log "/dev/$controller" -i 0xdd -l 512

say "features"
for feature in 1 2 4 5 6 7 8 9 0xa 0xb 0xe 0xf 0x10 0x16 0x82 0x83 0x84; do
	optional nvme get-feature "/dev/$controller" -f "$feature" -n 1
done
# Fabrics know 128-bit host identifiers only, and nvme-cli asks for the 64-bit one.
refused "$unsupported|inconsistent.format" nvme get-feature "/dev/$controller" -f 0x81
shows 'value:' nvme get-feature "/dev/$controller" -f 7
run nvme set-feature "/dev/$controller" -f 0xf --value=20000
shows '0x0*4e20' nvme get-feature "/dev/$controller" -f 0xf
optional nvme set-feature "/dev/$controller" -f 6 --value=1

say "properties"
# nvme-cli 2.3 gives up at the first register that fabrics do not have, on any target.
case $(nvme version | head -n 1) in
*2.3*) captured nvme show-regs "/dev/$controller" || true ;;
*) LINES_SHOWN=12 shows '^cap *: ' nvme show-regs "/dev/$controller" ;;
esac
shows 'Capabilities.*value: *[0-9a-f]|^(value|capabilities): *[0-9a-f]' nvme get-property "/dev/$controller" --offset=0

say "what is not there is refused, and harms nothing"
refused "$unsupported" nvme io-passthru "$namespace" --opcode=0x99 --namespace-id=1
refused "$unsupported" nvme admin-passthru "/dev/$controller" --opcode=0xd1
optional nvme device-self-test "/dev/$controller" -s 1
run nvme id-ctrl "/dev/$controller"

say "an abort of what is not there says so"
# Queue 1, identifier FFFFh.
LINES_SHOWN=2 shows 'result: *(0x)?0*1' nvme admin-passthru "/dev/$controller" --opcode=0x08 --cdw10=0xffff0001

say "rescan and reset"
run nvme ns-rescan "/dev/$controller"
until_true 20 "$namespace after the rescan" test -b "$namespace"
allow 'resetting controller' 'asked for by nvme reset'
before=$(sum "$namespace" 0 1)
run nvme reset "/dev/$controller"
until_true 20 "$controller to be live again" is_live "$controller"
[ "$(sum "$namespace" 0 1)" = "$before" ] || fail "the namespace reads differently after a reset"

say "two controllers of one host"
connect_beside "$(cat /etc/nvme/hostnqn)" "$(cat /etc/nvme/hostid)"
[ "$(controllers | wc -l)" = 2 ] || fail "there are not two controllers"
[ "$(cat /sys/class/nvme/nvme*/cntlid | sort -u | wc -l)" = 2 ] || fail "two controllers share one id"
disconnect

say "a persistent discovery controller"
optional nvme discover -t "$TRANSPORT" -a "$address" -s "$PORT" --persistent
run nvme disconnect-all
finish
