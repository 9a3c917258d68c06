//! The Rust files of the package, for tests that read them.

use std::path::{Path, PathBuf};

/// All files below a folder of the package, with their contents.
pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                // The build output of a package in a subfolder is no source.
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.clone(), std::fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}
