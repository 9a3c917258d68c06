# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Chooses a UCX and loads it. The extension module finds it in the process then.

The candidates are the system's UCX, which the loader finds, and the one of the wheels libucx-cu12
and libucx-cu13. The newer one is loaded. UCXX_RS_UCX chooses otherwise: `system`, `wheel`, or the
folder of a libucp.so.0. Where the process has loaded a UCX already, that one is used, because a
second copy would not share its state.
"""

from __future__ import annotations

import os
import sys

# Every import here delays the user's own. Those that most processes do not need are in functions.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes

VARIABLE = "UCXX_RS_UCX"
OLDEST = "1.13"
UCP = "libucp.so.0"
RTLD_DI_LINKMAP = 2  # of dlfcn.h
# In this order each needs only those before it, and libucm.so.0. That one cannot be the first, as
# it has symbols of libucs.so.0.
LIBRARIES = ("libucs.so.0", "libuct.so.0", UCP)
REMEDY = (
    "Install one: pip install 'ucxx-rs[ucx]', or the package of your distribution"
    " (Debian, Ubuntu: libucx0; Fedora: ucx). UCXX_RS_UCX=/path/to/lib names the folder of a UCX elsewhere."
)
# A second interpreter runs this, so that only one UCX is loaded here.
PROBE = """
import ctypes, sys
ucp = ctypes.CDLL(sys.argv[1])
ucp.ucp_get_version_string.restype = ctypes.c_char_p
print(ucp.ucp_get_version_string().decode())
"""


class Ucx:
    """A UCX that is loaded: the file of its libucp, its version, and why it was taken."""

    __slots__ = ("path", "version", "why")

    def __init__(self, path: str, version: str, why: str) -> None:
        self.path = path
        self.version = version
        self.why = why

    def __repr__(self) -> str:
        return f"Ucx(path={self.path!r}, version={self.version!r}, why={self.why!r})"

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


used: Ucx | None = None


def load() -> Ucx:
    """Loads a UCX, on the first call. Raises ImportError if there is none that can be used."""
    global used
    if used is None:
        used = _load()
    return used


def _load() -> Ucx:
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "system", "wheel"):
        # Checked first, so that a wrong value is an error in every process.
        wanted = _folder(wanted)
    loaded = _described(_loaded(), "the process had loaded it before")
    if loaded is not None:
        _refuse_old(loaded)
        if wanted:
            _check_followed(wanted, loaded)
        return loaded
    wheel = _wheel()
    if wanted == "system":
        folder, why = None, f"{VARIABLE}=system"
    elif wanted == "wheel":
        if wheel is None:
            raise ImportError(
                f"{VARIABLE}=wheel: no wheel of UCX is installed. pip install 'ucxx-rs[ucx]'"
            )
        folder, why = wheel, f"{VARIABLE}=wheel"
    elif wanted:
        folder, why = wanted, f"{VARIABLE} names its folder"
    elif wheel is None:
        folder, why = None, "the system's UCX; no wheel of UCX is installed"
    else:
        folder, why = _newer(wheel)
    found = _described(_open_all(folder), why)
    assert found is not None
    _refuse_old(found)
    return found


def _folder(value: str) -> str:
    folder = os.path.abspath(value)
    if os.path.basename(folder).startswith("libucp.so"):
        folder = os.path.dirname(folder)
    if not os.path.exists(os.path.join(folder, UCP)):
        raise ImportError(
            f"{VARIABLE}={value}: it is neither 'system' nor 'wheel', nor a folder with {UCP}"
        )
    return folder


def _loaded() -> ctypes.CDLL | None:
    """The libucp that the process has loaded already."""
    try:
        return _open(UCP, os.RTLD_NOLOAD)
    except OSError:
        return None


def _open(name: str, flags: int = 0) -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_GLOBAL | flags)


def _open_all(folder: str | None) -> ctypes.CDLL:
    """Loads the libraries of a folder, or those that the loader finds, and returns libucp."""
    if folder is None:
        # The loader finds those that libucp needs by the path that libucp itself has.
        names = [UCP]
    else:
        names = [os.path.join(folder, name) for name in LIBRARIES]
        names = [name for name in names if os.path.exists(name)]
    try:
        ucp = [_open(name) for name in names][-1]
    except OSError as error:
        if folder is None:
            raise ImportError(
                f"ucxx_rs needs UCX {OLDEST} or newer, and found none ({error}). {REMEDY}"
            ) from None
        raise ImportError(
            f"the UCX in {folder} cannot be loaded ({error}). {VARIABLE} chooses another one"
        ) from None
    if folder is not None:
        _refuse_mixed(folder)
    return ucp


def _refuse_mixed(folder: str) -> None:
    """A UCX that was moved may find its libucm.so.0 elsewhere: it does not work with that one."""
    for name in ("libucm.so.0", *LIBRARIES):
        path = _path(_open(name, os.RTLD_NOLOAD))
        if os.path.realpath(os.path.dirname(path)) != os.path.realpath(folder):
            raise ImportError(
                f"the UCX in {folder} takes its {name} from {path}."
                f" With LD_LIBRARY_PATH={folder} it takes its own"
            )


def _described(ucp: ctypes.CDLL | None, why: str) -> Ucx | None:
    if ucp is None:
        return None
    import ctypes

    ucp.ucp_get_version_string.restype = ctypes.c_char_p
    version: bytes = ucp.ucp_get_version_string()
    return Ucx(_path(ucp), version.decode(), why)


def _path(library: ctypes.CDLL) -> str:
    """The file that a loaded library came from."""
    import ctypes

    class Entry(ctypes.Structure):  # link_map of link.h
        _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]

    entry = ctypes.POINTER(Entry)()
    handle = ctypes.c_void_p(library._handle)
    if ctypes.CDLL(None).dlinfo(handle, RTLD_DI_LINKMAP, ctypes.byref(entry)) != 0:
        return library._name
    return os.fsdecode(entry.contents.name)


def _wheel() -> str | None:
    """The folder of the libraries of an installed wheel of UCX."""
    from importlib.util import find_spec

    spec = find_spec("libucx")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = os.path.join(place, "lib")
        if os.path.exists(os.path.join(folder, UCP)):
            return folder
    return None


def _newer(wheel: str) -> tuple[str | None, str]:
    """The folder of the newer one of the wheel and the system's UCX, and the reason."""
    system = _probe(UCP)
    if system is None:
        return wheel, "the installed wheel; the system has no UCX"
    version = _wheel_version(wheel) or _probe(os.path.join(wheel, UCP))
    if version is None:
        return None, "the system's UCX; the installed wheel cannot be loaded"
    if _numbers(version) >= _numbers(system):
        return wheel, f"the installed wheel; the system has {system}"
    return None, f"the system's UCX; the installed wheel has {version}"


