//! Lines and files that fit: no Rust line over 100 columns, no Rust file over 600 lines. rustfmt
//! breaks code, and neither comments nor strings.

use std::path::Path;

mod sources;
use sources::sources;

const COLUMNS: usize = 100;
const LINES: usize = 600;
/// By bindgen.
const GENERATED: &str = "src/sys/bindings.rs";

/// What is too long of a file, in words.
fn complaints(name: &str, text: &str) -> Vec<String> {
    let long = text.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
    let mut found: Vec<_> = long
        .map(|(at, line)| format!("{name}:{}: {} columns", at + 1, line.chars().count()))
        .collect();
    if text.lines().count() > LINES {
        found.push(format!("{name}: {} lines", text.lines().count()));
    }
    found
}

#[test]
fn no_line_and_no_file_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        ["src", "tests", "benches", "fuzz"].into_iter().flat_map(sources).collect();
    files.push((root.join("build.rs"), include_str!("../build.rs").to_owned()));
    assert!(files.len() > 300, "only {} files were found", files.len());
    let found: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.strip_prefix(root).unwrap().to_str().unwrap(), text))
        .filter(|(name, _)| *name != GENERATED)
        .flat_map(|(name, text)| complaints(name, text))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_too_long_is_refused() {
    assert!(complaints("a", &"é".repeat(COLUMNS)).is_empty());
    assert_eq!(complaints("a", &format!("\n{}", "x".repeat(COLUMNS + 1))), ["a:2: 101 columns"]);
    assert!(complaints("a", &"x\n".repeat(LINES)).is_empty());
    assert_eq!(complaints("a", &"x\n".repeat(LINES + 1)), ["a: 601 lines"]);
}
