"""Reads ucxx_rs.h: its symbols, and its comments as reStructuredText.

As a program it is Doxygen's input filter: it prints the header with each comment turned into text
for Sphinx, and with each struct under the name that programs use, `ucxx_..._t`.

    site/header.py include/ucxx_rs.h
"""

import itertools
import re
import sys
from dataclasses import dataclass

COMMENT = re.compile(r"^( *)/\*\*\n(.*?)^ *\*/\n", re.S | re.M)
LABELS = ("Returns", "Threads", "Ownership", "Callbacks", "See also")
LABEL = re.compile(rf"^({'|'.join(LABELS)}): ?(.*)$")
BULLET = re.compile(r"^( *)- (.*)$")
# Code in backticks, a member of a struct, a word that may be a symbol, a page, or a part
# of the rules.
WORD = re.compile(
    r"``?([^`]+)``?|\b(ucxx_\w+_t)\.(\w+)|\b((?:ucxx|UCXX)_\w+)\b|\bdocs/([\w-]+)\.md\b"
    r"|\"([A-Z][\w+ ]*)\" at the top of this file"
)
EMPHASIS = re.compile(r"(?<![\w*])\*(\w[\w ]*)\*(?![\w*])")


@dataclass
class Symbol:
    name: str
    kind: str  # function, struct, typedef, callback, enum, enumerator or define
    comment: list  # its lines, without the asterisks


def comment_lines(lines):
    return [re.sub(r"^ *\* ?", "", line) for line in lines]


def symbols(header):
    """All public symbols of the header, in its order."""
    found, comment, enum = [], [], False
    lines = iter(header.splitlines())
    in_struct = False
    for line in lines:
        stripped = line.strip()
        if stripped == "/**":
            body = itertools.takewhile(lambda inner: inner.strip() != "*/", lines)
            comment = comment_lines(body)
            continue
        new = None
        if line.startswith("enum "):
            enum, new = True, ("enum", line.split()[1])
        elif line.startswith("struct ") and line.endswith("{"):
            in_struct, new = True, ("struct", line.split()[1] + "_t")
        elif stripped == "};":
            enum = in_struct = False
        elif enum and (match := re.match(r"(UCXX_\w+) =", stripped)):
            new = ("enumerator", match[1])
        elif in_struct or line.startswith("struct "):
            pass
        elif match := re.match(r"typedef .*\(\*(\w+)\)\(", line):
            new = ("callback", match[1])
        elif match := re.match(r"typedef (.*?) ?(\w+);", line):
            if match[1] + "_t" != "struct " + match[2] or not any(
                symbol.name == match[2] for symbol in found
            ):
                new = ("typedef", match[2])
        elif match := re.match(r"#define (UCXX_\w+[A-Z]) ", line):
            if match[1] != "UCXX_NODISCARD":
                new = ("define", match[1])
        elif match := re.search(r"\b(ucxx_\w+)\(.*\);$", line):
            new = ("function", match[1])
        if new and not any(symbol.name == new[1] for symbol in found):
            found.append(Symbol(new[1], new[0], comment))
        if stripped:
            comment = []
    return found


ROLES = {
    "function": "func",
    "struct": "struct",
    "typedef": "type",
    "callback": "type",
    "enum": "enum",
    "enumerator": "enumerator",
    "define": "macro",
}


