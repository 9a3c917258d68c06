#!/usr/bin/env python3
"""Compares the ABI of an installed library, as text, with the recorded one in snapshot.txt.

    tests/abi/snapshot.py PREFIX             fails where the two differ, and says what to do
    tests/abi/snapshot.py PREFIX --update    writes snapshot.txt anew; not for a break of an ABI
                                             that has been released

Names and types are the header's (header.py); values, sizes and offsets come from a C compiler;
symbols and the SONAME are the library's. docs/abi.md says what may change.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import header as header_file

HERE = Path(__file__).resolve().parent
SNAPSHOT = HERE / "snapshot.txt"
CHANGELOG = HERE.parents[1] / "CHANGELOG.md"
TITLE = "# The ABI of libucxx_rs; written by tests/abi/snapshot.py --update. docs/abi.md says what may change.\n"


def layouts(header, include):
    """Lines that a C program prints: values of constants, sizes and offsets."""
    prints = []

    def show(text, *values):
        text = text.replace("%", "%%").replace("@", "%lld")
        prints.append(
            f'  printf("{text}\\n"{"".join(f", (long long)({value})" for value in values)});'
        )

    for name in header.version:
        show(f"constant {name} = @", name)
    for enum, constants in header.enums.items():
        for constant in constants:
            show(f"constant {constant} = @", constant)
        show(f"enum {enum}: {len(constants)} constants, @ bytes", f"sizeof(enum {enum})")
    for struct, members in header.structs.items():
        grows = "may grow" if members[0].name == "struct_size" else "never grows"
        show(
            f"struct {struct}: @ bytes, aligned to @, {grows}",
            f"sizeof(struct {struct})",
            f"offsetof(struct place_of_{struct}, value)",
        )
        for member in members:
            show(
                f"member {struct}.{member.name}: at @, @ bytes, {member.type}",
                f"offsetof(struct {struct}, {member.name})",
                f"sizeof(((struct {struct} *)0)->{member.name})",
            )
    places = [
        f"struct place_of_{struct} {{ char before; struct {struct} value; }};"
        for struct in header.structs
    ]
    source = "\n".join(
        [
            "#include <stdio.h>",
            "#include <ucxx_rs.h>",
            *places,
            "int main(void) {",
            *prints,
            "  return 0;",
            "}",
            "",
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "layouts"
        compiler = os.environ.get("CC", "gcc").split()
        subprocess.run(
            [
                *compiler,
                "-std=c99",
                "-Wall",
                "-Werror",
                "-I",
                include,
                "-x",
                "c",
                "-",
                "-o",
                program,
            ],
            input=source,
            text=True,
            check=True,
        )
        return subprocess.run(
            [program], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.splitlines()


def names(header):
    """Declarations without a layout: signatures, and the names of types."""
    lines = [f"opaque {name}" for name in header.opaque]
    lines += [f"type {name}: {meaning}" for name, meaning in header.types.items()]
    lines += [f"initialiser {macro}: {name}" for macro, name in header.initialisers.items()]
    for function in header.functions:
        lines.append(
            f"function {function.name}: {function.result} ({', '.join(each.type for each in function.parameters) or 'void'})"
        )
    return lines


def binary(library):
    def output(*command):
        return subprocess.run(
            [*command, library], stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    soname = re.search(r"SONAME.*\[(.*)\]", output("readelf", "-d", "-W"))[1]
    # Without the absolute symbol for the version itself, which some linkers create.
    lines = [line.split() for line in output("nm", "-D", "--defined-only").splitlines()]
    symbols = sorted(name for _, kind, name in lines if kind != "A")
    return [f"library: {soname}"] + [f"symbol {name}" for name in symbols]


def take(prefix):
    include = Path(prefix) / "include"
    header = header_file.read(include / "ucxx_rs.h")
    return binary(Path(prefix) / "lib" / "libucxx_rs.so") + layouts(header, include) + names(header)


def by_name(lines):
    """Each line by its subject: its first word or two."""
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            subject = re.match(r"library|\w+ [\w.]+", line)[0]
            if subject in found:
                raise SystemExit(f"abi: more than once: {subject}")
            found[subject] = line
    return found


def is_addition(subject, before, after):
    """For a line that exists in both and differs."""
    if subject.startswith("enum "):
        return before.split(",")[1] == after.split(",")[1]
    if subject.startswith("struct ") and before.endswith("may grow") and after.endswith("may grow"):
        sizes = [
            re.fullmatch(r".*: (\d+) bytes, (aligned to \d+), .*", line) for line in (before, after)
        ]
        return int(sizes[1][1]) > int(sizes[0][1]) and sizes[0][2] == sizes[1][2]
    return subject in ("constant UCXX_RS_VERSION_PATCH",)


def new_is_addition(subject, was, now):
    """A new member is an addition at the end of a struct that may grow, or of a new struct;
    anything else that is new is an addition.
    """
    if not subject.startswith("member "):
        return True
    struct = "struct " + subject.split()[1].split(".")[0]
    if struct not in was:
        return True
    size = int(re.search(r": (\d+) bytes", was[struct])[1])
    return (
        was[struct].endswith("may grow") and int(re.search(r": at (\d+)", now[subject])[1]) >= size
    )


def compare(before, after):
    """(additions, breaks), as lines for a reader."""
    was, now = by_name(before), by_name(after)
    additions, breaks = [], []
    for subject, line in was.items():
        if subject not in now:
            breaks.append(f"gone:    {line}")
        elif now[subject] != line:
            (additions if is_addition(subject, line, now[subject]) else breaks).append(
                f"was:     {line}\n    is:      {now[subject]}"
            )
    for subject, line in now.items():
        if subject not in was:
            (additions if new_is_addition(subject, was, now) else breaks).append(f"new:     {line}")
    return additions, breaks


def released(lines, changelog):
    """Has this MAJOR.MINOR been released? Then its ABI is a promise."""
    soversion = by_name(lines)["library"].rsplit(".so.", 1)[1]
    return re.search(rf"^## \[{re.escape(soversion)}\.\d+\]", changelog, re.M) is not None


def explain(additions, breaks, is_released):
    text = []
    if breaks:
        text += ["ABI BREAKS:"] + [f"    {line}" for line in breaks]
        if is_released:
            text.append(
                "  This version has been released, and programs rely on it: undo the breaks, or give the library the next MAJOR.MINOR, and with it a new SONAME."
            )
        else:
            text.append(
                "  This version has not been released. If the breaks are intended, list them in CHANGELOG.md as breaks."
            )
    if additions:
        text += ["ABI additions:"] + [f"    {line}" for line in additions]
    text.append(
        "  Next: a line in CHANGELOG.md for each, docs/abi.md read once more, then `tests/abi/snapshot.py PREFIX --update`, and commit tests/abi/snapshot.txt."
    )
    return "\n".join(text)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("prefix")
    arguments.add_argument("--update", action="store_true")
    options = arguments.parse_args()
    now = take(options.prefix)
    before = SNAPSHOT.read_text(encoding="utf-8").splitlines() if SNAPSHOT.exists() else []
    additions, breaks = compare(before, now) if before else ([], [])
    # The version that made the promise decides what is promised.
    promised = (
        bool(before)
        and released(before, CHANGELOG.read_text(encoding="utf-8"))
        and by_name(before)["library"] == by_name(now)["library"]
    )
    if before and not additions and not breaks:
        print(f"abi: {len(by_name(now))} lines, unchanged")
        return 0
    if before:
        print(explain(additions, breaks, promised), file=sys.stderr)
    if not options.update or (breaks and promised):
        print("abi: the library differs from tests/abi/snapshot.txt", file=sys.stderr)
        return 1
    SNAPSHOT.write_text(TITLE + "\n".join(now) + "\n", encoding="utf-8")
    print(f"abi: {len(by_name(now))} lines written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
