#!/usr/bin/env python3
"""Prints the table of the engine's floors and the uses between them, computed from the code.
docs/architecture.md contains it.

scripts/floors.py            prints it
scripts/floors.py --write    writes it into the document
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "src/engine"
DOCUMENT = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- floors: scripts/floors.py -->\n", "<!-- end of floors -->\n"


def floors():
    return re.findall(r"^pub mod (\w+);", (ENGINE / "mod.rs").read_text(), re.MULTILINE)[:-1]


def is_of_tests(path):
    return path.name.endswith("_tests.rs") or path.name.startswith("test_") or "model" in path.parts


def code_of(path):
    text = path.read_text()
    tests = re.search(r"^#\[cfg\(test\)\]\n(mod |#\[path)", text, re.MULTILINE)
    return re.sub(r"//.*", "", text[: tests.start()] if tests else text)


def picture():
    names = floors()
    files = {
        name: [path for path in sorted((ENGINE / name).rglob("*.rs")) if not is_of_tests(path)]
        for name in names
    }
    lines = {
        name: sum(1 for path in files[name] for line in code_of(path).splitlines() if line.strip())
        for name in names
    }
    uses = {
        name: [
            sum(1 for path in files[name] if re.search(rf"crate::engine::{other}\b", code_of(path)))
            for other in names
        ]
        for name in names
    }
    head = ["floor", "files", "lines", *names]
    rows = [
        [
            name,
            str(len(files[name])),
            str(lines[name]),
            *(
                "" if other == name or not count else str(count)
                for other, count in zip(names, uses[name])
            ),
        ]
        for name in reversed(names)
    ]
    table = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in table)


def main():
    drawn = BEGIN + picture() + END
    if len(sys.argv) == 1:
        print(drawn, end="")
        return
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text[: text.index(BEGIN)] + drawn + text[text.index(END) + len(END) :])


main()
