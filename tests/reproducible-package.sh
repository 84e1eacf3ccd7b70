#!/usr/bin/env bash
# reproducible-package.sh - the package is built in two folders with names of different lengths: the same bytes.
#
# Two release builds from nothing: a quarter of an hour on an idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
unset CARGO_TARGET_DIR GIMBAL_DIST

# One copy for both builds, as the files may change meanwhile: those under version control, with changes that are not committed.
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - --ignore-failed-read -f "$scratch/source.tar"

for folder in one another-folder; do
	mkdir "$scratch/$folder"
	tar -x -f "$scratch/source.tar" -C "$scratch/$folder"
	make -C "$scratch/$folder" deb >"$scratch/$folder.log" 2>&1 || {
		tail -n 40 "$scratch/$folder.log" >&2
		exit 1
	}
	mv "$scratch/$folder/target/dist" "$scratch/$folder.dist"
	rm -rf "${scratch:?}/$folder"
done
package=$(basename "$scratch"/one.dist/*.deb)
cmp "$scratch/one.dist/$package" "$scratch/another-folder.dist/$package"
! dpkg-deb --fsys-tarfile "$scratch/one.dist/$package" | grep -a -c -F -e "$scratch" -e "$HOME/.cargo" >/dev/null ||
	{
		echo "reproducible-package.sh: $package has paths of this machine" >&2
		exit 1
	}
echo "$package is the same bytes from two folders"
