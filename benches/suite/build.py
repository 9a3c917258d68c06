# SPDX-License-Identifier: BSD-3-Clause
# Copyright the ucxx_rs developers
"""Compiles the benchmark programs, once for each available implementation."""

import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from . import NotWanted, Unavailable, mpi

BENCHES = Path(__file__).resolve().parent.parent
SOURCES = BENCHES / "c"
PACKAGE = BENCHES.parent / "python"
UCXX_PACKAGE = "libucxx-cu12"
UCXX_VERSION = "0.52.0"
PYTHON_PACKAGE = "ucxx-cu12"
# For our own package, in the same environment.
CFFI = "cffi==2.1.1"

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
C_FLAGS = ["-O2", "-g", "-std=gnu11", "-pthread", "-D_GNU_SOURCE", *WARNINGS]
CXX_FLAGS = ["-O2", "-g", "-std=gnu++17", "-pthread", "-Wall", "-Wextra"]

# Plain UCP has two ways to wait for a request, and which is faster depends on the program. With one
# message in flight it is a request in the program's own memory with a callback. With many it is a
# request from UCX's pool, of which a few are in the cache.
RAW_FLAGS = {
    "stream": ["-DLINK_RAW_POLL"],
    "byte_stream": ["-DLINK_RAW_POLL"],
    "am_stream": ["-DLINK_RAW_POLL"],
    "hub_stream": ["-DLINK_RAW_POLL"],
}


def _run(command, environment=None):
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise Unavailable(f"`{shlex.join(map(str, command))}` failed:\n{done.stdout.strip()}")
    return done.stdout


