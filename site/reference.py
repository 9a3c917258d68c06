"""Writes the pages of the reference: one for each group of symbols of the header, and statuses.

    site/reference.py HEADER FOLDER

Fails where a public symbol belongs to no group. `site/check.py` looks at what became of them.
"""

import re
import sys
from pathlib import Path

import header as ucxx_header

# Page, title, what it is for, beginnings of the names of its symbols. The longest one decides.
GROUPS = [
    (
        "context",
        "Context, version and log",
        "UCX is configured once, in a context. Its workers share it.",
        "ucxx_context ucxx_config ucxx_feature ucxx_network ucxx_version ucxx_log UCXX_CONTEXT "
        "UCXX_VERSION UCXX_RS_VERSION",
    ),
    (
        "worker",
        "Workers and progress",
        "A worker makes progress and receives. By hand, in an event loop, or on a thread.",
        "ucxx_worker ucxx_thread_mode ucxx_progress_mode UCXX_WORKER",
    ),
    (
        "connections",
        "Connections",
        "Endpoints, by address or by host and port, and the listeners that accept them.",
        "ucxx_worker_address ucxx_address ucxx_endpoint ucxx_listener ucxx_conn_request "
        "ucxx_error_handling ucxx_close UCXX_ENDPOINT UCXX_LISTENER",
    ),
    (
        "tags",
        "Tag messages",
        "The receiver chooses by a 64-bit tag and a mask.",
        "ucxx_tag ucxx_recv_info",
    ),
    (
        "active-messages",
        "Active messages",
        "The message names its handler at the receiver. Queues are for receivers without handlers.",
        "ucxx_am ucxx_worker_set_am ucxx_destroy_arg ucxx_request_am UCXX_AM",
    ),
    (
        "fetch",
        "Fetch: request and reply",
        "A fetch asks a peer, and its reply lands in the buffer of the one who asked.",
        "ucxx_am_fetch ucxx_fetch ucxx_worker_set_fetch",
    ),
    ("streams", "Streams", "Bytes in order, without message boundaries.", "ucxx_stream"),
    (
        "multi-buffer",
        "Many buffers",
        "Lists of buffers in one call, and frames that the receiver allocates.",
        "ucxx_buffer ucxx_alloc ucxx_dealloc ucxx_tag_send_multi ucxx_tag_recv_multi "
        "ucxx_am_send_multi ucxx_worker_set_multi ucxx_multi ucxx_request_take_buffers "
        "UCXX_ALLOCATOR",
    ),
    (
        "memory",
        "Registered memory and RMA",
        "Put, get and atomic operations on memory of a peer that gave away a key.",
        "ucxx_memory ucxx_rkey ucxx_rma ucxx_atomic_op",
    ),
    (
        "requests",
        "Requests and parameters of operations",
        "An operation under way: wait for it, poll it, cancel it.",
        "ucxx_request ucxx_op_params ucxx_flag UCXX_OP_PARAMS",
    ),
    (
        "notifiers",
        "Notifiers",
        "A queue of completions and events, for programs without callbacks.",
        "ucxx_notifier ucxx_completion ucxx_event",
    ),
    (
        "groups",
        "Groups",
        "Processes that know each other by rank, with a few collectives.",
        "ucxx_group ucxx_bootstrap UCXX_GROUP",
    ),
    (
        "windows",
        "Windows",
        "Memory that each member of a group offers to the others, as in MPI.",
        "ucxx_window ucxx_layout ucxx_block ucxx_type ucxx_reduce ucxx_lock_type ucxx_assert "
        "ucxx_sync_type ucxx_accumulate_order ucxx_path UCXX_WINDOW",
    ),
    (
        "hubs",
        "Hubs and links",
        "Bounded queues of chunks for pipelines, in one process or between several.",
        "ucxx_hub ucxx_link ucxx_envelope ucxx_memory_kind UCXX_HUB UCXX_LINK UCXX_ENVELOPE",
    ),
    (
        "errors",
        "Errors",
        "Names and texts of statuses. [All statuses](statuses.rst), with what to do, are a page.",
        "ucxx_status ucxx_error ucxx_last_error",
    ),
]

GUIDES = {
    "worker": "basics",
    "connections": "connections",
    "active-messages": "active-messages",
    "fetch": "fetch",
    "streams": "stream",
    "multi-buffer": "multi-buffer",
    "memory": "registered-memory",
    "requests": "basics",
    "groups": "groups",
    "windows": "windows",
    "hubs": "hub",
    "errors": "errors",
}

SECTIONS = [
    ("Functions", "doxygenfunction", ("function",)),
    ("Structs", "doxygenstruct", ("struct",)),
    ("Handles and other types", "doxygentypedef", ("typedef",)),
    ("Callbacks", "doxygentypedef", ("callback",)),
    ("Enums", "doxygenenum", ("enum",)),
    ("Macros", "doxygendefine", ("define",)),
]


def heading(text, line):
    return [text, line * len(text), ""]


def page_of(name):
    rules = [(prefix, page) for page, _, _, names in GROUPS for prefix in names.split()]
    fitting = [rule for rule in rules if name.startswith(rule[0])]
    return max(fitting, key=lambda rule: len(rule[0]))[1] if fitting else None


def first_sentence(comment):
    paragraph = []
    for line in comment:
        if not line.strip() or line.startswith("- ") or ucxx_header.LABEL.match(line):
            break
        paragraph.append(line.strip())
    return re.split(r"(?<=[.!?])\s", " ".join(paragraph))[0]


