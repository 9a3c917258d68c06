//! C's `long double` on x86-64: extended precision, 10 of 16 bytes. Only the x87 unit can compute
//! with it.
//!
//! Each operation is one block of assembly: loads, the instruction that a C compiler would use, a
//! store. Results equal those of C in every bit, under the rounding and precision that the calling
//! thread has set. The ABI guarantees 64 bits of precision and an empty register stack, and each
//! block leaves both as they were. Numbers that are only copied do not pass through the unit, so a
//! signalling NaN stays one.
//!
//! Other architectures have another `long double` (128 bits on aarch64), for which they have no
//! instructions. There such elements can be copied, but not combined: see
//! `ElementType::check_reduce`.

use std::arch::asm;
use std::cmp::Ordering;
use std::mem::MaybeUninit;
use std::ops::{Add, Mul};

/// Memory representation. Numbers are compared by value, so there is no `Eq`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct LongDouble {
    significand: u64,
    /// The lower 16 bits count. The others are padding, which is zero in results.
    sign_and_exponent: u64,
}

/// Buffer for the x87 unit's stores.
type Room = MaybeUninit<LongDouble>;

impl LongDouble {
    /// The number in the buffer.
    ///
    /// # Safety
    /// Its 10 bytes have been written.
    #[inline(always)]
    unsafe fn stored(room: &Room) -> Self {
        let words = room.as_ptr().cast::<u64>();
        // In the sizes in which the unit stores, 8 and 2 bytes: reading them as one would stall.
        // SAFETY: both are inside the 10 bytes that were written, by this function's contract.
        let (significand, rest) = unsafe { (words.read(), words.add(1).cast::<u16>().read()) };
        LongDouble { significand, sign_and_exponent: rest.into() }
    }

    #[inline(always)]
    pub(crate) fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

/// A block that begins and ends with an empty register stack. Naming all registers makes the
/// compiler guarantee the first and require the second.
macro_rules! x87 {
    ([$($line:expr),* $(,)?], $($operands:tt)*) => {
        asm!(
            $($line,)*
            $($operands)*
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        )
    };
}

/// Loads both, combines them by `$instruction`, and stores the result.
macro_rules! combined {
    ($instruction:literal, $one:expr, $other:expr) => {{
        let (one, other, mut room) = ($one, $other, Room::uninit());
        // SAFETY: reads two numbers and writes a third, all local variables.
        unsafe {
            x87!(
                [
                    "fld tbyte ptr [{one}]",
                    "fld tbyte ptr [{other}]",
                    $instruction,
                    "fstp tbyte ptr [{room}]",
                ],
                one = in(reg) &raw const one, other = in(reg) &raw const other,
                room = in(reg) room.as_mut_ptr(),
            );
            LongDouble::stored(&room)
        }
    }};
}

impl Add for LongDouble {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        combined!("faddp st(1), st", self, other)
    }
}

impl Mul for LongDouble {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        combined!("fmulp st(1), st", self, other)
    }
}

impl PartialEq for LongDouble {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for LongDouble {
    /// `None` if one of them is a NaN.
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (unordered, above, below): (u8, u8, u8);
        // SAFETY: reads two valid numbers; the result is in the flags.
        unsafe {
            x87!(
                [
                    "fld tbyte ptr [{other}]",
                    "fld tbyte ptr [{this}]",
                    "fucomip st, st(1)",
                    "fstp st(0)",
                    "setp {unordered}",
                    "seta {above}",
                    "setb {below}",
                ],
                this = in(reg) self, other = in(reg) other,
                unordered = out(reg_byte) unordered,
                above = out(reg_byte) above, below = out(reg_byte) below,
            );
        }
        (unordered == 0).then(|| above.cmp(&below))
    }
}

