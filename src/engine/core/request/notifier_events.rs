//! What a notifier reports besides operations, instead of calling a callback: connection requests,
//! ends of endpoints, messages and fetch requests.
//!
//! **Memory.** A message or a fetch request is a slot, and is in the queue itself. A connection
//! request and the end of an endpoint use an internal slot of their worker, which returns to it
//! after the poll, as for an operation.
//!
//! **Ownership.** A report belongs to the thread that polls it, as it would to the callback. Until
//! then it belongs to the queue. When the notifier is destroyed, messages are destroyed, and fetch
//! requests and connection requests are rejected.
//!
//! **Limits** if no thread polls. Messages and fetch requests hold their sender's credit until they
//! are destroyed, so the sender waits. A listener rejects clients when `BACKLOG` requests wait for
//! an answer. An endpoint ends once.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::handler_table::DestroyArg;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::listener::ConnRequest;
use crate::engine::core::request::notifier::{Core, Notifier};
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::request::request::{Kind, Part, Slot};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use std::ffi::c_void;
use std::sync::Arc;

/// What one report contains. Objects behind pointers belong to the owner of the report.
#[derive(Clone, Copy)]
pub enum Happened {
    /// An operation has completed.
    Operation,
    /// A client asks for a connection: a reference.
    ConnRequest(*const ConnRequest),
    /// An endpoint has ended.
    EndpointClosed,
    /// An active message has arrived.
    Message(*mut Message),
    /// A fetch request has arrived, with the function that destroys it.
    Question(*mut c_void, unsafe fn(*mut c_void)),
}

impl Happened {
    /// The slot itself is the reported object.
    pub(crate) fn is_the_slot(self) -> bool {
        matches!(self, Happened::Message(_) | Happened::Question(..))
    }

    /// Drops a report that no caller gets.
    ///
    /// # Safety
    /// Its object belongs to the caller, and is not used afterwards.
    pub(crate) unsafe fn drop_unseen(self) {
        match self {
            Happened::Operation | Happened::EndpointClosed => {}
            // SAFETY: the report owns the reference.
            Happened::ConnRequest(request) => unsafe { Arc::from_raw(request) }.destroy(),
            // SAFETY: the report owns the message.
            Happened::Message(message) => unsafe { message::destroy(message) },
            // SAFETY: the report owns the fetch request.
            Happened::Question(question, destroy) => unsafe { destroy(question) },
        }
    }
}

/// Where events go, with the argument that identifies them.
#[derive(Clone)]
pub struct Target {
    core: Arc<Core>,
    user_data: *mut c_void,
}

impl Target {
    /// For a notifier that was checked.
    pub(crate) fn new(notifier: &Notifier, user_data: *mut c_void) -> Self {
        Target { core: notifier.core().clone(), user_data }
    }

    /// Hands over a message or a fetch request. If this is false it still belongs to the caller.
    ///
    /// # Safety
    /// The caller owns the slot, and does not use it again if this is true.
    pub(crate) unsafe fn report_slot(&self, slot: *const Slot, happened: Happened) -> bool {
        // SAFETY: the caller owns the slot.
        let slot = unsafe { &*slot };
        slot.callback_arg.set(self.user_data);
        slot.part.set(Part::Event(happened));
        // SAFETY: a message with an owner is in no list.
        let added = unsafe { self.core.add(slot) };
        if !added {
            slot.part.set(Part::Nothing);
        }
        added
    }
}

/// `MessageHandler` of a target.
unsafe extern "C" fn on_message(target: *mut c_void, message: *mut Message) {
    // SAFETY: registered with a target, which lives until its handler has returned.
    let target = unsafe { &*target.cast::<Target>() };
    // SAFETY: the message belongs to the handler.
    unsafe {
        if !target.report_slot(message.cast(), Happened::Message(message)) {
            message::destroy(message);
        }
    }
}

/// `DestroyArg` of a target.
unsafe extern "C" fn free_target(target: *mut c_void) {
    // SAFETY: made by `registered`; called once.
    drop(unsafe { Box::from_raw(target.cast::<Target>()) });
}

/// Registers a handler with its own target.
pub(crate) fn registered(
    target: Target,
    register: impl FnOnce(*mut c_void, Option<DestroyArg>) -> Result<()>,
) -> Result<()> {
    let arg = Box::into_raw(Box::new(target)).cast();
    register(arg, Some(free_target)).inspect_err(|_| {
        // SAFETY: not registered, so not destroyed elsewhere.
        unsafe { free_target(arg) };
    })
}

impl SharedWorker {
    /// Delivers active messages with this id through a notifier from now on, or drops them.
    pub fn set_am_notifier(
        &self,
        id: u16,
        notifier: Option<&Notifier>,
        user_data: *mut c_void,
    ) -> Result<()> {
        let Some(notifier) = notifier else {
            return self.set_am_handler(id, None, user_data, None);
        };
        notifier.check(&self.context)?;
        let target = Target::new(notifier, user_data);
        registered(target, |arg, free| self.set_am_handler(id, Some(on_message), arg, free))
    }
}

impl Worker {
    /// Reports a request. If this is false, the request has no owner.
    pub(crate) fn report_request(&self, target: &Target, request: &Arc<ConnRequest>) -> bool {
        let lent = Arc::into_raw(request.clone());
        let reported = self.report_event(target, Happened::ConnRequest(lent), Status::OK);
        if !reported {
            // SAFETY: the reference that was made for the report.
            drop(unsafe { Arc::from_raw(lent) });
        }
        reported
    }

    /// Reports an event without its own slot. False if the notifier was destroyed.
    pub(crate) fn report_event(&self, target: &Target, happened: Happened, status: Status) -> bool {
        let slot = self.take_slot();
        slot.begin(Kind::Internal, &OpParams::default(), 0, 0, false);
        slot.callback_arg.set(target.user_data);
        slot.part.set(Part::Event(happened));
        slot.outcome.set(status);
        slot.name_core(&target.core);
        self.report(slot)
    }
}
