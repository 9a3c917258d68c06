#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Writes debian/copyright, or checks that it is up to date.

    packaging/deb/copyright.py --write | --check

The crates are those that cargo links into the library on the architectures of the packages. Their
notices are read from their own licence files, which cargo has in its folder, or in vendor/.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "debian" / "copyright"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
# Where a crate has several licences, the first of these that it offers is used. SPDX's name, the
# name that debian/copyright has, and the first word of the text after the notices.
LICENCES = {
    "MIT": ("Expat", "Permission"),
    "ISC": ("ISC", "Permission"),
    "BSD-3-Clause": ("BSD-3-clause", "Redistribution"),
}
NOTICE = re.compile(r"\s*copyright\s+(?:\(c\)|©)\s*(.*?)\s*$", re.IGNORECASE)
HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ucxx_rs
Comment:
 packaging/deb/copyright.py has written this file.
 .
 The library contains the crates below, linked statically. vendor/ is in the
 sources only where somebody has vendored them; it has further crates then, for
 tests, each with its own licence file. The library also contains parts of Rust's
 standard library, copyright the Rust Project contributors, under Expat or
 Apache-2.0, at the choice of the user.

Files: *
Copyright: 2026 the ucxx_rs developers
License: BSD-3-clause

Files: src/sys/bindings.rs
Copyright: 2026 the ucxx_rs developers
 2001-2021 Mellanox Technologies Ltd.
 2014-2017 UT-Battelle, LLC.
 2016-2017 ARM Ltd.
 2018 Los Alamos National Security, LLC
License: BSD-3-clause
Comment: Generated from the headers of UCX 1.13.
"""


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform"]
    done = subprocess.run([*command, target], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def linked(target):
    """The packages that are linked into the library, by name, without the library itself."""
    graph = metadata(target)
    packages = {package["id"]: package for package in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    reached, waiting = set(), [graph["resolve"]["root"]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            # An ordinary dependency has no kind; the others are "dev" and "build".
            waiting += [
                dependency["pkg"]
                for dependency in nodes[name]["deps"]
                if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            ]
    reached.remove(graph["resolve"]["root"])
    return {packages[name]["name"]: packages[name] for name in reached}


def licence_of(package):
    offered = re.split(r" OR |/", package["license"])
    for name in LICENCES:
        if name in offered:
            return name
    sys.exit(f"copyright.py: {package['name']}: no licence of {package['license']!r} is known here")


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.name.startswith("LICENSE") and "APACHE" not in path.name.upper():
            yield path.read_text()


def notices(package):
    """Who has the copyright: as the licence file says, or else the authors."""
    found = []
    for text in texts(package):
        for line in text.splitlines():
            match = NOTICE.match(line)
            if match and match[1] not in found:
                found.append(match[1])
    authors = [re.sub(r" *<.*>", "", author) for author in package["authors"]]
    return found or authors or [f"the developers of {package['name']}"]


def paragraph(name, text):
    lines = [f"License: {name}"]
    for line in text[text.index(dict(LICENCES.values())[name]) :].rstrip().splitlines():
        lines.append((" " + line.strip()) if line.strip() else " .")
    return "\n".join(lines) + "\n"


def whole():
    crates = {}
    for target in TARGETS:
        crates.update(linked(target))
    parts = [HEAD]
    used = {"BSD-3-clause": paragraph("BSD-3-clause", (ROOT / "LICENSE").read_text())}
    for name, package in sorted(crates.items()):
        licence = LICENCES[licence_of(package)][0]
        holders = "\n ".join(notices(package))
        parts.append(f"Files: vendor/{name}/*\nCopyright: {holders}\nLicense: {licence}\n")
        for text in texts(package):
            # A file that only points to the others has no text.
            if licence not in used and dict(LICENCES.values())[licence] in text:
                used[licence] = paragraph(licence, text)
    return "\n".join(parts + [used[name] for name in sorted(used)])


def main(how):
    text = whole()
    if how == "--write":
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit("debian/copyright is out of date: packaging/deb/copyright.py --write")


if __name__ == "__main__":
    if sys.argv[1:] not in (["--write"], ["--check"]):
        sys.exit(__doc__)
    main(sys.argv[1])
