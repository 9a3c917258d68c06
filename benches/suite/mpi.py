# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""The MPIs of this system: their compilers and launchers."""

import functools
import shutil
import subprocess
from pathlib import Path

from . import Unavailable
from .hosts import DEVICE, ENTER

# For each implementation: its MPI, and additional options of the launcher. If a component is not
# available, the program ends.
COMPONENTS = {
    "osc_sm": ("openmpi", ["--mca", "osc", "sm"]),
    "osc_ucx": ("openmpi", ["--mca", "osc", "ucx"]),
    "osc_rdma": ("openmpi", ["--mca", "osc", "rdma"]),
    "mpich": ("mpich", []),
}

# For each MPI: its launchers (on Fedora in folders that only `module load` adds to the path), a
# word in the output of `--version`, because two MPIs may use one name, and the packages to install.
# The processes pin themselves.
LAUNCHERS = {
    "openmpi": (
        ["mpirun.openmpi", "/usr/lib64/openmpi/bin/mpirun", "mpirun"],
        "Open MPI",
        "libopenmpi-dev and openmpi-bin",
        ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
    ),
    "mpich": (
        ["mpiexec.mpich", "/usr/lib64/mpich/bin/mpiexec", "mpiexec"],
        "HYDRA",
        "libmpich-dev and mpich",
        [],
    ),
}


@functools.lru_cache(maxsize=None)
def _launcher(kind):
    names, word, packages, _ = LAUNCHERS[kind]
    for path in filter(None, map(shutil.which, names)):
        said = subprocess.run(
            [path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if word in said.stdout:
            return Path(path)
    raise Unavailable(f"{names[0]} is not installed (Debian: {packages})")


def compiler(kind):
    """The compiler beside the launcher. It must have its headers, which Debian has in another
    package."""
    launcher, packages = _launcher(kind), LAUNCHERS[kind][2]
    path = launcher.with_name("mpicc" + launcher.suffix)
    try:
        done = subprocess.run(
            [path, "-x", "c", "-fsyntax-only", "-"],
            input="#include <mpi.h>\n",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        done = None
    if done is None or done.returncode != 0:
        raise Unavailable(f"{path} finds no mpi.h (Debian: {packages})")
    return str(path)


# For each MPI: additional options of the launcher if the processes are on other hosts. Namespaces
# share memory, so MPI would use shared memory otherwise.
ACROSS = {
    "openmpi": lambda enter, names, device: [
        "--host",
        ",".join(names),
        "--map-by",
        "node",
        "--mca",
        "plm_rsh_agent",
        enter,
        "--mca",
        "oob_tcp_if_include",
        device,
        "--mca",
        "btl",
        "tcp,self",
        "--mca",
        "btl_tcp_if_include",
        device,
        "-x",
        "UCX_TLS",
        "-x",
        "UCX_NET_DEVICES",
    ],
    "mpich": lambda enter, names, device: [
        "-launcher",
        "ssh",
        "-launcher-exec",
        enter,
        "-hosts",
        ",".join(names),
        "-iface",
        device,
    ],
}


def launch(implementation, processes, hosts=None):
    """The beginning of the command of a program."""
    kind, component = COMPONENTS[implementation]
    begin, across = [], []
    if hosts is not None:
        # The launcher itself runs on the first host.
        begin, across = hosts.inside(0), ACROSS[kind](str(ENTER), hosts.names(), DEVICE)
    return [
        *begin,
        str(_launcher(kind)),
        *LAUNCHERS[kind][3],
        *component,
        *across,
        "-n",
        str(processes),
    ]
