# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Writes the metadata of the Python package for a distribution, which builds no wheel.

    python metadata.py PYPROJECT VERSION FOLDER.dist-info

importlib.metadata reads it: for the version, and for the entry points, by which distributed finds
its protocol.
"""

import pathlib
import sys
import tomllib


def metadata(project, version):
    lines = [
        "Metadata-Version: 2.1",
        "Name: " + project["name"],
        "Version: " + version,
        "Summary: " + project["description"],
        "License: " + project["license"],
        "Requires-Python: " + project["requires-python"],
    ]
    lines += ["Requires-Dist: " + dependency for dependency in project["dependencies"]]
    return lines


def entry_points(project):
    lines = []
    for group, entries in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    return lines


def main(pyproject, version, folder):
    project = tomllib.loads(pathlib.Path(pyproject).read_text())["project"]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (
        ("METADATA", metadata(project, version)),
        ("entry_points.txt", entry_points(project)),
    ):
        (folder / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
