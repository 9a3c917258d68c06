//! Executes accumulates on memory that processes share.
//!
//! Two ways, one for each `Domain`. An element that is a word is changed by one atomic operation of
//! the processor, or by compare-and-swap until nobody came in between; whoever does so, by whatever
//! operation on the same type, is atomic to all others, and nothing is ever held. Everything else
//! is read, changed and written under a lock that the caller holds, in loops of vectors (see
//! `window::data::simd`).
//!
//! Each atomic update acquires and releases: what its origin wrote before is seen by whoever reads
//! the update by another one.
//!
//! Measured on one of two cores of an AMD EPYC (Zen 5), nobody else at the memory, the best of
//! seven rounds (`cargo test --release --lib engine::window::data::reduce -- --ignored --nocapture
//! figures`): fetch-and-op of 8 bytes 5.5 ns, 0.6 for NO_OP; compare-and-swap 5.6. Sums of doubles:
//! one element 7 ns atomically and 3 under a lock; 512 take 2.6 us and 0.05; 128 Ki take 0.68 ms
//! (5.2 ns each) and 0.020 ms (0.15 ns each). So a lock of 15 ns is won back from the third element
//! on, as far as nobody else wants it.

#[cfg(target_arch = "x86_64")]
use crate::engine::window::data::long_double::{complex_product, LongDouble};
use crate::engine::window::data::simd::combine_all;
use crate::engine::wire::element_type::{Domain, ElementType, Reduce};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// Bytes that go into `result` at a time: what was copied is still in the first cache when it is
/// combined.
const FETCHED_AT_ONCE: usize = 8192;

/// One update of elements that follow each other: `target[i] = op(target[i], operand[i])`, and what
/// was there before to `result[i]`.
#[derive(Clone, Copy)]
pub struct Update {
    /// Of the elements.
    pub kind: ElementType,
    /// Defined for them.
    pub op: Reduce,
    /// The window's memory, aligned as C aligns the type.
    pub target: *mut u8,
    /// Need not be aligned; not looked at for NO_OP.
    pub operand: *const u8,
    /// Need not be aligned; null where nothing is fetched.
    pub result: *mut u8,
    /// Elements.
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

// Holes are fields, so that every byte of the struct has a value when it is taken for a word.
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

/// What to do with the function that an operation is for a type.
trait Visitor {
    /// `combine` takes the current value first.
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T);
}

/// Finds that function. REPLACE and NO_OP have none.
///
/// # Safety
/// What the visitor asks for.
unsafe fn dispatch(kind: ElementType, op: Reduce, visitor: impl Visitor) {
    use Reduce::*;
    macro_rules! visit {
        ($value:ty, $combine:expr) => {
            // SAFETY: as for this function.
            unsafe { visitor.visit::<$value>($combine) }
        };
    }
    // Signed and unsigned ones differ in their order alone.
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
    // Of a NaN and a number MIN and MAX are the number (fmin, fmax of C), so that it does not
    // matter which came first.
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
    // The lower index where values are equal, as MPI has it.
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

/// Calls `$body` with the atomic word of so many bytes, and the integer it holds.
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

/// One word after the other, by compare-and-swap.
struct ByCompareAndSwap<'a>(&'a Update);

impl Visitor for ByCompareAndSwap<'_> {
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T) {
        let Update { target, operand, result, count, .. } = *self.0;
        with_word!(size_of::<T>(), |Atomic, Word| {
            for at in 0..count {
                // SAFETY: elements of this size, aligned to it, that are changed by atomic
                // operations alone; an operand for each.
                let (word, operand) = unsafe {
                    (
                        Atomic::from_ptr(target.cast::<Word>().add(at)),
                        operand.cast::<T>().add(at).read_unaligned(),
                    )
                };
                let mut before = word.load(Ordering::Acquire);
                loop {
                    // SAFETY: as large as each other, which chose the word, and every pattern of
                    // bytes is a value of either.
                    let after = unsafe {
                        let after = combine(std::mem::transmute_copy::<Word, T>(&before), operand);
                        std::mem::transmute_copy::<T, Word>(&after)
                    };
                    // What stays as it is needs no cache line of its own.
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
                    // SAFETY: room for as many elements.
                    unsafe { result.cast::<Word>().add(at).write_unaligned(before) };
                }
            }
        });
    }
}

