//! Lines and files that fit: no Rust line over 100 columns, no Rust file over 600 lines. rustfmt
//! breaks code, and neither comments nor strings.

use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;
const LINES: usize = 600;
/// By bindgen.
const GENERATED: &str = "src/sys/bindings.rs";

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

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
    let mut paths = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz"] {
        files(&root.join(folder), &mut paths);
    }
    assert!(paths.len() > 300, "only {} files were found", paths.len());
    let found: Vec<_> = paths
        .iter()
        .map(|path| (path.strip_prefix(root).unwrap().to_str().unwrap(), path))
        .filter(|(name, _)| *name != GENERATED)
        .flat_map(|(name, path)| complaints(name, &std::fs::read_to_string(path).unwrap()))
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
