//! A loop over contiguous elements, in the widest vectors that the CPU has.
//!
//! The library is built for any CPU of its architecture, which on x86-64 means vectors of 16 bytes.
//! Nearly all CPUs have larger ones, with twice the speed if the data is in a cache. So the loop is
//! compiled a second time for AVX2. Both copies call the same function for an element, so only the
//! number of elements at a time differs. Nothing is contracted, reordered or approximated.
//!
//! AVX-512 would need a newer Rust than 1.85, and adds little: outside the first cache, memory is
//! the limit.

/// Below this length AVX2 gains nothing.
#[cfg(target_arch = "x86_64")]
const WORTH_A_LOOK: usize = 128;

/// `target[i] = combine(target[i], operand[i])` for all elements.
///
/// # Safety
/// Both sides have `count` elements, aligned or not, and nobody else accesses those of the target.
#[inline]
pub(crate) unsafe fn combine_all<T: Copy>(
    target: *mut T,
    operand: *const T,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    #[cfg(target_arch = "x86_64")]
    if count * size_of::<T>() >= WORTH_A_LOOK && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, and the elements are valid by this function's contract.
        return unsafe { with_avx2(target, operand, count, combine) };
    }
    // SAFETY: the elements are valid by this function's contract.
    unsafe { one_by_one(target, operand, count, combine) }
}

/// The same loop, compiled for AVX2.
///
/// # Safety
/// The CPU has AVX2; otherwise as for `combine_all`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<T: Copy>(
    target: *mut T,
    operand: *const T,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    // SAFETY: the elements are valid by this function's contract.
    unsafe { one_by_one(target, operand, count, combine) }
}

/// The loop, which the compiler vectorises.
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
        // SAFETY: `at` is below `count`, and the elements are valid by this function's contract.
        unsafe {
            let (place, operand) = (target.add(at), operand.add(at).read_unaligned());
            place.write_unaligned(combine(place.read_unaligned(), operand));
        }
    }
}
