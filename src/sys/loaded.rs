//! Optional libraries: loaded at first use through libc's loader, and never unloaded.

use libc::{c_int, c_void};
use std::ffi::CStr;

/// Loads a system library. Returns the reason if it cannot be loaded.
///
/// # Safety
/// Its constructors may run here.
pub(super) unsafe fn open(name: &CStr, flags: c_int) -> Result<*mut c_void, String> {
    // SAFETY: a terminated name; the caller accepts that the constructors run.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: on the thread of the failed dlopen.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return Err(format!("{} cannot be loaded", name.to_string_lossy()));
    }
    // SAFETY: a terminated text, valid until this thread calls the loader again.
    Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
}

/// Keeps the library that contains `code` mapped, whatever is closed. Does nothing for a program,
/// which stays anyway.
pub(crate) fn keep(code: *const c_void) {
    // SAFETY: all-zero is valid: a struct of pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; a valid place for the result.
    if unsafe { libc::dladdr(code, &mut found) } == 0 || found.dli_fname.is_null() {
        return;
    }
    // A name without a slash would be searched for in the loader's folders.
    // SAFETY: the loader's terminated name of a file that it has mapped.
    if unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes().contains(&b'/') {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: as above; nothing is loaded, so no constructor runs.
        unsafe { libc::dlopen(found.dli_fname, flags) };
    }
}

/// Defines a struct of functions, with `find`, which looks them up.
macro_rules! functions {
    ($(#[$about:meta])* $library:ident {
        $($name:ident = $symbol:literal ($($arg:ty),*) -> $result:ty;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(crate) struct $library {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> $result,)*
        }

        impl $library {
            /// Looks them up. Returns the name of the first one that is missing.
            ///
            /// # Safety
            /// `library` has them with these signatures, and stays loaded.
            unsafe fn find(library: *mut libc::c_void) -> Result<Self, &'static std::ffi::CStr> {
                Ok($library {
                    $($name: {
                        // SAFETY: a loaded library, and a terminated name.
                        let found = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                        if found.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the function of this name has this signature.
                        unsafe {
                            std::mem::transmute::<
                                *mut libc::c_void,
                                unsafe extern "C" fn($($arg),*) -> $result,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;
