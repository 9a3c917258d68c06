//! Memory that belongs to a slot: the header of a message to send, or a received message that UCX
//! does not leave in its own memory. It stays with the slot for its next use, so that nothing is
//! allocated in a steady state.

/// Enough for most messages: the library's header and a short user header, or as much as UCX
/// delivers in place over shared memory.
pub(crate) const INLINE: usize = 128;
/// Longer memory is freed when the use ends.
const KEPT: usize = 1 << 16;

/// Copies what is mostly a few bytes: a call of memcpy takes longer than everything else that is
/// done for a short message.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller guarantees the same.
    unsafe {
        if length > INLINE {
            from.copy_to_nonoverlapping(to, length);
        } else {
            copy_inline(from, to, length);
        }
    }
}

/// The same for at most `INLINE` bytes. Makes no call at all, for callers that would only have to
/// save registers for it.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
pub(crate) unsafe fn copy_inline(from: *const u8, to: *mut u8, length: usize) {
    /// Copies the first and the last `N` bytes, which may overlap.
    #[inline(always)]
    unsafe fn both_ends<const N: usize>(from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller guarantees at least `N` bytes on both sides.
        unsafe {
            to.cast::<[u8; N]>().write_unaligned(from.cast::<[u8; N]>().read_unaligned());
            let last = from.add(length - N).cast::<[u8; N]>().read_unaligned();
            to.add(length - N).cast::<[u8; N]>().write_unaligned(last);
        }
    }
    debug_assert!(length <= INLINE);
    // SAFETY: the caller guarantees the same.
    unsafe {
        if length == 0 {
            return;
        }
        if length.wrapping_sub(8) <= 8 {
            both_ends::<8>(from, to, length);
        } else if length > 64 {
            both_ends::<64>(from, to, length);
        } else if length > 32 {
            both_ends::<32>(from, to, length);
        } else if length > 16 {
            both_ends::<16>(from, to, length);
        } else if length >= 4 {
            both_ends::<4>(from, to, length);
        } else {
            to.write(from.read());
            to.add(length / 2).write(from.add(length / 2).read());
            to.add(length - 1).write(from.add(length - 1).read());
        }
    }
}

/// Writes two words in one store. UCX reads them back at once with wide loads, which would stall
/// until small stores have reached the cache.
///
/// # Safety
/// There is room for them at `to`, which is aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn put_pair(to: *mut u8, [first, second]: [u64; 2]) {
    let pair = u128::from(first) | u128::from(second) << 64;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_store_si128};
        // SAFETY: the caller guarantees room and alignment; every x86-64 has these instructions.
        unsafe { _mm_store_si128(to.cast::<__m128i>(), std::mem::transmute::<u128, __m128i>(pair)) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller guarantees room and alignment.
    unsafe {
        to.cast::<u128>().write(pair.to_le());
    }
}

/// Writes a header of three words.
///
/// # Safety
/// As for `put_pair`.
#[inline(always)]
pub(crate) unsafe fn put_header(to: *mut u8, [first, second, third]: [u64; 3]) {
    // SAFETY: the caller guarantees room and alignment.
    unsafe {
        put_pair(to, [first, second]);
        to.add(16).cast::<u64>().write(third.to_le());
    }
}

#[repr(C, align(16))]
pub(crate) struct Store {
    inline: [u8; INLINE],
    spill: Vec<u128>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Store { inline: [0; INLINE], spill: Vec::new() }
    }

    /// Room for `length` bytes, aligned to 16 bytes. Replaces the previous contents.
    #[inline(always)]
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        if length <= INLINE {
            &mut self.inline[..length]
        } else {
            self.spilled(length)
        }
    }

    #[inline(never)]
    fn spilled(&mut self, length: usize) -> &mut [u8] {
        let words = length.div_ceil(size_of::<u128>());
        if self.spill.len() < words {
            self.spill.resize(words, 0);
        }
        as_bytes(&mut self.spill, length)
    }

    /// The use has ended.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        if self.is_large() {
            self.spill = Vec::new();
        }
    }

    /// `shrink` would free memory.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.spill.len() > KEPT / size_of::<u128>()
    }
}

fn as_bytes(words: &mut [u128], length: usize) -> &mut [u8] {
    // SAFETY: plain bytes, at most as many as the words have.
    unsafe {
        std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), length.min(size_of_val(words)))
    }
}
