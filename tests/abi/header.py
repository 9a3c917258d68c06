"""Parses what ucxx_rs.h declares.

The header is generated, so its form is known. Anything of another form is refused, so that nothing
is overlooked.
"""

import re
from dataclasses import dataclass, field


@dataclass
class Parameter:
    """Of a function or a member: its type as in a cast, such as `const ucxx_op_params_t *`, and its
    name.
    """

    type: str
    name: str


@dataclass
class Function:
    name: str
    result: str
    parameters: list


@dataclass
class Header:
    version: dict = field(default_factory=dict)
    initialisers: dict = field(default_factory=dict)  # macro -> type
    enums: dict = field(default_factory=dict)  # name -> constants
    opaque: list = field(default_factory=list)
    structs: dict = field(default_factory=dict)  # name -> members
    types: dict = field(default_factory=dict)  # typedef -> its meaning
    functions: list = field(default_factory=list)


class NotUnderstood(Exception):
    pass


def without_comments(text):
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def tidy(text):
    return re.sub(r"\s+", " ", text).strip()


def split_list(text):
    """Splits at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [tidy(part) for part in parts]


def parameter(text):
    text = tidy(text)
    pointer = re.fullmatch(r"(.*?\(\*)(\w+)(\)\()(.*)(\))", text)
    if pointer:
        before, name, middle, inner, after = pointer.groups()
        return Parameter(
            f"{before}{middle}{', '.join(each.type for each in parameters(inner))}{after}", name
        )
    plain = re.fullmatch(r"(.*?[\s*])(\w+)((?:\[\d+\])?)", text)
    if not plain:
        raise NotUnderstood(text)
    return Parameter(plain[1].strip() + plain[3], plain[2])


def parameters(text):
    return [] if tidy(text) == "void" else [parameter(each) for each in split_list(text)]


def preprocessor(header, lines):
    """Checks the directives and removes them."""
    rest, at = [], 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if not line.startswith("#"):
            rest.append(line)
        elif found := re.fullmatch(r"#define (UCXX_RS_VERSION_\w+) (\d+)", line):
            header.version[found[1]] = int(found[2])
        elif found := re.fullmatch(r"#define (UCXX_\w+_INIT) UCXX_INIT_\((\w+)\)", line):
            header.initialisers[found[1]] = found[2]
        elif not re.match(
            r"#(ifndef UCXX_RS_H|define UCXX_RS_H|include <std\w+\.h>|ifdef __cplusplus|else|endif|define UCXX_INIT_\(type\) "
            r"|ifndef UCXX_NODISCARD|define UCXX_NODISCARD|if \(defined __cplusplus |elif defined __GNUC__)",
            line,
        ):
            raise NotUnderstood(line)
    return "\n".join(rest)


def declaration(header, text):
    if found := re.fullmatch(r"enum (\w+) \{(.*)\}", text):
        header.enums[found[1]] = [
            constant.split("=")[0].strip() for constant in found[2].split(",") if constant.strip()
        ]
    elif found := re.fullmatch(r"struct (\w+)", text):
        header.opaque.append(found[1])
    elif found := re.fullmatch(r"struct (\w+) \{(.*)\}", text):
        header.structs[found[1]] = [
            parameter(member) for member in found[2].split(";") if member.strip()
        ]
    elif found := re.fullmatch(r"typedef (struct \w+|\w+) (\w+)", text):
        header.types[found[2]] = found[1]
    elif found := re.fullmatch(r"typedef (.*)", text):
        callback = parameter(found[1])
        header.types[callback.name] = callback.type
    elif found := re.fullmatch(r"(?:UCXX_NODISCARD )?(.*?[\s*])(\w+)\((.*)\)", text):
        header.functions.append(Function(found[2], found[1].strip(), parameters(found[3])))
    else:
        raise NotUnderstood(text)


def read(path):
    header = Header()
    with open(path, encoding="utf-8") as file:
        text = preprocessor(header, without_comments(file.read()).split("\n"))
    text = text.replace('extern "C" {', "", 1)
    text, closing = re.subn(r"\}\s*$", "", text)
    if closing != 1:
        raise NotUnderstood("the end of the header")
    depth, begun = 0, ""
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            declaration(header, tidy(begun))
            begun = ""
        else:
            begun += letter
    if begun.strip():
        raise NotUnderstood(tidy(begun))
    return header
