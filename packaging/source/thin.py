#!/usr/bin/env python3
"""Empties the vendored crates that no build for Linux uses, such as the bindings of Windows, which
are most of the bytes. cargo wants each crate of Cargo.lock to be there, so its manifest stays.

    packaging/source/thin.py ROOT     with ROOT/vendor, and ROOT/.cargo/config.toml that names it
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

MACHINES = ["x86_64", "aarch64"]


def used(root):
    """The names and versions of the crates that a build for Linux may use, tests included."""
    found = set()
    for machine in MACHINES:
        command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
        command += ["--all-features", "--filter-platform", f"{machine}-unknown-linux-gnu"]
        text = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout
        metadata = json.loads(text)
        nodes = {node["id"] for node in metadata["resolve"]["nodes"]}
        found |= {
            Path(package["manifest_path"]).parent.name
            for package in metadata["packages"]
            if package["id"] in nodes
        }
    return found


def empty(crate):
    checksums = crate / ".cargo-checksum.json"
    package = json.loads(checksums.read_text(encoding="utf-8"))["package"]
    for path in crate.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("Cargo.toml", checksums.name):
            path.unlink()
    (crate / "src").mkdir()
    (crate / "src" / "lib.rs").write_text("")
    checksums.write_text(json.dumps({"files": {}, "package": package}), encoding="utf-8")


def main():
    root = Path(sys.argv[1])
    kept = used(root)
    if not any((root / "vendor" / name).is_dir() for name in kept):
        raise SystemExit("thin: cargo does not use the vendored crates")
    for crate in sorted((root / "vendor").iterdir()):
        if crate.name not in kept:
            empty(crate)


if __name__ == "__main__":
    main()
