//! `ffi -> engine -> sys`, `api -> engine`: no arrow back, none that skips a layer; and the places
//! where `unsafe` is allowed.

use std::path::Path;

mod sources;
use sources::sources;

/// Lines without comments. The contents of string literals do not matter here.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()))
}

fn refuse(folder: &str, words: &[&str]) {
    for (path, text) in sources(&format!("src/{folder}")) {
        for (number, line) in code(&text) {
            for word in words {
                let begins_with_it = |(at, _): (usize, &str)| {
                    !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
                };
                let found = line.match_indices(word).any(begins_with_it);
                assert!(!found, "{}:{number} has `{word}`", path.display());
            }
        }
    }
}

#[test]
fn ffi_knows_nothing_of_ucx() {
    refuse("ffi", &["sys::", "use crate::sys", "ucp_", "ucs_"]);
}

#[test]
fn the_engine_knows_neither_interface() {
    let words = ["crate::ffi", "super::ffi", "crate::api", "super::api"];
    refuse("engine", &words);
    refuse("engine", &["no_mangle", "export_name"]);
}

#[test]
fn the_rust_interface_knows_neither_c_nor_ucx() {
    refuse("api", &["crate::ffi", "super::ffi", "no_mangle", "export_name"]);
    refuse("api", &["sys::", "use crate::sys", "ucp_", "ucs_"]);
}

/// Users of the Rust interface need no `unsafe`, and see no pointers.
#[test]
fn the_rust_interface_is_safe() {
    for (path, text) in sources("src/api") {
        for (number, line) in code(&text) {
            let line = line.trim_start();
            let public = line.starts_with("pub ");
            let unsafe_or_raw =
                ["unsafe", "*mut ", "*const "].iter().any(|word| line.contains(word));
            assert!(!(public && unsafe_or_raw), "{}:{number}: {line}", path.display());
        }
    }
}

#[test]
fn sys_knows_nobody() {
    refuse("sys", &["crate::engine", "crate::ffi", "crate::api", "super::engine"]);
}

/// Thread-locals with a destructor are destroyed before destructors that may still call the
/// library: see `lasting.rs`. These files therefore use none.
#[test]
fn storage_of_threads_lasts() {
    let allowed = [
        "base/lasting.rs",
        "base/lockdep.rs",
        "messaging/am/multi.rs",
        "window/data/thread_lane.rs",
    ]
    .map(|name| Path::new("engine").join(name));
    for (path, text) in sources("src") {
        let found = code(&text).find(|(_, line)| line.contains("thread_local!"));
        let is_allowed = allowed.iter().any(|allowed| path.ends_with(allowed));
        assert!(
            found.is_none() || is_allowed,
            "{}:{} declares it otherwise than by `lasting!`",
            path.display(),
            found.unwrap().0
        );
    }
}
