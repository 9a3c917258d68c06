#!/usr/bin/env python3
"""Describes the C interface for programs that generate bindings.

It writes share/ucxx_rs/api.json from the header, which tests/header_sync.rs generates from src/ffi.
The header says what a compiler needs. What only its comments and its conventions say is made
explicit here: directions, ownership, lengths, and which pointers may be NULL. docs/bindings.md
describes the format. A parameter that no rule describes is an error, so nothing is guessed.

  scripts/api_json.py --check     share/ucxx_rs/api.json is current (default)
  scripts/api_json.py --update    writes it
"""

import functools
import json
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests/abi"))
import api_members
import api_numbers
import header as c_header

OUTPUT = root / "share/ucxx_rs/api.json"
# Sizes and offsets, as a compiler has them.
LAYOUTS = root / "tests/abi/snapshot.txt"
NUMBERS = {
    "int32_t", "uint32_t", "int64_t", "uint64_t", "uint16_t", "uint8_t", "size_t", "int", "double",
}  # fmt: skip

# With what it is about, up to a semicolon or a bracket.
COMMENT = re.compile(
    r"/\*\*((?:(?!\*/).)*)\*/\s*(?:UCXX_NODISCARD\s+)?((?:(?!/\*)[^;{])*[;{]?)", re.S
)

# What neither a type nor a comment's form says. Key: "function.parameter", or "*.parameter".
NULLABLE = {
    # The comments of these say it in words of their own.
    "ucxx_memory_pack.bytes",
    "ucxx_rma_atomic.compare",
    "ucxx_rma_atomic.result",
    "ucxx_window_fetch_and_op.origin",
    "ucxx_group_allgather.mine",
    "ucxx_window_shared_query.size",
    "ucxx_window_shared_query.disp_unit",
    "ucxx_window_shared_query.base",
    # As those that they refer to.
    "ucxx_worker_set_fetch_notifier.notifier",
    "ucxx_window_get_accumulate.origin",
    "ucxx_window_rget_accumulate.origin",
    "ucxx_endpoint_cancel_all.count",
    "ucxx_worker_destroy_nb.done",
    "*.destroy_arg",
    # The rules at the top of the header. A callback's argument is the caller's own.
    "*.params",
    "*.arg",
    "*.user_data",
    "*.stream",
}
# Arrays whose length is not the next parameter.
LENGTHS = {
    "ucxx_notifier_poll.completions": "max",
    "ucxx_link_lease_many.envelopes": "count",
    "ucxx_rma_atomic.operand": "size",
    "ucxx_rma_atomic.compare": "size",
    "ucxx_rma_atomic.result": "size",
    "ucxx_memory_pack.bytes": "length",
    "ucxx_group_allgather.mine": "length",
    "ucxx_group_allgather.all": "length * ucxx_group_size(group)",
    "ucxx_window_fetch_and_op.origin": "ucxx_type_size(element_type)",
    "ucxx_window_fetch_and_op.result": "ucxx_type_size(element_type)",
    "ucxx_window_compare_and_swap.origin": "ucxx_type_size(element_type)",
    "ucxx_window_compare_and_swap.compare": "ucxx_type_size(element_type)",
    "ucxx_window_compare_and_swap.result": "ucxx_type_size(element_type)",
}
# Addresses that are not the beginning of an array.
ADDRESSES = {"ucxx_window_detach.base", "ucxx_hub_add_buffer.data"}
# Handles of others that a function returns or sets: they are not to be destroyed.
BORROWED = {"ucxx_group_endpoint.endpoint"}
# Memory that the library uses until the object of this name is destroyed, closed or told to let go.
KEPT = {
    "ucxx_memory_register.base": "memory",
    "ucxx_window_create.base": "window",
    "ucxx_window_attach.base": "window",
    "ucxx_layout_init_blocks.blocks": "layout",
}
# After these calls the caller has the handle no more, if they succeed.
TAKES = {
    "ucxx_worker_destroy_nb.worker",
    "ucxx_envelope_commit.envelope",
    "ucxx_envelope_abort.envelope",
    "ucxx_envelope_release.envelope",
}
# Callbacks that run only inside the call that they are given to.
INSIDE = {"*.visit", "*.line", "*.function"}
# What a function sets in one entry of a list of buffers.
ENTRIES = {
    "ucxx_buffers_get.buffer": {"direction": "out", "valid_for": "buffers"},
    "ucxx_buffers_take.buffer": {"direction": "out", "ownership": "owned"},
}
TABLES = (NULLABLE, LENGTHS, ADDRESSES, BORROWED, KEPT, TAKES, INSIDE, ENTRIES)


