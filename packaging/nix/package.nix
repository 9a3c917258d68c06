# `nix-build` of this file by callPackage, or `nix build` by flake.nix, builds the sources around
# it. For nixpkgs, give `src` (a fetcher) and `version`, and copy Cargo.lock beside this file.
{
  lib,
  stdenv,
  cargo,
  rustc,
  rustPlatform,
  pkg-config,
  ucx,
  # Hubs and messages in GPU memory. CUDA's driver is loaded at run time, and CUDA is not needed.
  withGpu ? true,
  withTools ? true,
  src ? lib.cleanSourceWith {
    src = ../..;
    filter = path: type: baseNameOf path != "target" && lib.cleanSourceFilter path type;
  },
  version ? (lib.importTOML ../../Cargo.toml).package.version,
  lockFile ? ../../Cargo.lock,
}:

stdenv.mkDerivation {
  pname = "ucxx_rs";
  inherit version src;

  cargoDeps = rustPlatform.importCargoLock { inherit lockFile; };

  postPatch = ''
    patchShebangs scripts
  '';

  strictDeps = true;
  nativeBuildInputs = [
    cargo
    rustc
    rustPlatform.cargoSetupHook
    pkg-config
  ];
  # pkg-config's file of this library requires UCX's.
  propagatedBuildInputs = [ ucx ];

  makeFlags = [
    "PREFIX=${placeholder "out"}"
    "CUDA=${if withGpu then "yes" else "no"}"
    "TOOLS=${if withTools then "yes" else "no"}"
  ];
  enableParallelBuilding = true;

  doInstallCheck = withTools;
  installCheckPhase = ''
    runHook preInstallCheck
    $out/bin/ucxx_rs_info --versions
    runHook postInstallCheck
  '';

  meta = {
    description = "Communication over UCX for C and C++, with an engine in Rust";
    license = lib.licenses.bsd3;
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
    broken =
      lib.versionOlder rustc.version (if withGpu then "1.88" else "1.85")
      || lib.versionOlder ucx.version "1.13";
    maintainers = [ ];
  };
}
