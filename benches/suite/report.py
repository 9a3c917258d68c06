# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The result: facts about the machine, the rows of report.json, and the table."""

import os
import platform
import re
from pathlib import Path

from .build import UCXX_VERSION
from .measure import median, ratios, values_of

# If the load average is above this before the first round, the processes had to share their cores.
BUSY = 1.0
PEER_NAME = f"UCXX {UCXX_VERSION}"


def environment_facts(runner, ucx_version, load):
    model = "unknown"
    try:
        match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = match.group(1) if match else platform.machine()
    except OSError:
        pass
    return {
        "ucx": ucx_version or "unknown",
        "cpu": model,
        "cores": os.cpu_count(),
        "cpus_used": runner.cpus,
        "kernel": platform.release(),
        "error_handling": runner.error_handling,
        "load_before": round(load, 2),
    }


def _difference(row, other):
    pairs = zip(row["samples"].get("ours", []), row["samples"].get(other, []))
    return median([ours - value for ours, value in pairs])


def _finish(row, targets):
    values = dict(row)
    for other in ("raw", "peer"):
        values[f"over_{other}"] = _difference(row, other) if "samples" in row else None
    row["target"] = ", ".join(target.text() for target in targets) or None
    seen = [(target, values.get(target.what)) for target in targets]
    met = [target.met(value) for target, value in seen if value is not None]
    row["met"] = all(met) if met and len(met) == len(seen) else False if False in met else None
    for target, value in seen:
        if target.what.startswith("over_"):
            row[target.what] = value
    return row


def _empty(name, unit):
    return {
        "name": name,
        "unit": unit,
        "ours": None,
        "raw": None,
        "peer": None,
        "peer_name": None,
        "ratio_raw": None,
        "ratio_peer": None,
        "spread": None,
        "target": None,
        "met": None,
        "transports": None,
        "note": None,
    }


def _note(missing, peer_name):
    if not missing:
        return None
    if len(set(missing.values())) == 1 and len(missing) > 1:
        return "row cannot be run: " + next(iter(missing.values()))
    names = {"raw": "raw UCP", "ours": "ours", "peer": peer_name}
    parts = [f"{names[key]}: {reason}" for key, reason in missing.items()]
    prefix = (
        "row cannot be run: "
        if "ours" in missing
        else "nothing to compare with: "
        if "raw" in missing
        else ""
    )
    return prefix + "; ".join(parts)


def _transports(reports):
    return next((report["transports"] for report in reports if report.get("transports")), None)


def _timed(name, figure, samples, reports, note, peer_name, targets):
    result = _empty(name, figure.unit)
    for column in samples:
        result[column] = median(samples[column])
    result["peer_name"] = peer_name if samples.get("peer") else None
    to_raw = ratios(samples.get("ours", []), samples.get("raw", []))
    to_peer = ratios(samples.get("ours", []), samples.get("peer", []))
    result.update(ratio_raw=median(to_raw), ratio_peer=median(to_peer))
    spread = to_raw or to_peer
    result["spread"] = [min(spread), max(spread)] if spread else None
    result["samples"] = samples
    result["transports"] = _transports([those[-1] for those in reports.values() if those])
    result["note"] = note
    return _finish(result, targets)


def _rows_of_peers(row, reports, missing):
    """If one peer is missing, the rows of the others are not affected."""
    results = []
    for figure, peer in row.of_peers():
        samples = values_of(
            figure.key, figure.scale, {"ours": reports["ours"], "peer": reports[peer.column]}
        )
        lacks = {
            "ours" if name == "ours" else "peer": reason
            for name, reason in missing.items()
            if name in ("ours", peer.column)
        }
        version = next((report["version"] for report in reports[peer.column]), None)
        results.append(
            _timed(
                f"{figure.name}_{peer.column}",
                figure,
                samples,
                reports,
                _note(lacks, peer.name),
                f"{peer.name}, {version}" if version else peer.name,
                (figure.targets or {}).get(peer.column, ()),
            )
        )
    return results


