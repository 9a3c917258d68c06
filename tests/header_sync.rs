//! include/ucxx_rs.h equals what the pinned cbindgen generates from src/ffi. UPDATE_HEADER writes
//! it anew.

use std::path::Path;

/// Removes the sections of doc comments that are only for Rust callers.
fn without_safety_sections(header: &str) -> String {
    let mut kept = Vec::new();
    let mut skipping = false;
    for line in header.lines() {
        let text = line.trim();
        if text.starts_with("* # Safety") {
            // And the blank comment line before the heading.
            if kept.last().is_some_and(|last: &&str| last.trim() == "*") {
                kept.pop();
            }
            skipping = true;
        } else if text.starts_with("*/") {
            skipping = false;
        }
        if !skipping {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    // In the order in which a reader needs the groups.
    let groups = [
        "constants",
        "status",
        "version",
        "log",
        "handle",
        "context",
        "worker",
        "worker_progress",
        "worker_query",
        "worker_flush",
        "notifier",
        "address",
        "operation",
    ];
    let groups = groups.iter().chain(&[
        "request",
        "endpoint",
        "endpoint_query",
        "cancel",
        "listener",
        "tag",
        "stream",
        "am",
        "buffers",
        "multi",
        "am_multi",
        "am_queue",
        "fetch",
        "memory",
        "rma",
        "native",
        "group",
        "layout",
        "window",
        "window_query",
        "window_sync",
        "window_data",
        "window_data_request",
        "hub",
        "hub_link",
        "hub_envelope",
        "hub_link_io",
        "metrics",
    ]);
    let with_groups = groups
        .fold(cbindgen::Builder::new().with_config(config), |builder, group| {
            builder.with_src(root.join(format!("src/ffi/{group}.rs")))
        });
    let bindings = with_groups.generate().expect("the sources are readable");
    let mut generated = Vec::new();
    bindings.write(&mut generated);
    let generated = without_safety_sections(&String::from_utf8(generated).expect("UTF-8"));
    let path = root.join("include/ucxx_rs.h");
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("include/ is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (committed, generated)) in committed.lines().zip(generated.lines()).enumerate() {
        assert_eq!(
            committed,
            generated,
            "line {} differs; `make header` writes it anew",
            number + 1
        );
    }
    assert_eq!(
        committed.lines().count(),
        generated.lines().count(),
        "`make header` writes it anew"
    );
}
