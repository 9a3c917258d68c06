#!/usr/bin/env bash
# Checks the bill of materials: it fits CycloneDX's schema, has the crates that cargo links, each
# with a licence and a hash, and no folder of this machine.
#
#   packaging/sbom/try.sh OUT
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ $# -eq 1 ] || die "usage: try.sh OUT"
file=$(realpath "$1")/ucxx_rs-$(package_field version).cdx.json
[ -f "$file" ] || die "no $file: scripts/packages.sh build sbom"
python=$("$root/scripts/venv.sh" --name sbom 'cyclonedx-python-lib[json-validation]==11.0.0')
linked=$(cargo tree --locked --manifest-path "$root/Cargo.toml" --edges normal --prefix none --no-dedupe \
  --target "$(uname -m)-unknown-linux-gnu" --format '{p}' | tail -n +2 | awk '{ print $1, substr($2, 2) }' | LC_ALL=C sort -u)
LINKED=$linked "$python" - "$file" <<'END'
import json
import os
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1], encoding="utf-8").read()
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if error:
    sys.exit(f"sbom: not CycloneDX 1.5: {error}")
if "/tmp" in text or "/home" in text or "/root" in text:
    sys.exit("sbom: it has a folder of the machine")
components = json.loads(text)["components"]
listed = sorted(f"{each['name']} {each['version']}" for each in components)
if listed != os.environ["LINKED"].split("\n"):
    sys.exit(f"sbom: it lists {listed}, and cargo links {os.environ['LINKED']}")
for each in components:
    if not each.get("licenses") or not each.get("hashes"):
        sys.exit(f"sbom: {each['name']} has no licence, or no hash")
print(f"sbom: {len(listed)} crates, valid CycloneDX 1.5")
END
