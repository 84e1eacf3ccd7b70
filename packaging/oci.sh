#!/usr/bin/env bash
# oci.sh BINARY - packs a built gimbal as a container image: an OCI archive in target/dist ($GIMBAL_DIST for another folder). Prints its
# path.
#
# By umoci and skopeo, without a daemon and without root. The image is not based on another one: it has the program, the libraries that it
# loads, the configuration of the package and a user.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

[ $# = 1 ] || {
	echo "oci.sh: name the binary: packaging/build.sh builds one" >&2
	exit 1
}
binary=$(realpath "$1")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
dist=${GIMBAL_DIST:-${CARGO_TARGET_DIR:-target}/dist}
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

install -D -m 755 "$binary" "$root/usr/bin/gimbal"
strip --remove-section=.comment "$root/usr/bin/gimbal"
ldd "$binary" | grep -o '/[^ ]*' | while read -r library; do
	install -D -m 755 "$library" "$root$library"
done
install -D -m 644 packaging/gimbal.toml "$root/etc/gimbal/gimbal.toml"
echo "gimbal:x:64200:64200::/var/lib/gimbal:/usr/sbin/nologin" >"$root/etc/passwd"
echo "gimbal:x:64200:" >"$root/etc/group"
mkdir -p "$root"/{proc,sys,dev,run/gimbal,var/lib/gimbal}
# An image without root's maps has one owner. Volumes take the place of these two.
chmod 1777 "$root"/{run/gimbal,var/lib/gimbal}
mkdir -m 1777 "$root/tmp"

image=$work/image:$version
umoci init --layout "$work/image"
umoci new --image "$image"
umoci insert --rootless --history.created "$created" --image "$image" "$root" /
umoci config --image "$image" --created "$created" --history.created "$created" --architecture "$architecture" --os linux \
	--config.user gimbal --config.entrypoint /usr/bin/gimbal --config.cmd serve --config.cmd -c --config.cmd /etc/gimbal/gimbal.toml \
	--config.env STATE_DIRECTORY=/var/lib/gimbal --config.env RUNTIME_DIRECTORY=/run/gimbal --config.volume /var/lib/gimbal \
	--config.exposedports 4420/tcp --config.stopsignal SIGTERM
mkdir -p "$dist"
archive=$dist/gimbal_${version}_$architecture.oci.tar
rm -f "$archive"
skopeo copy --quiet "oci:$image" "oci-archive:$archive:$version" >&2
echo "$archive"