def group_page(page, title, intro, members, text):
    intro = re.sub(r"\[(.*?)\]\((\w+)\.rst\)", r":doc:`\1 <\2>`", intro)
    guide = f" The guide is :doc:`/docs/{GUIDES[page]}`." if page in GUIDES else ""
    out = heading(title, "=") + [intro + guide, ""]
    functions = [symbol for symbol in members if symbol.kind == "function"]
    useful = [symbol for symbol in functions if not symbol.name.endswith("_init")]
    if useful:
        out += [".. list-table::", "   :widths: 40 60", "   :class: functions", ""]
        for symbol in useful:
            out.append(f"   * - :c:func:`{symbol.name}`")
            out.append(f"     - {text.inline(first_sentence(symbol.comment))}")
        out.append("")
    for name, directive, kinds in SECTIONS:
        inside = [symbol for symbol in members if symbol.kind in kinds]
        # What only sets defaults comes last.
        inside.sort(key=lambda symbol: symbol.kind == "function" and symbol not in useful)
        if inside:
            out += heading(name, "-")
        for symbol in inside:
            out.append(f".. {directive}:: {symbol.name}")
            if symbol.kind == "struct":
                out.append("   :members:")
            out.append("")
    return out


def returned_by(known):
    """Functions by the statuses that their comments name under "Returns:"."""
    users = {}
    for symbol in known:
        listed = False
        for line in symbol.comment if symbol.kind == "function" else []:
            if label := ucxx_header.LABEL.match(line):
                listed = label[1] == "Returns"
            elif listed and (item := ucxx_header.BULLET.match(line)):
                for status in re.findall(r"\bUCXX_\w+", item[2].split(":")[0]):
                    users.setdefault(status, []).append(symbol.name)
    return users


def statuses_page(header, known, text):
    inside = header[header.index("enum ucxx_status {") :]
    numbers = re.findall(r"^ +(UCXX_\w+) = (-?\d+),", inside[: inside.index("};")], re.M)
    by_name = {symbol.name: symbol for symbol in known}
    users = returned_by(known)
    out = heading("Statuses", "=")
    out += [
        "What a call returns, or how an operation ended. :c:func:`ucxx_error_text` has the text",
        "for the user, with the argument, the peer or the limit. Negative values are errors.",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 42 10 48",
        "   :class: statuses",
        "",
        "   * - status",
        "     - number",
        "     - in short",
    ]
    for name, number in numbers:
        short = first_sentence(by_name[name].comment) or name[5:].replace("ERR_", "").lower()
        out.append(f"   * - `{name}`_")
        out.append(f"     - {number}")
        out.append(f"     - {text.inline(short)}")
    out.append("")
    for name, number in numbers:
        out += heading(name, "-")
        out += [f":c:enumerator:`{name} <{name}>` = {number}", ""]
        out += text.lines(by_name[name].comment) + [""]
        if names := users.get(name):
            if name == "UCXX_OK":
                continue
            out.append("Listed by " + ", ".join(f":c:func:`{user}`" for user in names) + ".")
            out.append("")
    return out


def rules_page(header, text):
    """The head of the header: what holds for every function."""
    head = ucxx_header.comment_lines(header[: header.index("*/")].splitlines())
    out = heading("Rules for every function", "=")
    start = next((i for i, line in enumerate(head) if line.upper().startswith("RULES FOR")), 0)
    part = []
    for line in head[start + 1 :]:
        if re.match(r"[A-Z][\w+ ]*$", line):
            out += text.lines(part) + ["", f".. _rules-{line.strip().lower()}:", ""]
            out += heading(line.strip(), "-")
            part = []
        else:
            part.append(line)
    return out + text.lines(part)


def main():
    header = Path(sys.argv[1]).read_text()
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    known = ucxx_header.symbols(header)
    text = ucxx_header.Text(known)
    pages = {page: [] for page, _, _, _ in GROUPS}
    lost = []
    for symbol in known:
        if symbol.kind == "enumerator":
            continue
        page = page_of(symbol.name)
        pages[page].append(symbol) if page else lost.append(symbol.name)
    if lost:
        sys.exit(f"reference: no group of site/reference.py takes {', '.join(lost)}")
    for page, title, intro, _ in GROUPS:
        content = group_page(page, title, intro, pages[page], text)
        (folder / f"{page}.rst").write_text("\n".join(content) + "\n")
    (folder / "statuses.rst").write_text("\n".join(statuses_page(header, known, text)) + "\n")
    (folder / "rules.rst").write_text("\n".join(rules_page(header, text)) + "\n")
    index = heading("Reference", "=") + [
        "Every function, struct, enum and callback of ``ucxx_rs.h``, in the order in which a",
        "program meets them. A struct ``ucxx_x_t`` is also ``struct ucxx_x``.",
        "",
        ".. list-table::",
        "   :widths: 35 65",
        "",
        "   * - :doc:`Rules for every function <rules>`",
        "     - Statuses, parameters, time, buffers, callbacks, threads.",
    ]
    for page, title, intro, _ in GROUPS:
        intro = re.sub(r"\[(.*?)\]\(\w+\.rst\)", r"\1", intro)
        index += [f"   * - :doc:`{title} <{page}>`", f"     - {intro}"]
    index += [
        "   * - :doc:`Statuses <statuses>`",
        "     - What each one means, what to do, and which functions return it.",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        "   rules",
    ]
    index += [f"   {page}" for page, _, _, _ in GROUPS] + ["   statuses", ""]
    (folder / "index.rst").write_text("\n".join(index))


if __name__ == "__main__":
    main()
