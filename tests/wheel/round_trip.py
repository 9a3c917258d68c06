# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Sends a message to itself through the installed package, by the C interface.

python round_trip.py [VERSION]      VERSION: of the UCX that has to be in use
"""

import sys

from ucxx_rs import _ucx

_ucx.load()
from ucxx_rs._native import ffi, lib  # noqa: E402

ANY = 2**64 - 1


def check(status):
    if status < 0:
        sys.exit(f"round_trip: {ffi.string(lib.ucxx_last_error_message()).decode()}")


def made(kind, create, *arguments):
    """What a call stores in its last parameter."""
    place = ffi.new(f"{kind} **")
    check(create(*arguments, place))
    return place[0]


def main():
    context = made("ucxx_context_t", lib.ucxx_context_create, ffi.NULL)
    worker = made("ucxx_worker_t", lib.ucxx_worker_create, context, ffi.NULL)
    address = made("ucxx_address_t", lib.ucxx_worker_address, worker)
    endpoint = made("ucxx_endpoint_t", lib.ucxx_endpoint_create, worker, address, ffi.NULL)
    sent, received = b"through the wheel", bytearray(17)
    place = ffi.from_buffer(received)
    requests = [
        made("ucxx_request_t", lib.ucxx_tag_recv, worker, place, 17, 7, ANY, ffi.NULL),
        made("ucxx_request_t", lib.ucxx_tag_send, endpoint, sent, 17, 7, ffi.NULL),
    ]
    for request in requests:
        if request:
            check(lib.ucxx_request_wait(request, ANY))
            lib.ucxx_request_destroy(request)
    assert received == sent, received
    version = ffi.new("ucxx_version_t *", {"struct_size": ffi.sizeof("ucxx_version_t")})
    check(lib.ucxx_version_query(version))
    assert version.ucx_copies == 1, version.ucx_copies
    in_use = f"{version.ucx_major}.{version.ucx_minor}.{version.ucx_patch}"
    assert in_use == _ucx.load().version, (in_use, _ucx.used)
    assert in_use in (sys.argv[1:] or in_use), in_use
    lib.ucxx_endpoint_destroy(endpoint)
    lib.ucxx_address_destroy(address)
    lib.ucxx_worker_destroy(worker)
    lib.ucxx_context_destroy(context)
    print(f"{len(received)} bytes on UCX {in_use}, {_ucx.load().why}")


main()
