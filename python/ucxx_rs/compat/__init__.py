# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCXX's Python modules `ucxx._lib.libucxx` and `ucxx._lib.arr`, on this library.

UCXX's asyncio layer, its benchmarks and its Dask plug-in are Python code over these two modules.
They run unmodified after

    python -m ucxx_rs.compat install VENV

where VENV is an environment made with `pip install --no-deps ucxx-cu12 distributed-ucxx-cu12`.
`uninstall VENV` brings UCXX's own modules back. What differs from UCXX is in each class's text.

- Peers may use UCXX itself: the bytes on the wire are the same.
- There are no C++ objects behind these classes: each `ucxx_ptr` raises NotImplementedError. C++
  code that takes such a pointer, as raft-dask's does, needs UCXX itself.
"""
