#!/usr/bin/env bash
# deb.sh BINARY [VERSION] - packs a built gimbal as gimbal_VERSION_ARCHITECTURE.deb, with its .sha256, in target/dist
# ($GIMBAL_DIST for another folder). Prints its path. $GIMBAL_DEB_LEVEL is that of the compression, 0 to 9 (6).
#
# By dpkg-deb, which every Debian has: the package is a tree of a dozen files, and all that is done to it is read here.
# The same binary gives the same bytes: owner root, the time of the last commit, one thread of compression.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

die() {
	echo "deb.sh: $*" >&2
	exit 1
}

[ $# -ge 1 ] || die "name the binary: packaging/build.sh builds one"
binary=$(realpath "$1")
of_workspace=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
version=${2:-$of_workspace}
architecture=$(dpkg --print-architecture)
dist=${GIMBAL_DIST:-${CARGO_TARGET_DIR:-target}/dist}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
share=$tree/usr/share

put() { install -D -m "$1" "$2" "$3"; } # put MODE FROM TO
compress() { find "$1" -type f -exec gzip -9n {} +; }

put 755 "$binary" "$tree/usr/bin/gimbal"
strip --remove-section=.comment "$tree/usr/bin/gimbal"
put 644 packaging/gimbal.toml "$tree/etc/gimbal/gimbal.toml"
put 644 packaging/gimbal.service "$tree/usr/lib/systemd/system/gimbal.service"
put 755 packaging/ocf/gimbal-group "$tree/usr/lib/ocf/resource.d/gimbal/gimbal-group"
put 644 packaging/nvme.conf "$share/doc/gimbal/examples/nvme.conf"
put 644 examples/gimbal.toml "$share/doc/gimbal/examples/gimbal.toml"
put 644 dashboards/grafana.json "$share/gimbal/grafana.json"
put 644 dashboards/alerts.yml "$share/gimbal/alerts.yml"
put 644 packaging/debian/copyright "$share/doc/gimbal/copyright"
"$binary" manual "$share/man/man1"
compress "$share/man"
for script in bash:bash-completion/completions/gimbal zsh:zsh/vendor-completions/_gimbal \
	fish:fish/vendor_completions.d/gimbal.fish; do
	mkdir -p "$(dirname "$share/${script#*:}")"
	"$binary" completions "${script%%:*}" >"$share/${script#*:}"
done
printf 'gimbal (%s) stable; urgency=medium\n\n  * Version %s; its changes are the commits of the project.\n\n -- %s  %s\n' \
	"$version" "$version" "gimbal maintainers <maintainers@gimbal.io>" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
	gzip -9n >"$share/doc/gimbal/changelog.gz"

# The packages of the libraries that it loads: libc's and no other.
for library in $(objdump -p "$tree/usr/bin/gimbal" | awk '/NEEDED/ {print $2}'); do
	case $library in
	libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-*) ;;
	*) die "the binary needs $library, which no package in Depends has" ;;
	esac
done
libc=$(objdump -T "$tree/usr/bin/gimbal" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
size=$(find "$tree" -type f -printf '%s\n' | awk '{kib += int(($1 + 1023) / 1024)} END {print kib}')

mkdir "$tree/DEBIAN"
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@LIBC@/${libc#GLIBC_}/; s/@SIZE@/$size/" \
	packaging/debian/control >"$tree/DEBIAN/control"
echo /etc/gimbal/gimbal.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do put 755 "packaging/debian/$script" "$tree/DEBIAN/$script"; done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

mkdir -p "$dist"
package=gimbal_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz -z"${GIMBAL_DEB_LEVEL:-6}" --threads-max=1 --build "$tree" "$dist/$package" >&2
(cd "$dist" && sha256sum "$package" >"$package.sha256")
echo "$dist/$package"
