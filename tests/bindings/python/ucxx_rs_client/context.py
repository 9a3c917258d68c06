# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Contexts, and default values of the structs that start with their size."""

from _ucxx_rs import ffi, lib

from .status import check

NULL = ffi.NULL


def new_struct(name):
    """A `ucxx_<name>_t` with all defaults."""
    value = ffi.new(f"ucxx_{name}_t *")
    getattr(lib, f"ucxx_{name}_init")(value, ffi.sizeof(value[0]))
    return value


class Context:
    """One set-up of UCX. `config` holds UCX variables without their "UCX_", such as {"TLS":
    "tcp,self"}.

    Its workers keep it alive, in Python and in the library; it needs no closing.
    """

    def __init__(self, config=None, *, local=False):
        params = new_struct("context_params")
        params.network = lib.UCXX_NETWORK_LOCAL if local else lib.UCXX_NETWORK_ALL
        # Kept alive until the call has copied them.
        strings = [
            (ffi.new("char[]", str(k).encode()), ffi.new("char[]", str(v).encode()))
            for k, v in (config or {}).items()
        ]
        entries = ffi.new("ucxx_config_entry_t[]", strings)
        params.config, params.config_count = entries, len(strings)
        place = ffi.new("ucxx_context_t **")
        check(lib.ucxx_context_create(params, place))
        self.handle = ffi.gc(place[0], lib.ucxx_context_destroy)
