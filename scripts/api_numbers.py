"""Which numbers of the C interface are constants of which enumeration, for scripts/api_json.py.

In the header such a number is an `int32_t`, or an unsigned one that holds flags. Its comment names
the constants, as in "UCXX_MEMORY_*". Numbers of the same name mean the same, unless comments
contradict. A table has the rest. An `int32_t` of which neither says anything is an error, and so is
an enumeration that no number has.
"""

import re
from os.path import commonprefix
from typing import NamedTuple

# Numbers whose comments refer to those of other functions.
TABLE = {
    "ucxx_window_fetch_and_op.op": "ucxx_reduce",
    "ucxx_window_raccumulate.op": "ucxx_reduce",
    "ucxx_window_rget_accumulate.op": "ucxx_reduce",
}
# Each int32_t that is no constant of an enumeration, and what it is.
PLAIN = {
    "ucxx_context_has_cuda": "1 or 0",
    "ucxx_endpoint_writable": "1 or 0",
    "ucxx_group_same_host": "1 or 0",
    "ucxx_window_test.done": "1 or 0",
    "ucxx_worker_params_t.delayed_submission": "-1, 0 or 1",
    "ucxx_worker_params_t.wait_takeover": "-1, 0 or 1",
    "ucxx_worker_params_t.cpu": "a number plus 1",
    "ucxx_link_event_fd.fd": "a descriptor",
    "*.device_id": "a number of a device",
}
# Enumerations that no number has, and why.
UNUSED = {"ucxx_status": "numbers of it have the kind `status`"}


class Unclear(Exception):
    pass


class Number(NamedTuple):
    """One in the interface. `key` is "function", "function.parameter" or "struct_t.member"."""

    key: str
    type: str
    # The part of the comment that follows the number's name.
    says: str

    @property
    def name(self):
        return self.key.split(".")[-1]


def about(name, text):
    """What a comment says directly after the name: in a list, in brackets, or after "is"."""
    if f"`{name}`" not in text:
        return ""
    after = re.search(
        rf"`{name}`(?:\s+is(?:\s+one\s+of)?)?:?\s+\(?(?:- )?(?:0 or )?(?=UCXX_)", text
    )
    return text[after.end() :] if after else ""


def prefix(constants):
    """What the names of all constants begin with, such as UCXX_LOG_."""
    return re.match(r".*_", commonprefix(constants))[0]


def mentioned(text, enums):
    """The enumeration whose constant, or whose "UCXX_LOG_*", the text begins with, or None."""
    found = re.match(r"UCXX_\w+", text)
    if not found or found[0].startswith("UCXX_ERR_"):
        return None
    begins = [name for name in enums if found[0].startswith(prefix(enums[name]))]
    best = max(begins, key=lambda name: len(prefix(enums[name])), default=None)
    if best in (None, *UNUSED):
        raise Unclear(f"{found[0]} is of no enumeration")
    return best


def assign(numbers, enums):
    """The enumeration of each number that has one, by its key. `enums` has the constants."""
    numbers = [each for each in numbers if each.type in ("int32_t", "uint32_t", "uint64_t")]
    said = {each.key: mentioned(each.says, enums) for each in numbers}
    by_name = {}
    for each in numbers:
        if said[each.key]:
            by_name.setdefault(each.name, set()).add(said[each.key])
    found = {}
    for each in numbers:
        same = by_name.get(each.name, set())
        plain = each.key in PLAIN or f"*.{each.name}" in PLAIN
        enum = TABLE.get(each.key) or said[each.key] or (next(iter(same)) if same else None)
        if not enum:
            if each.type == "int32_t" and not plain:
                raise Unclear(f"{each.key}: which constants, if any? See {__name__}.py")
        elif plain:
            raise Unclear(f"{each.key}: the table says that it is no constant")
        elif len(same) > 1 and not said[each.key] and each.key not in TABLE:
            raise Unclear(f"{each.key}: which of {', '.join(sorted(same))}?")
        else:
            found[each.key] = enum
    known = {each.key for each in numbers} | {f"*.{each.name}" for each in numbers}
    if stale := (TABLE.keys() | PLAIN.keys()) - known:
        raise Unclear(f"not in the header: {', '.join(sorted(stale))}")
    return found


def describe(name, values, numbers, assigned):
    """What is to be known of an enumeration: its type, and whether its constants are flags."""
    types = {each.type for each in numbers if assigned.get(each.key) == name} or {"int32_t"}
    if name not in assigned.values() and name not in UNUSED:
        raise Unclear(f"{name}: no number is one of its constants")
    if len(types) > 1:
        raise Unclear(f"{name}: its numbers have the types {', '.join(sorted(types))}")
    (type,) = types
    flags = type.startswith("u")
    if flags and any(value <= 0 or value & (value - 1) for value in values.values()):
        raise Unclear(f"{name}: unsigned, but its constants are not one bit each")
    return {"type": type, "flags": flags, "prefix": prefix(list(values))}
