#!/usr/bin/env python3
"""Refuses prose that is hard to read, and prints where and why. `scripts/test.sh fmt` runs it.

scripts/prose.py            checks every file that git knows
scripts/prose.py FILE...    checks these files

- Markdown, and comments of sources that are on lines of their own: at most 100 columns.
- Pages for users, and the header: at most 35 words in a sentence. A sentence ends at . ! ? or :,
  and at the end of its paragraph, item or table cell. Code does not count.
- Markdown and the header: no word of WORDS.

scripts/prose_exceptions.txt has the exceptions, each with a reason.
"""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXCEPTIONS = Path(__file__).with_name("prose_exceptions.txt")
HEADER = "include/ucxx_rs.h"

COLUMNS = 100
SENTENCE_WORDS = 35
# The files that are checked. The * of a pattern also matches a slash.
MARKDOWN = ["*.md"]
C_LIKE = ["*.c", "*.cpp", "*.h", "*.rs"]
SOURCES = [*C_LIKE, "*.py", "*.sh", "*.cmake", "*CMakeLists.txt", "*.supp", "*Makefile", "*.in"]
SOURCES += ["*.toml", "tools/completions/*"]
SENTENCES = ["docs/*.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", HEADER]
WITH_WORDS = [*MARKDOWN, HEADER]

WORDS = {
    r"\bwho(m)?ever\b": "name who it is",
    r"\bhitherto\b|\bheretofore\b": "until now",
    r"\b(there|where)(by|of|in|upon)\b": "so, of it, in it",
    r"\bfor ever\b": "without end, or never returns",
    r"\bas ever\b": "as before, as usual",
    r"\belse\.": "otherwise at the front, or another word",
    r"\bcomes? to nothing\b": "fails, has no effect",
    r"\bhears? (of|from|about)\b": "receives, is notified",
    r"\bon (its|their) way\b": "in flight",
    r"\b(has|have|had) gone(?! wrong)\b": "ended, was destroyed, was freed",
    r"\blets? go of\b": "releases",
    r"\bin the place of\b": "instead of",
    r"\bstands? (in|at|before|there)\b": "is in, lives in",
    r"(^|(?<=[.!] ))Who (?![^.]*\?)": "name the subject: a thread that ..., a program that ...",
}


class Fault(NamedTuple):
    file: str
    line: int
    kind: str
    what: str
    quoted: str

    def __str__(self):
        return f"{self.file}:{self.line}: {self.what}: {self.quoted[:90]}"


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def long_lines(name, text):
    markdown = matches(name, MARKDOWN)
    c_like = matches(name, C_LIKE)
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) <= COLUMNS:
            continue
        if markdown or re.match(r"\s*(//|/\*|\*)" if c_like else r"\s*(#|\.\\\")", line):
            yield Fault(name, number, "columns", f"{len(line)} columns, {COLUMNS} at most", line)


class Paragraph:
    """Lines that belong together, and the number of each."""

    def __init__(self):
        self.text = ""
        self.starts = []

    def add(self, number, line):
        if self.text:
            self.text += " "
        self.starts.append((len(self.text), number))
        self.text += line

    def line_at(self, offset):
        return max(number for start, number in self.starts if start <= offset)


def markdown_paragraphs(text):
    paragraph, fence = Paragraph(), None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        mark = re.match(r"```+|~~~+", line)
        if fence or mark:
            yield paragraph
            paragraph = Paragraph()
            if not fence:
                fence = mark.group()
            elif line.startswith(fence):
                fence = None
        elif line.startswith("|"):
            yield paragraph
            for cell in line.strip("|").split("|"):
                paragraph = Paragraph()
                paragraph.add(number, cell.strip())
                yield paragraph
            paragraph = Paragraph()
        elif not line or line.startswith("#"):
            yield paragraph
            paragraph = Paragraph()
            if line:
                heading = Paragraph()
                heading.add(number, line.strip("# "))
                yield heading
        else:
            item = re.match(r"([-*]|\d+\.) +", line)
            if item:
                yield paragraph
                paragraph = Paragraph()
                line = line[item.end() :]
            paragraph.add(number, line)
    yield paragraph


