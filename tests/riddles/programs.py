"""What the tests of this folder share: the installed library, and programs that use it."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from clean_environment import environment
from free_port import free_port as free_port

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


def attach(prefix, whom, **more):
    """The one command."""
    return subprocess.run(
        [prefix / "bin" / "ucxx_rs_info", "--attach", str(whom)],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
