# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Contexts, and small helpers for what C fills in."""

from __future__ import annotations

import typing

from ._native import ffi, lib
from ._status import check, text


def new(name: str) -> typing.Any:
    """A struct of the library with its defaults, such as new("worker_params")."""
    kind = f"ucxx_{name}_t"
    made = ffi.new(kind + " *")
    getattr(lib, f"ucxx_{name}_init")(made, ffi.sizeof(kind))
    return made


def fields(got: typing.Any) -> dict[str, typing.Any]:
    """What a call has filled in, by name."""
    return {name: getattr(got, name) for name in dir(got) if name != "struct_size"}


def made(kind: str, call: typing.Callable[..., int], *arguments: typing.Any) -> typing.Any:
    """The handle that a call of the library makes: its last parameter."""
    place = ffi.new(f"ucxx_{kind}_t **")
    check(call(*arguments, place))
    return place[0]


class Context:
    """UCX with a configuration. One is enough for most programs; its workers keep it alive.

    - `config`: UCX's options by name. `{"TLS": "tcp,self"}` is what `UCX_TLS=tcp,self` is in the
      environment. They take precedence over the environment.
    - `features`: "tag", "stream", "am", and, for memory and windows, "rma", "atomic". By default
      the first three.
    - `network`: "all", or "local": shared memory, and TCP over the loopback interface.
    - `name`: shown in logs.
    """

    def __init__(
        self,
        config: typing.Mapping[str, str] | None = None,
        *,
        features: typing.Iterable[str] | None = None,
        network: typing.Literal["all", "local"] = "all",
        name: str | None = None,
    ) -> None:
        params = new("context_params")
        keep = [
            ffi.new("char[]", text.encode()) for pair in (config or {}).items() for text in pair
        ]
        entries = ffi.new("ucxx_config_entry_t[]", len(keep) // 2 or 1)
        for at, entry in enumerate(entries[0 : len(keep) // 2]):
            entry.key, entry.value = keep[2 * at], keep[2 * at + 1]
        params.config, params.config_count = entries, len(keep) // 2
        if isinstance(features, str):
            raise TypeError(f"features: a list of names is expected, not {features!r}")
        if features is not None:
            params.features = lib.UCXX_FEATURE_WAKEUP
            for feature in features:
                params.features |= constant("FEATURE", feature)
        params.network = constant("NETWORK", network)
        kept_name = ffi.new("char[]", name.encode()) if name else ffi.NULL
        params.name = kept_name
        self.handle = made("context", lib.ucxx_context_create, params)

    @property
    def has_cuda(self) -> bool:
        """Whether UCX can move memory of CUDA devices."""
        return bool(lib.ucxx_context_has_cuda(self.handle))

    @property
    def config(self) -> dict[str, str]:
        """All of UCX's options, with the values that this context uses."""
        return _visited(lib.ucxx_context_visit_config, self.handle)

    def dump(self) -> str:
        """UCX's description of the context."""
        return dumped(lib.ucxx_context_dump, self.handle)

    def metrics(self) -> str:
        """Its metrics as OpenMetrics text, for Prometheus."""
        return dumped(lib.ucxx_context_metrics, self.handle) + "\n"

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", ffi.NULL), ffi.NULL
        if handle != ffi.NULL:
            lib.ucxx_context_destroy(handle)


def config() -> dict[str, str]:
    """UCX's options as the environment sets them, without making a context."""
    return _visited(lib.ucxx_config_visit)


def version() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The version of this library, and that of the UCX it uses."""
    got = new("version")
    check(lib.ucxx_version_query(got))
    return (got.major, got.minor, got.patch), (got.ucx_major, got.ucx_minor, got.ucx_patch)


def _visited(call: typing.Callable[..., int], *arguments: typing.Any) -> dict[str, str]:
    found: dict[str, str] = {}

    def visit(_: object, key: object, value: object) -> None:
        found[text(key)] = text(value)

    callback = ffi.callback("void(void *, const char *, const char *)", visit)
    check(call(*arguments, callback, ffi.NULL))
    return found


def dumped(call: typing.Callable[..., int], handle: typing.Any) -> str:
    """What a call of C describes line by line."""
    lines: list[str] = []
    callback = ffi.callback("void(void *, const char *)", lambda _, line: lines.append(text(line)))
    check(call(handle, callback, ffi.NULL))
    return "\n".join(lines)


def constant(group: str, name: str) -> int:
    value = getattr(lib, f"UCXX_{group}_{name.upper()}", None)
    if value is None:
        start = f"UCXX_{group}_"
        known = [one[len(start) :].lower() for one in dir(lib) if one.startswith(start)]
        raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return int(value)
