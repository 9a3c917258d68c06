//! Parameter structs that start with their own size.

use super::handle::null;
use crate::engine::base::status::{Error, Result};
use std::ffi::{c_char, CStr};

/// A larger `struct_size` is garbage, not a newer header. Nothing is read with it.
pub(super) const LARGEST: usize = 4096;

/// A struct of the C interface whose first field is `struct_size`. If all other fields are zero, it
/// has all defaults.
///
/// # Safety
/// `repr(C)`, valid when all-zero, first field `struct_size: usize`, and no padding that would make
/// a check for zeros fail.
pub(crate) unsafe trait Sized: Copy {
    /// Its size in the first release: no caller has a smaller one.
    const FIRST_SIZE: usize;
}

macro_rules! sized {
    ($($type:ty, $first:literal;)*) => {$(
        const _: () = assert!(size_of::<$type>() >= $first);
        const _: () = assert!(std::mem::offset_of!($type, struct_size) == 0);
        // SAFETY: repr(C), integers and pointers only, struct_size first.
        unsafe impl $crate::ffi::params::Sized for $type {
            const FIRST_SIZE: usize = $first;
        }
    )*};
}
pub(crate) use sized;

/// A value with all defaults, and its size.
fn zeroed<T: Sized>() -> T {
    // SAFETY: the trait promises that all-zero is valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: the size is the first field.
    unsafe { (&raw mut value).cast::<usize>().write(size_of::<T>()) };
    value
}

/// Calls `f` with the caller's struct. Fields that the caller's header does not have are zero. NULL
/// means all defaults.
///
/// # Safety
/// `pointer` is NULL, or its `struct_size` is readable, and so are `struct_size` bytes (up to
/// `LARGEST`).
#[inline(always)]
pub(crate) unsafe fn with<T: Sized, R>(
    pointer: *const T,
    argument: &str,
    f: impl FnOnce(&T) -> Result<R>,
) -> Result<R> {
    let completed;
    // SAFETY: the first field, as promised.
    let params =
        if !pointer.is_null() && unsafe { pointer.cast::<usize>().read() } == size_of::<T>() {
            // SAFETY: `struct_size` bytes are readable, which is the whole struct.
            unsafe { &*pointer }
        } else {
            // SAFETY: as for this function.
            completed = unsafe { converted(pointer, argument) }?;
            &completed
        };
    // The only call of `f`, so that the compiler inlines a whole operation into one function.
    f(params)
}

/// A caller's optional string.
///
/// # Safety
/// NULL or terminated, and not changed while the result is in use.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, argument: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as for this function.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Error::invalid(format!("{argument}: is not UTF-8")))
}

#[cold]
unsafe fn converted<T: Sized>(pointer: *const T, argument: &str) -> Result<T> {
    if pointer.is_null() {
        return Ok(zeroed());
    }
    // SAFETY: the first field, as promised to `with`.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size, argument)?;
    let known = size.min(size_of::<T>());
    // SAFETY: `struct_size` bytes are readable, as promised to `with`.
    let tail = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
    if tail.iter().any(|byte| *byte != 0) {
        return Err(Error::invalid(format!(
            "{argument}: struct_size is {size}, and a field beyond the {} bytes that this library \
            knows is not zero; set it to zero, or use a newer library",
            size_of::<T>()
        )));
    }
    let mut value = zeroed::<T>();
    // SAFETY: both have `known` bytes. Every bit pattern of integers and pointers is valid.
    unsafe {
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast::<u8>(), known)
    };
    Ok(value)
}

fn check_size<T: Sized>(size: usize, argument: &str) -> Result<()> {
    if (T::FIRST_SIZE..=LARGEST).contains(&size) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{argument}: struct_size is {size}, not {}; set it with the initialiser macro or the init \
        function",
        size_of::<T>()
    )))
}

/// Stores `value` in the caller's struct, as far as it fits. Fields that this library does not have
/// become zero.
///
/// # Safety
/// `pointer` is NULL, or its `struct_size` is readable, and `struct_size` bytes are writable.
pub(crate) unsafe fn store<T: Sized>(pointer: *mut T, argument: &str, value: &T) -> Result<()> {
    // SAFETY: as for this function.
    let size = unsafe { out_size(pointer, argument) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: `struct_size` bytes are writable. The size keeps the caller's value.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(value).cast::<u8>(),
            pointer.cast::<u8>(),
            known,
        );
        pointer.cast::<u8>().add(known).write_bytes(0, size - known);
        pointer.cast::<usize>().write(size);
    }
    Ok(())
}

/// The checked size of the caller's struct for results. Call it before anything that has an
/// effect.
///
/// # Safety
/// As for `store`.
pub(crate) unsafe fn out_size<T: Sized>(pointer: *mut T, argument: &str) -> Result<usize> {
    if pointer.is_null() {
        return Err(null(argument));
    }
    // SAFETY: the first field, as promised.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size, argument)?;
    Ok(size)
}

/// What the exported *_init functions do: zeros, and the size.
///
/// # Safety
/// `pointer` is NULL or writable for `size` bytes.
pub(crate) unsafe fn init<T: Sized>(pointer: *mut T, size: usize) {
    if pointer.is_null() || size < size_of::<usize>() {
        return;
    }
    // SAFETY: as for this function.
    unsafe {
        pointer.cast::<u8>().write_bytes(0, size);
        pointer.cast::<usize>().write(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Sample {
        struct_size: usize,
        first: u64,
        later: u64,
    }
    sized! { Sample, 16; }

    fn read(bytes: &[u64]) -> Result<(u64, u64)> {
        // SAFETY: the first element says how many bytes there are.
        unsafe {
            with(bytes.as_ptr().cast::<Sample>(), "params", |sample| {
                Ok((sample.first, sample.later))
            })
        }
    }

    #[test]
    fn older_and_newer_callers_are_understood() {
        assert_eq!(read(&[24, 1, 2]).unwrap(), (1, 2));
        assert_eq!(read(&[16, 1, 99]).unwrap(), (1, 0));
        assert_eq!(read(&[40, 1, 2, 0, 0]).unwrap(), (1, 2));
        assert!(read(&[40, 1, 2, 0, 7]).unwrap_err().message().contains("struct_size"));
        for size in [0, 8, 15, LARGEST as u64 + 1, u64::MAX] {
            assert!(read(&[size, 1, 2]).unwrap_err().message().contains("struct_size"));
        }
        assert_eq!(
            // SAFETY: NULL is allowed.
            unsafe { with(std::ptr::null::<Sample>(), "params", |sample| Ok(sample.first)) }
                .unwrap(),
            0
        );
    }

    #[test]
    fn results_fill_what_the_caller_has_room_for() {
        let value = Sample { struct_size: 24, first: 1, later: 2 };
        let mut newer = [40u64, 9, 9, 9, 9];
        // SAFETY: the first element says how many bytes there are.
        unsafe { store(newer.as_mut_ptr().cast::<Sample>(), "attr", &value) }.unwrap();
        assert_eq!(newer, [40, 1, 2, 0, 0]);
        let mut older = [16u64, 9, 9];
        // SAFETY: as above.
        unsafe { store(older.as_mut_ptr().cast::<Sample>(), "attr", &value) }.unwrap();
        assert_eq!(older, [16, 1, 9]);
    }
}
