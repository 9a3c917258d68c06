# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Python's binding tools can use the C header: pycparser reads it, cffi calls through it.

UCXX_RS_PREFIX names the installed package.
"""

import os
import pathlib
import subprocess
import sys
import unittest

import cffi
from pycparser import c_ast, c_parser
from build_native import declarations

PREFIX = pathlib.Path(os.environ["UCXX_RS_PREFIX"])
LIBRARY = PREFIX / "lib" / "libucxx_rs.so"

# Types of the two standard headers that the library uses. cffi knows these names; pycparser must be
# told.
TYPES = "typedef unsigned long size_t;" + "".join(
    f"typedef {sign} {base} {prefix}int{bits}_t;"
    for bits, base in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    for sign, prefix in (("signed", ""), ("unsigned", "u"))
)


def declared_functions(text):
    tree = c_parser.CParser().parse(TYPES + text)
    return {
        item.name
        for item in tree.ext
        if isinstance(item, c_ast.Decl) and isinstance(item.type, c_ast.FuncDecl)
    }


def exported_symbols():
    command = ["nm", "-D", "--defined-only", str(LIBRARY)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    # All have a version. GNU's linker also makes that an absolute symbol.
    return {name.split("@")[0] for *_, kind, name in map(str.split, lines) if kind != "A"}


class Pycparser(unittest.TestCase):
    def test_declares_what_the_library_exports(self):
        declared = declared_functions(
            declarations(PREFIX / "include", PREFIX / "include" / "ucxx_rs.h")
        )
        self.assertTrue(declared)
        self.assertEqual(declared, exported_symbols())


class Cffi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ffi = cffi.FFI()
        cls.ffi.cdef(declarations(PREFIX / "include", PREFIX / "include" / "ucxx_rs.h"))
        cls.lib = cls.ffi.dlopen(str(LIBRARY))

    def ok(self, status):
        text = lambda value: self.ffi.string(value).decode()
        if status < 0:
            self.fail(
                f"{text(self.lib.ucxx_status_name(status))}: {text(self.lib.ucxx_last_error_message())}"
            )
        return status

    def test_version(self):
        version = self.ffi.new("ucxx_version_t *")
        self.lib.ucxx_version_init(version, self.ffi.sizeof("ucxx_version_t"))
        self.ok(self.lib.ucxx_version_query(version))
        self.assertEqual(version.struct_size, self.ffi.sizeof("ucxx_version_t"))
        self.assertGreaterEqual((version.ucx_major, version.ucx_minor), (1, 13))
        print(
            f"cffi: UCX {version.ucx_major}.{version.ucx_minor}.{version.ucx_patch}",
            file=sys.stderr,
        )

    def test_a_wrong_size_is_refused(self):
        version = self.ffi.new("ucxx_version_t *")
        version.struct_size = 1
        self.assertEqual(self.lib.ucxx_version_query(version), self.lib.UCXX_ERR_INVALID_PARAM)
        self.assertIn(b"struct_size", self.ffi.string(self.lib.ucxx_last_error_message()))

    def test_a_message_to_oneself_arrives_and_calls_back(self):
        ffi, lib, null = self.ffi, self.lib, self.ffi.NULL
        context, worker = ffi.new("ucxx_context_t **"), ffi.new("ucxx_worker_t **")
        address, endpoint = ffi.new("ucxx_address_t **"), ffi.new("ucxx_endpoint_t **")
        self.ok(lib.ucxx_context_create(null, context))
        self.ok(lib.ucxx_worker_create(context[0], null, worker))
        self.ok(lib.ucxx_worker_address(worker[0], address))
        self.ok(lib.ucxx_endpoint_create(worker[0], address[0], null, endpoint))

        completed = []

        @ffi.callback("void(void *, ucxx_request_t *, ucxx_status_t)")
        def on_receive(_arg, _request, status):
            completed.append(status)

        params = ffi.new("ucxx_op_params_t *")
        lib.ucxx_op_params_init(params, ffi.sizeof("ucxx_op_params_t"))
        params.callback = on_receive
        sent = b"through cffi"
        received = ffi.new("char[]", len(sent))
        receive, send = ffi.new("ucxx_request_t **"), ffi.new("ucxx_request_t **")
        every_bit = 2**64 - 1
        status = self.ok(
            lib.ucxx_tag_recv(worker[0], received, len(sent), 3, every_bit, params, receive)
        )
        self.assertEqual(status, lib.UCXX_INPROGRESS)
        self.ok(lib.ucxx_tag_send(endpoint[0], sent, len(sent), 3, null, send))
        for request in (send[0], receive[0]):
            if request != null:
                self.assertEqual(lib.ucxx_request_wait(request, every_bit), lib.UCXX_OK)
            lib.ucxx_request_destroy(request)
        self.assertEqual(ffi.buffer(received, len(sent))[:], sent)
        self.assertEqual(completed, [lib.UCXX_OK])

        lib.ucxx_endpoint_destroy(endpoint[0])
        lib.ucxx_address_destroy(address[0])
        lib.ucxx_worker_destroy(worker[0])
        lib.ucxx_context_destroy(context[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
