//! Lock-free mode of simple hubs: one pool, no limits, and nobody to notify.

pub(crate) mod mode;
#[cfg(test)]
pub(crate) mod mode_tests;
pub(crate) mod queue_pair;
pub(crate) mod switch;
