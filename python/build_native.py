# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Generates the C source of the extension module ucxx_rs._native with cffi, in its API mode.

    python build_native.py SOURCE INCLUDE

- SOURCE: the file to write. CMakeLists.txt compiles it.
- INCLUDE: the folder of ucxx_rs.h.

cffi reads the declarations of the installed header. The C compiler reads the header itself, and
refuses what cffi has understood differently.
"""

import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

MODULE = "ucxx_rs._native"

# Loops over the buffers of a message, which Python would take several times as long for.
LOOPS = """
size_t frames_describe(const ucxx_buffers_t *frames, size_t count, uint64_t *numbers);
void buffers_fill(ucxx_buffer_t *list, size_t count, char *const *addresses, const size_t *lengths);
"""
LOOPS_SOURCE = """
#include <ucxx_rs.h>

/* Writes address, length and run of each frame. The first of frames that follow each other without
   a gap of 16 bytes has their length together as its run; the others have 0. Returns how many
   frames the CPU can read; it ends at the first one that it cannot. */
static size_t frames_describe(const ucxx_buffers_t *frames, size_t count, uint64_t *numbers) {
  uint64_t *first = NULL;
  uint64_t end = 0;
  for (size_t at = 0; at < count; at++, numbers += 3) {
    ucxx_buffer_t frame;
    if (ucxx_buffers_get(frames, at, &frame) != UCXX_OK || frame.memory_type == UCXX_MEMORY_CUDA)
      return at;
    numbers[0] = (uintptr_t)frame.data;
    numbers[1] = frame.length;
    numbers[2] = 0;
    if (frame.length == 0) continue;
    if (first == NULL || numbers[0] - end >= 16) first = numbers;
    end = numbers[0] + numbers[1];
    first[2] = end - first[0];
  }
  return count;
}

static void buffers_fill(ucxx_buffer_t *list, size_t count, char *const *addresses,
                         const size_t *lengths) {
  for (size_t at = 0; at < count; at++)
    list[at] = (ucxx_buffer_t){
        .data = addresses[at], .length = lengths[at], .memory_type = UCXX_MEMORY_HOST};
}
"""


def declarations(include, header):
    """A header after the preprocessor, without the text of system headers."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        command = [
            *shlex.split(os.environ.get("CC", "cc")),
            "-E",
            "-P",
            "-std=c99",
            "-nostdinc",
            "-DUCXX_NODISCARD=",
            "-I",
            empty,
            "-I",
            str(include),
            str(header),
        ]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def generate(source, include):
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations(include, pathlib.Path(include) / "ucxx_rs.h"))
    ffi.cdef(LOOPS)
    ffi.set_source(MODULE, LOOPS_SOURCE)
    ffi.emit_c_code(str(source))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    generate(*sys.argv[1:])
