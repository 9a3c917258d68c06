//! Layouts: the elements of a buffer that a window call accesses.

use super::handle::null;
use super::params::{self, sized};
use crate::engine::base::status::{Error, Result};
use crate::engine::window::data::datatype_layout::{Block, Layout};
use crate::engine::wire::element_type::{self, ElementType};

/// One block of an explicit list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_block {
    /// Distance in elements from the address that the call names. It may be negative.
    pub offset: i64,
    /// Number of consecutive elements.
    pub length: u64,
}
/// One block of an explicit list.
pub type ucxx_block_t = ucxx_block;

const _: () = assert!(size_of::<ucxx_block>() == size_of::<Block>());

/// The elements of a buffer that a window call accesses, on either side.
///
/// - Without `blocks`: `count` blocks of `block_length` elements, with `stride` elements from the
///   start of one block to the start of the next.
/// - With `blocks`: an explicit list.
///
/// The layouts of the two sides may differ. They need the same number of bytes (put, get) or of
/// elements (accumulates).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_layout {
    /// Set by the ucxx_layout_init_* functions.
    pub struct_size: usize,
    /// UCXX_TYPE_*.
    pub element_type: i32,
    /// Number of blocks.
    pub count: u64,
    /// Elements in each block.
    pub block_length: u64,
    /// Elements from the start of one block to the start of the next. It may be negative, or
    /// shorter than a block. An element that occurs twice is read or written twice.
    pub stride: i64,
    /// An explicit list, in place of the three fields above. It need not be sorted. The call
    /// accesses the blocks in the order of the list, and reads the list during the call.
    pub blocks: *const ucxx_block_t,
    /// Number of entries in `blocks`.
    pub block_count: usize,
    /// Zero.
    pub reserved: [u64; 2],
}
/// The elements of a buffer that a window call accesses, on either side.
pub type ucxx_layout_t = ucxx_layout;

sized! { ucxx_layout, 72; }

/// The caller's layout, checked. NULL is an error.
///
/// # Safety
/// NULL, or a struct whose `struct_size` is set, and whose list, if it has one, is readable while
/// the result is in use.
#[inline]
pub(crate) unsafe fn layout<'a>(
    pointer: *const ucxx_layout_t,
    argument: &str,
) -> Result<Layout<'a>> {
    if pointer.is_null() {
        return Err(null(argument));
    }
    // SAFETY: as for this function.
    unsafe { params::with(pointer, argument, |layout| convert(layout, argument)) }
}

/// The fast path: type and bytes of a contiguous layout in its simplest form. None for all other
/// layouts, for those without elements, and for those that `layout` refuses.
///
/// # Safety
/// As for `layout`.
#[inline(always)]
pub(crate) unsafe fn plain(pointer: *const ucxx_layout_t) -> Option<(ElementType, u64)> {
    // SAFETY: the first field, as promised.
    if pointer.is_null() || unsafe { pointer.cast::<usize>().read() } != size_of::<ucxx_layout>() {
        return None;
    }
    // SAFETY: `struct_size` bytes are readable, which is the whole struct.
    let layout = unsafe { &*pointer };
    let listed = !layout.blocks.is_null() || layout.block_count != 0;
    if layout.count != 1 || listed || layout.reserved != [0, 0] {
        return None;
    }
    let kind = *ElementType::ALL.get(usize::try_from(layout.element_type).ok()?)?;
    let bytes = layout.block_length.checked_mul(kind.size() as u64)?;
    (1..=i64::MAX as u64).contains(&bytes).then_some((kind, bytes))
}

#[inline]
unsafe fn convert<'a>(layout: &ucxx_layout, argument: &str) -> Result<Layout<'a>> {
    let kind = ElementType::from_number(layout.element_type)?;
    if layout.reserved != [0, 0] {
        return Err(Error::invalid(format!("{argument}: reserved is not zero")));
    }
    if !layout.blocks.is_null() {
        if layout.block_count > isize::MAX as usize / size_of::<Block>() {
            return Err(Error::invalid(format!(
                "{argument}: {} blocks do not fit into any memory",
                layout.block_count
            )));
        }
        // SAFETY: as for this function; a block is the same on both sides.
        let blocks = unsafe {
            std::slice::from_raw_parts(layout.blocks.cast::<Block>(), layout.block_count)
        };
        return Layout::blocks(kind, blocks);
    }
    if layout.block_count != 0 {
        return Err(Error::invalid(format!(
            "{argument}: blocks is NULL, and block_count is {}",
            layout.block_count
        )));
    }
    Layout::vector(kind, layout.count, layout.block_length, layout.stride)
}