def comment(text):
    """The lines of a comment as paragraphs, and lists as they are."""
    lines = [re.sub(r"^\s*\*? ?", "", line, count=1).rstrip() for line in text.split("\n")]
    return "\n".join(lines).strip()


@functools.cache
def commented(text):
    """Each comment, with the beginning of what follows."""
    return [(comment(found[1]), found[2]) for found in COMMENT.finditer(text)]


def sections(text):
    """A function's comment by its parts."""
    found = {"text": [], "returns": [], "threads": [], "ownership": [], "see": []}
    names = {"Returns:": "returns", "Threads:": "threads", "Ownership:": "ownership"}
    names["See also:"] = "see"
    at = "text"
    for line in text.split("\n"):
        for name, part in names.items():
            if line.startswith(name):
                at, line = part, line[len(name) :].strip()
                break
        found[at].append(line)
    return {part: "\n".join(lines).strip() for part, lines in found.items() if any(lines)}


def statuses(text):
    """The list under "Returns": which statuses, and when."""
    flat = re.sub(r"\n(?!- )\s*", " ", text)
    return [
        {"status": status, "when": line.split(":", 1)[-1].strip()}
        for line in flat.split("\n")
        if line.startswith("- ")
        for status in re.findall(r"\bUCXX_(?:ERR_\w+|OK|INPROGRESS)\b", line.split(":")[0])
    ]


