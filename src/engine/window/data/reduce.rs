//! Executes accumulates on memory that processes share.
//!
//! Two ways, one for each `Domain`. An element that is a word is changed by one atomic operation of
//! the CPU, or by a compare-and-swap loop. Such updates are atomic to each other, whatever the
//! operations are, and nothing is held. All other elements are read, changed and written under a
//! lock that the caller holds, in loops over vectors (see `window::data::simd`).
//!
//! Each atomic update acquires and releases: what its origin wrote before is visible to a process
//! that reads the update by another one.
//!
//! Measured on one of two cores of an AMD EPYC (Zen 5), without contention, the best of seven
//! rounds (`cargo test --release --lib engine::window::data::reduce -- --ignored --nocapture
//! figures`): fetch-and-op of 8 bytes 5.5 ns, 0.6 for NO_OP; compare-and-swap 5.6. Sums of doubles:
//! one element 7 ns atomically and 3 under a lock; 512 take 2.6 us and 0.05; 128 Ki take 0.68 ms
//! (5.2 ns each) and 0.020 ms (0.15 ns each). So a lock that costs 15 ns is worth it from the third
//! element on, without contention.

#[cfg(target_arch = "x86_64")]
use crate::engine::window::data::long_double::{complex_product, LongDouble};
use crate::engine::window::data::simd::combine_all;
use crate::engine::wire::element_type::{Domain, ElementType, Reduce};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// Bytes copied to `result` at a time: they are still in the first cache when they are combined.
const FETCHED_AT_ONCE: usize = 8192;

/// An update of contiguous elements: `target[i] = op(target[i], operand[i])`; the old contents go
/// to `result[i]`.
#[derive(Clone, Copy)]
pub struct Update {
    /// Type of the elements.
    pub kind: ElementType,
    /// Operation, defined for the type.
    pub op: Reduce,
    /// The window's memory, aligned as C aligns the type.
    pub target: *mut u8,
    /// Need not be aligned; not used for NO_OP.
    pub operand: *const u8,
    /// Need not be aligned; null if nothing is fetched.
    pub result: *mut u8,
    /// Number of elements.
    pub count: usize,
}

trait Located: Copy {
    type Number: PartialOrd;
    fn value(&self) -> Self::Number;
    fn index(&self) -> i32;
}

macro_rules! pairs {
    ($($name:ident { $number:ty, $($field:ident: $kind:ty),* })*) => {$(
        #[derive(Clone, Copy)]
        #[repr(C)]
        struct $name { value: $number, $($field: $kind),* }
        impl Located for $name {
            type Number = $number;
            fn value(&self) -> $number { self.value }
            fn index(&self) -> i32 { self.index }
        }
    )*};
}

// Padding is a field, so that each byte of the struct is initialised when the struct is used as a
// word.
pairs! {
    FloatInt { f32, index: i32 }
    DoubleInt { f64, index: i32, hole: u32 }
    Int16Int { i16, hole: u16, index: i32 }
    Int32Int { i32, index: i32 }
    Int64Int { i64, index: i32, hole: u32 }
}

#[cfg(target_arch = "x86_64")]
pairs! {
    LongDoubleInt { LongDouble, index: i32, hole: [u32; 3] }
}

/// Receives the function of an operation for a type.
trait Visitor {
    /// `combine` takes the current value first.
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T);
}

