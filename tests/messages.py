#!/usr/bin/env python3
"""Every error text in the headings of docs/troubleshooting.md is a text of the library.

tests/messages.py
"""

import re
import sys
from pathlib import Path


def main():
    root = Path(__file__).resolve().parent.parent
    source = "\n".join(path.read_text() for path in sorted((root / "src").rglob("*.rs")))
    # Joins strings that continue on the next line, and replaces placeholders.
    source = re.sub(r"\\\n\s*", "", source)
    source = re.sub(r"\{[^{}\n]*\}", "{}", source)
    headings = re.findall(r"^### (.*)$", (root / "docs/troubleshooting.md").read_text(), re.M)
    texts = [text for heading in headings for text in re.findall(r"`([^`]+)`", heading)]
    lost = []
    for text in texts:
        if re.fullmatch(r"ucxx_\w+", text):
            continue
        parts = re.split(r" ?\.\.\. ?", text)
        for part in parts:
            # A message consists of an argument and what is wrong with it.
            pieces = [part, *part.split(": ", 1)]
            if part not in source and not all(piece in source for piece in pieces[1:]):
                lost.append(part)
    for part in lost:
        print(f"messages: no text of the library has: {part}", file=sys.stderr)
    print(f"messages: {len(texts)} texts of docs/troubleshooting.md checked")
    sys.exit(1 if lost or not texts else 0)


if __name__ == "__main__":
    main()
