#!/usr/bin/env bash
# Builds the RPM packages of ucxx_rs.spec from the last commit, and checks them with rpmlint.
#
#   packaging/rpm/build.sh OUT        the packages, and what they are made of, go there
#
# The crates are in a second source archive, and the build reads nothing from the network.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
[ $# -eq 1 ] || die "usage: build.sh OUT"
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$root/packaging/rpm
for tool in rpmbuild rpmlint git; do
  command -v "$tool" >/dev/null || { say "$tool is not there; scripts/setup.sh packages installs it"; exit 77; }
done

name=ucxx_rs version=$(package_field version)
# The folders of an earlier build, but not cargo's.
rm -rf "$out"/{rpmbuild,*.rpm}
mkdir -p "$out/rpmbuild/SOURCES" "$out/vendored/.cargo"

git -C "$root" archive --prefix="$name-$version/" -o "$out/rpmbuild/SOURCES/$name-$version.tar.gz" HEAD
(
  cd "$out/vendored"
  cargo vendor --quiet --locked --manifest-path "$root/Cargo.toml" vendor > .cargo/config.toml
  # Import libraries of Windows. A source archive contains nothing that is compiled.
  find vendor \( -name '*.a' -o -name '*.lib' \) -delete
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c .cargo vendor |
    gzip -n > "$out/rpmbuild/SOURCES/$name-$version-vendor.tar.gz"
)
rm -rf "$out/vendored"

options=(--define "_topdir $out/rpmbuild")
# Where rpm is not the system's own package manager, its data base is empty, and the macros of
# Fedora are missing. What the build needs is checked by the build itself then.
if ! rpm -q rpm >/dev/null 2>&1; then
  python=$("$root/scripts/venv.sh" --name rpm cffi==2.1.1)
  PATH=$(dirname "$python"):$PATH
  options+=(--nodeps --load "$here/macros" --define "__python3 $python")
  CFLAGS=$(rpm --eval '%{optflags}')
  export CFLAGS
fi
# A fixed folder: a second build has less to do.
export CARGO_TARGET_DIR=$out/cargo
rpmbuild "${options[@]}" -ba "$here/ucxx_rs.spec"
mv "$out"/rpmbuild/RPMS/*/*.rpm "$out"/rpmbuild/SRPMS/*.rpm "$out/"
compgen -G "$out/$name-$version-*.src.rpm" > /dev/null || die "the spec has another version than Cargo.toml, $version"

rpmlint --config "$here/rpmlint.toml" "$out"/*.rpm
