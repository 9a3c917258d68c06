#!/usr/bin/env bash
# Unpacks the GPU bundle in new systems without a compiler, and runs it there on the stand-in for
# the driver.
#
#   packaging/gpu/try.sh OUT      OUT: where build.sh has put the bundle
#
# The systems are Debian 12 (glibc 2.36) and Debian 13 (2.41), from the server that this machine's
# apt uses. Ubuntu 24.04 has glibc 2.39. They are made once, and kept as OUT/root-RELEASE.tar.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../../scripts/lib.sh"
source "$here/../new_debian.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
out=$(cd "$1" && pwd)
[ -f "$out/gpu-bundle.tar.xz" ] || die "$out has no gpu-bundle.tar.xz: build.sh makes it"
new_debian_possible
# Mounts of a namespace of its own end with it, however the script ends.
if ! unshare --mount true 2>/dev/null; then say "/proc cannot be mounted here"; exit 77; fi
if [ -z "${TRY_IN_NAMESPACE:-}" ]; then TRY_IN_NAMESPACE=1 exec unshare --mount "$0" "$out"; fi

for release in bookworm trixie; do
  new_debian "$out" "$release"
  tar -C "$debian_root/root" -xJf "$out/gpu-bundle.tar.xz"
  say "--- $release: run.sh on the stand-in"
  inside /root/gpu-bundle/run.sh --stand-in --minutes 30 --out /root/results
  # Whole, and with every row.
  python3 - "$debian_root/root/results/report.json" <<'END'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
names = {each["name"] for each in report["results"]}
wanted = {"cuda_hub", "cuda_killed", "tag", "tag-rate", "am", "am-rate", "fetch", "put", "get"}
missing = wanted | {"frames", "stream", "hub", "producers", "locks", "hub_overlap"}
missing |= {"python", "ucxx-python"}
missing -= names
bad = [e for e in report["results"] if e.get("result", "passed").startswith(("failed", "not run"))]
if missing or bad:
    sys.exit(f"missing: {sorted(missing)}; not passed: {bad}")
print(f"{len(report['results'])} entries in the report")
END
  drop_debian
done
