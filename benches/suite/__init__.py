# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The parts of benches/run.py: building the programs, running them, counting, and the report."""


class Unavailable(Exception):
    """Something a row needs is missing; the text says what, and the row says it."""


class NotWanted(Unavailable):
    """It was left out on purpose, which is nothing to report."""
