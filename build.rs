//! Finds UCX, sets the SONAME, and says what to install where UCX is missing. Writes to OUT_DIR
//! only.

#[cfg(not(feature = "vendored"))]
const OLDEST_UCX: &str = "1.13";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    find_ucx();
    // The SONAME is MAJOR.MINOR while the major version is 0, as cargo-c does for
    // `version_suffix_components = 2`.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("set by cargo");
    let minor = std::env::var("CARGO_PKG_VERSION_MINOR").expect("set by cargo");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libucxx_rs.so.{major}.{minor}");
    // Progress threads and thread-local destructors may outlive a dlclose: the code has to stay
    // mapped.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The C library's way to have destructors of thread-locals run takes the loader's lock. A
    // thread of the library's that a constructor waits for, while dlopen runs that, could not get
    // it. Without the function Rust's standard library keeps the destructors in a list of its own,
    // which a key of pthreads works off.
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
            // Only libucp is called by name; what sits in libucs is looked up at run time, as it
            // differs between releases.
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

/// ucx1-sys builds UCX and links it; its version of the functions is the one that is used, its Rust
/// types are not.
#[cfg(feature = "vendored")]
fn find_ucx() {}
