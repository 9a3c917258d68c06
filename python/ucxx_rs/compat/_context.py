# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Contexts, configurations and addresses of workers."""

from __future__ import annotations

import pickle
import typing

from .._context import Context, made, version
from .._context import config as current_config
from .._native import ffi, lib
from .._status import Error
from ._types import FEATURES, Feature
from .exceptions import error

_DEFAULT = (Feature.TAG, Feature.WAKEUP, Feature.STREAM, Feature.AM, Feature.RMA)


class UCXConfig:
    """UCX's options: those of the environment, and `config_dict` over them."""

    def __init__(self, config_dict: typing.Mapping[str, str] | None = None) -> None:
        self._config = current_config()
        for name in config_dict or {}:
            if name not in self._config:
                raise error(lib.UCXX_ERR_INVALID_PARAM, f"UCX has no option {name}")
        self._config.update(config_dict or {})

    @property
    def config(self) -> dict[str, str]:
        return dict(self._config)


class UCXContext:
    """UCX with a configuration and features."""

    def __init__(
        self,
        config_dict: typing.Mapping[str, str] = {},
        feature_flags: tuple[Feature, ...] = _DEFAULT,
    ) -> None:
        if not isinstance(feature_flags, tuple):
            raise TypeError("feature_flags: a tuple of Feature is expected")
        self._flags = 0
        features = []
        for feature in feature_flags:
            self._flags |= feature.value
            features.append(_NAMES[FEATURES[feature]])
        try:
            self._context = Context(
                {name: str(value) for name, value in config_dict.items()}, features=features
            )
        except Error as failure:
            raise error(failure.status, str(failure)) from None

    @property
    def feature_flags(self) -> int:
        return self._flags

    @property
    def config(self) -> dict[str, str]:
        return self._context.config

    @property
    def cuda_support(self) -> bool:
        return self._context.has_cuda

    @property
    def handle(self) -> int:
        """UCP's handle of the context."""
        return int(ffi.cast("uintptr_t", lib.ucxx_context_native(self._context.handle)))

    @property
    def info(self) -> str:
        """A description. As in UCP's, its lines begin with "#": UCXX looks for transports in it."""
        return "\n".join(f"# {line.lstrip()}" for line in self._context.dump().split("\n"))


_NAMES = {
    lib.UCXX_FEATURE_TAG: "tag",
    lib.UCXX_FEATURE_RMA: "rma",
    lib.UCXX_FEATURE_ATOMIC: "atomic",
    lib.UCXX_FEATURE_WAKEUP: "wakeup",
    lib.UCXX_FEATURE_STREAM: "stream",
    lib.UCXX_FEATURE_AM: "am",
}


class UCXAddress(bytes):
    """The address of a worker, by which another process connects to it."""

    def __new__(cls, *_: object) -> UCXAddress:
        raise TypeError("UCXAddress cannot be instantiated directly.")

    @classmethod
    def create_from_buffer(cls, buf: typing.Any) -> UCXAddress:
        found = bytes(memoryview(buf))
        if not found:
            raise ValueError("the address is empty")
        return bytes.__new__(cls, found)

    @classmethod
    def create_from_worker(cls, worker: typing.Any) -> UCXAddress:
        address = made("address", lib.ucxx_worker_address, worker._open())
        try:
            length = lib.ucxx_address_length(address)
            return bytes.__new__(cls, ffi.buffer(lib.ucxx_address_data(address), length))
        finally:
            lib.ucxx_address_destroy(address)

    def __reduce_ex__(self, protocol: typing.Any) -> tuple[typing.Any, tuple[typing.Any]]:
        data = pickle.PickleBuffer(self) if protocol >= 5 else bytes(self)
        return UCXAddress.create_from_buffer, (data,)

    @property
    def address(self) -> int:
        """Where its bytes are in memory."""
        return int(ffi.cast("uintptr_t", ffi.from_buffer(self)))

    @property
    def length(self) -> int:
        return len(self)

    def tobytes(self) -> bytes:
        return bytes(self)


def get_current_options() -> dict[str, str]:
    """UCX's options as the environment sets them."""
    return current_config()


def get_ucx_version() -> tuple[int, int, int]:
    """The version of the UCX that this library uses."""
    return version()[1]