/// Returns the size of an element type (UCXX_TYPE_*) in bytes.
///
/// A pair is a C struct { value; int32_t index; }. Its padding may be overwritten.
///
/// Returns: the size. 0 if there is no such type.
///
/// Threads: any.
#[no_mangle]
pub extern "C" fn ucxx_type_size(element_type: i32) -> usize {
    element_type::type_size(element_type)
}

fn initial(element_type: i32) -> ucxx_layout {
    ucxx_layout {
        struct_size: size_of::<ucxx_layout>(),
        element_type,
        count: 0,
        block_length: 0,
        stride: 0,
        blocks: std::ptr::null(),
        block_count: 0,
        reserved: [0; 2],
    }
}

/// Initialises a layout of `count` consecutive elements.
///
/// Nothing is checked before a call uses the layout. NULL is ignored.
///
/// Threads: any.
/// See also: ucxx_layout_init_vector, ucxx_layout_init_blocks.
///
/// # Safety
/// NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn ucxx_layout_init_contiguous(
    layout: *mut ucxx_layout_t,
    element_type: i32,
    count: u64,
) {
    if !layout.is_null() {
        // SAFETY: as for this function.
        unsafe {
            layout.write(ucxx_layout { count: 1, block_length: count, ..initial(element_type) })
        };
    }
}

/// Initialises a layout of `count` blocks of `block_length` elements, with `stride` elements from
/// start to start.
///
/// Nothing is checked before a call uses the layout. NULL is ignored.
///
/// Threads: any.
///
/// # Safety
/// NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn ucxx_layout_init_vector(
    layout: *mut ucxx_layout_t,
    element_type: i32,
    count: u64,
    block_length: u64,
    stride: i64,
) {
    if !layout.is_null() {
        // SAFETY: as for this function.
        unsafe {
            layout.write(ucxx_layout { count, block_length, stride, ..initial(element_type) })
        };
    }
}

/// Initialises a layout from a list of blocks.
///
/// Nothing is checked before a call uses the layout. NULL is ignored.
///
/// Threads: any.
/// Ownership: the caller keeps the list. Every call that uses the layout reads it.
///
/// # Safety
/// NULL or writable.
#[no_mangle]
pub unsafe extern "C" fn ucxx_layout_init_blocks(
    layout: *mut ucxx_layout_t,
    element_type: i32,
    blocks: *const ucxx_block_t,
    block_count: usize,
) {
    if !layout.is_null() {
        // SAFETY: as for this function.
        unsafe { layout.write(ucxx_layout { blocks, block_count, ..initial(element_type) }) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `plain` agrees with `layout` on simple layouts, and has None for all others and all errors.
    #[test]
    fn what_is_plain_is_what_the_layout_says() {
        let plain_of = |raw: &ucxx_layout| {
            // SAFETY: initialised, with a list that is readable or empty.
            let (plain, layout) = unsafe { (plain(raw), layout(raw, "layout")) };
            if let Some((kind, bytes)) = plain {
                let layout = layout.unwrap();
                assert!(layout.is_contiguous() && bytes > 0);
                assert_eq!((kind, bytes), (layout.kind(), layout.bytes()));
            }
            plain
        };
        let block = ucxx_block { offset: 0, length: 1 };
        for element_type in -1..=19 {
            let size = element_type::type_size(element_type) as u64;
            for block_length in
                [0, 1, 3, i64::MAX as u64 / 16, i64::MAX as u64 / 16 + 1, i64::MAX as u64, u64::MAX]
            {
                let raw = ucxx_layout { count: 1, block_length, ..initial(element_type) };
                let expected = block_length
                    .checked_mul(size)
                    .filter(|bytes| (1..=i64::MAX as u64).contains(bytes));
                assert_eq!(
                    plain_of(&raw).map(|(_, bytes)| bytes),
                    expected,
                    "{block_length} of {element_type}"
                );
                for stride in [-1, 0, 1, 3, i64::MAX] {
                    assert_eq!(
                        plain_of(&ucxx_layout { stride, ..raw }).map(|(_, bytes)| bytes),
                        expected
                    );
                    for count in [0, 2, u64::MAX] {
                        assert_eq!(plain_of(&ucxx_layout { count, stride, ..raw }), None);
                    }
                }
                for strange in [
                    ucxx_layout { blocks: &raw const block, block_count: 1, ..raw },
                    ucxx_layout { blocks: &raw const block, block_count: 0, ..raw },
                    ucxx_layout { block_count: 1, ..raw },
                    ucxx_layout { reserved: [1, 0], ..raw },
                    ucxx_layout { reserved: [0, 1], ..raw },
                    ucxx_layout { struct_size: 71, ..raw },
                    ucxx_layout { struct_size: 0, ..raw },
                ] {
                    assert_eq!(plain_of(&strange), None);
                }
            }
        }
        // SAFETY: NULL is an error of `layout`.
        assert_eq!(unsafe { plain(std::ptr::null()) }, None);
    }
}
