#!/usr/bin/env bash
# disk-path.sh [SCHEDULER] - 4 KiB random reads of QEMU's NVMe SSD through the target, in every way to reach it (docs/disks.md), beside
# fio with the same options on the SSD: registered files and buffers, polled, NVMe commands. In a guest, with the release build.
#
# The guest is emulated, instruction by instruction. So the two sides can be compared with each other, and with nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${CARGO_TARGET_DIR:-target}/release/gimbal
[ -x "$binary" ] || { echo "disk-path.sh: $binary does not exist; run 'cargo build --release -p gimbal'" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/gimbal-disk-path.XXXXXX")
trap 'rm -rf "$folder"' EXIT
options=(-g trixie -c 2 -m 1024 -t 900 -e "SCHEDULER=${1:-level}")
for number in 1 2 3 4; do
	truncate -s 64M "$folder/$number"
	options+=(-n "$folder/$number,logical_block_size=4096,physical_block_size=4096")
done
strip -o "$folder/gimbal" "$binary"
options+=(-x "$folder/gimbal:/gimbal/gimbal")
while read -r library; do
	options+=(-x "$library:/gimbal/${library##*/}")
	[[ $library != */ld-linux* ]] || options+=(-e "LOADER=/gimbal/${library##*/}")
done < <(ldd "$binary" | grep -o '/[^ ]*')
tests/guest/guest.sh run "${options[@]}" tests/guest/walks/disk-path.sh
