//! Versions, of the library and of the UCX under it.

use super::guard;
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use crate::engine::ucx::runtime;
use std::ffi::c_char;

/// Major version that this header belongs to.
pub const UCXX_RS_VERSION_MAJOR: u32 = 0;
/// Minor version. While the major version is 0, each is a different ABI, and a different SONAME.
pub const UCXX_RS_VERSION_MINOR: u32 = 1;
/// Patch level.
pub const UCXX_RS_VERSION_PATCH: u32 = 0;

/// What `ucxx_version_query` tells. The strings are static.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_version {
    /// Set by UCXX_VERSION_INIT.
    pub struct_size: usize,
    /// Of this library.
    pub major: u32,
    /// Of this library.
    pub minor: u32,
    /// Of this library.
    pub patch: u32,
    /// Of the UCX that is loaded, which need not be the one that the program was built with.
    pub ucx_major: u32,
    /// Of the UCX that is loaded.
    pub ucx_minor: u32,
    /// Of the UCX that is loaded.
    pub ucx_patch: u32,
    /// Of this library, such as "0.1.0".
    pub version_string: *const c_char,
    /// The file that the loaded libucp came from; empty where the loader does not tell.
    pub ucx_library_path: *const c_char,
    /// Images of libucp mapped into this process: more than one is trouble.
    pub ucx_copies: u32,
}
/// What `ucxx_version_query` tells. The strings are static.
pub type ucxx_version_t = ucxx_version;

sized! { ucxx_version, 56; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_version_init(value: *mut ucxx_version_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Versions of this library and of the UCX that is loaded. Any thread.
///
/// # Safety
/// NULL (refused) or a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_version_query(version: *mut ucxx_version_t) -> ucxx_status_t {
    guard::status(|| {
        let (ucx_major, ucx_minor, ucx_patch) = runtime::ucx_release().numbers;
        let value = ucxx_version {
            struct_size: size_of::<ucxx_version>(),
            major: UCXX_RS_VERSION_MAJOR,
            minor: UCXX_RS_VERSION_MINOR,
            patch: UCXX_RS_VERSION_PATCH,
            ucx_major,
            ucx_minor,
            ucx_patch,
            version_string: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
            ucx_library_path: runtime::ucx_path().as_ptr(),
            ucx_copies: runtime::ucx_copies(),
        };
        // SAFETY: as for this function.
        unsafe { params::store(version, "version", &value) }?;
        Ok(Status::OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_package_agree() {
        let header =
            format!("{UCXX_RS_VERSION_MAJOR}.{UCXX_RS_VERSION_MINOR}.{UCXX_RS_VERSION_PATCH}");
        assert_eq!(header, env!("CARGO_PKG_VERSION"));
    }
}
