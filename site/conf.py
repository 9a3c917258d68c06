"""Sphinx, for scripts/docs.sh, which lays the pages out and sets UCXX_RS_*."""

import os
import re
import sys
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import header  # noqa: E402
from sphinx.ext.autodoc.mock import _MockObject  # noqa: E402

project = "ucxx_rs"
author = "the ucxx_rs developers"
copyright = "the ucxx_rs developers"
version = release = os.environ["UCXX_RS_VERSION"]

extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc"]
# The Python package is read without its compiled module and without UCX.
sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
sys.modules["ucxx_rs._ucx"] = types.SimpleNamespace(load=lambda: None)
autodoc_mock_imports = ["ucxx_rs._native"]
# The package asks the library for its version, and compares the status.
_MockObject.__lt__ = lambda self, other: False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
primary_domain = "c"
highlight_language = "text"
add_function_parentheses = False
# The parameters of a function that is longer stand in a line each.
maximum_signature_line_length = 90

breathe_projects = {
    "ucxx_rs": os.environ["UCXX_RS_XML"],
    "ucxx_rs_cpp": os.environ["UCXX_RS_XML_CPP"],
}
breathe_default_project = "ucxx_rs"
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False
# Each header of C++ opens the same namespace.
suppress_warnings = ["duplicate_declaration.cpp"]

myst_heading_anchors = 4

html_theme = "furo"
html_title = f"ucxx_rs {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False

plots = Path(os.environ["UCXX_RS_PLOTS"])


def plot_lines(line):
    """`<!-- plots: NAME ... -->` in a page is the place of these plots of site/plots.py."""
    match = re.fullmatch(r"<!-- plots: ([\w ]+) -->", line)
    if not match:
        return []
    drawn = [(plots / f"{name}.svg").read_text().strip() for name in match[1].split()]
    return ["", "```{raw} html", '<div class="plots">', *drawn, "</div>", "```"]


symbols = header.Text(header.symbols(Path(os.environ["UCXX_RS_HEADER"]).read_text()))


def link_line(line, folder):
    """Names of symbols link to the reference; pages are called by their titles."""
    if line.startswith("#"):
        return line

    def title(match):
        page = folder / match[1]
        first = page.read_text().split("\n", 1)[0] if page.exists() else ""
        return f"[{first[2:]}]({match[1]}" if first.startswith("# ") else match[0]

    line = re.sub(r"\[[\w-]+\.md\]\(([^#)]+)", title, line)

    def link(match):
        role = symbols.link(match[1])
        return re.sub(r"^:([\w:]+):", r"{\1}", role) if role else match[0]

    return re.sub(r"(?<![\[`}])`([^`]+)`(?!`)", link, line)


# Of a question only these words are not searched for.
FILLERS = set(
    "how do i why does did my what may which the a an of to in for and with by is".split()
)


def index_entry(line):
    """A question's words, so that a search for them leads to its section."""
    if not re.match(r"#+ .*\?$", line):
        return []
    words = re.sub(r"[`?.,;!]", "", line.lstrip("# ")).split()
    wanted = " ".join(word for word in words if word.lower() not in FILLERS)
    asked = re.sub(r"^How do I ", "", " ".join(words))
    return ["", f"```{{index}} ! {wanted}, ! {asked}", "```"] if wanted else []


def read_page(app, name, source):
    page = Path(app.env.doc2path(name))
    if page.suffix != ".md":
        return
    lines, in_code = [], False
    for line in source[0].split("\n"):
        fence = line.lstrip().startswith("```")
        lines.append(line if in_code or fence else link_line(line, page.parent))
        in_code ^= fence
        if not in_code:
            lines += index_entry(line) + plot_lines(line)
    source[0] = "\n".join(lines)


def read_docstring(_app, _what, _name, _object, _options, lines):
    """Docstrings are written as the pages are: `name` is code, and an indented block is one."""
    text = "\n".join(re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines)
    text = re.sub(r"(?m)^((?! ).*\S)\n\n(?=    )", r"\1\n\n::\n\n", text)
    lines[:] = text.split("\n")


def link_to_c(app, env, node, shown):
    """C++ has no entries for types of C, such as what `query()` returns: theirs are linked to."""
    name = node.get("reftarget", "")
    if node.get("refdomain") != "cpp" or not name.startswith("ucxx_"):
        return None
    c = env.get_domain("c")
    found = c.resolve_any_xref(env, node["refdoc"], app.builder, name, node, shown)
    return found[0][1] if found else None


def setup(app):
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("missing-reference", link_to_c)
