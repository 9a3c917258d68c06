//! Each floor of the engine uses only itself and those below.
//!
//! Checks two kinds of arrows in every file of `src/engine` except its tests: a path that names a
//! floor, and a call of a method whose name is only defined on a floor above. It cannot see calls
//! of methods whose names several floors or the standard library define, nor code that a macro
//! generates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

mod sources;
use sources::sources;

/// From the bottom up.
const FLOORS: [&str; 10] =
    ["base", "os", "ucx", "wire", "core", "messaging", "rma", "group", "window", "hub"];

/// A file's path under `src/engine`, and its code, without tests and comments.
struct Source {
    file: String,
    code: String,
}

impl Source {
    fn new(file: &str, text: &str) -> Self {
        let is_tests = |at: &usize| {
            text[*at..].starts_with("#[cfg(test)]\nmod ")
                || text[*at..].starts_with("#[cfg(test)]\n#[path")
        };
        let end = text
            .match_indices("#[cfg(test)]")
            .map(|(at, _)| at)
            .find(is_tests)
            .unwrap_or(text.len());
        let without_comment =
            |line: &str| line.split("//").next().unwrap_or_default().to_owned() + "\n";
        Source { file: file.to_owned(), code: text[..end].lines().map(without_comment).collect() }
    }

    fn floor(&self) -> Option<usize> {
        FLOORS.iter().position(|floor| self.file.split('/').next() == Some(floor))
    }

    /// The word that directly follows each `mark`, if there is one.
    fn words_behind<'a>(&'a self, mark: &'a str) -> impl Iterator<Item = &'a str> {
        let word = |(at, _): (usize, &str)| {
            let rest = &self.code[at + mark.len()..];
            &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
        };
        self.code.match_indices(mark).map(word)
    }
}

fn is_of_tests(file: &str) -> bool {
    file.ends_with("_tests.rs")
        || file.contains("/model/")
        || file.contains("/test_")
        || file == "base/seed.rs"
}

fn engine() -> Vec<Source> {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    let found: Vec<_> = sources("src/engine")
        .iter()
        .map(|(path, text)| {
            (path.strip_prefix(&engine).expect("below").to_str().expect("UTF-8"), text)
        })
        .filter(|(file, _)| file.contains('/') && !is_of_tests(file))
        .map(|(file, text)| Source::new(file, text))
        .collect();
    assert!(found.len() > 150, "{} sources", found.len());
    found
}

/// Every arrow to a higher floor.
fn arrows_up(sources: &[Source]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut defined: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for source in sources {
        let Some(floor) = source.floor() else {
            found.insert((source.file.clone(), "is on no floor".to_owned()));
            continue;
        };
        for name in source.words_behind("fn ") {
            defined.entry(name).or_default().insert(floor);
        }
    }
    for source in sources {
        let floor = source.floor().unwrap_or(usize::MAX);
        let mut refuse = |what: &str| found.insert((source.file.clone(), what.to_owned()));
        for name in source.words_behind("crate::engine::") {
            match FLOORS.iter().position(|floor| *floor == name) {
                Some(to) if to <= floor => {}
                _ => {
                    refuse(&format!("crate::engine::{name}"));
                }
            }
        }
        if source.code.contains("super::super::") {
            refuse("super::super::");
        }
        for name in source.words_behind(".") {
            // A single word may also be a method of the standard library.
            let is_of_std = !name.contains('_') || name.starts_with("as_") || name == "copy_to";
            let called = !is_of_std && source.code.contains(&format!(".{name}("));
            let to = defined.get(name).filter(|floors| floors.len() == 1).and_then(BTreeSet::first);
            if called && to.is_some_and(|to| *to > floor) {
                refuse(name);
            }
        }
    }
    found
}

#[test]
fn no_arrow_runs_up() {
    let found = arrows_up(&engine());
    assert!(found.is_empty(), "arrows to a higher floor: {found:#?}");
}

#[test]
fn planted_arrows_are_refused() {
    let upper = Source::new("hub/hub.rs", "impl Hub {\n    pub(crate) fn tend_hubs(&self) {}\n}\n");
    let planted = |code: &str| {
        arrows_up(&[Source::new("core/worker/x.rs", code), Source::new(&upper.file, &upper.code)])
    };
    assert!(planted(
        "use crate::engine::base::sync::Mutex;\nfn f(worker: &Worker) { worker.pass(); }\n"
    )
    .is_empty());
    for code in [
        "use crate::engine::hub::hub::Hub;\n",
        "fn f() { crate::engine::hub::hub::act(); }\n",
        "fn f() { super::super::super::hub::hub::act(); }\n",
        "fn f(worker: &Worker) { worker.tend_hubs(); }\n",
        "use crate::engine::elsewhere::Thing;\n",
    ] {
        assert_eq!(planted(code).len(), 1, "{code}");
    }
    assert_eq!(planted("// See `crate::engine::hub`, and worker.tend_hubs().\n").len(), 0);
    assert_eq!(
        planted("#[cfg(test)]\nmod tests {\n    use crate::engine::hub::hub::Hub;\n}\n").len(),
        0
    );
    assert_eq!(
        planted(
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::engine::hub::hub::Hub;\n}\n"
        )
        .len(),
        0
    );
    let nowhere = Source::new("elsewhere/x.rs", "fn f() {}\n");
    assert_eq!(arrows_up(&[nowhere]).len(), 1);
}
