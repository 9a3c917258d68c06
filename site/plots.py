"""Draws the plots of docs/performance.md from a report of benches/run.py.

site/plots.py REPORT FOLDER          draws docs/performance/report.json, into FOLDER/NAME.svg
site/plots.py --keep OUT REPORT...   makes such a small report: the plotted rows of one or more
                                     reports of benches/run.py

conf.py puts the SVGs into the page as they are. Their text has the colour of the page's text, so
they are readable in light and dark.
"""

import json
import re
import sys
from pathlib import Path

import matplotlib
import matplotlib.ticker

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

BYTES = {"": 1, "B": 1, "KiB": 1024, "MiB": 1 << 20}
# Readable on white and on black.
BLUE, ORANGE, GREEN, GREY, PURPLE = "#3b82c4", "#d97706", "#2f9e6e", "#868e96", "#a06cd5"
MESSAGES = {
    "tag_{}": ("tag", BLUE),
    "am_{}": ("active message", ORANGE),
    "fetch_{}": ("fetch", GREEN),
    "stream_{}": ("stream", PURPLE),
}
REGISTERED = {
    "rma_put_*_registered_shm": ("put", BLUE),
    "rma_get_*_registered_shm": ("get", ORANGE),
}
OF_MANY = {
    "many_open_*": ("create and use", BLUE),
    "many_turn_*": ("a message to each in turn", ORANGE),
    "many_idle_pass_*": ("a pass of progress", GREEN),
    "many_endpoint_close_*": ("close", PURPLE),
}
# What `*` stands for in the names above: a size, or a number.
NUMBER = r"\d+(?:[KM]?i?B)?"
TIMES = "time / raw UCP's time"
MPIS = {
    "osc_sm": ("Open MPI osc/sm", ORANGE),
    "osc_ucx": ("Open MPI osc/ucx", GREEN),
    "osc_rdma": ("Open MPI osc/rdma", PURPLE),
    "mpich": ("MPICH", GREY),
}
HUBS = {
    "hub_cycle_1_thread": "lock-free, 1 thread",
    "hub_cycle_2_threads": "lock-free, 2 threads",
    "hub_cycle_locked_1_thread": "with its lock, 1 thread",
    "hub_cycle_locked_2_threads": "with its lock, 2 threads",
}
# Replaced by the colour of the page's text.
TEXT = "#010203"
STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "ucxx_rs",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.2,
    "lines.marker": "o",
    "lines.markersize": 3.5,
    "legend.frameon": False,
    **{key: TEXT for key in ("text.color", "axes.edgecolor", "axes.labelcolor", "grid.color")},
    **{key: TEXT for key in ("xtick.color", "ytick.color")},
}


def bytes_of(label):
    number, unit = re.fullmatch(r"(\d+)(\w*)", label).groups()
    return int(number) * BYTES[unit]


def label_of(size, _=None):
    for unit, value in (("MiB", 1 << 20), ("KiB", 1024)):
        if size >= value:
            return f"{size / value:.0f} {unit}"
    return f"{size:.0f} B"


def points(rows, pattern, value):
    """Sizes or numbers, which are the group of the pattern, and values, in order."""
    found = []
    for name, row in rows.items():
        if (match := re.fullmatch(pattern, name)) and value in row:
            found.append((bytes_of(match[1]), row[value]))
    return zip(*sorted(found)) if found else ((), ())


def plot_of_curves(title, y_label):
    figure, axes = plt.subplots(figsize=(4.4, 3.2), layout="constrained")
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_ylabel(y_label)
    axes.set_xscale("log", base=2)
    axes.grid(True)
    return figure, axes


def plot_of_sizes(title, y_label):
    figure, axes = plot_of_curves(title, y_label)
    ticks = [1, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20]
    axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(label_of))
    return figure, axes


def plot_of_endpoints(title, y_label):
    figure, axes = plot_of_curves(title, y_label)
    axes.set_xlabel("endpoints")
    axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.0f}"))
    return figure, axes


def against_ucp(curves, title, y_label, plot=plot_of_sizes):
    def draw(rows):
        figure, axes = plot(title, y_label)
        for pattern, (name, colour) in curves.items():
            places, ratios = points(rows, pattern.replace("*", f"({NUMBER})"), "ratio_raw")
            axes.plot(places, ratios, color=colour, label=name)
        axes.axhline(1, color=GREY, linestyle="--", linewidth=1, marker="")
        axes.set_ylim(bottom=0)
        axes.legend()
        return figure

    return draw


def messages(what, title, y_label):
    return against_ucp({kind.format(what): name for kind, name in MESSAGES.items()}, title, y_label)


