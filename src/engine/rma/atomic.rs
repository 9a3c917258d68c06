//! Atomic operations on registered memory: what they are, how they are executed, and their wire
//! format.
//!
//! Every operation is the processor's own atomic instruction on the memory itself, wherever it is
//! executed. So operations are atomic to each other and to the owning process's own. UCX's atomics
//! are not used: between processes of a host it does the same in more steps, over sockets its
//! messages are no faster, and with failure detection they fail from UCX 1.16 on.

use crate::engine::base::status::{Error, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `UCXX_ATOMIC_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AtomicOp {
    /// Adds, wrapping around.
    Add = 0,
    /// Bitwise.
    And = 1,
    /// Bitwise.
    Or = 2,
    /// Bitwise.
    Xor = 3,
    /// Replaces the value.
    Swap = 4,
    /// Replaces the value if it is the expected one.
    CompareSwap = 5,
}

impl AtomicOp {
    /// From the C interface's number, or from one on the wire.
    pub fn from_number(number: i32) -> Option<Self> {
        use AtomicOp::{Add, And, CompareSwap, Or, Swap, Xor};
        [Add, And, Or, Xor, Swap, CompareSwap].get(usize::try_from(number).ok()?).copied()
    }
}

/// One operation, as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomic {
    /// What to do.
    pub op: AtomicOp,
    /// 4 or 8.
    pub size: u8,
    /// The number of the memory.
    pub number: u64,
    /// From its start, in bytes.
    pub offset: u64,
    /// An operand of 4 bytes is in the lower half.
    pub operand: u64,
    /// The value that `CompareSwap` expects.
    pub compare: u64,
}

impl Atomic {
    /// Bytes on the wire.
    pub const LENGTH: usize = 40;

    /// Checks operation and size from a caller.
    pub fn check(op: i32, size: usize) -> Result<(AtomicOp, u8)> {
        let op = AtomicOp::from_number(op)
            .ok_or_else(|| Error::invalid(format!("op: {op} is no UCXX_ATOMIC_* value")))?;
        match size {
            4 | 8 => Ok((op, size as u8)),
            _ => Err(Error::invalid(format!("size: {size} bytes; an atomic operation has 4 or 8"))),
        }
    }

    /// The wire format: op, size, six bytes of zero, number, offset, operand, compare.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let first = u64::from(self.op as u8) | u64::from(self.size) << 8;
        let mut bytes = [0; Self::LENGTH];
        let words = [first, self.number, self.offset, self.operand, self.compare];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a received operation.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, &'static str> {
        let bytes: &[u8; Self::LENGTH] =
            bytes.try_into().map_err(|_| "an atomic operation with the wrong length")?;
        let mut words = [0; 5];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(std::array::from_fn(|byte| place[byte]));
        }
        let [first, number, offset, operand, compare] = words;
        let size = (first >> 8) as u8;
        match AtomicOp::from_number((first & 0xff) as i32) {
            Some(op) if matches!(size, 4 | 8) && first >> 16 == 0 => {
                Ok(Atomic { op, size, number, offset, operand, compare })
            }
            _ => Err("an atomic operation with an unknown operation or size"),
        }
    }

    /// Executes it, and returns the previous value.
    ///
    /// # Safety
    /// `place` is host memory of that size, aligned to it, that only atomic operations change
    /// meanwhile.
    pub unsafe fn execute(&self, place: *mut u8) -> u64 {
        macro_rules! execute {
            ($atomic:ty, $word:ty) => {{
                // SAFETY: the caller guarantees size, alignment and access.
                let word = unsafe { <$atomic>::from_ptr(place.cast()) };
                let operand = self.operand as $word;
                let order = Ordering::SeqCst;
                let before = match self.op {
                    AtomicOp::Add => word.fetch_add(operand, order),
                    AtomicOp::And => word.fetch_and(operand, order),
                    AtomicOp::Or => word.fetch_or(operand, order),
                    AtomicOp::Xor => word.fetch_xor(operand, order),
                    AtomicOp::Swap => word.swap(operand, order),
                    AtomicOp::CompareSwap => {
                        let (Ok(before) | Err(before)) =
                            word.compare_exchange(self.compare as $word, operand, order, order);
                        before
                    }
                };
                u64::from(before)
            }};
        }
        if self.size == 4 {
            execute!(AtomicU32, u32)
        } else {
            execute!(AtomicU64, u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atomic(op: AtomicOp, size: u8, operand: u64, compare: u64) -> Atomic {
        Atomic { op, size, number: 1, offset: 0, operand, compare }
    }

    fn run(atomic: Atomic, mut word: u64) -> (u64, u64) {
        // SAFETY: a local word.
        let before = unsafe { atomic.execute(std::ptr::from_mut(&mut word).cast()) };
        (before, word)
    }

    #[test]
    fn each_does_what_it_says() {
        use AtomicOp::{Add, And, CompareSwap, Or, Swap, Xor};
        let cases = [
            (Add, 5, 0, 7, 12),
            (And, 0b110, 0, 0b011, 0b010),
            (Or, 0b110, 0, 0b011, 0b111),
            (Xor, 0b110, 0, 0b011, 0b101),
            (Swap, 5, 0, 7, 5),
            (CompareSwap, 5, 7, 7, 5),
            (CompareSwap, 5, 8, 7, 7),
        ];
        for (op, operand, compare, before, after) in cases {
            for size in [4, 8] {
                assert_eq!(
                    run(atomic(op, size, operand, compare), before),
                    (before, after),
                    "{op:?} of {size}"
                );
            }
        }
        assert_eq!(run(atomic(Add, 4, 1, 0), 0xffff_ffff).1, 0);
        assert_eq!(run(atomic(Add, 8, 1, 0), 0xffff_ffff).1, 0x1_0000_0000);
        assert_eq!(run(atomic(Add, 8, u64::MAX, 0), 0), (0, u64::MAX));
    }

    #[test]
    fn what_travels_arrives() {
        let sent =
            Atomic { number: 3, offset: 1 << 40, ..atomic(AtomicOp::CompareSwap, 8, 1 << 63, 9) };
        assert_eq!(Atomic::decode(&sent.encode()), Ok(sent));
        assert!(Atomic::decode(&sent.encode()[..39]).is_err());
        for (at, value) in [(0, 6), (1, 3), (2, 1), (7, 1)] {
            let mut strange = sent.encode();
            strange[at] = value;
            assert!(Atomic::decode(&strange).is_err(), "byte {at}");
        }
    }
}
