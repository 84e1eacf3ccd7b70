#!/bin/bash
# package.sh - the life of the package on a Debian with systemd: installed, started, reloaded, refused, upgraded while a host on this
# machine writes and verifies, downgraded, hung, removed and purged. /packages has old.deb and new.deb; the third disk is to be shared.
# shellcheck source=tests/guest/walks/lib.sh
. /walks/lib.sh
begin

config=/etc/gimbal/gimbal.toml
state=/var/lib/gimbal
nqn=nqn.2024-06.io.gimbal:local

fails() { ! captured "$@" || fail "$* succeeds"; }
is() { [ "$1" = "$2" ] || fail "it is '$1', not '$2': $3"; }
property() { systemctl show --value -p "$1" gimbal; }
LINES_SHOWN=12
# A failure of the service is explained in its journal.
trap '[ $? = 0 ] || journal | tail -n 60' EXIT
journal() { journalctl -q -u gimbal -o cat; }
in_journal() { journal | grep -q -e "$1" || fail "the journal does not say '$1': $(journal | tail -n 20)"; }
has_state() { gimbal state show --json --state-dir $state | grep -q "\"version\": $1"; }

say "an installation enables and starts nothing"
run dpkg -i /packages/old.deb
is "$(systemctl is-enabled gimbal || true)" disabled "whether it is enabled"
is "$(systemctl is-active gimbal || true)" inactive "whether it runs"
is "$(stat -c %U:%G:%a $config)" gimbal:gimbal:640 "owner and mode of the configuration"
[ ! -e $state ] || fail "$state is there before the first start"

say "a block device and a key that systemd hands over; a start is over when hosts may connect"
chgrp disk /dev/vdc
chmod 660 /dev/vdc
gimbal key gen /root/db1.dhchap >/dev/null
mkdir -p /etc/systemd/system/gimbal.service.d
cat >/etc/systemd/system/gimbal.service.d/key.conf <<CONF
[Service]
LoadCredential=db1.dhchap:/root/db1.dhchap
# The clock of an emulated machine sometimes jumps, once by an hour.
TimeoutStartSec=infinity
CONF
# For the same reason the watchdog ends nothing before its turn comes.
systemctl service-watchdogs no
cp $config /root/as-installed.toml
cat >>$config <<CONF
[[device]]
name = "disk"
kind = "block"
path = "/dev/vdc"
[[subsystem.namespace]]
nsid = 2
device = "disk"
[[host]]
nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
dhchap_key = "/run/credentials/gimbal.service/db1.dhchap"
CONF
systemctl daemon-reload
systemctl start gimbal || fail "no start: $(journal)"
shows 'alive|ready|ok' gimbal ctl health
pid=$(property MainPID)
is "$(ps -o user= -p "$pid")" gimbal "the user of the target"
is "$(property WatchdogUSec)" 10s "the watchdog"
find "/proc/$pid/fd" -lname '*io_uring*' | grep -q . || fail "the target has no io_uring: $(journal)"
! journal | grep -q -e 'io_uring cannot be used' || fail "io_uring is forbidden"
has_state 2 || fail "the state has another version"
is "$(stat -c %U:%a $state)" gimbal:700 "owner and mode of the state directory"

say "a change by the admin API reaches the file, and a reload by systemd says when it is refused"
run gimbal ctl set limits connections=2048
grep -q 'connections = 2048' $config || fail "the file has no such limit"
is "$(stat -c %U:%G:%a $config)" gimbal:gimbal:640 "owner and mode of the configuration"
sed -i 's/connections = 2048/connections = 1024/' $config
run systemctl reload gimbal
cp $config /root/good.toml
echo 'nonsense = 1' >>$config
fails systemctl reload gimbal
in_journal nonsense
say "an upgrade to a version that would not start leaves the target alone"
shows 'the version before runs on' dpkg -i /packages/old.deb
is "$(property MainPID)" "$pid" "the process after refusals"

say "a start with a broken configuration fails, and the journal has the problems"
run systemctl stop gimbal
sed -i 's/^kind = "file"/kind = "tape"/' $config
fails systemctl start gimbal
in_journal 'gimbal.toml:[0-9].*tape'
say "and the package can be installed all the same"
run dpkg -i /packages/old.deb
cp /root/good.toml $config
chown gimbal:gimbal $config
systemctl stop gimbal
systemctl reset-failed gimbal || true # it is unloaded already if it has not failed
run systemctl start gimbal

