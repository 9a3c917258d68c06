#!/usr/bin/env python3
"""The numbers in tools/wireshark/ucxx_rs.lua are those of the Rust sources: constants, kinds of
messages, and where each field of a header is. Lines that begin with "--@" name the Rust file.

tests/wireshark/test_constants.py [unittest's arguments]
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LUA = (ROOT / "tools/wireshark/ucxx_rs.lua").read_text()
WIDTHS = {"short": 2, "half": 4, "long": 4, "word": 8, "number": 4}
# Rust's names of fields, where the dissector has another one.
OTHERWISE = {"kind_of_element": "kind"}


def tables():
    """Each marked table of the Lua file: the file, what follows its name, and the table's text."""
    for match in re.finditer(
        r"^--@ (\S+)(?: (\S+))?\n((?:--[^@\n].*\n)*)local (\w+) = (?:layout\(\"\w+\", )?\{",
        LUA,
        re.M,
    ):
        depth, at = 1, match.end()
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(LUA[at], 0)
            at += 1
        yield match[1], match[2], match[4], LUA[match.end() : at - 1]


def value_of(text):
    """A constant's value: a number, a product or shift of numbers, or the text of a byte string."""
    text = re.sub(r"(?<=\d)(?:u8|u16|u32|u64|usize|i32)\b|_(?=\d)", "", text.strip())
    if match := re.fullmatch(r'\*?b"(\w+)"', text):
        return match[1]
    if re.fullmatch(r"[\dxa-fA-F\s()+*<|-]+", text):
        return eval(text, {"__builtins__": {}})
    return None


def constants(source):
    """The constants of a Rust file. One may refer to others before it."""
    found = {}
    for name, text in re.findall(r"\bconst ([A-Z_]+): [^=]+=\s*([^;]+);", source):
        for known, value in found.items():
            text = re.sub(rf"(?:Self::)?\b{known}\b(?: as \w+)?", str(value), text)
        if (value := value_of(text)) is not None:
            found.setdefault(name, value)
    return found


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def enumeration(source, name):
    """Number to name. Without numbers they are those of the list ALL, from 0 on."""
    body = re.search(rf"\benum {name} \{{(.*?)^\}}", source, re.S | re.M)[1]
    body = re.sub(r"//.*|#\[.*\]", "", body)
    if "=" in body:
        return {int(number): snake(kind) for kind, number in re.findall(r"(\w+) = (\d+)", body)}
    return dict(enumerate(snake(kind) for kind in re.findall(r"\b(\w+)\b", body)))


def offsets(source):
    """Name to offset and width, as decode() reads them."""
    found = {}
    read = r"(?:(short|half|long|word)\((\d+)\)|(?:\w+::from_number\()?(?:bytes|head)\[(\d+)\])"

    def add(name, match):
        width = WIDTHS[match[1]] if match[1] else 1
        found.setdefault(name, (int(match[2] or match[3]), width))

    for match in re.finditer(r"let \(([^)]*)\) =\s*\(((?:[^()]|\([^()]*\))*)\);", source):
        names = [name.strip() for name in match[1].split(",")]
        for name, value in zip(names, match[2].split(","), strict=False):
            if value := re.match(rf"\s*{read}", value):
                add(name, value)
    for match in re.finditer(rf"\b(\w+)(?::| =) ?{read}", source):
        add(match[1], [match[0], *match.groups()[1:]])
    return found


class Constants(unittest.TestCase):
    def test_each_table(self):
        kinds = {"numbers": 0, "layouts": 0, "enumerations": 0}
        for file, what, name, text in tables():
            source = (ROOT / file).read_text().split("#[cfg(test)]")[0]
            with self.subTest(table=name):
                if what == "layout":
                    kinds["layouts"] += 1
                    self.layout(source, text)
                elif what is None:
                    kinds["numbers"] += 1
                    self.numbers(source, text)
                else:
                    kinds["enumerations"] += 1
                    self.enumeration(source, what, text)
        self.assertEqual(kinds, {"numbers": 12, "layouts": 4, "enumerations": 9})

    def numbers(self, source, text):
        rust = constants(source)
        entries = re.findall(r'(\w+) = ("\w+"|0x[0-9a-f]+|\d+)', text)
        self.assertTrue(entries or "[" in text)
        for name, value in entries:
            self.assertEqual(value.strip('"') if '"' in value else int(value, 0), rust[name], name)
        for value, name in re.findall(r"\[(-?\d+)\] = \"(\w+)\"", text):
            self.assertEqual(rust[name.upper()], int(value), name)

    def enumeration(self, source, what, text):
        entries = re.findall(r"\[(-?\d+)\] = \"(\w+)\",?(?: -- (\w+))?", text)
        lua = {int(number): snake(rust) if rust else name for number, name, rust in entries}
        if what.endswith("_"):
            rust = {int(n): name for name, n in re.findall(rf"\b{what}(\w+) = (-\d+),", source)}
            rust[0] = "OK"
        else:
            rust = enumeration(source, what)
        self.assertEqual(lua, rust)

    def layout(self, source, text):
        rust = offsets(source)
        entries = re.findall(r'\{ "(\w+)", (\d+), (\d+), "', text)
        self.assertGreater(len(entries), 7)
        for name, offset, width in entries:
            if name in ("version", "kind", "kind_number"):
                continue  # read in a form of their own; the captures show that they are right
            read = rust[OTHERWISE.get(name, name)]
            self.assertEqual((int(offset), int(width)), read, name)


if __name__ == "__main__":
    unittest.main()