class Api:
    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        self.header = c_header.read(path)
        self.names = {function.name for function in self.header.functions}
        self.layouts = LAYOUTS.read_text(encoding="utf-8")
        self.opaque = {f"{name}_t" for name in self.header.opaque}
        self.structs = {f"{name}_t": name for name in self.header.structs}
        self.callbacks = {name: kind for name, kind in self.header.types.items() if "(*)" in kind}
        self.numbers = list(self.all_numbers())
        self.keys = {each.key for each in self.numbers}
        self.enum_of = api_numbers.assign(self.numbers, self.header.enums)
        members = {
            typedef: [(each.name, self.type(each.type)) for each in self.header.structs[name]]
            for typedef, name in self.structs.items()
        }
        self.check_tables()
        api_members.check_tables(members)
        functions = [
            (each.name, [self.type(one.type) for one in each.parameters])
            for each in self.header.functions
        ]
        self.direction_of = api_members.directions(members, functions)

    def check_tables(self):
        known = self.keys | {"*." + key.split(".")[-1] for key in self.keys}
        if stale := {key for table in TABLES for key in table} - known:
            raise api_numbers.Unclear(f"not in the header: {', '.join(sorted(stale))}")

    def all_numbers(self):
        """Every number, with what its comment says of it."""
        for function in self.header.functions:
            text = sections(self.function_comment(function)).get("text", "")
            result = re.match(r"Returns [^.]*?(UCXX_\w+\*.*)", text, re.S)
            yield self.number(function.name, function.result, result[1] if result else "")
            for each in function.parameters:
                key = f"{function.name}.{each.name}"
                yield self.number(key, each.type, api_numbers.about(each.name, text))
        for name, members in self.header.structs.items():
            for member in members:
                says = self.member_comment(name, member)
                yield self.number(f"{name}_t.{member.name}", member.type, says)
        for name in self.callbacks:
            text = self.callback_comment(name)
            for each in self.callback_parameters(name):
                says = api_numbers.about(each.name, text)
                yield self.number(f"{name}.{each.name}", each.type, says)

    def number(self, key, type, says):
        return api_numbers.Number(key, type.removesuffix("*").strip(), says)

    # Types

    def type_of(self, key, spelled):
        """The type of what has this name. A number that is a constant names its enumeration."""
        type = self.type(spelled)
        if key in self.enum_of:
            number = type["to"] if type["kind"] == "pointer" else type
            number["enum"] = self.enum_of[key]
        return type

    def type(self, spelled):
        """A type as the header spells it, taken apart."""
        spelled = c_header.tidy(spelled)
        if "(*)" in spelled:
            return {"kind": "callback", **self.signature(spelled)}
        if array := re.fullmatch(r"(.*?)\s*\[(\d+)\]", spelled):
            return {"kind": "array", "of": self.type(array[1]), "count": int(array[2])}
        if spelled.endswith("*"):
            to = spelled[:-1].strip()
            constant = to.endswith("*const") or to.startswith("const ")
            if to.endswith("*const"):
                to = to[: -len("const")].strip()
            elif not to.endswith("*"):
                to = to.removeprefix("const ")
            else:
                constant = False
            if to in ("void", "char") or to in self.opaque:
                kind = {"void": "address", "char": "string"}.get(to, "handle")
                type = {"kind": kind, "const": constant}
                return type if kind != "handle" else type | {"name": to}
            return {"kind": "pointer", "const": constant, "to": self.type(to)}
        if spelled in NUMBERS:
            return {"kind": "number", "name": spelled}
        if spelled in ("void", "char"):
            return {"kind": spelled}
        if spelled == "ucxx_status_t":
            return {"kind": "status"}
        if spelled in self.callbacks:
            return {"kind": "callback", "name": spelled}
        if spelled in self.structs:
            return {"kind": "struct", "name": spelled}
        raise c_header.NotUnderstood(spelled)

    def signature(self, spelled):
        result, inside = re.fullmatch(r"(.*?)\s*\(\*\)\((.*)\)", spelled).groups()
        each = [] if inside == "void" else c_header.split_list(inside)
        return {"result": self.type(result), "takes": [self.type(one) for one in each]}

    # Comments

    def comment_before(self, name, pattern="", within=None):
        """The comment of the first declaration that has this name, in this form."""
        for said, follows in commented(self.text if within is None else within):
            if name in follows and re.match(pattern + rf"\b{name}\b", follows):
                return said
        return ""

    def function_comment(self, function):
        return self.comment_before(function.name, r"[^;{(]*")

    def member_comment(self, struct, member):
        body = self.body("struct", struct)
        return self.comment_before(member.name, r"[^;]*?", body)

    def callback_comment(self, name):
        return self.comment_before(name, r"typedef [^;]*\(\*")

    def callback_parameters(self, name):
        spelled = re.search(rf"typedef [^;(]*\(\*{name}\)\((.*?)\);", self.text, re.S)[1]
        return c_header.parameters(spelled)

    def body(self, what, name):
        return re.search(rf"^{what} {name} \{{(.*?)^\}};", self.text, re.S | re.M)[1]

    # Parts of the description

    def enum(self, name):
        body = self.body("enum", name)
        values = []
        for constant in self.header.enums[name]:
            value = re.search(rf"\b{constant} = (-?\d+),", body)
            doc = self.comment_before(constant, within=body)
            if f"\nconstant {constant} = {value[1]}\n" not in self.layouts:
                raise c_header.NotUnderstood(f"{constant}: {LAYOUTS.name} has another value")
            described = {"name": constant, "value": int(value[1]), "doc": doc}
            values.append(described | self.event_handle(name, doc))
        doc = self.comment_before(name, "enum ")
        by_name = {each["name"]: each["value"] for each in values}
        more = api_numbers.describe(name, by_name, self.numbers, self.enum_of)
        return {"name": name, "doc": doc} | more | {"values": values}

    def event_handle(self, enum, doc):
        """The type of `handle` of a completion whose `kind` this is."""
        if enum != "ucxx_event":
            return {}
        says = re.search(r"`handle` is (?:NULL|a\s+`(\w+) \*`)", doc)
        if not says or says[1] not in (None, *self.opaque):
            raise api_numbers.Unclear(f"{enum}: what is `handle`? {doc}")
        return {"handle": says[1]} if says[1] else {}

    def struct(self, name):
        typedef, members = f"{name}_t", self.header.structs[name]
        described = {"name": typedef, "doc": self.comment_before(name, "struct ")}
        if f"{name}_init" in self.names and members[0].name == "struct_size":
            described["init"] = f"{name}_init"
        described["size"] = self.measured(rf"struct {name}: (\d+) bytes")
        described["direction"] = self.direction_of[typedef]
        return described | {"members": [self.member(name, member) for member in members]}

    def member(self, struct, member):
        typedef, doc = f"{struct}_t", self.member_comment(struct, member)
        type = self.type_of(f"{typedef}.{member.name}", member.type)
        names = [each.name for each in self.header.structs[struct]]
        direction = self.direction_of[typedef]
        more = api_members.Member(typedef, direction, member.name, type, names, doc).describe()
        offset = self.measured(rf"member {struct}\.{member.name}: at (\d+),")
        return {"name": member.name, "type": type, "offset": offset} | more | {"doc": doc}

    def measured(self, pattern):
        found = re.search(rf"^{pattern}", self.layouts, re.M)
        if found is None:
            raise c_header.NotUnderstood(f"{pattern}: not in {LAYOUTS.name}")
        return int(found[1])

    def handle(self, name):
        destroy = name.removesuffix("_t") + "_destroy"
        described = {"name": name, "doc": self.comment_before(name[:-2], "struct ")}
        return described | ({"destroy": destroy} if destroy in self.names else {})

    def callback(self, name):
        result, doc = self.signature(self.callbacks[name])["result"], self.callback_comment(name)
        takes, parameters = [], self.callback_parameters(name)
        names = [each.name for each in parameters]
        for each in parameters:
            type = self.type_of(f"{name}.{each.name}", each.type)
            more = api_members.callback_parameter(name, each.name, type, names, doc)
            takes.append({"name": each.name, "type": type} | more)
        return {"name": name, "doc": doc, "result": result, "parameters": takes}

    def function(self, function):
        doc = sections(self.function_comment(function))
        names = [each.name for each in function.parameters]
        operation = names[-2:] == ["params", "request"]
        described = {
            "name": function.name,
            "operation": operation,
            "result": self.result(function, doc),
            "parameters": [
                self.parameter(function, index, operation, doc)
                for index in range(len(function.parameters))
            ],
            "doc": doc.get("text", ""),
        }
        if found := statuses(doc.get("returns", "")):
            described["returns"] = found
        for part in ("threads", "ownership"):
            if part in doc:
                described[part] = re.sub(r"\s+", " ", doc[part])
        return described

    def result(self, function, doc):
        type = self.type_of(function.name, function.result)
        if "enum" in type:
            type["or_status"] = bool(statuses(doc.get("returns", "")))
        if type["kind"] in ("handle", "address", "string"):
            type["ownership"] = "borrowed"
            type["nullable"] = "never NULL" not in doc.get("returns", "")
        return type

    def nullable(self, key, operation, doc):
        """Whether the comment, or a rule for all functions, allows NULL."""
        function, name = key.split(".")
        if key in NULLABLE or f"*.{name}" in NULLABLE or function.endswith("_init"):
            return True
        if name == "request" and operation:
            return True
        flat = re.sub(r"\n(?!- |\n)\s*", " ", doc.get("text", ""))
        named = rf"\bNULL for `{name}`|\bNULL `{name}` means|If `{name}` is not NULL"
        for line in flat.split("\n"):
            item = re.match(r"- ((?:`\w+`(?:, | and )?)+):", line)
            for sentence in re.split(r"(?<=[.:;]) ", line):
                about = f"`{name}`" in sentence or (item and f"`{name}`" in item[1])
                allows = r"\boptional\b|\bmay be NULL\b|\bNULL (means|removes|sends)"
                if about and re.search(allows, sentence):
                    return True
                if re.search(named, sentence):
                    return "is invalid" not in sentence
        return False

    def parameter(self, function, index, operation, doc):
        given = function.parameters[index]
        key = f"{function.name}.{given.name}"
        type = self.type_of(key, given.type)
        described = {"name": given.name, "type": type, "direction": "in"}
        kind = type["kind"]
        if kind in ("number", "struct", "status"):
            return described
        described["nullable"] = self.nullable(key, operation, doc)
        more = getattr(self, f"{kind}_parameter")(
            key, type, self.length(function, index), operation
        )
        return described | more

    def length(self, function, index):
        """The parameter that says how many bytes or elements are there, or None."""
        given, after = function.parameters[index], function.parameters[index + 1 :][:1]
        if found := LENGTHS.get(f"{function.name}.{given.name}"):
            return found
        layout = f"{given.name}_layout"
        if any(each.name == layout for each in function.parameters):
            return layout
        named = r"(\w+_)?(length|count|capacity|size)"
        if after and re.fullmatch(named, after[0].name) and "*" not in after[0].type:
            return after[0].name
        return None

    def callback_parameter(self, key, _type, _length, _operation):
        function, name = key.split(".")
        if f"{function}.arg" not in self.keys:
            raise api_numbers.Unclear(f"{key}: which parameter is its argument?")
        # Inside the call; any number of times until it is replaced; or once, later.
        registered = "_set_" in function and name != "destroy_arg"
        runs = "inside" if f"*.{name}" in INSIDE else "registered" if registered else "once"
        return {"runs": runs, "arg": "arg"}

    def handle_parameter(self, key, type, _length, _operation):
        function, _ = key.split(".")
        if function == type["name"][:-2] + "_destroy":
            return {"nullable": True, "ownership": "taken"}
        return {"ownership": "taken" if key in TAKES else "borrowed"}

    def string_parameter(self, _key, type, length, _operation):
        return {} if type["const"] else {"direction": "out", "length": length, "unit": "bytes"}

    def address_parameter(self, key, type, length, operation):
        function, name = key.split(".")
        if name in ("arg", "user_data", "stream") or key in ADDRESSES:
            return {"opaque": True}
        if length is None:
            raise c_header.NotUnderstood(f"{key}: how long is it?")
        both = key in KEPT or key == "ucxx_group_broadcast.data"
        # What a window's calls without a request read is copied; what they write comes later.
        later = "epoch" if function.startswith("ucxx_window_") and not type["const"] else "call"
        copied = name == "header"
        return {
            "direction": "inout" if both else "in" if type["const"] else "out",
            "length": length,
            "unit": "layout" if length.endswith("_layout") else "bytes",
            "valid_for": KEPT.get(key)
            or ("call" if copied else "operation" if operation else later),
        }

    def pointer_parameter(self, key, type, length, operation):
        function, _ = key.split(".")
        to, const = type["to"], type["const"]
        if function.endswith("_init"):
            return {"direction": "out", "length": "struct_size", "unit": "bytes"}
        if function.startswith("ucxx_layout_init") and not const:
            return {"direction": "out"}
        if length is not None:
            described = {"direction": "in" if const else "out", "length": length}
            described |= {"unit": "elements", "valid_for": KEPT.get(key, "call")}
            if to.get("name") == "ucxx_envelope_t":
                described["ownership"] = "lease"
            if to.get("name") == "ucxx_buffer_t":
                written = "recv" in function or function == "ucxx_am_fetch_iov"
                way = "out" if written else "in"
                described["buffers"] = {"direction": way, "valid_for": "operation"}
            return described
        if to["kind"] == "handle":
            lease = to["name"] == "ucxx_envelope_t"
            owned = "borrowed" if key in BORROWED else "lease" if lease else "owned"
            return {"direction": "out", "ownership": owned}
        if const:
            return {}
        versioned = to["kind"] == "struct" and self.is_versioned(to["name"])
        both = versioned or key == "ucxx_memory_pack.length"
        described = {"direction": "inout" if both else "out"}
        return described | ({"buffers": ENTRIES[key]} if key in ENTRIES else {})

    def is_versioned(self, typedef):
        return self.header.structs[self.structs[typedef]][0].name == "struct_size"

    def describe(self):
        version = self.header.version
        return {
            "format": 1,
            "library": "ucxx_rs",
            "version": ".".join(
                str(version[f"UCXX_RS_VERSION_{n}"]) for n in ("MAJOR", "MINOR", "PATCH")
            ),
            "status": "int32_t",
            "enums": [self.enum(name) for name in self.header.enums],
            "handles": [self.handle(f"{name}_t") for name in self.header.opaque],
            "structs": [self.struct(name) for name in self.header.structs],
            "callbacks": [self.callback(name) for name in self.callbacks],
            "functions": [self.function(function) for function in self.header.functions],
        }


def written(described):
    """A line for each thing that is described, so that a change is seen as one."""
    parts = []
    for key, value in described.items():
        if isinstance(value, list):
            lines = ",\n  ".join(json.dumps(each) for each in value)
            parts.append(f'"{key}": [\n  {lines}\n ]')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def main():
    described = Api(root / "include/ucxx_rs.h").describe()
    text = written(described)
    if sys.argv[1:] == ["--update"]:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text, encoding="utf-8")
    elif sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    elif not OUTPUT.exists() or OUTPUT.read_text(encoding="utf-8") != text:
        sys.exit(
            f"{OUTPUT.relative_to(root)} is not what the header says: scripts/api_json.py --update"
        )


if __name__ == "__main__":
    main()
