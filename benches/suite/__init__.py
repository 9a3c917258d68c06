# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The parts of benches/run.py: building the programs, running them, counting, and the report."""


class Unavailable(Exception):
    """A row lacks something that it needs. The text says what, and is shown in the report."""


class NotWanted(Unavailable):
    """It was left out on purpose, which is not reported."""