/// Product of complex numbers, with intermediate results in registers: by way of memory it takes
/// four times as long.
#[inline(always)]
pub(crate) fn complex_product(one: [LongDouble; 2], other: [LongDouble; 2]) -> [LongDouble; 2] {
    let mut rooms = [Room::uninit(); 2];
    // SAFETY: reads two numbers of two parts each, and writes two parts to local variables.
    unsafe {
        x87!(
            [
                "fld tbyte ptr [{one}]",
                "fld tbyte ptr [{other}]",
                "fmulp st(1), st",
                "fld tbyte ptr [{one} + 16]",
                "fld tbyte ptr [{other} + 16]",
                "fmulp st(1), st",
                "fsubp st(1), st",
                "fstp tbyte ptr [{rooms}]",
                "fld tbyte ptr [{one}]",
                "fld tbyte ptr [{other} + 16]",
                "fmulp st(1), st",
                "fld tbyte ptr [{one} + 16]",
                "fld tbyte ptr [{other}]",
                "fmulp st(1), st",
                "faddp st(1), st",
                "fstp tbyte ptr [{rooms} + 16]",
            ],
            one = in(reg) &raw const one, other = in(reg) &raw const other,
            rooms = in(reg) &raw mut rooms,
        );
        [LongDouble::stored(&rooms[0]), LongDouble::stored(&rooms[1])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal number: `significand` times 2 to the power of (`exponent` - 63).
    fn number(negative: bool, exponent: i32, significand: u64) -> LongDouble {
        let biased = (exponent + 16383) as u64;
        LongDouble { significand, sign_and_exponent: biased | u64::from(negative) << 15 }
    }

    fn one() -> LongDouble {
        number(false, 0, 1 << 63)
    }

    fn parts(number: LongDouble) -> (u64, u64) {
        (number.significand, number.sign_and_exponent)
    }

    fn quiet_nan() -> LongDouble {
        LongDouble { significand: 3 << 62, sign_and_exponent: 0x7fff }
    }

    fn infinity(negative: bool) -> LongDouble {
        number(negative, 16384, 1 << 63)
    }

    #[test]
    fn sums_and_products_keep_64_bits() {
        let least = number(false, -63, 1 << 63);
        assert_eq!(parts(one() + least), ((1 << 63) + 1, 0x3fff));
        // Half of the last place rounds to the even neighbour.
        assert_eq!(parts(one() + number(false, -64, 1 << 63)), (1 << 63, 0x3fff));
        let (a, b) = (number(false, 0, (1 << 63) + 1), number(true, 5, 3 << 62));
        assert_eq!(parts(a * b), ((3 << 62) + 2, 0x8000 | (0x3fff + 5)));
        // Results that are denormal, and that overflow.
        let small = number(false, -16382, 1 << 63);
        assert_eq!(parts(small * number(false, -1, 1 << 63)), (1 << 62, 0));
        let large = number(false, 16383, u64::MAX);
        assert_eq!(parts(large + large), parts(infinity(false)));
        assert!((infinity(false) + infinity(true)).is_nan());
    }

    #[test]
    fn padding_is_not_looked_at_and_is_zero_in_results() {
        let padded = LongDouble { sign_and_exponent: 0x3fff | 0xdb_dbdb << 16, ..one() };
        assert!(padded == one());
        assert_eq!(parts(padded * padded), parts(one()));
    }

    #[test]
    fn comparisons() {
        let zero = LongDouble { significand: 0, sign_and_exponent: 0 };
        let below_zero = LongDouble { sign_and_exponent: 0x8000, ..zero };
        let (less, more) = (number(true, 3, 1 << 63), number(false, -3, 1 << 63));
        let rising = [infinity(true), less, zero, more, one(), infinity(false)];
        for (at, this) in rising.into_iter().enumerate() {
            assert!(!this.is_nan());
            for (place, other) in rising.into_iter().enumerate() {
                assert_eq!(this.partial_cmp(&other), at.partial_cmp(&place));
                assert_eq!(this == other, at == place);
            }
        }
        assert!(zero == below_zero);
        let signalling = LongDouble { significand: 1 << 63 | 1, sign_and_exponent: 0x7fff };
        for nan in [quiet_nan(), signalling] {
            assert!(nan.is_nan() && nan != one());
            assert_eq!(nan.partial_cmp(&one()), None);
            assert_eq!(one().partial_cmp(&nan), None);
        }
    }

    #[test]
    fn a_product_of_complex_numbers() {
        let small = |value: i32| {
            let zeros = value.unsigned_abs().leading_zeros();
            number(value < 0, 31 - zeros as i32, u64::from(value.unsigned_abs()) << (zeros + 32))
        };
        let [real, imaginary] = complex_product([small(3), small(5)], [small(-2), small(7)]);
        assert!(real == small(-6 - 35) && imaginary == small(21 - 10));
    }

    /// More operations than registers: a register that is left full would make later results NaN.
    #[test]
    fn registers_are_left_empty() {
        let mut sum = one();
        for _ in 0..40 {
            sum = sum + one();
            assert!(sum > one());
            sum = complex_product([sum, one()], [one(), one() + number(true, 0, 1 << 63)])[0];
        }
        assert!(sum == number(false, 5, 41 << 58));
    }
}