class Text:
    """Comments as reStructuredText, with links to the symbols that they name."""

    def __init__(self, known):
        self.kinds = {symbol.name: symbol.kind for symbol in known}

    def link(self, code):
        """A link for the name of a symbol, such as "enum ucxx_status"; None for other text."""
        name = re.sub(r"^(enum|struct) ", "", code)
        if re.fullmatch(r"ucxx_\w+_t\.\w+", name):
            return f":c:member:`{name}`"
        # A struct by its tag, as in "struct ucxx_op_params".
        target = name if name in self.kinds else name + "_t"
        if target not in self.kinds:
            return None
        shown = code if code == target else f"{code} <{target}>"
        return f":c:{ROLES[self.kinds[target]]}:`{shown}`"

    def inline(self, text):
        out, at = [], 0
        for match in WORD.finditer(text):
            out.append(self.escape(text[at : match.start()]))
            at = match.end()
            code, struct, member, word, page, rule = match.groups()
            if code:
                linked = self.link(code) or f"``{code}``"
            elif struct:
                linked = self.link(f"{struct}.{member}")
            elif page:
                linked = f":doc:`/docs/{page}`"
            elif rule:
                linked = f":ref:`the rules for {rule.lower()} <rules-{rule.lower()}>`"
            else:
                linked = self.link(word)
            if not linked:
                out.append(self.escape(word))
                continue
            # Markup stands between spaces or punctuation; an escaped space is none on the page.
            before, after = text[match.start() - 1 : match.start()], text[at : at + 1]
            if before and before not in " '\"([{<-/:":
                linked = "\\ " + linked
            if after and after not in " '\")]}>-/:.,;!?":
                linked += "\\ "
            out.append(linked)
        out.append(self.escape(text[at:]))
        return "".join(out)

    @staticmethod
    def escape(text):
        kept = EMPHASIS.sub("\0\\1\1", text)
        kept = re.sub(r"([\\*|])", r"\\\1", kept)
        kept = re.sub(r"_(?!\w)", r"\\_", kept)
        return kept.replace("\0", "*").replace("\1", "*")

    def lines(self, comment):
        """The comment's lines as lines of reStructuredText, a paragraph in one."""
        out, paragraph, bullets, base = [], [], [], ""
        lead = ""  # what stands before the paragraph's text

        def end_paragraph():
            nonlocal lead
            if paragraph or lead:
                out.append((lead + self.inline(" ".join(paragraph))).rstrip())
            paragraph.clear()
            lead = ""

        lines = iter(comment)
        for line in lines:
            if not line.strip():
                end_paragraph()
                out.append("")
            elif line.strip().startswith("```"):
                end_paragraph()
                out += ["", f"{base}.. code-block:: c", ""]
                for inner in lines:
                    if inner.strip() == "```":
                        break
                    out.append(f"{base}   {inner}".rstrip())
                out.append("")
            elif label := LABEL.match(line):
                end_paragraph()
                if not base:
                    out.append("")
                base, bullets, lead = "   ", [], f":{label[1]}: "
                paragraph += [label[2]] if label[2] else []
            elif bullet := BULLET.match(line):
                end_paragraph()
                indent = len(bullet[1])
                while bullets and bullets[-1] > indent:
                    bullets.pop()
                if not bullets or bullets[-1] < indent:
                    bullets.append(indent)
                out.append("")
                lead = base + "  " * (len(bullets) - 1) + "- "
                paragraph.append(bullet[2])
            else:
                if not paragraph and not lead:
                    indent = len(line) - len(line.lstrip())
                    while bullets and bullets[-1] >= indent:
                        bullets.pop()
                    if indent == 0 and out and out[-1] == "":
                        base = ""
                    lead = base + "  " * len(bullets)
                paragraph.append(line.strip())
        end_paragraph()
        return out


def for_doxygen(header):
    known = symbols(header)
    text = Text(known)
    structs = {symbol.name for symbol in known if symbol.kind == "struct"}

    def block(match):
        body = "\n".join(text.lines(comment_lines(match[2].splitlines())))
        return f"/*! \\verbatim embed:rst\n{body}\n\\endverbatim */\n"

    # A typedef repeats the comment of its struct, and a struct without members is its typedef.
    for name in structs:
        header = re.sub(rf"/\*\*\n(?: \*.*\n)+typedef struct {name[:-2]} {name};\n", "", header)
    header = re.sub(r"/\*\*\n(?: \*.*\n)+struct \w+;\n", "", header)
    for name in structs:
        header = header.replace(f"struct {name[:-2]} {{", f"struct {name} {{")
    header = header.replace("UCXX_NODISCARD ucxx", "ucxx")
    header = re.sub(
        r"^#define UCXX_(\w+)_INIT UCXX_INIT_\((\w+)\)$",
        lambda match: (
            "/*! \\verbatim embed:rst\nInitialises a :c:struct:`"
            f"{match[2]}`: ``struct_size`` is set, all else is zero.\n\\endverbatim */\n{match[0]}"
        ),
        header,
        flags=re.M,
    )
    return COMMENT.sub(block, header)


def main():
    with open(sys.argv[1]) as file:
        sys.stdout.write(for_doxygen(file.read()))


if __name__ == "__main__":
    main()
