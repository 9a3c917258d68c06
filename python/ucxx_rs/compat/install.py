# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Puts this package's modules in the place of UCXX's in an environment, and back."""

from __future__ import annotations

import pathlib
import subprocess
import sys

#: UCXX's module, and what replaces it.
_MODULES = {"libucxx": "ucxx_rs.compat.libucxx", "arr": "ucxx_rs.compat.arr"}
_KEPT = ".ucxx"


class Refused(Exception):
    """The environment is not one that can be changed; the text says why."""


def _folder(environment: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The environment's interpreter, and its folder ucxx/_lib."""
    python = environment / "bin" / "python"
    if not python.exists():
        raise Refused(f"{environment}: is no virtual environment: it has no bin/python")
    # Without importing it, which needs what is not installed there.
    found = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('ucxx').origin)"],
        capture_output=True, text=True,
    )  # fmt: skip
    if found.returncode:
        raise Refused(
            f"{environment}: has no UCXX. Install it there: "
            "pip install --no-deps ucxx-cu12 distributed-ucxx-cu12"
        )
    folder = pathlib.Path(found.stdout.strip()).parent / "_lib"
    if environment.resolve() not in folder.resolve().parents:
        raise Refused(f"{environment}: uses UCXX of another environment, in {folder}")
    return python, folder


def install(environment: pathlib.Path) -> None:
    python, folder = _folder(environment)
    imported = subprocess.run(
        [python, "-c", "import ucxx_rs.compat.libucxx as m; print(*m.get_ucx_version())"],
        capture_output=True, text=True,
    )  # fmt: skip
    if imported.returncode:
        reason = (imported.stderr.strip().splitlines() or ["it cannot be imported"])[-1]
        raise Refused(f"{environment}: ucxx_rs has to be installed there too: {reason}")
    version = tuple(map(int, imported.stdout.split()))
    if version < (1, 19):
        raise Refused(
            f"{environment}: ucxx_rs uses UCX {'.'.join(map(str, version))} there, and UCXX's "
            "Python code refuses one before 1.19"
        )
    for name, module in _MODULES.items():
        for original in folder.glob(f"{name}.*.so"):
            original.rename(original.with_name(original.name + _KEPT))
        (folder / f"{name}.py").write_text(
            f"# Written by `python -m ucxx_rs.compat install`; `uninstall` removes it.\n"
            f"from {module} import *  # noqa: F403\n"
        )


def uninstall(environment: pathlib.Path) -> None:
    _, folder = _folder(environment)
    for name in _MODULES:
        (folder / f"{name}.py").unlink(missing_ok=True)
        for kept in folder.glob(f"{name}.*.so{_KEPT}"):
            kept.rename(kept.with_name(kept.name.removesuffix(_KEPT)))


def main(arguments: list[str]) -> int:
    commands = {"install": install, "uninstall": uninstall}
    if len(arguments) != 2 or arguments[0] not in commands:
        print("python -m ucxx_rs.compat install|uninstall VENV", file=sys.stderr)
        return 2
    try:
        commands[arguments[0]](pathlib.Path(arguments[1]))
    except Refused as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0
