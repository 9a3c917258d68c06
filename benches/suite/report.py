# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The result: facts about the machine, rows of report.json, and the table."""

import os
import platform
import re
from pathlib import Path

from .build import UCXX_VERSION
from .measure import median, ratios

# A load average above this before the first round means that the processes did not have their cores to themselves.
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


def _finish(row, target):
    row["target"] = target.text() if target else None
    value = row.get(target.what) if target else None
    row["met"] = target.met(value) if value is not None else None
    return row


def _empty(name, unit):
    return {"name": name, "unit": unit, "ours": None, "raw": None, "peer": None, "peer_name": None, "ratio_raw": None,
            "ratio_peer": None, "spread": None, "target": None, "met": None, "transports": None, "note": None}


def _note(missing):
    if not missing:
        return None
    if len(set(missing.values())) == 1 and len(missing) > 1:
        return "row cannot be run: " + next(iter(missing.values()))
    names = {"raw": "raw UCP", "ours": "ours", "ucxx": PEER_NAME}
    parts = [f"{names[key]}: {reason}" for key, reason in missing.items()]
    prefix = "row cannot be run: " if "raw" in missing or "ours" in missing else ""
    return prefix + "; ".join(parts)


def timed_rows(row, samples, reports, missing):
    """One row, or two where the row also has an overhead."""
    result = _empty(row.name, row.unit)
    result.update(ours=median(samples["ours"]), raw=median(samples["raw"]), peer=median(samples["ucxx"]))
    result["peer_name"] = PEER_NAME if samples["ucxx"] else None
    to_raw = ratios(samples["ours"], samples["raw"])
    to_peer = ratios(samples["ours"], samples["ucxx"])
    result.update(ratio_raw=median(to_raw), ratio_peer=median(to_peer))
    result["spread"] = [min(to_raw), max(to_raw)] if to_raw else None
    result["samples"] = samples
    result["transports"] = reports.get("raw", {}).get("transports")
    result["note"] = _note(missing)
    results = [_finish(result, row.target)]
    if row.overhead:
        extra = _empty(row.overhead, row.unit)
        ours = [a - b for a, b in zip(samples["ours"], samples["raw"])]
        peer = [a - b for a, b in zip(samples["ucxx"], samples["raw"])]
        share = ratios(ours, peer)
        extra.update(ours=median(ours), peer=median(peer), peer_name=result["peer_name"], ratio_peer=median(share))
        extra["spread"] = [min(share), max(share)] if share else None
        extra["transports"] = result["transports"]
        extra["note"] = result["note"]
        results.append(_finish(extra, row.overhead_target))
    return results


def count_row(count, values, reports, missing):
    result = _empty(count.name, count.unit)
    result.update(ours=values.get("ours"), raw=values.get("raw"), peer=values.get("ucxx"))
    result["peer_name"] = PEER_NAME if result["peer"] is not None else None
    for key, other in (("ratio_raw", "raw"), ("ratio_peer", "peer")):
        if result["ours"] is not None and result[other]:
            result[key] = result["ours"] / result[other]
    result["transports"] = reports.get("raw", {}).get("transports")
    result["note"] = _note(missing) or reports.get("ours", {}).get("note")
    return _finish(result, count.target)


def _number(value):
    if value is None:
        return "-"
    if isinstance(value, int) or value == int(value):
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(facts, rows):
    lines = [", ".join(f"{key} {value}" for key, value in facts.items())]
    if facts["load_before"] > BUSY:
        lines.append("The machine was busy with something else when this began: times, and their ratios, are not to be trusted.")
    lines.append("")
    head = ["row", "unit", "raw", "ours", "peer", "ours/raw", "spread", "ours/peer", "target", "met"]
    body = []
    for row in rows:
        spread = "-" if row["spread"] is None else f"{row['spread'][0]:.3f} .. {row['spread'][1]:.3f}"
        met = {True: "yes", False: "NO", None: "-"}[row["met"]]
        ratio = ["-" if row[key] is None else f"{row[key]:.3f}" for key in ("ratio_raw", "ratio_peer")]
        body.append([row["name"], row["unit"], _number(row["raw"]), _number(row["ours"]), _number(row["peer"]), ratio[0],
                     spread, ratio[1], row["target"] or "-", met])
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    for line in [head, *body]:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    named = {}
    for row in rows:
        if row["note"]:
            named.setdefault(row["note"], []).append(row["name"])
    notes = [f"{', '.join(names)}: {note}" for note, names in named.items()]
    transports = sorted({f"{row['name'].rsplit('_', 1)[-1]}: {row['transports']}" for row in rows if row["transports"]})
    if transports:
        lines += ["", "transports: " + "; ".join(transports)]
    if any(row["peer"] is not None for row in rows):
        lines.append(f"peer: {PEER_NAME}; overhead_*: what ours and the peer add to raw UCP, round by round")
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)
