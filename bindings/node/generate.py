#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""Writes generated/ from api.json: constants, structs and functions in koffi's terms.

generate.py           writes the files
generate.py --check   fails if they would change
"""

import json
import re
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

READ = {"status": "readInt32LE", "int32_t": "readInt32LE", "uint64_t": "readBigUInt64LE"}
READ |= dict.fromkeys(("address", "handle"), "readBigUInt64LE")


def comment(doc, indent=""):
    """The first sentence, for editors. The rest is in the header."""
    first = re.split(r"(?<=[.!?])\s", doc.split("\n\n")[0].replace("\n", " "), maxsplit=1)[0]
    first = f"/** {first} */"
    return textwrap.fill(first, 100, initial_indent=indent, subsequent_indent=indent + " * ") + "\n"


def constants():
    yield TOP
    for enum in API["enums"]:
        name = camel("_" + enum["name"])
        yield f"\n{comment(enum['doc'])}export const {name} = Object.freeze({{\n"
        for value in enum["values"]:
            yield comment(value["doc"], "  ") + f"  {value['name']}: {value['value']},\n"
        yield "});\n"
    yield f"\nexport const soname = 'libucxx_rs.so.{API['version'].rpartition('.')[0]}';\n"


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
    yield "\n// Parameters: these members, and the defaults of the others.\n"
    for struct in API["structs"]:
        if struct["direction"] == "in" and "init" in struct:
            members = f"({{ struct_size: {struct['size']}, ...members }})"
            yield f"export const {camel(struct['name'])} = (members) => {members};\n"
    lists = set(filled())
    for struct in API["structs"]:
        if struct["name"] in lists:
            yield "\n// Takes one from the memory that the library has filled."
            yield " Pointers are numbers.\n"
            yield f"export const {camel('read_' + struct['name'])} = (memory, at) => ({{\n"
            for member in struct["members"]:
                if "reserved" not in member:
                    read = READ.get(member["type"].get("name"), READ.get(member["type"]["kind"]))
                    yield f"  {member['name']}: memory.{read}(at + {member['offset']}),\n"
            yield "});\n"


def filled():
    """The structs of which functions fill a list."""
    for function in API["functions"]:
        for entry in function["parameters"]:
            if entry["direction"] == "out" and entry.get("unit") == "elements":
                if entry["type"]["to"]["kind"] == "struct":
                    yield entry["type"]["to"]["name"]


def camel(name):
    """The name without what is C's own: ucxx_op_params_t is opParams, and _ucxx_flag is Flag."""
    first, *rest = name.replace("ucxx_", "").removesuffix("_t").split("_")
    return first + "".join(word.title() for word in rest)


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
