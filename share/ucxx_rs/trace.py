# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""Joins the files that UCXX_RS_TRACE has made in several processes of one host, or draws them.

trace.py merge FILE... -o JOINED.json
trace.py svg FILE... -o PICTURE.svg [--from US] [--for US] [--title TEXT]

merge: one file for https://ui.perfetto.dev. It also adds the flows of tag messages that are
certain. Nothing identifies a tag message, but UCX matches those of one sender with one tag in
their order.

svg: a picture of the time from --from microseconds after the first event, for --for microseconds.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

SENDS = ("tag send", "synchronous tag send")
RECEIVES = ("tag receive", "receive of a probed message")
COLOURS = {
    "post": "#cfe2f3",
    "receive": "#d9ead3",
    "callback": "#fff2cc",
    "complete": "#6aa84f",
    "sleep": "#eeeeee",
    "operation": "#d9d2e9",
    "lease": "#fce5cd",
    "credit": "#f4cccc",
}
MEANINGS = {
    "post": "given to UCX",
    "receive": "a message is delivered",
    "callback": "user's function",
    "complete": "operation completes",
    "sleep": "thread sleeps",
    "operation": "operation, from call to completion",
    "lease": "lease of an envelope",
    "credit": "waits for credit",
}
LEFT, WIDTH, ROW = 190, 1010, 16


def events_of(paths):
    """The events of all files, by time."""
    events = []
    for path in paths:
        events += json.loads(Path(path).read_text())["traceEvents"]
    return sorted(events, key=lambda event: (event.get("ts", 0), -event.get("dur", 0)))


def parts(events, categories):
    """Pairs of begin and end of what lasts beyond a call; None for an end that is missing."""
    begun, pairs = {}, []
    for event in events:
        if event["ph"] not in "be" or event["cat"] not in categories:
            continue
        key = (event["pid"], event["cat"], event["id2"]["local"])
        if event["ph"] == "b":
            begun[key] = event
        elif key in begun:
            pairs.append((begun.pop(key), event))
    return pairs + [(event, None) for event in begun.values()]


def tag_flows(events):
    """Flows of tag messages where one worker alone has sent with a tag to a worker.

    The receives that got them, in the order in which they were posted, have them in the order in
    which they were sent.
    """
    if any(event["name"] == "dropped" for event in events):
        return []
    sends, receives, probed = defaultdict(list), defaultdict(list), set()
    for event in events:
        if event["ph"] == "X" and event["cat"] == "post" and event["name"] in SENDS:
            sends[event["args"].get("peer"), event["args"]["tag"]].append(event)
    for begin, end in parts(events, ["operation"]):
        if end is None or begin["name"] not in RECEIVES or end["args"]["status"] != 0:
            continue
        key = (end["args"]["worker"], end["args"]["tag"])
        receives[key].append((begin["ts"], end))
        if begin["name"] != RECEIVES[0]:
            probed.add(key)
    flows = []
    for key, sent in sends.items():
        if key in probed or len({event["args"]["worker"] for event in sent}) != 1:
            continue
        received = [end for _, end in sorted(receives[key], key=lambda item: item[0])]
        for number, (send, end) in enumerate(zip(sent, received, strict=False)):
            # Perfetto reads an id as a hexadecimal number of 64 bits.
            identity = f"{len(flows) // 2 + 1:#x}"
            for phase, at in (("s", send), ("f", end)):
                flow = {"ph": phase, "cat": "message", "name": "tag message", "id": identity}
                flow |= {name: at[name] for name in ("pid", "tid", "ts")}
                flows.append(flow | ({"bp": "e"} if phase == "f" else {}))
    return flows


def merge(paths, output):
    events = events_of(paths)
    text = ",\n".join(json.dumps(event) for event in events + tag_flows(events))
    Path(output).write_text(f'{{"displayTimeUnit":"ns","traceEvents":[\n{text}\n]}}\n')


class Picture:
    """Rows of boxes in the window from `start` to `end`, in microseconds."""

    def __init__(self, start, end):
        self.start, self.end, self.y, self.shapes, self.rows = start, end, 60, [], {}

    def x(self, time):
        inside = min(max(time, self.start), self.end)
        return LEFT + (inside - self.start) / (self.end - self.start) * WIDTH

    def text(self, x, y, text, size=11, anchor="start", more=""):
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>'
            f"{escape(text)}</text>"
        )

    def lanes(self, title, boxes):
        """A row for boxes (begin, end, category, name); those that overlap are below each other."""
        boxes = [box for box in boxes if box[1] >= self.start and box[0] <= self.end]
        if not boxes:
            return
        self.text(8, self.y + 12, title)
        ends = []
        for begin, end, category, name in sorted(boxes, key=lambda box: (box[0], -box[1])):
            lane = next((lane for lane, free in enumerate(ends) if free <= begin), len(ends))
            ends[lane : lane + 1] = [end]
            x, y = self.x(begin), self.y + lane * ROW
            width = max(self.x(end) - x, 1.5)
            label = f"{name}: {end - begin:.3f} us"
            self.shapes.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" rx="1" '
                f'fill="{COLOURS[category]}" stroke="#888888" stroke-width="0.4">'
                f"<title>{escape(label)}</title></rect>"
            )
            if width > 6.2 * len(name):
                self.text(x + 3, y + 11, name, 10)
        self.y += len(ends) * ROW + 6

    def arrow(self, begin, end):
        (x1, y1), (x2, y2) = begin, end
        self.shapes.append(
            f'<path d="M{x1:.1f},{y1:.1f} L{x2:.1f},{y2:.1f}" fill="none" stroke="#cc0000" '
            f'stroke-width="0.9" marker-end="url(#tip)"/>'
        )


