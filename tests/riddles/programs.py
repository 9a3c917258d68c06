"""What the tests of this folder share: the installed library, and programs that use it."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 60  # seconds; only a hang of the test itself takes so long


def build(prefix, source, folder):
    """Builds a program, and returns its path."""
    program = folder / source
    library = prefix / "lib"
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", HERE / f"{source}.c", "-o", program]
        + [f"-I{prefix / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
        + ["-lucxx_rs", "-pthread"],
        check=True,
    )
    return program


def environment(**more):
    """Without what is set for UCX, and for the library."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("UCX_", "UCXX_"))}
    return {**own, **more}


def attach(prefix, whom, **more):
    """The one command."""
    return subprocess.run(
        [prefix / "bin" / "ucxx_rs_info", "--attach", str(whom)],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