/// Calls the visitor with that function. REPLACE and NO_OP have none.
///
/// # Safety
/// The visitor's requirements.
unsafe fn dispatch(kind: ElementType, op: Reduce, visitor: impl Visitor) {
    use Reduce::*;
    macro_rules! visit {
        ($value:ty, $combine:expr) => {
            // SAFETY: the visitor's requirements hold by this function's contract.
            unsafe { visitor.visit::<$value>($combine) }
        };
    }
    // Signed and unsigned integers differ only in their order.
    macro_rules! integer {
        ($number:ty, $bits:ty) => {
            match op {
                Sum => visit!($bits, |a, b| a.wrapping_add(b)),
                Prod => visit!($bits, |a, b| a.wrapping_mul(b)),
                Min => visit!($number, |a, b| a.min(b)),
                Max => visit!($number, |a, b| a.max(b)),
                Land => visit!($bits, |a, b| (a != 0 && b != 0).into()),
                Lor => visit!($bits, |a, b| (a != 0 || b != 0).into()),
                Lxor => visit!($bits, |a, b| ((a != 0) != (b != 0)).into()),
                Band => visit!($bits, |a, b| a & b),
                Bor => visit!($bits, |a, b| a | b),
                Bxor => visit!($bits, |a, b| a ^ b),
                _ => unreachable!("checked by the caller"),
            }
        };
    }
    // MIN and MAX of a NaN and a number are the number (C's fmin and fmax), so the order of updates
    // does not matter.
    macro_rules! float {
        ($number:ty) => {
            match op {
                Sum => visit!($number, |a, b| a + b),
                Prod => visit!($number, |a, b| a * b),
                Min => visit!($number, |a, b| if b < a || a.is_nan() { b } else { a }),
                Max => visit!($number, |a, b| if b > a || a.is_nan() { b } else { a }),
                _ => unreachable!("checked by the caller"),
            }
        };
    }
    macro_rules! complex {
        ($number:ty) => {
            match op {
                Sum => visit!([$number; 2], |a, b| [a[0] + b[0], a[1] + b[1]]),
                Prod => visit!([$number; 2], |a, b| [
                    a[0] * b[0] - a[1] * b[1],
                    a[0] * b[1] + a[1] * b[0]
                ]),
                _ => unreachable!("checked by the caller"),
            }
        };
    }
    // The lower index if values are equal, as in MPI.
    macro_rules! pair {
        ($pair:ty) => {
            match op {
                Minloc => visit!($pair, |a, b| if b.value() < a.value() || is_earlier(&b, &a) {
                    b
                } else {
                    a
                }),
                Maxloc => visit!($pair, |a, b| if b.value() > a.value() || is_earlier(&b, &a) {
                    b
                } else {
                    a
                }),
                _ => unreachable!("checked by the caller"),
            }
        };
    }
    fn is_earlier<T: Located>(one: &T, other: &T) -> bool {
        one.value() == other.value() && one.index() < other.index()
    }
    match kind {
        ElementType::Int8 => integer!(i8, u8),
        // C's logical values are numbers of one byte.
        ElementType::Uint8 | ElementType::Byte | ElementType::Bool => integer!(u8, u8),
        ElementType::Int16 => integer!(i16, u16),
        ElementType::Uint16 => integer!(u16, u16),
        ElementType::Int32 => integer!(i32, u32),
        ElementType::Uint32 => integer!(u32, u32),
        ElementType::Int64 => integer!(i64, u64),
        ElementType::Uint64 => integer!(u64, u64),
        ElementType::Float => float!(f32),
        ElementType::Double => float!(f64),
        ElementType::ComplexFloat => complex!(f32),
        ElementType::ComplexDouble => complex!(f64),
        ElementType::FloatInt => pair!(FloatInt),
        ElementType::DoubleInt => pair!(DoubleInt),
        ElementType::Int16Int => pair!(Int16Int),
        ElementType::Int32Int => pair!(Int32Int),
        ElementType::Int64Int => pair!(Int64Int),
        #[cfg(target_arch = "x86_64")]
        ElementType::LongDouble => float!(LongDouble),
        #[cfg(target_arch = "x86_64")]
        ElementType::ComplexLongDouble => match op {
            Sum => visit!([LongDouble; 2], |a, b| [a[0] + b[0], a[1] + b[1]]),
            Prod => visit!([LongDouble; 2], complex_product),
            _ => unreachable!("checked by the caller"),
        },
        #[cfg(target_arch = "x86_64")]
        ElementType::LongDoubleInt => pair!(LongDoubleInt),
        #[cfg(not(target_arch = "x86_64"))]
        ElementType::LongDouble | ElementType::ComplexLongDouble | ElementType::LongDoubleInt => {
            unreachable!("checked by the caller")
        }
    }
}

/// Calls `$body` with the atomic type of `$size` bytes, and its integer type.
macro_rules! with_word {
    ($size:expr, |$atomic:ident, $word:ident| $body:expr) => {
        match $size {
            1 => {
                type $atomic = AtomicU8;
                type $word = u8;
                $body
            }
            2 => {
                type $atomic = AtomicU16;
                type $word = u16;
                $body
            }
            4 => {
                type $atomic = AtomicU32;
                type $word = u32;
                $body
            }
            8 => {
                type $atomic = AtomicU64;
                type $word = u64;
                $body
            }
            _ => unreachable!("elements of this size are not updated as a word"),
        }
    };
}

/// Updates one word after the other, by compare-and-swap.
struct ByCompareAndSwap<'a>(&'a Update);

