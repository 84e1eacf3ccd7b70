# shellcheck shell=bash disable=SC2154 # folder and binary are set by the script that sources this
# targets.sh - the targets of a volume, each a process on a file: sourced by compare.sh and suites.sh.

targets=()

# serve NUMBER: serves the file $folder/medium-NUMBER, which is there.
serve() {
	cat >"$folder/target-$1.toml" <<-TOML
		state_dir = "$folder/state-$1"
		[rack]
		store = "$folder/store"
		name = "target-$1"
		subsystems = ["nqn.2025-01.io.gimbal:volume$1"]
		mega = "64M"
		[[device]]
		name = "ssd"
		kind = "file"
		path = "$folder/medium-$1"
		[[subsystem]]
		nqn = "nqn.2025-01.io.gimbal:volume$1"
		allow_any_host = true
		[[subsystem.namespace]]
		nsid = 1
		device = "ssd"
	TOML
	: >"$folder/log-$1"
	"$binary" serve --listen 127.0.0.1:0 -c "$folder/target-$1.toml" >"$folder/log-$1" 2>&1 &
	targets+=($!)
	until grep -q "registered for volumes" "$folder/log-$1"; do
		kill -0 "${targets[-1]}" || { cat "$folder/log-$1" >&2 && exit 2; }
		sleep 0.05
	done
}

# Ends all targets.
stop_targets() {
	[ ${#targets[@]} = 0 ] || kill "${targets[@]}"
	targets=()
	wait
}
