"""Runs the filled package.py without Spack: `make` with the targets that it asks for.

check.py PACKAGE_PY ROOT PREFIX

Spack's modules are replaced by short ones, which note the directives.
"""

import importlib.util
import subprocess
import sys
import types

recipe, root, prefix = sys.argv[1:]
directives = []


def directive(name):
    def note(*arguments, **options):
        directives.append((name, arguments, options))

    return note


class MakefilePackage:
    pass


class Spec:
    def __init__(self, text):
        self.text = text

    def satisfies(self, variant):
        return variant in self.text


for name in ["spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"]:
    sys.modules[name] = types.ModuleType(name)
makefile = types.ModuleType("spack_repo.builtin.build_systems.makefile")
makefile.MakefilePackage = MakefilePackage
sys.modules[makefile.__name__] = makefile
package = types.ModuleType("spack.package")
for name in ["depends_on", "license", "maintainers", "requires", "variant", "version"]:
    setattr(package, name, directive(name))
sys.modules[package.__name__] = package

spec = importlib.util.spec_from_file_location("package", recipe)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

variants = {words[0] for name, words, _ in directives if name == "variant"}
assert variants == {"gpu", "tools"}, variants
for variant in ["+gpu+tools", "~gpu~tools"]:
    instance = module.UcxxRs()
    instance.spec, instance.prefix = Spec(variant), prefix
    print(variant, instance.build_targets, instance.install_targets, flush=True)
    # The other one would compile everything again.
    if variant == "+gpu+tools":
        subprocess.run(["make", "-C", root, *instance.build_targets], check=True)
        subprocess.run(["make", "-C", root, *instance.install_targets], check=True)