impl Visitor for ByCompareAndSwap<'_> {
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T) {
        let Update { target, operand, result, count, .. } = *self.0;
        with_word!(size_of::<T>(), |Atomic, Word| {
            for at in 0..count {
                // SAFETY: aligned elements of this size, changed only by atomic operations, and an
                // operand for each, by the contract of `execute_atomically`.
                let (word, operand) = unsafe {
                    (
                        Atomic::from_ptr(target.cast::<Word>().add(at)),
                        operand.cast::<T>().add(at).read_unaligned(),
                    )
                };
                let mut before = word.load(Ordering::Acquire);
                loop {
                    // SAFETY: both types have the same size, as the size chose the word, and all
                    // bit patterns are valid for both.
                    let after = unsafe {
                        let after = combine(std::mem::transmute_copy::<Word, T>(&before), operand);
                        std::mem::transmute_copy::<T, Word>(&after)
                    };
                    // Unchanged values need no exclusive cache line.
                    if after == before {
                        break;
                    }
                    match word.compare_exchange_weak(
                        before,
                        after,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    ) {
                        Ok(_) => break,
                        Err(now) => before = now,
                    }
                }
                if !result.is_null() {
                    // SAFETY: the result has room for `count` elements, by the contract of
                    // `execute_atomically`.
                    unsafe { result.cast::<Word>().add(at).write_unaligned(before) };
                }
            }
        });
    }
}

/// Updates all elements in vectors.
struct InOrder<'a>(&'a Update);

impl Visitor for InOrder<'_> {
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T) {
        let Update { target, operand, count, .. } = *self.0;
        // SAFETY: both sides have `count` elements, and the held lock keeps others from changing
        // them.
        unsafe { combine_all(target.cast::<T>(), operand.cast::<T>(), count, combine) };
    }
}

impl Update {
    /// Updates each element by an atomic operation.
    ///
    /// # Safety
    /// `target` has `count` elements whose domain is `Domain::Element`, and others change them only
    /// by atomic operations meanwhile. `operand` has as many, unless the operation is NO_OP.
    /// `result` has room for as many, unless it is null. The operation is defined for the type.
    pub unsafe fn execute_atomically(&self) {
        let Update { kind, op, target, operand, result, count } = *self;
        macro_rules! words {
            (|$word:ident, $operand:ident| $update:expr) => {
                with_word!(kind.size(), |Atomic, Word| for at in 0..count {
                    // SAFETY: an element of the target, by this function's contract.
                    let $word = unsafe { Atomic::from_ptr(target.cast::<Word>().add(at)) };
                    // SAFETY: `operand` has an element for each, by this function's contract.
                    let $operand = || unsafe { operand.cast::<Word>().add(at).read_unaligned() };
                    let before: Word = $update;
                    if !result.is_null() {
                        // SAFETY: not null, so it has room for each, by this function's contract.
                        unsafe { result.cast::<Word>().add(at).write_unaligned(before) };
                    }
                })
            };
        }
        let order = Ordering::AcqRel;
        match op {
            Reduce::NoOp if result.is_null() => {}
            Reduce::NoOp => words!(|word, _operand| word.load(Ordering::Acquire)),
            Reduce::Replace if result.is_null() => words!(|word, operand| {
                word.store(operand(), Ordering::Release);
                0
            }),
            Reduce::Replace => words!(|word, operand| word.swap(operand(), order)),
            Reduce::Sum if kind.is_integer() => {
                words!(|word, operand| word.fetch_add(operand(), order))
            }
            Reduce::Band => words!(|word, operand| word.fetch_and(operand(), order)),
            Reduce::Bor => words!(|word, operand| word.fetch_or(operand(), order)),
            Reduce::Bxor => words!(|word, operand| word.fetch_xor(operand(), order)),
            // SAFETY: the visitor's requirements are this function's contract.
            _ => unsafe { dispatch(kind, op, ByCompareAndSwap(self)) },
        }
    }

    /// Updates all elements at once, while nobody else changes them.
    ///
    /// # Safety
    /// As for `execute_atomically`, but elements may have any size and C's alignment, and the
    /// caller holds the lock under which all other accumulates on them are done.
    pub unsafe fn execute_locked(&self) {
        if self.result.is_null() {
            // SAFETY: valid by this function's contract.
            return unsafe { self.combine() };
        }
        let size = self.kind.size();
        let mut done = 0;
        while done < self.count {
            let count = (self.count - done).min(FETCHED_AT_ONCE / size);
            // SAFETY: a part of the elements, which are valid by this function's contract. An
            // operand that is not used may be null, so it is only wrapped.
            unsafe {
                let target = self.target.add(done * size);
                std::ptr::copy(target, self.result.add(done * size), count * size);
                let operand = self.operand.wrapping_add(done * size);
                Update { target, operand, count, ..*self }.combine();
            }
            done += count;
        }
    }

