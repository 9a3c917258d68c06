# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Dask's LocalCluster with Nanny workers shuffles a dataframe over UCXX's plug-in, in each of its
progress modes, with its multi-buffer transfers and with Python futures. pandas has the result to
compare with."""

import os
import subprocess
import sys

ROWS = 200_000
VARIANTS = (
    {},
    {"UCXPY_PROGRESS_MODE": "polling"},
    {"UCXPY_PROGRESS_MODE": "thread"},
    {"UCXPY_PROGRESS_MODE": "thread", "UCXPY_ENABLE_PYTHON_FUTURE": "1"},
    {"DASK_DISTRIBUTED_UCXX__MULTI_BUFFER": "True"},
)


def shuffle():
    import dask
    import dask.dataframe
    import numpy
    import pandas
    from distributed import Client, LocalCluster, Nanny

    keys = numpy.random.default_rng(1).integers(0, 1000, ROWS)
    frame = pandas.DataFrame({"key": keys, "value": numpy.arange(float(ROWS))})
    cluster = LocalCluster(
        protocol="ucxx", host="127.0.0.1", n_workers=2, threads_per_worker=2, processes=True,
        dashboard_address=":0",
    )  # fmt: skip
    with cluster, Client(cluster) as client:
        assert cluster.scheduler_address.startswith("ucxx://")
        assert all(isinstance(worker, Nanny) for worker in cluster.workers.values())
        modules = client.run(lambda: sys.modules["ucxx._lib.libucxx"].UCXWorker.__module__)
        assert set(modules.values()) == {"ucxx_rs.compat._worker"}, modules
        with dask.config.set({"dataframe.shuffle.method": "p2p"}):
            table = dask.dataframe.from_pandas(frame, npartitions=16).shuffle("key", npartitions=8)
            parts = client.compute(table.to_delayed(), sync=True)
    owner = {}
    for index, part in enumerate(parts):
        for key in part.key.unique():
            assert owner.setdefault(key, index) == index, f"key {key} is in two partitions"
    got = pandas.concat(parts).sort_values("value").reset_index(drop=True)
    pandas.testing.assert_frame_equal(got, frame)


if __name__ == "__main__":
    if sys.argv[1:]:
        shuffle()
        sys.exit()
    for variant in VARIANTS:
        command = [sys.executable, __file__, "shuffle"]
        done = subprocess.run(
            command, env={**os.environ, **variant}, capture_output=True, text=True, timeout=300
        )
        text = " ".join(f"{name}={value}" for name, value in variant.items()) or "defaults"
        if done.returncode:
            sys.exit(f"shuffle, {text}:\n{done.stdout}{done.stderr}")
        print(f"shuffle of {ROWS} rows, {text}: equal to pandas", flush=True)
