//! What the programs here share.

use ucxx_rs::ffi::version::{ucxx_version_init, ucxx_version_query, ucxx_version_t};
use ucxx_rs::internals::Error;

pub fn fail(what: &str, cause: &Error) -> ! {
    eprintln!("{}: {what}: {}", env!("CARGO_BIN_NAME"), cause.message());
    std::process::exit(1)
}

pub fn worked<T>(what: &str, result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| fail(what, &error))
}

pub fn check(what: &str, status: i32) {
    if status < 0 {
        eprintln!("{}: {what}: status {status}", env!("CARGO_BIN_NAME"));
        std::process::exit(1);
    }
}

pub fn pin(cpu: Option<usize>) {
    let Some(cpu) = cpu else { return };
    // SAFETY: all-zero is an empty set, and `cpu` is one that the caller may use.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() - 1) / 2]
}

pub fn ucx_version() -> String {
    // SAFETY: a plain struct, and the function gets its size.
    unsafe {
        let mut version = std::mem::zeroed::<ucxx_version_t>();
        ucxx_version_init(&mut version, size_of::<ucxx_version_t>());
        check("ucxx_version_query", ucxx_version_query(&mut version));
        format!("{}.{}.{}", version.ucx_major, version.ucx_minor, version.ucx_patch)
    }
}
