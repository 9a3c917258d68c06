# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import depends_on, license, maintainers, requires, variant, version


class UcxxRs(MakefilePackage):
    """Communication over UCX for C and C++: tag and active messages, streams, put, get and
    atomics, groups of processes, windows and pipelines, behind opaque handles. The engine is
    written in Rust."""

    homepage = "@HOMEPAGE@"
    url = "@SOURCE_URL@"

    maintainers("@MAINTAINER@")

    license("BSD-3-Clause")

    version("@VERSION@", sha256="@SOURCE_SHA256@")

    variant("gpu", default=True, description="Use GPU memory, where CUDA's driver is found")
    variant("tools", default=True, description="Install the command line tools")

    depends_on("c", type="build")
    depends_on("rust@1.85:", type="build")
    # CUDA itself is not needed: its driver is loaded at run time.
    depends_on("rust@1.88:", type="build", when="+gpu")
    depends_on("pkgconfig", type="build")
    depends_on("ucx@1.13:", type=("build", "link", "run"))

    requires("platform=linux")

    @property
    def _cuda(self):
        return "CUDA=yes" if self.spec.satisfies("+gpu") else "CUDA=no"

    @property
    def build_targets(self):
        return ["build", self._cuda]

    @property
    def install_targets(self):
        tools = "TOOLS=yes" if self.spec.satisfies("+tools") else "TOOLS=no"
        return ["install", self._cuda, f"PREFIX={self.prefix}", tools]

    def check(self):
        # `make test` takes half an hour and downloads other releases of UCX.
        pass