/// In vectors, all at once.
struct InOrder<'a>(&'a Update);

impl Visitor for InOrder<'_> {
    unsafe fn visit<T: Copy>(self, combine: impl Fn(T, T) -> T) {
        let Update { target, operand, count, .. } = *self.0;
        // SAFETY: as many elements on either side, which nobody else changes meanwhile.
        unsafe { combine_all(target.cast::<T>(), operand.cast::<T>(), count, combine) };
    }
}

impl Update {
    /// Element by element, each by an atomic operation.
    ///
    /// # Safety
    /// `count` elements at `target` whose domain is `Domain::Element`, which others change by
    /// atomic operations alone meanwhile; as many at `operand`, unless the operation is NO_OP, and
    /// room for as many at `result`, unless that is null. The operation is one that the type has.
    pub unsafe fn execute_atomically(&self) {
        let Update { kind, op, target, operand, result, count } = *self;
        macro_rules! words {
            (|$word:ident, $operand:ident| $update:expr) => {
                with_word!(kind.size(), |Atomic, Word| for at in 0..count {
                    // SAFETY: as for this function.
                    let $word = unsafe { Atomic::from_ptr(target.cast::<Word>().add(at)) };
                    // SAFETY: as for this function.
                    let $operand = || unsafe { operand.cast::<Word>().add(at).read_unaligned() };
                    let before: Word = $update;
                    if !result.is_null() {
                        // SAFETY: as for this function.
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
            // SAFETY: as for this function.
            _ => unsafe { dispatch(kind, op, ByCompareAndSwap(self)) },
        }
    }

    /// All of them in one go, where nobody else changes them.
    ///
    /// # Safety
    /// As for `execute_atomically`, for elements of any size aligned as C aligns them, and with the
    /// lock held that all other accumulates on them are done under.
    pub unsafe fn execute_locked(&self) {
        if self.result.is_null() {
            // SAFETY: as for this function.
            return unsafe { self.combine() };
        }
        let size = self.kind.size();
        let mut done = 0;
        while done < self.count {
            let count = (self.count - done).min(FETCHED_AT_ONCE / size);
            // SAFETY: as for this function; an operand that is not looked at may be null.
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
            // SAFETY: as for `execute_locked`.
            Reduce::Replace => unsafe {
                std::ptr::copy(self.operand, self.target, self.count * self.kind.size())
            },
            // SAFETY: as above.
            _ => unsafe { dispatch(self.kind, self.op, InOrder(self)) },
        }
    }

    /// In the way that the domain asks for.
    ///
    /// # Safety
    /// As for the two above.
    #[inline]
    pub unsafe fn execute(&self, domain: Domain) {
        match domain {
            // SAFETY: as for this function.
            Domain::Element => unsafe { self.execute_atomically() },
            // SAFETY: as for this function.
            Domain::Lock => unsafe { self.execute_locked() },
        }
    }

    /// One element, by an atomic operation. What counters, sums and locks are made of goes without
    /// a search for its function.
    ///
    /// # Safety
    /// As for `execute_atomically`, with one element.
    #[inline(always)]
    pub unsafe fn execute_word(&self) {
        let Update { kind, op, target, operand, result, .. } = *self;
        // SAFETY: as for this function; looked at for words of 8 bytes alone.
        let word = || unsafe { AtomicU64::from_ptr(target.cast()) };
        // SAFETY: as above.
        let operand = || unsafe { operand.cast::<u64>().read_unaligned() };
        let before = match op {
            Reduce::Sum if kind == ElementType::Double => {
                // SAFETY: as for this function.
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
            // SAFETY: as for this function.
            _ => return unsafe { self.execute_atomically() },
        };
        if !result.is_null() {
            // SAFETY: as for this function.
            unsafe { result.cast::<u64>().write_unaligned(before) };
        }
    }
}

/// Puts `operand` there if what is there equals `compare`, byte for byte, and what was there into
/// `result`.
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
        // SAFETY: as for this function.
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

/// Compare-and-swap of the bytes of one element, where nobody else changes them. True if it was
/// replaced.
///
/// # Safety
/// All are valid for so many bytes.
pub(crate) unsafe fn swap_locked(
    size: usize,
    at: *mut u8,
    operand: *const u8,
    compare: *const u8,
    result: *mut u8,
) -> bool {
    // SAFETY: as for this function; the result may be any of the others.
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
