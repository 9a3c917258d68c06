#!/usr/bin/env python3
"""Each mistake of must_not_compile.cpp is refused, with the expected words, and the same text
without mistakes compiles.

    tests/cpp/test_must_not_compile.py HEADER_DIR COMPILER...
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).parent / "must_not_compile.cpp"
# The first error is the one that a user has to understand.
OPTIONS = "-std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Werror -Wfatal-errors".split()


def main(include, compilers):
    cases = re.findall(r"^#if CASE == (\d+) // (.+)$", SOURCE.read_text(), re.MULTILINE)
    assert [int(number) for number, _ in cases] == list(range(1, len(cases) + 1)), "numbers"
    failures = []
    with tempfile.TemporaryDirectory() as work:
        for compiler in compilers:
            failures += check(compiler, include, cases, Path(work))
    for failure in failures:
        print(f"must_not_compile: {failure}")
    if not failures:
        print(f"must_not_compile: {len(cases)} mistakes are refused by {', '.join(compilers)}")
    return 1 if failures else 0


def check(compiler, include, cases, work):
    # The header is compiled once.
    prefix = work / f"prefix_{Path(compiler).name}.hpp"
    prefix.write_text("#include <ucxx_rs.hpp>\n")
    command = [compiler, *OPTIONS, f"-I{include}"]
    compiled = f"{prefix}.{'pch' if 'clang' in compiler else 'gch'}"
    subprocess.run([*command, "-x", "c++-header", prefix, "-o", compiled], check=True)
    first = ["-include-pch", compiled] if "clang" in compiler else ["-include", str(prefix)]

    def compiles(case):
        options = [*command, *first, "-fsyntax-only", f"-DCASE={case}", SOURCE]
        return subprocess.run(options, capture_output=True, text=True, check=False)

    mended = compiles(0)
    if mended.returncode != 0:
        yield f"{compiler}: the text without mistakes does not compile:\n{mended.stderr}"
        return
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        runs = threads.map(compiles, [number for number, _ in cases])
    for (number, words), run in zip(cases, runs):
        if run.returncode == 0:
            yield f"{compiler}: case {number} compiles, without: {words}"
        elif not re.search(words, run.stderr):
            yield f"{compiler}: case {number} does not say: {words}\n{run.stderr}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
