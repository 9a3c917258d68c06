#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""Writes the classes that api.json describes.

generate.py           writes the files
generate.py --check   fails if they would change

- src/ucxxrs/Status.java, Constants.java, Structs.java: everything that api.json has
- jna/ucxxrs/Lib.java, ffm/ucxxrs/Lib.java: the functions that src/ calls, in two ways. Pointers
  are of type long.
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
package ucxxrs;
"""
SONAME = f"libucxx_rs.so.{API['version'].rpartition('.')[0]}"
NUMBERS = {
    "uint8_t": "byte",
    "uint16_t": "short",
    "int": "int",
    "int32_t": "int",
    "uint32_t": "int",
    "int64_t": "long",
    "uint64_t": "long",
    "size_t": "long",
}


def wrap(line, indent):
    return textwrap.fill(
        line, 100, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4)
    )


def status():
    (values,) = (enum["values"] for enum in API["enums"] if enum["name"] == "ucxx_status")
    yield TOP
    yield "\n/** What a call or an operation ended with. ucxx_rs.h says what to do. */\n"
    yield "public enum Status {\n"
    for value in values:
        name = value["name"].removeprefix("UCXX_").removeprefix("ERR_")
        yield f"  {name}({value['value']}),\n"
    yield """\
  /** A status of UCX, or of an application, that has no name here. */
  OTHER(Integer.MIN_VALUE);

  final int value;

  Status(int value) {
    this.value = value;
  }

  static Status of(int value) {
    for (Status status : values()) {
      if (status.value == value) {
        return status;
      }
    }
    return OTHER;
  }
}
"""


def constants():
    yield TOP
    yield "\n/** The constants of the library, by their names in C. */\nfinal class Constants {\n"
    yield f'  static final String SONAME = "{SONAME}";\n'
    for enum in API["enums"]:
        if enum["name"] != "ucxx_status":
            yield "\n"
            kind = NUMBERS[enum["type"]]
            for value in enum["values"]:
                yield f"  static final {kind} {value['name']} = {value['value']};\n"
    yield "\n  private Constants() {}\n}\n"


def structs():
    yield TOP
    yield "\n/** The size of each struct, and the offsets of its members. */\n"
    yield "final class Structs {\n"
    for struct in API["structs"]:
        name = struct["name"].removeprefix("ucxx_").removesuffix("_t")
        yield f"  static final class {''.join(w.title() for w in name.split('_'))} {{\n"
        yield f"    static final int SIZE = {struct['size']};\n"
        for member in struct["members"]:
            if member["name"] != "reserved":
                yield f"    static final int {member['name']} = {member['offset']};\n"
        yield "  }\n\n"
    yield "  private Structs() {}\n}\n"


def java(type_):
    if type_["kind"] == "number":
        return NUMBERS[type_["name"]]
    return {"status": "int", "void": "void"}.get(type_["kind"], "long")


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def used():
    """The functions that src/ calls."""
    source = "".join(path.read_text() for path in sorted(HERE.glob("src/ucxxrs/*.java")))
    names = set(re.findall(r"\bLib\s*\.(ucxx_\w+)", source))
    for function in API["functions"]:
        if function["name"] in names:
            names.remove(function["name"])
            takes = [(java(p["type"]), camel(p["name"])) for p in function["parameters"]]
            yield function["name"], java(function["result"]), takes
    if names:
        sys.exit(f"not in api.json: {', '.join(sorted(names))}")


def jna():
    yield TOP
    yield """
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/** The functions of the library that this package calls, by JNA. */
final class Lib {
  static {
    String name = System.getProperty("ucxx_rs.library", Constants.SONAME);
    Signals.keep(() -> Native.register(Lib.class, NativeLibrary.getInstance(name)));
  }

  private Lib() {}

  static long address(ByteBuffer direct) {
    return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
  }

  static byte[] bytes(long address, int length) {
    return length == 0 ? new byte[0] : new Pointer(address).getByteArray(0, length);
  }

  static String string(long address) {
    return new Pointer(address).getString(0, "UTF-8");
  }
"""
    for name, result, takes in used():
        args = ", ".join(f"{type_} {arg}" for type_, arg in takes)
        yield "\n" + wrap(f"static native {result} {name}({args});", 2) + "\n"
    yield "}\n"


def ffm():
    layouts = {"long": "JAVA_LONG", "int": "JAVA_INT", "short": "JAVA_SHORT", "byte": "JAVA_BYTE"}
    functions = list(used())
    types = {t for _, result, takes in functions for t in [result, *(a for a, _ in takes)]}
    yield TOP
    yield "\n"
    for type_ in sorted(types - {"void"}, key=layouts.get):
        yield f"import static java.lang.foreign.ValueLayout.{layouts[type_]};\n"
    yield """
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;

/** The functions of the library that this package calls, by the foreign function interface. */
@SuppressWarnings("restricted")
final class Lib {
  private static final SymbolLookup[] LIBRARY = new SymbolLookup[1];

  static {
    String name = System.getProperty("ucxx_rs.library", Constants.SONAME);
    Signals.keep(() -> LIBRARY[0] = SymbolLookup.libraryLookup(name, Arena.global()));
  }

  private Lib() {}

  private static MethodHandle find(String name, FunctionDescriptor type) {
    return Linker.nativeLinker().downcallHandle(LIBRARY[0].find(name).orElseThrow(), type);
  }

  static long address(ByteBuffer direct) {
    return MemorySegment.ofBuffer(direct.duplicate().position(0)).address();
  }

  static byte[] bytes(long address, int length) {
    return MemorySegment.ofAddress(address).reinterpret(length).toArray(ValueLayout.JAVA_BYTE);
  }

  static String string(long address) {
    return MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
  }
"""
    for name, result, takes in functions:
        of = [layouts[type_] for type_, _ in takes]
        make = "ofVoid" if result == "void" else "of"
        layout = ", ".join(of if result == "void" else [layouts[result], *of])
        handle = f"private static final MethodHandle {name} ="
        yield f"\n  {handle}\n"
        yield wrap(f'find("{name}", FunctionDescriptor.{make}({layout}));', 6) + "\n\n"
        args = ", ".join(f"{type_} {arg}" for type_, arg in takes)
        yield wrap(f"static {result} {name}({args}) {{", 2) + "\n    try {\n"
        call = f"{name}.invokeExact({', '.join(arg for _, arg in takes)});"
        yield wrap(call if result == "void" else f"return ({result}) {call}", 6) + "\n"
        yield "    } catch (Throwable impossible) {\n"
        yield "      throw new AssertionError(impossible);\n    }\n  }\n"
    yield "}\n"


def main():
    files = {
        "src/ucxxrs/Status.java": status,
        "src/ucxxrs/Constants.java": constants,
        "src/ucxxrs/Structs.java": structs,
        "jna/ucxxrs/Lib.java": jna,
        "ffm/ucxxrs/Lib.java": ffm,
    }
    stale = []
    for name, make in files.items():
        path, text = HERE / name, "".join(make())
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"not what generate.py writes: {', '.join(stale)}")


main()
