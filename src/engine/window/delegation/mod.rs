//! Operations that a member leaves in a slot of shared memory for a target that polls there.

pub(crate) mod delegation;
pub(crate) mod slot;
pub(crate) mod slot_state;
