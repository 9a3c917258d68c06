"""What the members of structs and the parameters of callbacks mean, for scripts/api_json.py.

A struct that the caller fills is like a list of parameters. One that the library fills is like a
list of results, and so are the parameters of a callback. A pointer that neither its comment nor a
table here explains is an error.
"""

import re

from api_numbers import Unclear

# Pointers that may be NULL, or must not be, where the member's own comment does not tell.
NULLABLE = {
    # One of a callback and a notifier is required.
    "ucxx_listener_params_t.on_connect",
    "ucxx_listener_params_t.notifier",
    # Each way to find the members needs some of them.
    "ucxx_group_params_t.allgather",
    "ucxx_group_params_t.root",
    # Required by the other callback.
    "ucxx_allocator_t.deallocate",
    "ucxx_layout_t.blocks",
}
REQUIRED = {"ucxx_config_entry_t.key", "ucxx_config_entry_t.value"}
# Memory whose length is not the next member, or a member whose name begins as its own.
LENGTHS = {"ucxx_envelope_attr_t.data": "capacity"}
# How long what a pointer leads to is there, where it is not the call that gets the struct.
VALID_FOR = {
    "ucxx_op_params_t.recv_info": "operation",
    "ucxx_window_params_t.memory": "window",
    "ucxx_version_t.version_string": "process",
    "ucxx_version_t.ucx_library_path": "process",
    "ucxx_window_attr_t.data": "window",
    "ucxx_envelope_attr_t.data": "lease",
    "ucxx_envelope_attr_t.metadata": "lease",
    "ucxx_envelope_attr_t.ready_event": "lease",
}
# Handles that the library gives away in a struct.
OWNED = {"ucxx_completion_t.request", "ucxx_completion_t.handle"}
# When a callback runs of which its comment does not say "once" or "each".
RUNS = {
    "ucxx_op_params_t.callback": "once",
    "ucxx_allocator_t.allocate": "registered",
    "ucxx_allocator_t.deallocate": "registered",
    "ucxx_link_params_t.on_ready": "registered",
    "ucxx_group_params_t.allgather": "inside",
}
# Addresses that are not memory for the program.
OPAQUE = {"ucxx_completion_t.user_data", "ucxx_envelope_attr_t.ready_event"}
TABLES = (NULLABLE, REQUIRED, LENGTHS, VALID_FOR, OWNED, OPAQUE, RUNS)


def directions(structs, functions):
    """Who fills each struct: the caller ("in"), the library ("out"), or either ("inout")."""
    found = {name: set() for name in structs}

    def used(type, given=None):
        to = type.get("to", type)
        if to["kind"] == "struct":
            by_library = type["kind"] == "pointer" and not type["const"]
            ways = {"out"} if by_library else given or {"in"}
            new = ways - found[to["name"]]
            found[to["name"]] |= ways
            if new:
                for _, member in structs[to["name"]]:
                    used(member, ways)

    for name, types in functions:
        if "_init" not in name:
            for type in types:
                used(type)
    if nobody := sorted(name for name in structs if not found[name]):
        raise Unclear(f"no function has {', '.join(nobody)}")
    return {name: "inout" if len(ways) > 1 else next(iter(ways)) for name, ways in found.items()}


def check_tables(structs):
    known = {f"{name}.{member}" for name, members in structs.items() for member, _ in members}
    named = {key for table in TABLES for key in table}
    if stale := named - known:
        raise Unclear(f"not in the header: {', '.join(sorted(stale))}")


