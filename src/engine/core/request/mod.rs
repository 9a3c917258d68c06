//! An operation from its submission to its callback. Read the files in this order:
//!
//! 1. `operation`, `operation_kind`: what the caller asked for.
//! 2. `request`: the slot that an operation occupies, and which thread owns what in it.
//! 3. `submit`, `fast_path`: where an operation goes.
//! 4. `inflight`, `completion`: how a slot starts and ends.
//! 5. `completion_flag`, `notifier`: how the caller is notified.

pub mod buffer;
pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod completion_flag;
pub(crate) mod description;
pub(crate) mod error_text;
pub mod fast_path;
pub mod inflight;
pub(crate) mod inline_buffer;
pub mod notifier;
pub mod notifier_events;
pub mod operation;
pub(crate) mod operation_kind;
pub(crate) mod operations;
pub(crate) mod pending_callbacks;
pub(crate) mod queue_state;
pub mod request;
pub(crate) mod request_param;
pub(crate) mod slab;
pub(crate) mod slot_list;
pub(crate) mod submit;
pub(crate) mod timers;
