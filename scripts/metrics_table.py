#!/usr/bin/env python3
"""Prints the list of all metrics, from the tables in src/engine. docs/metrics.md contains it.

scripts/metrics_table.py            prints it
scripts/metrics_table.py --write    writes it into the document
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/metrics.md"
BEGIN, END = "<!-- metrics: scripts/metrics_table.py -->\n", "<!-- end of metrics -->"
ENTRY = re.compile(
    r'Metric::(counter|gauge|info|histogram)\(\s*"(\w+)",\s*"((?:[^"\\]|\\.)*)"', re.S
)
SUFFIX = {"counter": "_total", "info": "_info", "gauge": "", "histogram": ""}
KINDS = ["worker", "endpoint", "hub", "window", "group"]


def metrics():
    """All metrics: (name in a sample, type, help), by kind of object, as they are written."""
    found = []
    for path in sorted((ROOT / "src/engine").rglob("*.rs")):
        text = path.read_text().split("#[cfg(test)]")[0]
        for kind, name, note in ENTRY.findall(text):
            note = re.sub(r"\\\n\s*", "", note).replace('\\"', '"')
            found.append((name + SUFFIX[kind], kind, note))
    return sorted(found, key=lambda metric: KINDS.index(metric[0].split("_")[1]))


def table():
    """A list under a heading for each kind of object: help texts are too long for a real table."""
    text, kind = "", ""
    for name, type_, note in metrics():
        if name.split("_")[1] != kind:
            kind = name.split("_")[1]
            text += f"\n### Metrics of {'an' if kind == 'endpoint' else 'a'} {kind}\n\n"
        entry = f"- `{name}` ({type_}): {note}"
        text += textwrap.fill(
            entry, 100, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
        text += "\n"
    return text + "\n"


def with_table(page):
    head, rest = page.split(BEGIN)
    return head + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text()))
    else:
        print(table(), end="")
