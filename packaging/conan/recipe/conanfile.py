"""The recipe for Conan 2, laid out as ConanCenter wants it: conandata.yml names the sources.

UCX is not in ConanCenter. The recipe uses the one that pkg-config finds, and so do its consumers.
"""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import cross_building
from conan.tools.files import copy, get, rm, rmdir
from conan.tools.gnu import PkgConfig
from conan.tools.layout import basic_layout
from conan.tools.scm import Version

required_conan_version = ">=2.0"

OLDEST_UCX = "1.13"


class UcxxRsConan(ConanFile):
    name = "ucxx_rs"
    description = "@DESCRIPTION@"
    license = "BSD-3-Clause"
    homepage = "@HOMEPAGE@"
    url = "@HOMEPAGE@"
    topics = ("ucx", "rdma", "communication", "shared-memory", "infiniband")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False], "tools": [True, False]}
    default_options = {"shared": True, "cuda": True, "tools": False}
    # Cargo builds outside the sources.
    no_copy_source = True

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")
        if not self.options.shared:
            # The tools use the shared library.
            del self.options.tools

    def layout(self):
        basic_layout(self, src_folder="src")

    def package_id(self):
        # Cargo builds it, always optimised, and its interface is C.
        self.info.settings.rm_safe("compiler")
        self.info.settings.rm_safe("build_type")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration(f"{self.ref} is for Linux on x86_64 and armv8")

    def validate_build(self):
        if cross_building(self):
            raise ConanInvalidConfiguration(f"this recipe of {self.ref} cannot cross-build")
        found = PkgConfig(self, "ucx").version
        if Version(found) < OLDEST_UCX:
            raise ConanInvalidConfiguration(f"UCX is {found}; {self.ref} needs {OLDEST_UCX}")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def _make(self, *arguments):
        # A folder of the user's own saves time where several packages are made.
        target = os.environ.get("CARGO_TARGET_DIR", self.build_folder)
        cuda = "yes" if self.options.cuda else "no"
        words = ["make", *arguments, f"CUDA={cuda}"]
        command = " ".join(f"'{word}'" for word in words)
        self.run(f"CARGO_TARGET_DIR='{target}' {command}", cwd=self.source_folder)

    def build(self):
        self._make("build")

    def package(self):
        tools = "yes" if self.options.get_safe("tools") else "no"
        self._make("install", f"PREFIX={self.package_folder}", f"TOOLS={tools}")
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        lib = os.path.join(self.package_folder, "lib")
        rm(self, "*.a" if self.options.shared else "*.so*", lib)
        # Conan generates these for its consumers.
        rmdir(self, os.path.join(lib, "cmake"))
        rmdir(self, os.path.join(lib, "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        kind = "shared" if self.options.shared else "static"
        self.cpp_info.libs = ["ucxx_rs"]
        self.cpp_info.set_property("cmake_file_name", "ucxx_rs")
        self.cpp_info.set_property("cmake_target_name", "ucxx_rs::ucxx_rs")
        self.cpp_info.set_property("cmake_target_aliases", [f"ucxx_rs::{kind}"])
        self.cpp_info.set_property(
            "pkg_config_name", "ucxx_rs" if self.options.shared else "ucxx_rs-static"
        )
        # pkg-config names no folder that linkers and loaders search anyway.
        folders = PkgConfig(self, "ucx").libdirs
        if self.options.shared:
            self.cpp_info.exelinkflags = [f"-Wl,-rpath-link,{folder}" for folder in folders]
            self.cpp_info.sharedlinkflags = self.cpp_info.exelinkflags
        else:
            self.cpp_info.libdirs += folders
            self.cpp_info.system_libs = ["ucp", "gcc_s", "util", "rt", "pthread", "m", "dl"]