def nested(slices):
    """Slices of a thread with their depth: those that began before and last longer."""
    open_ends = []
    for event in slices:
        begin = event["ts"]
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        open_ends.append(begin + event["dur"])
        yield event, len(open_ends) - 1


def draw(paths, output, start, length, title):
    events = events_of(paths)
    events += tag_flows(events)
    timed = [event for event in events if "ts" in event]
    if not timed:
        raise SystemExit("trace.py: the files have no events")
    first, last = min(e["ts"] for e in timed), max(e["ts"] + e.get("dur", 0) for e in timed)
    begin = first + start
    picture = Picture(begin, begin + length if length else last)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    place = {}
    for number, pid in enumerate(dict.fromkeys(event["pid"] for event in timed)):
        picture.y += 6
        picture.text(8, picture.y + 12, f"process {number}", 13, more=' font-weight="bold"')
        picture.y += 20
        for tid in sorted({e["tid"] for e in timed if e["pid"] == pid and e["ph"] == "X"}):
            own = [e for e in timed if e["ph"] == "X" and (e["pid"], e["tid"]) == (pid, tid)]
            seen = [
                e for e in own if picture.start <= e["ts"] + e["dur"] and e["ts"] <= picture.end
            ]
            if not seen:
                continue
            place[pid, tid] = picture.y
            depths = 0
            for event, depth in nested(own):
                if event not in seen:
                    continue
                depths = max(depths, depth)
                y = picture.y
                picture.y = y + depth * ROW
                box = (event["ts"], event["ts"] + event["dur"], event["cat"], event["name"])
                picture.lanes("", [box])
                picture.y = y
            picture.text(8, picture.y + 12, f"thread {names.get((pid, tid), tid)}")
            picture.y += (depths + 1) * ROW + 6
        for category in ("operation", "credit", "lease"):
            own = [e for e in timed if e["pid"] == pid]
            boxes = [
                (begun["ts"], ended["ts"] if ended else last, category, begun["name"])
                for begun, ended in parts(own, [category])
            ]
            picture.lanes(
                {"operation": "operations", "lease": "leases"}.get(category, category), boxes
            )
    flows = defaultdict(dict)
    for event in timed:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
    for ends in flows.values():
        if len(ends) == 2 and all(picture.start <= e["ts"] <= picture.end for e in ends.values()):
            points = []
            for phase in "sf":
                event = ends[phase]
                points.append((picture.x(event["ts"]), place[event["pid"], event["tid"]] + ROW / 2))
            picture.arrow(*points)
    write(picture, output, title)


def write(picture, output, title):
    head = Picture(picture.start, picture.end)
    head.text(8, 20, title, 15, more=' font-weight="bold"')
    x = 8
    for category, meaning in MEANINGS.items():
        if any(COLOURS[category] in shape for shape in picture.shapes):
            head.shapes.append(
                f'<rect x="{x}" y="32" width="12" height="12" fill="{COLOURS[category]}" '
                f'stroke="#888888" stroke-width="0.4"/>'
            )
            head.text(x + 16, 42, meaning)
            x += 32 + 6 * len(meaning)
    bottom = picture.y + 8
    span = picture.end - picture.start
    for tick in range(11):
        x = LEFT + tick * WIDTH / 10
        head.shapes.append(f'<path d="M{x},54 V{bottom}" stroke="#dddddd" stroke-width="0.6"/>')
        head.text(x, bottom + 14, f"{span * tick / 10:.4g} us", 10, "middle")
    width, height = LEFT + WIDTH + 40, bottom + 24
    Path(output).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif"><title>{escape(title)}</title>\n'
        '<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L6,3 L0,6 z" fill="#cc0000"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(head.shapes + picture.shapes)
        + "\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["merge", "svg"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--from", dest="start", type=float, default=0.0, metavar="US")
    parser.add_argument("--for", dest="length", type=float, default=0.0, metavar="US")
    parser.add_argument("--title", default="What happens when")
    options = parser.parse_args()
    if options.what == "merge":
        merge(options.files, options.output)
    else:
        draw(options.files, options.output, options.start, options.length, options.title)
    return 0


if __name__ == "__main__":
    sys.exit(main())
