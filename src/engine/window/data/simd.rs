//! A loop over elements that follow each other, in the widest vectors that the processor has.
//!
//! The library is built for any processor of its architecture, which on x86-64 means vectors of 16
//! bytes. Nearly all have larger ones, and twice the speed with them where the elements are in a
//! cache: so the loop is there a second time, for those. What is done with an element is one
//! function for both, so that they cannot differ in more than how many they take at a time; nothing
//! is contracted, reordered or approximated.
//!
//! AVX-512 would need a newer Rust than 1.85, and what it adds is small: from the second cache on
//! memory sets the pace.

/// Below so many bytes there is nothing to win.
#[cfg(target_arch = "x86_64")]
const WORTH_A_LOOK: usize = 128;

/// `target[i] = combine(target[i], operand[i])` for each of them.
///
/// # Safety
/// So many elements on either side, aligned or not, and nobody else at those of the target.
#[inline]
pub(crate) unsafe fn combine_all<T: Copy>(
    target: *mut T,
    operand: *const T,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    #[cfg(target_arch = "x86_64")]
    if count * size_of::<T>() >= WORTH_A_LOOK && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has been asked; and as for this function.
        return unsafe { with_avx2(target, operand, count, combine) };
    }
    // SAFETY: as for this function.
    unsafe { one_by_one(target, operand, count, combine) }
}

/// The same loop, compiled for AVX2.
///
/// # Safety
/// The processor has it; and as for `combine_all`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<T: Copy>(
    target: *mut T,
    operand: *const T,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    // SAFETY: as for this function.
    unsafe { one_by_one(target, operand, count, combine) }
}

/// What the compiler makes vectors of.
///
/// # Safety
/// As for `combine_all`.
#[inline(always)]
unsafe fn one_by_one<T: Copy>(
    target: *mut T,
    operand: *const T,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    for at in 0..count {
        // SAFETY: as for this function.
        unsafe {
            let (place, operand) = (target.add(at), operand.add(at).read_unaligned());
            place.write_unaligned(combine(place.read_unaligned(), operand));
        }
    }
}
