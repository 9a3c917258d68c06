//! The error message of a failed operation, and its line in the log: which operation, which peer,
//! and why.

use crate::engine::base::log::{self, Subject};
use crate::engine::base::status::Status;
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::Worker;

impl Slot {
    /// For `error_message`.
    #[cold]
    pub(crate) fn describe_failure(&self, status: Status) -> String {
        let (operation, endpoint) = (self.worker().operation(self), self.endpoint.get());
        let peer = if endpoint.is_null() {
            String::new()
        } else {
            // SAFETY: the worker keeps the endpoint alive while this operation is in flight, and it
            // still is.
            format!(", peer {}", unsafe { &*endpoint }.peer_text())
        };
        let (what, why) = ((operation.describe)(self, status), (operation.cause)(self, status));
        format!(
            "{what}{peer}: {}",
            why.unwrap_or_else(|| status.sentence().to_string_lossy().into_owned())
        )
    }
}

/// `Operation::describe` of a send, with its length.
pub(crate) fn describe_bytes(slot: &Slot, _status: Status) -> String {
    format!("{} of {} bytes", slot.kind.get().describe(), slot.length.get())
}

/// `Operation::cause` of an operation for which buffers are allocated.
pub(crate) fn cause_of_making(slot: &Slot, _status: Status) -> Option<String> {
    let mut making = slot.making.take();
    let trouble = making.as_mut().and_then(|making| making.trouble.take());
    slot.making.set(making);
    trouble.map(|trouble| trouble.message().to_owned())
}

impl Worker {
    /// Says that an operation has failed.
    #[cold]
    pub(super) fn log_failure(&self, slot: &Slot, status: Status) {
        let kind = slot.kind.get();
        let component = kind.component();
        if kind.is_internal() || !log::enabled(log::DEBUG, component) {
            return;
        }
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        let subject: &dyn Subject = endpoint.map_or(self, |endpoint| endpoint);
        let text = format_args!("{} {}: {status}", kind.describe(), slot.sequence.get());
        log::write(log::DEBUG, component, subject, text);
    }
}
