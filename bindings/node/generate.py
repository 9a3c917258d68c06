#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""Writes generated/ from api.json: constants, structs and functions in koffi's terms.

generate.py           writes the files
generate.py --check   fails if they would change
"""

import json
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
API = json.loads((HERE / "../../share/ucxx_rs/api.json").read_text())
TOP = """\
// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
"""


def constants():
    yield TOP
    for enum in API["enums"]:
        name = "".join(word.title() for word in enum["name"].removeprefix("ucxx_").split("_"))
        values = [(value["name"], value["value"]) for value in enum["values"]]
        yield f"export const {name} = Object.freeze({{\n"
        for value in values:
            yield "  {}: {},\n".format(*value)
        yield "});\n\n"
    yield f"export const soname = 'libucxx_rs.so.{API['version'].rpartition('.')[0]}';\n"


def member_type(type_):
    kind = type_["kind"]
    if kind == "array":
        return f"koffi.array({member_type(type_['of'])}, {type_['count']})"
    if kind == "struct":
        return type_["name"]
    return "'char'" if kind == "char" else short(type_)


def structs():
    yield TOP
    yield "\nimport koffi from 'koffi';\n"
    # A struct comes after those that it has inside.
    waiting = list(API["structs"])
    done = set()
    while waiting:
        struct = waiting.pop(0)
        inside = {m["type"]["name"] for m in struct["members"] if m["type"]["kind"] == "struct"}
        if inside - done:
            waiting.append(struct)
            continue
        done.add(struct["name"])
        yield f"\nexport const {struct['name']} = koffi.struct('{struct['name']}', {{\n"
        for member in struct["members"]:
            yield f"  {member['name']}: {member_type(member['type'])},\n"
        yield "});\n"
    for callback in API["callbacks"]:
        takes = ", ".join(short(p["type"]) for p in callback["parameters"])
        name = callback["name"]
        yield f"\nexport const {name} = koffi.proto(\n"
        yield f"  '{name}', {short(callback['result'])}, [{takes}]);\n"
    yield "\nexport const sizes = {\n"
    for struct in API["structs"]:
        yield f"  {struct['name']}: {struct['size']},\n"
    yield "};\n"


def short(type_):
    """The type of a value that is passed as it is."""
    if type_["kind"] == "number":
        return repr(type_["name"])
    if type_["kind"] == "string" and type_["const"]:
        return "'const char *'"
    return {"status": "'int32_t'", "void": "'void'"}.get(type_["kind"], "'void *'")


def parameter(entry):
    type_, direction = entry["type"], entry.get("direction")
    # Memory with a length is a Buffer, of which the address is passed.
    if type_["kind"] != "pointer" or entry.get("length"):
        return {"'void *'": "ptr", "'size_t'": "size"}.get(short(type_), short(type_))
    to = type_["to"]
    name = repr(to["name"]) if to["kind"] in ("struct", "number") else "'void *'"
    if direction == "out" and name == "'void *'":
        return "outPtr"
    return {"in": "to", "out": "out", "inout": "inout"}[direction] + f"({name})"


def functions():
    yield TOP
    yield """
import koffi from 'koffi';
import './structs.js';

const ptr = 'void *', size = 'size_t';
const to = (name) => koffi.pointer(name);
const out = (name) => koffi.out(koffi.pointer(name));
const inout = (name) => koffi.inout(koffi.pointer(name));
const outPtr = out(ptr);

// The result and the parameters of each function.
export const functions = {
"""
    for function in API["functions"]:
        takes = ", ".join(parameter(p) for p in function["parameters"])
        line = f"{function['name']}: [{short(function['result'])}, [{takes}]],"
        yield textwrap.fill(line, 98, initial_indent="  ", subsequent_indent="    ") + "\n"
    yield "};\n"


def main():
    stale = []
    for name, make in (("constants", constants), ("structs", structs), ("functions", functions)):
        path, text = HERE / "generated" / f"{name}.js", "".join(make())
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"not what generate.py writes: {', '.join(stale)}")


main()
