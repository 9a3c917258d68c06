//! An operation from its submission to its callback.
//!
//! `operation` is what the caller asked for, `request` the slot that it occupies, `submit` where it
//! goes, `inflight` how a slot begins and ends, `notifier` and `completion_flag` how its end is
//! told. Read them in that order.

pub mod buffer;
pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod completion_flag;
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