def header_paragraphs(text):
    """The paragraphs of the header's comments. A line with a gap of three blanks begins a row of a
    table."""
    paragraph, inside = Paragraph(), False
    for number, line in enumerate(text.split("\n"), 1):
        start = re.search(r"/\*+<?|//+!?", line) if not inside else None
        if not inside and not start:
            yield paragraph
            paragraph = Paragraph()
            continue
        if start:
            # The text before it was code.
            if line[: start.start()].strip() or start.group().startswith("/*"):
                yield paragraph
                paragraph = Paragraph()
            inside = start.group().startswith("/*")
            line = line[start.end() :]
        else:
            line = re.sub(r"^\s*\*(?!/)", "", line)
        ends = inside and "*/" in line
        line = line.split("*/")[0].strip() if ends else line.strip()
        if ends:
            inside = False
        item = re.match(r"([-*]|\d+\.) +|[\\@](param\S* \w+|\w+)\s*", line)
        row = re.search(r"\S {3,}\S", line)
        if item or row or not line:
            yield paragraph
            paragraph = Paragraph()
        if item:
            line = line[item.end() :]
        if line:
            paragraph.add(number, line)
        if ends:
            yield paragraph
            paragraph = Paragraph()
    yield paragraph


def faults_of_paragraph(name, paragraph):
    # The same length as before, so that offsets stay valid.
    def blank(match):
        return re.sub(r"\S", "_", match.group()).replace(" ", "_")

    text = re.sub(r"`[^`]*`", blank, paragraph.text)
    text = re.sub(r"(?<=\])\([^)\s]*\)", lambda match: "_" * len(match.group()), text)
    if matches(name, WITH_WORDS):
        for pattern, instead in WORDS.items():
            for match in re.finditer(pattern, text, re.IGNORECASE if "Who " not in pattern else 0):
                what = f"'{match.group().strip()}' ({instead})"
                place = paragraph.text[max(0, match.start() - 20) : match.end() + 40]
                yield Fault(name, paragraph.line_at(match.start()), "word", what, place)
    if matches(name, SENTENCES):
        start = 0
        for end in [match.end() for match in re.finditer(r"[.!?:][)\"'*]*\s+|$", text)]:
            sentence, words = paragraph.text[start:end], len(text[start:end].split())
            if words > SENTENCE_WORDS:
                what = f"a sentence of {words} words, {SENTENCE_WORDS} at most"
                yield Fault(name, paragraph.line_at(start), "sentence", what, sentence.strip())
            start = end


def faults(name, text):
    """The faults of a file, by its name below the root."""
    if matches(name, MARKDOWN) or matches(name, SOURCES):
        yield from long_lines(name, text)
    if matches(name, MARKDOWN) or name == HEADER:
        paragraphs = header_paragraphs if name == HEADER else markdown_paragraphs
        for paragraph in paragraphs(text):
            yield from faults_of_paragraph(name, paragraph)


class Exceptions:
    """Reads lines of the form "KIND | FILE | a part of the place | reason"."""

    def __init__(self, text):
        self.used = set()
        self.all = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split(" | ")]
            if len(fields) != 4 or not all(fields):
                sys.exit(f"{EXCEPTIONS.name}:{number}: not KIND | FILE | PLACE | REASON")
            if fields[0] not in ("columns", "sentence", "word"):
                sys.exit(f"{EXCEPTIONS.name}:{number}: the kinds are columns, sentence and word")
            self.all[number] = fields

    def allow(self, fault):
        for number, (kind, pattern, place, _) in self.all.items():
            if (
                kind == fault.kind
                and fnmatch.fnmatchcase(fault.file, pattern)
                and (place == "*" or place in fault.quoted)
            ):
                self.used.add(number)
                return True
        return False

    def unused(self):
        return [number for number in self.all if number not in self.used]


def main():
    exceptions = Exceptions(EXCEPTIONS.read_text())
    names = [str(Path(name).resolve().relative_to(ROOT)) for name in sys.argv[1:]]
    if not names:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        names = [name for name in listed.stdout.split("\0") if name]
        names = [name for name in names if (ROOT / name).is_file()]
    found = 0
    for name in names:
        if not matches(name, MARKDOWN + SOURCES):
            continue
        for fault in faults(name, (ROOT / name).read_text(errors="replace")):
            if not exceptions.allow(fault):
                print(fault)
                found += 1
    if len(sys.argv) == 1:
        for number in exceptions.unused():
            print(f"scripts/{EXCEPTIONS.name}:{number}: excepts nothing")
            found += 1
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
