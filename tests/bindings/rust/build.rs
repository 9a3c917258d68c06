//! Generates bindings from the installed header, and links the installed library.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=UCXX_RS_PREFIX");
    let prefix = PathBuf::from(env::var_os("UCXX_RS_PREFIX").expect(
        "UCXX_RS_PREFIX names the \
        installed package",
    ));
    let header = prefix.join("include/ucxx_rs.h");
    let lib = prefix.join("lib");
    println!("cargo:rerun-if-changed={}", header.display());
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=dylib=ucxx_rs");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());

    let bindings = bindgen::Builder::default()
        .header(header.to_str().expect("a path in UTF-8"))
        .allowlist_item("(ucxx|UCXX)_.*")
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate()
        .expect("bindgen reads the header");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    bindings.write_to_file(out.join("ucxx_rs.rs")).expect("OUT_DIR is writable");
}
