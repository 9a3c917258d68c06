//! Lock types and assertions of the windows' synchronisation calls.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};

/// `UCXX_LOCK_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LockType {
    /// Several holders at a time.
    Shared = 1,
    /// One holder.
    Exclusive = 2,
}

impl LockType {
    /// Converts a number from the C interface or from a message.
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

/// `UCXX_ASSERT_*` values that the call accepts.
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

    /// For lock and lock_all.
    pub fn of_lock(given: u32) -> Result<Self> {
        Self::of("a lock", given, NOCHECK)
    }

    /// For post.
    pub fn of_post(given: u32) -> Result<Self> {
        Self::of("post", given, NOCHECK | NOSTORE | NOPUT)
    }

    /// For start.
    pub fn of_start(given: u32) -> Result<Self> {
        Self::of("start", given, NOCHECK)
    }

    /// For fence.
    pub fn of_fence(given: u32) -> Result<Self> {
        Self::of("fence", given, NOSTORE | NOPUT | NOPRECEDE | NOSUCCEED)
    }

    /// No other process wants the lock; or the matching post has been made, or has this assertion
    /// too.
    pub fn no_check(self) -> bool {
        self.0 & NOCHECK != 0
    }

    /// No operations have to be completed.
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