def _wheel_version(folder: str) -> str | None:
    """The version of the wheel that contains the folder, by the name of its metadata.

    importlib.metadata would tell as well, in more time than the rest of the import takes.
    """
    packages = os.path.dirname(os.path.dirname(folder))
    found = set()
    for name in os.listdir(packages):
        name, end = os.path.splitext(name)
        if end == ".dist-info" and name.startswith("libucx_cu"):
            found.add(name.partition("-")[2])
    # With several, nobody knows whose files are there.
    return found.pop() if len(found) == 1 else None


def _probe(library: str) -> str | None:
    """The version of a libucp, if it can be loaded."""
    # An embedded interpreter may have none.
    if not sys.executable:
        return None
    import subprocess

    command = [sys.executable, "-I", "-S", "-c", PROBE, library]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or None


def _numbers(version: str) -> list[int]:
    """1.22.0rc1 is [1, 22, 0]."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = len(part) - len(part.lstrip("0123456789"))
        numbers.append(int(part[:digits] or 0))
    return numbers


def _refuse_old(found: Ucx) -> None:
    if _numbers(found.version) < _numbers(OLDEST):
        raise ImportError(
            f"ucxx_rs needs UCX {OLDEST} or newer; {found.path} is {found.version}"
            f" ({found.why}). {REMEDY}"
        )


def _check_followed(wanted: str, loaded: Ucx) -> None:
    """Warns if UCXX_RS_UCX asks for another UCX than the one that the process has loaded."""
    folder = os.path.realpath(loaded.folder)
    wheel = _wheel()
    of_wheel = wheel is not None and os.path.realpath(wheel) == folder
    if wanted == "system":
        followed = not of_wheel
    elif wanted == "wheel":
        followed = of_wheel
    else:
        followed = os.path.realpath(wanted) == folder
    if not followed:
        import warnings

        warnings.warn(
            f"{VARIABLE}={os.environ[VARIABLE]} has no effect: the process had loaded"
            f" {loaded.path} before it imported ucxx_rs",
            RuntimeWarning,
            stacklevel=5,
        )
