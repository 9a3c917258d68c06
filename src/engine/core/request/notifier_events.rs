//! What a notifier hands out beside operations, where others have callbacks: connection requests,
//! the ends of endpoints, messages and questions.
//!
//! **Memory.** A message or a question is a slot, and stands in the queue itself. A connection
//! request and the end of an endpoint take an internal slot of their worker, which goes back to it
//! when it has been polled, as that of an operation does.
//!
//! **Ownership.** What is handed out belongs to whoever polls, as it would to the callback. Until
//! then it is the queue's: with the notifier messages are destroyed, questions and connection
//! requests rejected.
//!
//! **Bounds**, where nobody polls. Messages and questions hold their sender's credit until they are
//! destroyed, so that the sender waits. A listener rejects when `BACKLOG` requests wait for an
//! answer. An endpoint ends once.

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

/// What one report tells of. What a pointer names belongs to whoever has the report.
#[derive(Clone, Copy)]
pub enum Happened {
    /// An operation has completed.
    Operation,
    /// Somebody asks for a connection: a reference.
    ConnRequest(*const ConnRequest),
    /// An endpoint has ended.
    EndpointClosed,
    /// An active message has come in.
    Message(*mut Message),
    /// A question has come in; and what destroys it.
    Question(*mut c_void, unsafe fn(*mut c_void)),
}

impl Happened {
    /// It is the slot that tells of it.
    pub(crate) fn is_the_slot(self) -> bool {
        matches!(self, Happened::Message(_) | Happened::Question(..))
    }

    /// Nobody gets it.
    ///
    /// # Safety
    /// What it names is the caller's, and is not used afterwards.
    pub(crate) unsafe fn drop_unseen(self) {
        match self {
            Happened::Operation | Happened::EndpointClosed => {}
            // SAFETY: as for this function.
            Happened::ConnRequest(request) => unsafe { Arc::from_raw(request) }.destroy(),
            // SAFETY: as above.
            Happened::Message(message) => unsafe { message::destroy(message) },
            // SAFETY: as above.
            Happened::Question(question, destroy) => unsafe { destroy(question) },
        }
    }
}

/// Where events go, and what they are told apart by.
#[derive(Clone)]
pub struct Target {
    core: Arc<Core>,
    user_data: *mut c_void,
}

impl Target {
    /// Of a notifier that was checked.
    pub(crate) fn new(notifier: &Notifier, user_data: *mut c_void) -> Self {
        Target { core: notifier.core().clone(), user_data }
    }

    /// Hands over a message or a question. False: it is still the caller's.
    ///
    /// # Safety
    /// The caller has the slot, and does not use it again when this is true.
    pub(crate) unsafe fn report_slot(&self, slot: *const Slot, happened: Happened) -> bool {
        // SAFETY: as for this function.
        let slot = unsafe { &*slot };
        slot.callback_arg.set(self.user_data);
        slot.part.set(Part::Event(happened));
        // SAFETY: in no list while it is a message in somebody's hands.
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
    // SAFETY: the message is the handler's.
    unsafe {
        if !target.report_slot(message.cast(), Happened::Message(message)) {
            message::destroy(message);
        }
    }
}

/// `DestroyArg` of a target.
unsafe extern "C" fn free_target(target: *mut c_void) {
    // SAFETY: made by `registered`; once.
    drop(unsafe { Box::from_raw(target.cast::<Target>()) });
}

/// Registers a handler that has a target of its own.
pub(crate) fn registered(
    target: Target,
    register: impl FnOnce(*mut c_void, Option<DestroyArg>) -> Result<()>,
) -> Result<()> {
    let arg = Box::into_raw(Box::new(target)).cast();
    register(arg, Some(free_target)).inspect_err(|_| {
        // SAFETY: not registered, and so not destroyed.
        unsafe { free_target(arg) };
    })
}

impl SharedWorker {
    /// Has active messages with this id handed out by a notifier from now on, or dropped.
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
    /// Reports a request. False: it is nobody's.
    pub(crate) fn report_request(&self, target: &Target, request: &Arc<ConnRequest>) -> bool {
        let lent = Arc::into_raw(request.clone());
        let reported = self.report_event(target, Happened::ConnRequest(lent), Status::OK);
        if !reported {
            // SAFETY: the reference that was made for the report.
            drop(unsafe { Arc::from_raw(lent) });
        }
        reported
    }

    /// Reports what no slot stands for. False where the notifier has been destroyed.
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
