//! The form of a hub that needs no lock: one pool, nothing limited, nobody to be told.

pub(crate) mod mode;
#[cfg(test)]
pub(crate) mod mode_tests;
pub(crate) mod queue_pair;
pub(crate) mod switch;
