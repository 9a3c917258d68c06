# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
"""The environment for programs under test."""

import os


def environment(**more):
    """This process's, without what is set for UCX and for the library, and with `more`."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("UCX_", "UCXX_"))}
    return {**own, **more}
