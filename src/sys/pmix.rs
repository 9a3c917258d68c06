//! Declarations of PMIx's client library, which connects to a launcher's server. What is declared
//! here has not changed since version 3. Decides nothing.

use crate::sys::loaded::{self, functions};
use libc::{c_char, c_int};
use std::ffi::CStr;

const LIBRARY: &CStr = c"libpmix.so.2";

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const ERR_TIMEOUT: c_int = -24;
pub(crate) const GLOBAL: u8 = 3;
pub(crate) const BOOL: u16 = 1;
pub(crate) const INT: u16 = 6;
pub(crate) const UINT32: u16 = 14;
pub(crate) const BYTE_OBJECT: u16 = 27;
pub(crate) const RANK_WILDCARD: u32 = u32::MAX - 1;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Proc {
    pub(crate) namespace: [c_char; 256],
    pub(crate) rank: u32,
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) bytes: *mut c_char,
    pub(crate) size: usize,
}

/// The union in `pmix_value_t`, with the members that are used here. Its longest member,
/// `pmix_envar_t`, has 24 bytes.
#[repr(C)]
pub(crate) union Data {
    pub(crate) flag: bool,
    pub(crate) integer: c_int,
    pub(crate) uint32: u32,
    pub(crate) bytes: Bytes,
    pub(crate) longest: [u64; 3],
}

/// `pmix_value_t`
#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: u16,
    pub(crate) data: Data,
}

/// `pmix_info_t`
#[repr(C)]
pub(crate) struct Info {
    pub(crate) key: [c_char; 512],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

impl Info {
    pub(crate) fn new(key: &CStr, kind: u16, data: Data) -> Self {
        let mut info = Info { key: [0; 512], flags: 0, value: Value { kind, data } };
        for (place, byte) in info.key.iter_mut().zip(key.to_bytes()) {
            *place = *byte as c_char;
        }
        info
    }
}

functions! {
    /// The functions of the library.
    Library {
        get_version = c"PMIx_Get_version" () -> *const c_char;
        init = c"PMIx_Init" (*mut Proc, *const Info, usize) -> c_int;
        finalize = c"PMIx_Finalize" (*const Info, usize) -> c_int;
        put = c"PMIx_Put" (u8, *const c_char, *mut Value) -> c_int;
        commit = c"PMIx_Commit" () -> c_int;
        fence = c"PMIx_Fence" (*const Proc, usize, *const Info, usize) -> c_int;
        get = c"PMIx_Get"
            (*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
        error_string = c"PMIx_Error_string" (c_int) -> *const c_char;
    }
}

impl Library {
    /// Loads it. It stays loaded, because it has threads. Returns the reason if it cannot be
    /// loaded.
    pub(crate) fn load() -> Result<Self, String> {
        let name = LIBRARY.to_string_lossy();
        // SAFETY: its constructors are those of a trusted system library.
        let library = unsafe { loaded::open(LIBRARY, libc::RTLD_GLOBAL) }?;
        // SAFETY: just loaded, and never unloaded. Until the version is known, only the function
        // that returns it is called, which is the same in all versions.
        let library = unsafe { Self::find(library) }
            .map_err(|symbol| format!("{name} has no {}", symbol.to_string_lossy()))?;
        // SAFETY: takes nothing, and returns a static text; may be called before `PMIx_Init`.
        let version = unsafe { CStr::from_ptr((library.get_version)()) }.to_string_lossy();
        let major = version
            .split(|c: char| !c.is_ascii_digit())
            .find_map(|digits| digits.parse::<u32>().ok());
        if major.is_none_or(|major| major < 3) {
            return Err(format!("{name} says that it is {version:?}"));
        }
        Ok(library)
    }
}
