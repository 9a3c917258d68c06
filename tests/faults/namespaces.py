#!/usr/bin/env python3
"""Runs the C tests of groups and windows with members on several hosts. Each host is a network
namespace; three of them share a wire that delays and loses frames (wire.py).

    tests/faults/namespaces.py BUILD [--places 2|3] [--delay MS] [--loss PERCENT] [--seed S]
    [--tests REGEX] [--ucx LIBDIR]

BUILD is where tests/c was built. Needs root and `ip`. The exit status is ctest's, or 77 if there
can be no namespaces.
"""

import argparse
import os
import secrets
import subprocess
import sys

from network import Hosts, Unavailable


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--places", type=int, choices=(2, 3), default=3)
    parser.add_argument("--delay", type=float, default=0.2, help="of each frame, in milliseconds")
    parser.add_argument("--loss", type=float, default=0.1, help="in per cent")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--tests", default=r"^(window_|group).*\.(hosts|mixed)$")
    parser.add_argument("--ucx", default="")
    options = parser.parse_args()
    print(
        f"seed {options.seed}, {options.places} namespaces, {options.delay} ms each way, {options.loss} % lost",
        flush=True,
    )
    try:
        hosts = Hosts(options.seed)
    except Unavailable as why:
        print(f"LEFT OUT: no network namespaces on a wire here ({why})")
        return 77
    try:
        hosts.disturb(options.delay, options.loss)
        names = ",".join(list(hosts.names.values())[: options.places])
        environment = {**os.environ, "UCXX_TEST_NAMESPACES": names}
        if options.ucx:
            environment["LD_LIBRARY_PATH"] = options.ucx
        command = (
            "ctest",
            "--test-dir",
            options.build,
            "-R",
            options.tests,
            "--output-on-failure",
            "--no-tests=error",
        )
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        hosts.close()


if __name__ == "__main__":
    sys.exit(main())