    unsafe fn combine(&self) {
        match self.op {
            Reduce::NoOp => {}
            // SAFETY: both sides have `count` elements, by the contract of `execute_locked`.
            Reduce::Replace => unsafe {
                std::ptr::copy(self.operand, self.target, self.count * self.kind.size())
            },
            // SAFETY: the visitor's requirements are the contract of `execute_locked`.
            _ => unsafe { dispatch(self.kind, self.op, InOrder(self)) },
        }
    }

    /// Updates in the way that the domain requires.
    ///
    /// # Safety
    /// As for `execute_atomically` or `execute_locked`.
    #[inline]
    pub unsafe fn execute(&self, domain: Domain) {
        match domain {
            // SAFETY: the contract for this domain is that of `execute_atomically`.
            Domain::Element => unsafe { self.execute_atomically() },
            // SAFETY: the contract for this domain is that of `execute_locked`.
            Domain::Lock => unsafe { self.execute_locked() },
        }
    }

    /// Updates one element by an atomic operation. Common cases (counters, sums, locks) do not
    /// search for their function.
    ///
    /// # Safety
    /// As for `execute_atomically`, with one element.
    #[inline(always)]
    pub unsafe fn execute_word(&self) {
        let Update { kind, op, target, operand, result, .. } = *self;
        // SAFETY: only called for words of 8 bytes, and the element is valid by this function's
        // contract.
        let word = || unsafe { AtomicU64::from_ptr(target.cast()) };
        // SAFETY: only called for words of 8 bytes, and the operand is valid by this function's
        // contract.
        let operand = || unsafe { operand.cast::<u64>().read_unaligned() };
        let before = match op {
            Reduce::Sum if kind == ElementType::Double => {
                // SAFETY: one element, which is valid by this function's contract.
                return unsafe {
                    ByCompareAndSwap(&Update { count: 1, ..*self }).visit::<f64>(|a, b| a + b)
                };
            }
            Reduce::Sum if kind.is_integer() && kind.size() == 8 => {
                word().fetch_add(operand(), Ordering::AcqRel)
            }
            Reduce::Replace if !result.is_null() && kind.size() == 8 => {
                word().swap(operand(), Ordering::AcqRel)
            }
            Reduce::NoOp if kind.size() == 8 => word().load(Ordering::Acquire),
            // SAFETY: one element, which is valid by this function's contract.
            _ => return unsafe { self.execute_atomically() },
        };
        if !result.is_null() {
            // SAFETY: not null, so it has room for the element, by this function's contract.
            unsafe { result.cast::<u64>().write_unaligned(before) };
        }
    }
}

/// Stores `operand` if the current bytes equal `compare`. The old bytes go to `result`.
///
/// # Safety
/// As for `Update::execute_atomically`, with one element of a type that has compare-and-swap.
#[inline]
pub unsafe fn compare_and_swap(
    kind: ElementType,
    target: *mut u8,
    operand: *const u8,
    compare: *const u8,
    result: *mut u8,
) {
    with_word!(kind.size(), |Atomic, Word| {
        // SAFETY: all pointers are valid for one element, by this function's contract.
        unsafe {
            let (operand, compare) =
                (operand.cast::<Word>().read_unaligned(), compare.cast::<Word>().read_unaligned());
            let word = Atomic::from_ptr(target.cast());
            let (Ok(before) | Err(before)) =
                word.compare_exchange(compare, operand, Ordering::AcqRel, Ordering::Acquire);
            result.cast::<Word>().write_unaligned(before);
        }
    });
}

/// Compare-and-swap of one element's bytes, while nobody else changes them. Returns true if it was
/// replaced.
///
/// # Safety
/// All pointers are valid for `size` bytes, at most 16.
pub(crate) unsafe fn swap_locked(
    size: usize,
    at: *mut u8,
    operand: *const u8,
    compare: *const u8,
    result: *mut u8,
) -> bool {
    // SAFETY: valid by this function's contract. `result` may overlap the others, so it is written
    // last, with a copy that allows it.
    unsafe {
        let mut before = [0_u8; 16];
        before.as_mut_ptr().copy_from_nonoverlapping(at, size);
        let equal = std::slice::from_raw_parts(compare, size) == &before[..size];
        if equal {
            operand.copy_to(at, size);
        }
        before.as_ptr().copy_to(result, size);
        equal
    }
}

#[cfg(test)]
#[path = "reduce_tests.rs"]
mod tests;
