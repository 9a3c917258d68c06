# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""UCXX's benchmark send_recv, in each of its modes."""

import re
import subprocess
import sys

MODES = ("polling", "blocking", "thread", "thread-polling")


def run(*arguments):
    command = [
        sys.executable, "-m", "ucxx.benchmarks.send_recv", "-s", "127.0.0.1", "--n-iter", "50",
        "--n-warmup-iter", "5", "--no-detailed-report", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    latency = re.search(r"Latency \(median\) *\| (\d+) ns", done.stdout)
    if done.returncode or latency is None:
        sys.exit(f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    print(f"send_recv {' '.join(arguments)}: median {int(latency[1]) / 1000:.0f} us", flush=True)


for mode in MODES:
    for size in ("8", "100000"):
        run("-l", "ucxx-core", "--progress-mode", mode, "-n", size)
        run("-l", "ucxx-async", "--progress-mode", mode, "-n", size, "--reuse-alloc")
    run("-l", "ucxx-async", "--progress-mode", mode, "-n", "10000", "--n-buffers", "8")
run("-l", "ucxx-core", "--progress-mode", "thread", "--asyncio-wait", "-n", "1000")
run("-l", "ucxx-core", "--progress-mode", "polling", "--no-error-handling", "-n", "1000")