def windows(operation, title):
    def draw(rows):
        figure, axes = plot_of_sizes(title, "µs")
        pattern = rf"{operation}_(\d+[KM]?i?B)_"
        peers = [peer for peer in MPIS if any(points(rows, pattern + peer, "ours"))]
        sizes, values = points(rows, pattern + peers[-1], "ours")
        axes.plot(sizes, [value / 1000 for value in values], color=BLUE, label="this library")
        for peer in peers:
            sizes, values = points(rows, pattern + peer, "peer")
            name, colour = MPIS[peer]
            axes.plot(sizes, [value / 1000 for value in values], color=colour, label=name)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
        axes.legend()
        return figure

    return draw


def hubs(rows):
    figure, axes = plt.subplots(figsize=(4.4, 3.2), layout="constrained")
    axes.set_title("Chunks through a hub, more is better", fontsize=10, loc="left")
    axes.set_xlabel("million chunks a second")
    names = [name for name in reversed(HUBS) if name in rows]
    for shift, column, colour, label in (
        (0.2, "ours", BLUE, "this library"),
        (-0.2, "peer", GREY, "two lock-free queues"),
    ):
        rates = [1000 / rows[name][column] for name in names]
        places = [at + shift for at in range(len(names))]
        bars = axes.barh(places, rates, height=0.38, color=colour, label=label)
        axes.bar_label(bars, fmt="{:.2g}", padding=3)
    axes.set_yticks(range(len(names)), [HUBS[name] for name in names])
    axes.margins(x=0.12)
    axes.legend(loc="lower right")
    return figure


PLOTS = {
    "latency": messages("latency_*_shm", "Latency, less is better", TIMES),
    "rate": messages("rate_*_shm", "Messages a second, more is better", "rate / raw UCP's rate"),
    "latency_tcp": messages("latency_*_tcp", "Latency over TCP, less is better", TIMES),
    "registered": against_ucp(REGISTERED, "Registered memory, less is better", TIMES),
    "many": against_ucp(OF_MANY, "Many endpoints, less is better", TIMES, plot_of_endpoints),
    "put": windows("window_put", "Put and flush, library memory, less is better"),
    "get": windows("window_get", "Get and flush, library memory, less is better"),
    "create_put": windows("window_create_put", "Put and flush, your memory, less is better"),
    "create_get": windows("window_create_get", "Get and flush, your memory, less is better"),
    "hub": hubs,
}
KEPT = [
    r"(tag|am|fetch|stream)_(latency|rate)_\w+_(shm|tcp)",
    *(curve.replace("*", NUMBER) for curve in (*REGISTERED, *OF_MANY)),
    r"window_(create_)?(put|get)_\d+[KM]?i?B_\w+",
    *HUBS,
]


def in_page(name, title, text):
    """An SVG as a part of a page: with ids of its own, and as wide as its place."""
    text = text[text.index("<svg") :]
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{title}">' + rest.replace(TEXT, "currentColor")


def draw_all(report, folder):
    rows = {
        row["name"]: row for run in json.loads(report.read_text())["runs"] for row in run["rows"]
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PLOTS.items():
        with plt.rc_context(STYLE):
            figure = draw(rows)
            path = folder / f"{name}.svg"
            figure.savefig(path, transparent=True, metadata={"Date": None})
            plt.close(figure)
        title = figure.axes[0].get_title(loc="left")
        path.write_text(in_page(name, title, path.read_text()))


def kept_row(row):
    """A row without its samples."""
    columns = ("name", "unit", "peer_name", "raw", "ours", "peer", "ratio_raw", "ratio_peer")
    kept = {key: row[key] for key in columns if row[key] is not None}
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in kept.items()
    }


def keep(out, reports):
    runs = []
    for path in reports:
        report = json.loads(path.read_text())
        rows = [
            json.dumps(kept_row(row))
            for row in report["rows"]
            if row["ours"] is not None and any(re.fullmatch(name, row["name"]) for name in KEPT)
        ]
        head = json.dumps({"environment": report["environment"], "rounds": report["rounds"]})
        runs.append(head[:-1] + ', "rows": [\n  ' + ",\n  ".join(rows) + "\n]}")
    out.write_text('{"runs": [\n' + ",\n".join(runs) + "\n]}\n")


def main():
    arguments = sys.argv[1:]
    if len(arguments) >= 3 and arguments[0] == "--keep":
        keep(Path(arguments[1]), [Path(name) for name in arguments[2:]])
    elif len(arguments) == 2:
        draw_all(Path(arguments[0]), Path(arguments[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
