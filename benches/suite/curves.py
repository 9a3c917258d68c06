# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Curves: the rows that differ only in size, or in number. A curve's figure is its worst point."""

import math
import re
import statistics

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
BY_SIZE = re.compile(r"(?P<before>\w+?)_(?P<n>\d+)(?P<unit>[KM]iB|B)_(?P<end>\w+)")
BY_NUMBER = re.compile(r"(?P<before>many_\w+)_(?P<n>\d+)")
MORE_IS_BETTER = ("M/s", "GB/s")


def place_of(name):
    """The curve of a row, and its place on it."""
    if match := BY_SIZE.fullmatch(name):
        return f"{match['before']}_{match['end']}", int(match["n"]) * UNITS[match["unit"]]
    if match := BY_NUMBER.fullmatch(name):
        return match["before"], int(match["n"])
    return None


def exponent(points):
    """The slope of the line through the logarithms: 0 is flat, 1 linear, 2 quadratic."""
    points = [(math.log(n), math.log(value)) for n, value in points if value]
    return statistics.linear_regression(*zip(*points)).slope if len(points) > 1 else None


def curves(rows):
    """Each curve with at least three points that are not 0: where ours is worst against raw, and
    how both grow."""
    points = {}
    for row in rows:
        if (place := place_of(row["name"])) and row["ours"]:
            points.setdefault(place[0], {})[place[1]] = row
    result = []
    for name, rows_at in points.items():
        if len(rows_at) < 3:
            continue
        compared = {n: row["ratio_raw"] for n, row in rows_at.items() if row["ratio_raw"]}
        unit = next(iter(rows_at.values()))["unit"]
        worst = min if unit in MORE_IS_BETTER else max
        at = worst(compared, key=compared.get) if compared else None
        result.append(
            {
                "name": name,
                "points": len(rows_at),
                "worst_ratio": compared.get(at),
                "at": at,
                "exponent": exponent([(n, row["ours"]) for n, row in rows_at.items()]),
                "exponent_raw": exponent([(n, row["raw"]) for n, row in rows_at.items()]),
            }
        )
    return result


def curve_lines(found):
    """The table of curves."""

    def number(value):
        return "-" if value is None else f"{value:.2f}"

    width = max(len(curve["name"]) for curve in found)
    lines = [f"{'curve':{width}}  points  worst ours/raw  at         exponent  of raw"]
    for curve in found:
        at = "-" if curve["at"] is None else str(curve["at"])
        lines.append(
            f"{curve['name']:{width}}  {curve['points']:<6}  {number(curve['worst_ratio']):<14}  "
            f"{at:<9}  {number(curve['exponent']):<8}  {number(curve['exponent_raw'])}"
        )
    return lines
