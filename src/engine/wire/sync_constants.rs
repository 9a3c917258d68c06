//! The numbers that synchronisation calls of windows take: kinds of locks, and assertions.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};

/// `UCXX_LOCK_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LockType {
    /// Several at a time.
    Shared = 1,
    /// One alone.
    Exclusive = 2,
}

impl LockType {
    /// Of the C interface's number, or of one that came over the wire.
    pub fn from_number(number: i32) -> Result<Self> {
        match number {
            1 => Ok(LockType::Shared),
            2 => Ok(LockType::Exclusive),
            _ => Err(Error::new(
                Status::RMA_LOCK_TYPE,
                format!("lock_type: {number} is no UCXX_LOCK_* value"),
            )),
        }
    }
}

/// `UCXX_ASSERT_*`, such that the call takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Assertions(u32);

const NOCHECK: u32 = 1;
const NOSTORE: u32 = 2;
const NOPUT: u32 = 4;
const NOPRECEDE: u32 = 8;
const NOSUCCEED: u32 = 16;

impl Assertions {
    fn of(call: &str, given: u32, taken: u32) -> Result<Self> {
        match given & !taken {
            0 => Ok(Assertions(given)),
            strange => Err(Error::new(
                Status::RMA_ASSERT,
                format!("assertions: {call} takes no UCXX_ASSERT_* value {strange:#x}"),
            )),
        }
    }

    /// Of lock and lock_all.
    pub fn of_lock(given: u32) -> Result<Self> {
        Self::of("a lock", given, NOCHECK)
    }

    /// Of post.
    pub fn of_post(given: u32) -> Result<Self> {
        Self::of("post", given, NOCHECK | NOSTORE | NOPUT)
    }

    /// Of start.
    pub fn of_start(given: u32) -> Result<Self> {
        Self::of("start", given, NOCHECK)
    }

    /// Of fence.
    pub fn of_fence(given: u32) -> Result<Self> {
        Self::of("fence", given, NOSTORE | NOPUT | NOPRECEDE | NOSUCCEED)
    }

    /// Nobody else wants the lock; the other side has posted already, or says the same.
    pub fn no_check(self) -> bool {
        self.0 & NOCHECK != 0
    }

    /// Nothing is to be completed.
    pub fn no_precede(self) -> bool {
        self.0 & NOPRECEDE != 0
    }

    /// No epoch begins.
    pub fn no_succeed(self) -> bool {
        self.0 & NOSUCCEED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_call_takes_its_own() {
        let refused = |taken: fn(u32) -> Result<Assertions>| {
            let refuses = |bit: &u32| {
                taken(1 << bit).is_err_and(|error| error.status() == Status::RMA_ASSERT)
            };
            (0..32).filter(refuses).fold(0_u32, |all, bit| all | 1 << bit)
        };
        assert_eq!(!refused(Assertions::of_lock), NOCHECK);
        assert_eq!(!refused(Assertions::of_post), NOCHECK | NOSTORE | NOPUT);
        assert_eq!(!refused(Assertions::of_start), NOCHECK);
        assert_eq!(!refused(Assertions::of_fence), NOSTORE | NOPUT | NOPRECEDE | NOSUCCEED);
        let both = Assertions::of_fence(NOPRECEDE | NOSUCCEED).unwrap();
        assert!(both.no_precede() && both.no_succeed() && !both.no_check());
    }

    #[test]
    fn kinds_of_locks() {
        assert_eq!(LockType::from_number(1).unwrap(), LockType::Shared);
        assert_eq!(LockType::from_number(2).unwrap(), LockType::Exclusive);
        for strange in [0, 3, -1] {
            assert_eq!(LockType::from_number(strange).unwrap_err().status(), Status::RMA_LOCK_TYPE);
        }
    }
}