say "a host on this machine writes and verifies; it has a reservation"
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $nqn --reconnect-delay=1 --ctrl-loss-tmo=-1 || fail "no connection"
until_true 60 "two namespaces" test -b /dev/nvme0n2
run nvme resv-register /dev/nvme0n1 --nrkey=1 --rrega=0 --cptpl=3
run nvme resv-acquire /dev/nvme0n1 --crkey=1 --rtype=1 --racqa=0
load() { # load DISK: becomes fio, which writes and verifies again and again, until SIGINT
	exec fio --name=load --filename="/dev/$1" --rw=randwrite --bs=4k --size=1m --ioengine=libaio --direct=1 --iodepth=4 --rate_iops=50 \
		--verify=crc32c --verify_fatal=1 --time_based --runtime=3000 --output-format=json --output="/tmp/load-$1"
}
# Statistics are those of the path (nvme0c0n1), until Linux 6.4.
written() { awk -v disk="^nvme0(c[0-9]+)?n$1\$" '$3 ~ disk {sum += $8} END {print sum + 0}' /proc/diskstats; }
writes_go_on() { # both disks have had 500 writes more: two rounds of 256 blocks, the first of which was verified
	local before=("$(written 1)" "$(written 2)")
	until_true 120 "writes to the file" more_than 1 "${before[0]}"
	until_true 120 "writes to the disk" more_than 2 "${before[1]}"
}
more_than() { [ "$(written "$1")" -gt $(($2 + 500)) ]; }
load nvme0n1 &
loads=($!)
load nvme0n2 &
loads+=($!)
writes_go_on

say "an upgrade restarts the target under them, and the state of version 1 comes along"
rm $state/VERSION
pid=$(property MainPID)
run dpkg -i /packages/new.deb
is "$(dpkg-query -W -f '${Version}' gimbal)" "$NEW" "the version"
[ "$(property MainPID)" != "$pid" ] || fail "the target was not restarted"
until_true 60 "the target" systemctl is-active gimbal
echo "restarts after a failure: $(property NRestarts)"
has_state 2 || fail "the state was not brought forward"
writes_go_on
for number in 0 1; do
	disk=nvme0n$((number + 1))
	status=0
	kill -INT "${loads[number]}" 2>/dev/null || fail "fio on $disk has ended: $(tail -n 5 /tmp/load-$disk)"
	wait "${loads[number]}" || status=$?
	# 128: by the signal.
	[ $status = 0 ] || [ $status = 128 ] || fail "fio on $disk: status $status, $(tail -n 5 /tmp/load-$disk)"
	grep -q '"error" : 0' /tmp/load-$disk || fail "fio on $disk has errors"
	echo "gap of $disk: $(awk '/"lat_ns"/ {here = 1} here && /"max"/ {if ($3 + 0 > most) most = $3 + 0; here = 0} END {printf "%d", most / 1000000}' /tmp/load-$disk) ms"
done
gimbal state show | grep -q 'held by' || fail "the reservation is gone: $(gimbal state show)"
run nvme resv-report /dev/nvme0n1 --eds
run nvme disconnect -n $nqn

say "with /etc/gimbal/no-restart, an installation leaves the target alone"
touch /etc/gimbal/no-restart
pid=$(property MainPID)
shows 'no-restart' dpkg -i /packages/new.deb
is "$(property MainPID)" "$pid" "the process"
rm /etc/gimbal/no-restart

say "a downgrade below the version of the state is refused by the older version, in one sentence"
printf 'gimbal-state 3\nwritten by gimbal 0.2.0\n' >$state/VERSION
shows 'has version 3, written by gimbal 0.2.0' dpkg -i --force-downgrade /packages/old.deb
is "$(property MainPID)" "$pid" "the newer target runs on"
fails systemctl restart gimbal
in_journal 'has version 3, written by gimbal 0.2.0, and this gimbal .* versions up to 2'
printf 'gimbal-state 2\nwritten by gimbal 0.1.0\n' >$state/VERSION
run dpkg -i /packages/new.deb
systemctl stop gimbal
systemctl reset-failed gimbal || true # it is unloaded already if it has not failed
run systemctl start gimbal

say "a target that hangs is ended by the watchdog and starts again"
is "$(property NRestarts)" 0 "restarts"
systemctl service-watchdogs yes
kill -STOP "$(property MainPID)"
restarted() { [ "$(property NRestarts)" = 1 ] && [ "$(systemctl is-active gimbal)" = active ]; }
until_true 120 "the watchdog" restarted
in_journal 'gimbal.service: Watchdog timeout'
shows 'alive|ready|ok' gimbal ctl health

say "where io_uring is forbidden, as in containers, epoll takes over and the journal says so"
echo 'SystemCallFilter=~io_uring_setup' >>/etc/systemd/system/gimbal.service.d/key.conf
systemctl daemon-reload
run systemctl restart gimbal
in_journal 'io_uring cannot be used; epoll is used instead'
! find "/proc/$(property MainPID)/fd" -lname '*io_uring*' | grep -q . || fail "the target has an io_uring"
run gimbal bench --addr 127.0.0.1:4420 --rw randread --bs 4k --iodepth 4 --runtime 1s

say "an orderly stop, a removal, and a purge that keeps the reservations"
systemctl enable gimbal
run dpkg -r gimbal
is "$(pgrep -c -x gimbal || true)" 0 "targets"
run dpkg --purge gimbal
[ ! -e /etc/gimbal ] || fail "/etc/gimbal is still there: $(ls -a /etc/gimbal)"
[ -e $state/VERSION ] || fail "the purge has removed the state"
[ ! -L /etc/systemd/system/multi-user.target.wants/gimbal.service ] || fail "the purge has left a link"
run dpkg -i /packages/new.deb
touch /etc/gimbal/purge-state
run dpkg --purge gimbal
[ ! -e $state ] || fail "the purge was asked to remove the state"
echo "walk ends"