class Member:
    """A member of a struct, and what is to be known of it."""

    def __init__(self, struct, direction, name, type, names, doc):
        self.key, self.name, self.type, self.doc = f"{struct}.{name}", name, type, doc
        self.direction, self.names = direction, names

    def describe(self):
        described = {"direction": "in" if self.name == "struct_size" else self.direction}
        if self.name == "reserved":
            return described | {"reserved": True}
        kind = self.type["kind"]
        if kind in ("number", "struct", "status", "array"):
            return described
        described["nullable"] = self.nullable()
        return described | getattr(self, f"{kind}_member")()

    def nullable(self):
        flat = re.sub(r"\s+", " ", self.doc)
        if self.is_argument() or self.key in OPAQUE | NULLABLE:
            return True
        if self.direction == "out":
            return "NULL" in flat
        if re.search(r"(^|\. )Optional\.|\bNULL (means|sends)\b", flat):
            return True
        if self.key not in REQUIRED and not re.search(r"\bMay be NULL if `\w+` is 0\.", flat):
            if self.length(must=False) is None:
                raise Unclear(f"{self.key}: may it be NULL? See {__name__}.py")
        return False

    def is_argument(self):
        """Whether it is what a callback gets as its argument."""
        return self.name == "arg" or self.name.endswith("_arg")

    def length(self, must=True):
        begin, after = self.name.removesuffix("s"), self.names[self.names.index(self.name) + 1 :]
        own = [f"{self.name}_length", f"{self.name}_count", f"{begin}_count"]
        own += [name for name in after[:1] if name in ("length", "size", "count")]
        found = LENGTHS.get(self.key) or next((name for name in own if name in self.names), None)
        if found is None and must:
            raise Unclear(f"{self.key}: how long is it? See {__name__}.py")
        return found

    def callback_member(self):
        arg = next((name for name in (f"{self.name}_arg", "arg") if name in self.names), None)
        if arg is None:
            raise Unclear(f"{self.key}: which member is its argument?")
        said = re.match(r"Runs (once)\b|Runs [\w ]*\beach\b", self.doc)
        runs = RUNS.get(self.key) or (said and ("once" if said[1] else "registered"))
        if not runs:
            raise Unclear(f"{self.key}: when does it run? See {__name__}.py")
        return {"runs": runs, "arg": arg}

    def valid_for(self):
        if self.key in VALID_FOR:
            return {"valid_for": VALID_FOR[self.key]}
        if self.direction == "out":
            raise Unclear(f"{self.key}: how long is it valid? See {__name__}.py")
        return {"valid_for": "call"}

    def handle_member(self):
        if self.key in OWNED:
            return {"ownership": "owned"}
        if self.direction == "out":
            raise Unclear(f"{self.key}: who destroys it? See {__name__}.py")
        return {"ownership": "borrowed"} | (self.valid_for() if self.key in VALID_FOR else {})

    def string_member(self):
        return self.valid_for()

    def address_member(self):
        if self.key in OWNED:
            return {"ownership": "owned"}
        if self.is_argument() or self.key in OPAQUE:
            return {"opaque": True} | (self.valid_for() if self.key in VALID_FOR else {})
        described = {"length": self.length(), "unit": "bytes"}
        # What an entry of a list is, and how long, is said where the list is a parameter.
        return described | ({} if self.direction == "inout" else self.valid_for())

    def pointer_member(self):
        if self.direction == "in" and not self.type["const"] and self.key in VALID_FOR:
            return {"direction": "out"} | self.valid_for()
        return {"length": self.length(), "unit": "elements"} | self.valid_for()


def callback_parameter(callback, name, type, names, doc):
    """A parameter of a callback: the library gives it, and it is valid during the call."""
    key, kind = f"{callback}.{name}", type["kind"]
    described = {"direction": "in"}
    if kind in ("number", "status"):
        return described
    items = re.split(r"\n(?=- |\n)", doc)
    about = " ".join(item for item in items if re.match(rf"\n?- .*`{name}`", item))
    described["nullable"] = name == "arg" or "NULL" in about
    if name == "arg":
        return described | {"opaque": True}
    if kind == "handle" and re.search(rf"\bowns `{name}`", doc):
        return described | {"ownership": "owned"}
    if kind == "handle":
        # Others are the program's own.
        short = re.search(rf"`{name}`[^.]*\bvalid during the call", doc)
        return described | {"ownership": "borrowed"} | ({"valid_for": "call"} if short else {})
    if kind == "string":
        return described | {"valid_for": "call"}
    length = next((one for one in (f"{name}_length", "length") if one in names), None)
    if kind == "address" and length:
        return described | {"length": length, "unit": "bytes", "valid_for": "call"}
    if kind == "pointer" and type["to"]["kind"] == "address" and length:
        return described | {"direction": "out"}
    raise Unclear(f"{key}: what is it? See {__name__}.py")