def timed_rows(row, reports, missing):
    """The row, and the rows from the same runs."""
    if row.peers:
        return _rows_of_peers(row, reports, missing)
    peer_name = row.peer_name or PEER_NAME
    note = _note(missing, peer_name)
    results = []
    for figure in (row, *row.also):
        results.append(
            _timed(
                figure.name,
                figure,
                values_of(figure.key, figure.scale, reports),
                reports,
                note,
                peer_name,
                figure.targets,
            )
        )
    if row.overhead:
        samples = results[0]["samples"]
        extra = _empty(row.overhead, row.unit)
        ours = [a - b for a, b in zip(samples["ours"], samples["raw"])]
        peer = [a - b for a, b in zip(samples["peer"], samples["raw"])]
        share = ratios(ours, peer)
        extra.update(
            ours=median(ours),
            peer=median(peer),
            peer_name=results[0]["peer_name"],
            ratio_peer=median(share),
        )
        extra["spread"] = [min(share), max(share)] if share else None
        extra["transports"] = results[0]["transports"]
        extra["note"] = note
        results.append(_finish(extra, (row.overhead_target,)))
    return results


def count_row(count, values, reports, missing):
    result = _empty(count.name, count.unit)
    result.update(values)
    result["peer_name"] = (count.peer_name or PEER_NAME) if result["peer"] is not None else None
    for key, other in (("ratio_raw", "raw"), ("ratio_peer", "peer")):
        if result["ours"] is not None and result[other]:
            result[key] = result["ours"] / result[other]
    result["transports"] = _transports(reports.values())
    notes = [f"{name}: {report['note']}" for name, report in reports.items() if report.get("note")]
    result["note"] = _note(missing, count.peer_name or PEER_NAME) or "; ".join(notes) or None
    return _finish(result, count.targets)


def _listed(names):
    return (
        ", ".join(names)
        if len(names) <= 8
        else f"{', '.join(names[:3])} and {len(names) - 3} more, to {names[-1]}"
    )


def _number(value):
    if value is None:
        return "-"
    if isinstance(value, int) or value == int(value):
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(facts, rows):
    lines = [", ".join(f"{key} {value}" for key, value in facts.items())]
    if facts["load_before"] > BUSY:
        lines.append(
            "The machine was busy with something else when this began: times, and their ratios, are not to be trusted."
        )
    lines.append("")
    head = [
        "row",
        "unit",
        "raw",
        "ours",
        "peer",
        "ours/raw",
        "spread",
        "ours/peer",
        "target",
        "met",
    ]
    body = []
    for row in rows:
        spread = (
            "-" if row["spread"] is None else f"{row['spread'][0]:.3f} .. {row['spread'][1]:.3f}"
        )
        met = {True: "yes", False: "NO", None: "-"}[row["met"]]
        ratio = [
            "-" if row[key] is None else f"{row[key]:.3f}" for key in ("ratio_raw", "ratio_peer")
        ]
        body.append(
            [
                row["name"],
                row["unit"],
                _number(row["raw"]),
                _number(row["ours"]),
                _number(row["peer"]),
                ratio[0],
                spread,
                ratio[1],
                row["target"] or "-",
                met,
            ]
        )
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    named = {}
    for row in rows:
        if row["note"]:
            named.setdefault(row["note"], []).append(row["name"])
    notes = [f"{_listed(names)}: {note}" for note, names in named.items()]
    transports = sorted(
        {
            f"{row['name'].rsplit('_', 1)[-1]}: {row['transports']}"
            for row in rows
            if row["transports"]
        }
    )
    if transports:
        lines += ["", "transports: " + "; ".join(transports)]
    peers = {}
    for row in rows:
        if row["peer"] is not None:
            peers.setdefault(row["peer_name"], []).append(row["name"])
    for peer, names in peers.items():
        lines.append(f"peer: {peer}" + ("" if peer == PEER_NAME else f", in {_listed(names)}"))
    lines.append(
        "spread: of ours/raw, or of ours/peer where there is no raw; overhead_*: what ours and the peer add to raw UCP"
    )
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)
