//! The error message of a failed operation, and its line in the log: which operation, which peer,
//! and why.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::{self, Subject};
use crate::engine::base::status::Status;
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::worker::worker::Worker;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

impl Slot {
    /// For `error_message`: `None` if its kind and status say it all, as of a cancelled receive.
    /// Thousands may fail at once, and their text is composed when somebody asks for it.
    #[cold]
    pub(crate) fn describe_failure(&self, status: Status) -> Option<String> {
        let (operation, endpoint) = (self.worker().operation(self), self.endpoint.get());
        let (what, why) = ((operation.describe)(self, status), (operation.cause)(self, status));
        if endpoint.is_null() && what.is_none() && why.is_none() {
            return None;
        }
        let what = what.unwrap_or_else(|| self.kind.get().describe().to_owned());
        let peer = if endpoint.is_null() {
            String::new()
        } else {
            // SAFETY: the worker keeps the endpoint alive while this operation is in flight, and it
            // still is.
            format!(", peer {}", unsafe { &*endpoint }.peer_text())
        };
        let why = why.unwrap_or_else(|| status.sentence().to_string_lossy().into_owned());
        Some(format!("{what}{peer}: {why}"))
    }
}

/// The text of a failure of which there is nothing else to say. Each is composed once, and kept.
pub(crate) fn of_kind(kind: Kind, status: Status) -> &'static CStr {
    static TEXTS: Mutex<BTreeMap<(u8, i32), &'static CStr>> = Mutex::new(BTreeMap::new());
    TEXTS.lock().entry((kind as u8, status.0)).or_insert_with(|| {
        let sentence = status.sentence().to_string_lossy();
        let text = CString::new(format!("{}: {sentence}", kind.describe())).unwrap_or_default();
        Box::leak(text.into_boxed_c_str())
    })
}

/// `Operation::describe` of a send, with its length.
pub(crate) fn describe_bytes(slot: &Slot, _status: Status) -> Option<String> {
    Some(format!("{} of {} bytes", slot.kind.get().describe(), slot.length.get()))
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
        log::write(
            log::DEBUG,
            component,
            subject,
            format_args!("{} {}: {status}", kind.describe(), slot.sequence.get()),
        );
    }
}
