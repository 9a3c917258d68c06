//! The shared library exports exactly what the header declares, and its ELF header has what
//! packages rely on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The shared library that cargo built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("known");
    let deps = test.parent().expect("target/PROFILE/deps/TEST");
    let candidates = [deps.join("libucxx_rs.so"), deps.join("../libucxx_rs.so")];
    candidates
        .into_iter()
        .find(|path| path.exists())
        .expect("cargo builds the library with its tests")
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(library())
        .output()
        .expect("binutils are installed");
    assert!(output.status.success(), "{program} failed");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn exported() -> BTreeSet<String> {
    let table = output("nm", &["-D", "--defined-only"]);
    table.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

/// Names followed by an argument list at the start of a declaration in the header.
fn declared() -> BTreeSet<String> {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/include/ucxx_rs.h");
    let header = std::fs::read_to_string(header).expect("readable");
    let declarations = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '*']) && !line.starts_with("typedef"));
    let name = |line: &str| {
        let name = line.split('(').next()?.rsplit([' ', '*']).next()?;
        name.starts_with("ucxx_").then(|| name.to_owned())
    };
    declarations.filter(|line| line.contains('(')).filter_map(name).collect()
}

#[test]
fn exactly_the_declared_functions_are_exported() {
    let (exported, declared) = (exported(), declared());
    assert!(declared.len() > 50, "the header was not understood: {declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn the_elf_header_says_what_packages_rely_on() {
    let dynamic = output("readelf", &["-d", "-W"]);
    assert!(dynamic.contains("[libucxx_rs.so.0.1]"), "SONAME: {dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    assert!(dynamic.contains("[libucp.so.0]"), "{dynamic}");
}
