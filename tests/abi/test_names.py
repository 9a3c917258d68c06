#!/usr/bin/env python3
"""No name in the header is a keyword of a language that binds it: a generator would have to change
the name, and the documentation would not match it.

    tests/abi/test_names.py PREFIX [unittest's arguments]
"""

import keyword
import sys
import unittest
from pathlib import Path

import header

PREFIX = None

# Reserved words, and words that binding generators treat as such. Python's are those of the
# interpreter, and the two below.
KEYWORDS = {
    "C and C++": """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept
        const consteval constexpr constinit const_cast continue contract_assert co_await co_return co_yield decltype default delete do double
        dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
        nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short signed sizeof static
        static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union
        unsigned using virtual void volatile wchar_t while xor xor_eq""",
    "Python": " ".join(keyword.kwlist),
    "Go": """break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select
        struct switch type var""",
    "Java": """abstract assert boolean break byte case catch char class const continue default do double else enum extends false final finally
        float for goto if implements import instanceof int interface long native new null package private protected public return short static
        strictfp super switch synchronized this throw throws transient true try void volatile while""",
    "C#": """abstract as base bool break byte case catch char checked class const continue decimal default delegate do double else enum event
        explicit extern false finally fixed float for foreach goto if implicit in int interface internal is lock long namespace new null object
        operator out override params private protected public readonly ref return sbyte sealed short sizeof stackalloc static string struct
        switch this throw true try typeof uint ulong unchecked unsafe ushort using virtual void volatile while""",
    "Swift": """Any as associatedtype break case catch class continue default defer deinit do else enum extension fallthrough false fileprivate
        for func guard if import in init inout internal is let nil operator precedencegroup private protocol public repeat rethrows return
        self Self static struct subscript super switch throw throws true try typealias var where while""",
    "Zig": """addrspace align allowzero and anyframe anytype asm async await break callconv catch comptime const continue defer else enum errdefer
        error export extern fn for if inline linksection noalias noinline nosuspend opaque or orelse packed pub resume return struct suspend switch
        test threadlocal try type union unreachable usingnamespace var volatile while""",
    "Rust": """abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let loop
        macro match mod move mut override priv pub ref return self Self static struct super trait true try type typeof unsafe unsized use
        virtual where while yield""",
}

# A parameter's name is not part of a call or of the ABI, and C# can write such names: @params.
# `base` is MPI's name.
PARAMETERS = {"params": "C#", "base": "C#"}


def names(header):
    """(what, name) of everything that has a name."""
    for each in header.version | header.initialisers:
        yield "constant", each
    for enum, constants in header.enums.items():
        yield "enum", enum
        yield from ((f"constant of {enum}", each) for each in constants)
    for each in [*header.opaque, *header.types]:
        yield "type", each
    for struct, members in header.structs.items():
        yield "struct", struct
        yield from ((f"member of {struct}", each.name) for each in members)
    for function in header.functions:
        yield "function", function.name
        for each in function.parameters:
            yield f"parameter of {function.name}", each.name


def clashes(header):
    found = []
    for what, name in names(header):
        for language, words in KEYWORDS.items():
            excepted = what.startswith("parameter") and PARAMETERS.get(name) == language
            if name in words.split() and not excepted:
                found.append(f"{name}, {what}, is a keyword of {language}")
    return found


class Names(unittest.TestCase):
    def test_no_name_is_a_keyword(self):
        taken = header.read(Path(PREFIX) / "include" / "ucxx_rs.h")
        self.assertGreater(len(list(names(taken))), 500)
        self.assertEqual(clashes(taken), [])

    def test_finds_what_is_one(self):
        taken = header.Header()
        taken.structs["s"] = [
            header.Parameter("int", "from"),
            header.Parameter("int", "params"),
            header.Parameter("int", "sound"),
        ]
        taken.functions.append(
            header.Function(
                "f", "int", [header.Parameter("int", "type"), header.Parameter("int", "params")]
            )
        )
        said = clashes(taken)
        self.assertEqual(
            [each.split(",")[0] for each in said], ["from", "params", "type", "type", "type"]
        )

    def test_nothing_is_of_a_type_that_languages_do_not_share(self):
        """A `bool` result sets one byte: a caller that declares an int reads three unset bytes."""
        taken = header.read(Path(PREFIX) / "include" / "ucxx_rs.h")
        types = [each.type for function in taken.functions for each in function.parameters] + [
            function.result for function in taken.functions
        ]
        types += [each.type for members in taken.structs.values() for each in members]
        self.assertEqual(
            [each for each in types if "bool" in each.split() or "long" in each.split()], []
        )


if __name__ == "__main__":
    PREFIX = sys.argv.pop(1)
    unittest.main()
