#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Draws the pictures of docs/hub.md: the envelopes, and the queue.

scripts/hub_pictures.py            writes docs/pictures/hub_*.svg
scripts/hub_pictures.py --check    fails if these files differ from what it would write
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
CHUNKS = {
    1: "#cfe2f3",
    2: "#d9ead3",
    3: "#fff2cc",
    4: "#ead1dc",
    5: "#d9d2e9",
    6: "#fce5cd",
    7: "#d0e0e3",
}
SIDE, GAP = 40, 12


class Picture:
    """Boxes, lines and text, in pixels from the upper left corner."""

    def __init__(self, width, height, title):
        self.size = (width, height)
        self.parts = [
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def words(self, x, y, text, anchor="start", size=14, fill="#222222"):
        self.parts.append(
            f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{escape(text)}</text>'
        )

    def envelope(self, x, y, name, chunk=None, leased=False):
        """The border is dashed for an empty envelope, and bold for a leased one."""
        fill = CHUNKS[chunk] if chunk else "#ffffff"
        border = (
            'stroke="#b00020" stroke-width="3"' if leased else 'stroke="#444444" stroke-width="1"'
        )
        dashes = "" if chunk or leased else ' stroke-dasharray="4 3"'
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" rx="4" fill="{fill}" {border}{dashes}/>'
        )
        if chunk:
            self.words(x + SIDE / 2, y + 26, str(chunk), "middle", 18)
        if name:
            self.words(x + 3, y + 11, name, size=9, fill="#666666")

    def arrow(self, x, y, to_x, to_y, label=None, dashed=False):
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="M {x} {y} L {to_x} {to_y}" stroke="#444444" fill="none" marker-end="url(#tip)"{dashes}/>'
        )
        if label:
            self.words((x + to_x) / 2, (y + to_y) / 2 - 6, label, "middle", 12)

    def text(self):
        width, height = self.size
        tip = '<defs><marker id="tip" markerWidth="9" markerHeight="7" refX="8" refY="3.5" orient="auto"><path d="M 0 0 L 9 3.5 L 0 7 z" fill="#444444"/></marker></defs>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif">'
        return "\n".join([head, tip, *self.parts, "</svg>", ""])


def life():
    """The table "The life of a chunk", row by row: the contents of A and B on the host and of C and
    D on the device, and the queue, oldest first."""
    rows = [
        ("nothing yet", {}, [], None),
        ("lease and commit of A", {"A": 1}, [(1, "A")], None),
        ("the same call copies it ahead", {"A": 1, "C": 1}, [(1, "A C")], ("A", "C")),
        (
            "lease and commit of B, and a copy",
            {"A": 1, "B": 2, "C": 1, "D": 2},
            [(1, "A C"), (2, "B D")],
            ("B", "D"),
        ),
        (
            "lease of a third: A is given up for it",
            {"A": None, "B": 2, "C": 1, "D": 2},
            [(1, "C"), (2, "B D")],
            None,
        ),
        ("its commit; C is consumed", {"A": 3, "B": 2, "D": 2}, [(2, "B D"), (3, "A")], None),
    ]
    top, high = 50, 62
    picture = Picture(
        860,
        top + high * len(rows),
        "What is in the envelopes of a hub, and in its queue, step by step",
    )
    places = {name: 290 + at * (SIDE + GAP) + (at > 1) * 40 for at, name in enumerate("ABCD")}
    picture.words(places["A"], 30, "host")
    picture.words(places["C"], 30, "device")
    picture.words(600, 30, "queue, oldest first")
    for number, (caption, filled, queue, copied) in enumerate(rows):
        y = top + high * number
        picture.words(16, y + 26, caption)
        for name, x in places.items():
            picture.envelope(x, y, name, filled.get(name), name in filled and filled[name] is None)
        if copied:
            x, to_x = places[copied[0]] + SIDE, places[copied[1]]
            picture.parts.append(
                f'<path d="M {x - 20} {y + SIDE} Q {(x + to_x) / 2} {y + SIDE + 22} {to_x + 20} {y + SIDE + 1}" stroke="#444444" fill="none" marker-end="url(#tip)"/>'
            )
        for place, (chunk, where) in enumerate(queue):
            picture.envelope(600 + place * 110, y, None, chunk)
            picture.words(600 + place * 110 + SIDE + 6, y + 26, where, size=12)
    return picture


def stream():
    """At most as many chunks are in flight as the receiver has leased envelopes for."""
    picture = Picture(
        860, 300, "A link that consumes here feeds one that produces in another process"
    )
    for x, title in ((20, "sending hub"), (560, "receiving hub")):
        picture.parts.append(
            f'<rect x="{x}" y="40" width="280" height="230" rx="8" fill="#fafafa" stroke="#888888"/>'
        )
        picture.words(x + 12, 30, title)
    picture.words(32, 70, "queue, oldest first", size=12)
    for place, (chunk, leased) in enumerate([(5, True), (6, True), (7, False)]):
        picture.envelope(32 + place * (SIDE + GAP), 84, None, chunk, leased)
    picture.words(32, 150, "5 and 6 are leased until the receiver", size=12)
    picture.words(32, 166, "reports them. 7 waits for credit.", size=12)
    picture.words(32, 206, "produced", size=12)
    picture.envelope(32, 216, None, None, True)
    picture.words(572, 70, "leased in advance", size=12)
    for place in range(2):
        picture.envelope(572 + place * (SIDE + GAP), 84, str(5 + place), None, True)
    picture.words(572, 196, "queue, oldest first", size=12)
    for place, chunk in enumerate((3, 4)):
        picture.envelope(572 + place * (SIDE + GAP), 210, None, chunk)
    picture.arrow(676, 235, 800, 235, "consumers", dashed=True)
    picture.arrow(310, 95, 552, 95, "5 and 6, envelope to envelope")
    picture.arrow(552, 225, 310, 225, "received up to 4, room up to 6")
    return picture


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    for draw in (life, stream):
        path, text = FOLDER / f"hub_{draw.__name__}.svg", draw().text()
        if not check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(
                f"{path.name} is not what scripts/hub_pictures.py draws: run it, and commit what it writes"
            )


if __name__ == "__main__":
    main()
