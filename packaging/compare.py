# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Compares the files of the RPM packages with those of the Debian packages.

    python packaging/compare.py RPMS DEBS

Both arguments are folders. The two distributions have other names for the same places and
packages: those are mapped first. Differences that remain are printed, with their reason where it
is known. The exit status is 1 if one has no known reason.
"""

import pathlib
import re
import subprocess
import sys

# Which RPM package has the files of which Debian package.
PACKAGES = {
    "ucxx_rs": "libucxx-rs0.1",
    "ucxx_rs-devel": "libucxx-rs-dev",
    "ucxx_rs-static": "libucxx-rs-dev",
    "ucxx_rs-tools": "ucxx-rs-tools",
    "python3-ucxx_rs": "python3-ucxx-rs",
}

# The same place in both. Debian compresses pages, and rpm does as well, but not everywhere.
PLACES = [
    (r"^/usr/lib/[^/]+-linux-gnu/", "/usr/lib64/"),
    (r"^/usr/lib/python3/dist-packages/", "PYTHON/"),
    (r"^/usr/lib64/python3[^/]*/site-packages/", "PYTHON/"),
    (r"^/usr/share/doc/[^/]+/", "DOC/"),
    (r"[.]gz$", ""),
    (r"[.](dist|egg)-info/", ".info/"),
]

# What only one of them has, and why.
ONLY = [
    ("rpm", r"^/usr/share/licenses/", "Fedora's place of licenses and of the list of crates"),
    ("deb", r"^DOC/(LICENSE|copyright)$", "Debian's place of licenses"),
    ("deb", r"^DOC/(NEWS|changelog)([.]Debian)?$", "Debian's changelog of the package"),
    ("deb", r"^/usr/share/(lintian|doc-base)/", "only Debian has such files"),
    ("rpm", r"^/usr/lib/[.]build-id/", "only rpm has links by build ID"),
]


def packages(folder, suffix):
    for file in sorted(pathlib.Path(folder).glob(f"*.{suffix}")):
        if not re.search(r"-(debuginfo|dbgsym|debugsource)[-_]|[.]src[.]rpm$", file.name):
            yield file


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def place(path):
    for pattern, replacement in PLACES:
        path = re.sub(pattern, replacement, path)
    return path


def rpm_files(folder):
    """Place -> (Debian's name of the package, type and permissions)."""
    files = {}
    for file in packages(folder, "rpm"):
        name = output("rpm", "-qp", "--qf", "%{NAME}", str(file))
        lines = output("rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILENAMES}\\n]", str(file))
        for mode, path in (line.split(" ", 1) for line in lines.splitlines()):
            if not mode.startswith("d"):
                files[place(path)] = (PACKAGES.get(name, name), mode)
    return files


def deb_files(folder):
    files = {}
    for file in packages(folder, "deb"):
        name = output("dpkg-deb", "-f", str(file), "Package").strip()
        for line in output("dpkg-deb", "-c", str(file)).splitlines():
            mode, _, _, _, _, path = line.split(None, 5)
            if not mode.startswith("d"):
                files[place(path.partition(" -> ")[0].removeprefix("."))] = (name, mode)
    return files


def reason(side, path):
    for only, pattern, why in ONLY:
        if only == side and re.search(pattern, path):
            return why
    return None


def main():
    rpm, deb = rpm_files(sys.argv[1]), deb_files(sys.argv[2])
    if not rpm or not deb:
        sys.exit("compare.py: one of the folders has no package")
    unknown = 0
    for side, here, there in (("rpm", rpm, deb), ("deb", deb, rpm)):
        for path in sorted(set(here) - set(there)):
            why = reason(side, path)
            unknown += why is None
            print(f"only .{side}: {path} ({here[path][0]}): {why or 'UNKNOWN'}")
    common = sorted(set(rpm) & set(deb))
    for path in common:
        # Libraries are executable in Fedora, and not in Debian.
        same = 1 if re.search(r"[.]so[.0-9]*$", path) else 2
        if rpm[path][:same] != deb[path][:same]:
            unknown += 1
            print(f"{path}: {' '.join(rpm[path])} in .rpm, {' '.join(deb[path])} in .deb: UNKNOWN")
    print(f"{len(common)} files in both; {unknown} differences without a known reason")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