def fetch_ucxx(peers):
    """Downloads and unpacks the wheel of the peer, unless it is there."""
    name = UCXX_PACKAGE.replace("-", "_")
    if (peers / f"{name}-{UCXX_VERSION}.dist-info").is_dir():
        return
    peers.mkdir(parents=True, exist_ok=True)
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(peers),
            f"{UCXX_PACKAGE}=={UCXX_VERSION}",
        ]
    )
    for wheel in peers.glob(f"{name}-{UCXX_VERSION}-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(peers)


def fetch_python_ucxx(peers):
    """Makes an environment with the peer's Python package, which brings its own UCX."""
    environment = peers / "python"
    if (environment / "complete").exists():
        return
    _run([sys.executable, "-m", "venv", "--clear", str(environment)])
    _run(
        [
            str(environment / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"{PYTHON_PACKAGE}=={UCXX_VERSION}",
            CFFI,
        ]
    )
    (environment / "complete").touch()


def compile_with_ucxx(peers, sources, target):
    """Compiles a C++ program against the downloaded peer. `sources` are its sources, with flags
    before them."""
    package = peers / "libucxx"
    # pylint: disable=protected-access
    paths, libraries = Programs._ucx_flags()
    _run(
        [
            *Programs._compiler("CXX", "c++"),
            *CXX_FLAGS,
            "-DUCXX_ENABLE_CCCL",
            "-isystem",
            str(package / "include"),
            *paths,
            *sources,
            "-o",
            str(target),
            f"-L{package / 'lib64'}",
            "-lucxx",
            *libraries,
            f"-Wl,-rpath,{package / 'lib64'}",
        ]
    )


class Programs:
    """The path of each program, or the reason why it cannot be built. Programs are built on first
    use."""

    def __init__(self, out, prefix, peers):
        self.out = out
        self.prefix = prefix
        self.peers = peers
        self._built = {}

    def get(self, implementation, program):
        key = (implementation, program)
        if key not in self._built:
            try:
                self._built[key] = getattr(self, "_build_" + implementation)(program)
            except Unavailable as reason:
                self._built[key] = reason
        result = self._built[key]
        if isinstance(result, Unavailable):
            raise result
        return result

    def environment(self, implementation):
        """Environment variables that the programs of an implementation need in addition."""
        if implementation == "python_ours":
            return {"PYTHONPATH": str(self.out / "python")}
        return {}

    def python_ucx(self):
        """The folder of the UCX in the peer's Python package, which that package requires. Both
        columns use it, so that they do not differ in it."""
        libraries = (
            sorted((self.peers / "python").glob("lib/python*/site-packages/libucx/lib"))
            if self.peers
            else []
        )
        return libraries[0] if libraries else None

    def library_path(self):
        """The installed library under test, or None."""
        for directory in self._library_directories():
            path = directory / "libucxx_rs.so"
            if path.exists():
                return path.resolve()
        return None

    def counter(self):
        """The allocation counter that is preloaded."""
        target = self._target("count_allocs.so")
        _run(
            [
                *self._compiler("CC", "cc"),
                *C_FLAGS,
                "-U_GNU_SOURCE",
                "-shared",
                "-fPIC",
                str(SOURCES / "count_allocs.c"),
                "-o",
                str(target),
            ]
        )
        return target

    def _target(self, name):
        self.out.mkdir(parents=True, exist_ok=True)
        return self.out / name

    @staticmethod
    def _compiler(variable, default):
        return shlex.split(os.environ.get(variable, default))

    @staticmethod
    def _ucx_flags():
        flags = shlex.split(_run(["pkg-config", "--cflags", "--libs", "ucx"]))
        return [flag for flag in flags if not flag.startswith("-l")], ["-lucp", "-lucs"]

    def _library_directories(self):
        if self.prefix is None:
            return []
        return [
            path
            for path in (
                self.prefix / "lib",
                self.prefix / "lib64",
                *self.prefix.glob("lib/*-linux-*"),
            )
            if path.is_dir()
        ]

    def _build_raw(self, program):
        target = self._target(f"{program}_raw")
        paths, libraries = self._ucx_flags()
        _run(
            [
                *self._compiler("CC", "cc"),
                *C_FLAGS,
                "-DLINK_RAW",
                *RAW_FLAGS.get(program, []),
                *paths,
                str(SOURCES / f"{program}.c"),
                str(SOURCES / "harness.c"),
                "-o",
                str(target),
                *libraries,
            ]
        )
        return target

    def _build_ours(self, program):
        library = self.library_path()
        if library is None:
            where = (
                "no --prefix was given"
                if self.prefix is None
                else f"no libucxx_rs.so under {self.prefix}"
            )
            raise Unavailable(f"ucxx_rs is not installed: {where}")
        target = self._target(f"{program}_ucxx_rs")
        _run(
            [
                *self._compiler("CC", "cc"),
                *C_FLAGS,
                "-DLINK_UCXX_RS",
                f"-I{self.prefix / 'include'}",
                str(SOURCES / f"{program}.c"),
                str(SOURCES / "harness.c"),
                "-o",
                str(target),
                f"-L{library.parent}",
                "-lucxx_rs",
                f"-Wl,-rpath,{library.parent}",
            ]
        )
        return target

    def _build_ucxx(self, program):
        if self.peers is None:
            raise NotWanted("UCXX was left out")
        package = self.peers / "libucxx"
        if not (package / "lib64" / "libucxx.so").exists():
            raise Unavailable(f"UCXX is not in {self.peers}: run with --fetch-peers")
        target = self._target(f"{program}_ucxx")
        helper = self._target("harness.o")
        _run(
            [
                *self._compiler("CC", "cc"),
                *C_FLAGS,
                "-c",
                str(SOURCES / "harness.c"),
                "-o",
                str(helper),
            ]
        )
        compile_with_ucxx(
            self.peers,
            ["-DLINK_UCXX", "-x", "c++", str(SOURCES / f"{program}.c"), "-x", "none", str(helper)],
            target,
        )
        return target

    def _build_with_mpi(self, kind, program):
        """All components of one MPI use the same program."""
        if self.peers is None:
            raise NotWanted("MPI was left out")
        target = self._target(f"{program}_{kind}")
        _run(
            [
                mpi.compiler(kind),
                *C_FLAGS,
                "-DLINK_MPI",
                str(SOURCES / f"{program}.c"),
                str(SOURCES / "harness.c"),
                "-o",
                str(target),
            ]
        )
        return target

    def _build_osc_sm(self, program):
        return self._build_with_mpi("openmpi", program)

    def _build_osc_ucx(self, program):
        return self._build_with_mpi("openmpi", program)

    def _build_osc_rdma(self, program):
        return self._build_with_mpi("openmpi", program)

    def _build_mpich(self, program):
        return self._build_with_mpi("mpich", program)

    def _build_cpp(self, program):
        """A C++ program over ucxx_rs.hpp, which also calls C to compare."""
        library = self.library_path()
        if library is None:
            raise Unavailable("ucxx_rs is not installed")
        target = self._target(f"{program}_cpp")
        helper = self._target("harness.o")
        harness = str(SOURCES / "harness.c")
        _run([*self._compiler("CC", "cc"), *C_FLAGS, "-c", harness, "-o", str(helper)])
        _run(
            [
                *self._compiler("CXX", "c++"),
                *CXX_FLAGS,
                "-std=c++20",
                f"-I{self.prefix / 'include'}",
                str(BENCHES / "cpp" / f"{program}.cpp"),
                str(helper),
                "-o",
                str(target),
                f"-L{library.parent}",
                "-lucxx_rs",
                f"-Wl,-rpath,{library.parent}",
            ]
        )
        return target

    def _build_engine(self, program):
        """The Rust program that calls both the engine and the C symbols. It is built from these
        sources, whatever is installed."""
        target = self.out.parent / "cargo"
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        if shutil.which("cargo") is None:
            raise Unavailable("cargo is not installed")
        _run(
            [
                "cargo",
                "build",
                "--release",
                "--locked",
                "--quiet",
                "--manifest-path",
                str(BENCHES / "rust" / "Cargo.toml"),
            ],
            environment,
        )
        return target / "release" / program

    def _build_python_ucxx(self, program):
        if self.peers is None:
            raise NotWanted("UCXX was left out")
        python = self.peers / "python" / "bin" / "python"
        if not (self.peers / "python" / "complete").exists():
            raise Unavailable(
                f"UCXX's Python package is not in {self.peers}: run with --fetch-peers"
            )
        return [python, BENCHES / "python" / f"{program}_ucxx.py"]

    def _build_python_ours(self, program):
        library = self.library_path()
        if library is None:
            raise Unavailable("ucxx_rs is not installed")
        if self.peers is None:
            raise NotWanted("UCXX was left out, and with it the Python that both sides run in")
        python = self.peers / "python" / "bin" / "python"
        _run(
            [python, PACKAGE / "build_folder.py", self.out / "python", self.prefix],
            {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return [python, BENCHES / "python" / f"{program}_ucxx_rs.py"]
