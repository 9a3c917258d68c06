# Builds package.nix without nixpkgs. The functions of nixpkgs are replaced by short ones that use
# the tools of this machine, outside a sandbox.
{ path, cargoHome, version_of_rust, version_of_ucx }:
let
  lib = {
    importTOML = file: builtins.fromTOML (builtins.readFile file);
    cleanSourceFilter = path: type: baseNameOf path != ".git";
    cleanSourceWith = { src, filter }: builtins.path { path = src; name = "source"; inherit filter; };
    versionOlder = a: b: builtins.compareVersions a b < 0;
    licenses.bsd3 = "BSD-3-Clause";
  };
  mkDerivation =
    { meta, makeFlags, postPatch, installCheckPhase, pname, version, src, ... }:
    assert !meta.broken;
    derivation {
      name = "${pname}-${version}";
      system = builtins.currentSystem;
      builder = "/bin/bash";
      inherit src makeFlags;
      PATH = path;
      CARGO_HOME = cargoHome;
      args = [
        "-euc"
        ''
          patchShebangs() { :; }
          runHook() { :; }
          export HOME=$PWD
          cp -R $src source
          chmod -R u+w source
          cd source
          ${postPatch}
          make $makeFlags
          make install $makeFlags
          ${installCheckPhase}
        ''
      ];
    };
in
import ./package.nix {
  inherit lib;
  stdenv = { inherit mkDerivation; };
  cargo = null;
  rustc.version = version_of_rust;
  pkg-config = null;
  ucx.version = version_of_ucx;
  rustPlatform = {
    importCargoLock = { lockFile }: assert builtins.pathExists lockFile; null;
    cargoSetupHook = null;
  };
}
