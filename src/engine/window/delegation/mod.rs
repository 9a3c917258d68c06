//! Operations that an origin posts into shared memory for a target that is polling there.

pub(crate) mod delegation;
pub(crate) mod slot;
pub(crate) mod slot_state;
