//! Versions of the library and of the loaded UCX.

use super::guard;
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use crate::engine::ucx::runtime;
use std::ffi::c_char;

/// Major version of this header.
pub const UCXX_RS_VERSION_MAJOR: u32 = 0;
/// Minor version of this header. While the major version is 0, each minor version has its own ABI
/// and its own SONAME.
pub const UCXX_RS_VERSION_MINOR: u32 = 1;
/// Patch level of this header.
pub const UCXX_RS_VERSION_PATCH: u32 = 0;

/// Result of `ucxx_version_query`. The strings are static.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_version {
    /// Set by UCXX_VERSION_INIT.
    pub struct_size: usize,
    /// Major version of the library.
    pub major: u32,
    /// Minor version of the library.
    pub minor: u32,
    /// Patch level of the library.
    pub patch: u32,
    /// Major version of the loaded UCX. It may differ from the UCX that the program was built with.
    pub ucx_major: u32,
    /// Minor version of the loaded UCX.
    pub ucx_minor: u32,
    /// Patch level of the loaded UCX.
    pub ucx_patch: u32,
    /// Version of the library, such as "0.1.0".
    pub version_string: *const c_char,
    /// Path of the loaded libucp. Empty if the loader does not provide it.
    pub ucx_library_path: *const c_char,
    /// Number of copies of libucp that this process has mapped. More than one causes trouble.
    pub ucx_copies: u32,
}
/// Result of `ucxx_version_query`. The strings are static.
pub type ucxx_version_t = ucxx_version;

sized! { ucxx_version, 56; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_version_init(value: *mut ucxx_version_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Queries the versions of this library and of the loaded UCX.
///
/// Returns:
/// - UCXX_OK: `*version` is filled.
///
/// Threads: any.
/// See also: UCXX_VERSION_INIT.
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
