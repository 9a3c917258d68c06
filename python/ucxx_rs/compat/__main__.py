# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""`python -m ucxx_rs.compat install VENV`; see install.py."""

import sys

from .install import main

sys.exit(main(sys.argv[1:]))
