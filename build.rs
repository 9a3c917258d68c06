//! Finds UCX, sets the SONAME, and prints what to install if UCX is missing. Writes only to
//! OUT_DIR.

#[cfg(not(feature = "vendored"))]
const OLDEST_UCX: &str = "1.13";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DOCS_RS");
    // docs.rs sets this. It has no UCX, and documentation links nothing.
    if std::env::var_os("DOCS_RS").is_none() {
        find_ucx();
    }
    // The SONAME is MAJOR.MINOR while the major version is 0, like cargo-c's
    // `version_suffix_components = 2`.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("set by cargo");
    let minor = std::env::var("CARGO_PKG_VERSION_MINOR").expect("set by cargo");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libucxx_rs.so.{major}.{minor}");
    // Progress threads and destructors of thread-local variables may run after a dlclose, so the
    // code has to stay mapped.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The C library registers destructors of thread-local variables under the loader's lock. If a
    // constructor waits for a thread of this library while dlopen runs it, that thread would wait
    // for the lock without end. Without this function Rust's standard library keeps its own list of
    // destructors, run by a pthread key.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym,__cxa_thread_atexit_impl=0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,relro,-z,now");
}

#[cfg(not(feature = "vendored"))]
fn find_ucx() {
    let found =
        pkg_config::Config::new().atleast_version(OLDEST_UCX).cargo_metadata(false).probe("ucx");
    match found {
        Ok(ucx) => {
            for path in &ucx.link_paths {
                println!("cargo:rustc-link-search=native={}", path.display());
            }
            // Only libucp is linked by name. Symbols of libucs differ between releases, so they are
            // looked up at run time.
            println!("cargo:rustc-link-lib=dylib=ucp");
        }
        Err(error) => {
            eprintln!(
                "\nucxx_rs needs UCX {OLDEST_UCX} or newer with its headers, and pkg-config could \
                 not find it.\n\
                 \n  Debian, Ubuntu:  apt-get install libucx-dev pkg-config\
                 \n  Fedora, RHEL:    dnf install ucx-devel pkgconf-pkg-config\
                 \n  conda:           conda install -c conda-forge ucx pkg-config\n\
                 \nA UCX somewhere else is found when PKG_CONFIG_PATH names the folder that \
                 holds its ucx.pc.\n\
                 \npkg-config said: {error}\n"
            );
            std::process::exit(1);
        }
    }
}

/// ucx1-sys builds and links UCX. Only its UCX is used, not its Rust types.
#[cfg(feature = "vendored")]
fn find_ucx() {}
