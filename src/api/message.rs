//! Active messages.

use crate::api::calling;
use crate::api::endpoint::Endpoint;
use crate::api::mailbox::Mailbox;
use crate::api::opaque;
use crate::api::request::{Keep, Request, WAITS};
use crate::api::worker::{WeakWorker, Worker};
use crate::engine::base::status::Result;
use crate::engine::core::channel::message;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::ucx::memory_type;
use futures_core::Stream;
use std::ffi::c_void;
use std::future::poll_fn;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An active message that was received.
///
/// It belongs to whoever has it: keep it, send it to another thread, answer later. Dropping it
/// returns the sender's credit, so a receiver that keeps its messages slows their senders down.
pub struct Message {
    raw: NonNull<message::Message>,
    worker: Worker,
}

// SAFETY: from the handler on, the message belongs to its user, who may use it on any thread.
unsafe impl Send for Message {}
// SAFETY: with a shared reference it is only read. What changes it takes the message itself.
unsafe impl Sync for Message {}

/// The active messages with one id, in the order of their arrival: see [`Worker::messages`].
pub struct Messages {
    waiting: Arc<Mailbox<Message>>,
    worker: Worker,
    id: u16,
}

/// A handler, as the engine keeps it.
pub(crate) struct Handler<F> {
    pub(crate) function: F,
    pub(crate) worker: WeakWorker,
}

impl<F> Handler<F> {
    pub(crate) fn raw(worker: &Worker, function: F) -> *mut c_void {
        Box::into_raw(Box::new(Handler { function, worker: worker.downgrade() })).cast()
    }

    /// `destroy_arg`: the handler was removed and does not run.
    pub(crate) unsafe extern "C" fn destroy(arg: *mut c_void) {
        // SAFETY: from `raw`; called once.
        drop(unsafe { Box::from_raw(arg.cast::<Self>()) });
    }
}

/// Calls a handler. A panic has been reported by the panic hook, and concerns this message alone.
pub(crate) fn guarded(f: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(f));
}

/// The one part of a message.
pub(crate) fn part(data: *const u8, length: usize) -> Part {
    Part { data: data.cast_mut().cast(), length, memory_type: memory_type::HOST }
}

unsafe extern "C" fn on_message<F: Fn(Message)>(arg: *mut c_void, raw: *mut message::Message) {
    // SAFETY: the handler is kept while it runs.
    let handler = unsafe { &*arg.cast::<Handler<F>>() };
    match (handler.worker.upgrade(), NonNull::new(raw)) {
        (Some(worker), Some(raw)) => {
            let message = Message { raw, worker };
            guarded(|| (handler.function)(message));
        }
        // The worker is ending: nobody can have the message any more.
        // SAFETY: the message belongs to this call, and is not used again.
        _ => unsafe { message::destroy(raw) },
    }
}

impl Worker {
    /// Calls the handler for each active message with this id, in the order in which each peer has
    /// sent them. Replaces an earlier handler of this id.
    ///
    /// It runs on the thread that makes progress, and must not block: calls that wait return `BUSY`
    /// there. If it panics, the panic ends at the handler. It must not own the worker, or the
    /// worker never ends: [`Message::worker`] and [`Worker::downgrade`].
    ///
    /// # Errors
    ///
    /// `BUSY` from a handler of another worker.
    pub fn on_message(
        &self,
        id: u16,
        handler: impl Fn(Message) + Send + Sync + 'static,
    ) -> Result<()> {
        self.set_message_handler(id, handler)
    }

    fn set_message_handler<F: Fn(Message) + Send + Sync + 'static>(
        &self,
        id: u16,
        handler: F,
    ) -> Result<()> {
        let arg = Handler::raw(self, handler);
        let destroy = Handler::<F>::destroy;
        let set =
            calling(|| self.shared().set_am_handler(id, Some(on_message::<F>), arg, Some(destroy)));
        set.inspect_err(|_| {
            // SAFETY: from `raw`, and not registered.
            unsafe { destroy(arg) };
        })
    }

    /// Removes the handler of an id. Messages without a handler are dropped; the sends of large
    /// ones fail with `NO_ELEM`.
    ///
    /// # Errors
    ///
    /// As [`on_message`](Self::on_message).
    pub fn remove_message_handler(&self, id: u16) -> Result<()> {
        calling(|| self.shared().set_am_handler(id, None, std::ptr::null_mut(), None))
    }

    /// The active messages with this id, as a [`Stream`]. Replaces an earlier handler of this id,
    /// and is removed when it is dropped.
    ///
    /// Messages that nobody takes are kept, and hold their senders' credit.
    ///
    /// # Errors
    ///
    /// As [`on_message`](Self::on_message).
    pub fn messages(&self, id: u16) -> Result<Messages> {
        let waiting = Arc::new(Mailbox::new());
        let mailbox = Arc::downgrade(&waiting);
        self.set_message_handler(id, move |message| {
            if let Some(waiting) = mailbox.upgrade() {
                drop(waiting.push(message));
            }
        })?;
        Ok(Messages { waiting, worker: self.clone(), id })
    }
}

impl Endpoint {
    /// Sends an active message: a header, which is copied, and a buffer. The peer's handler for the
    /// id gets both. It ends when the buffer may be used again.
    ///
    /// # Errors
    ///
    /// As [`tag_send`](Self::tag_send); `INVALID_PARAM` if the header is too long: some kilobytes
    /// always fit; `NO_ELEM` for a large message if the peer has no handler.
    pub fn am_send<B: AsRef<[u8]> + Send + 'static>(
        &self,
        id: u16,
        header: &[u8],
        buffer: B,
    ) -> Request<B> {
        Request::submit(buffer, self.keep(), |buffer, params, out, _| {
            let bytes = (*buffer).as_ref();
            let part = [part(bytes.as_ptr(), bytes.len())];
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            unsafe { self.shared().am_send(id, header, &part, params, out) }
        })
    }

    /// As [`am_send`](Self::am_send), on this thread.
    ///
    /// # Errors
    ///
    /// As [`am_send`](Self::am_send); `BUSY` from a handler.
    pub fn am_send_wait(&self, id: u16, header: &[u8], buffer: &[u8]) -> Result<()> {
        let part = [part(buffer.as_ptr(), buffer.len())];
        // SAFETY: the call returns when the operation has completed, so the buffer is borrowed for
        // as long as it is used.
        calling(|| unsafe { self.shared().am_send(id, header, &part, &WAITS, Out::NOWHERE) })
            .map(drop)
    }
}

impl Message {
    fn raw(&self) -> &message::Message {
        // SAFETY: it belongs to this value until that is dropped.
        unsafe { self.raw.as_ref() }
    }

    /// The sender's header.
    pub fn header(&self) -> &[u8] {
        self.raw().header()
    }

    /// Bytes of data.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.raw().length() as usize
    }

    /// The data, if it arrived with the message. Nothing if it is a large message, whose data waits
    /// at its sender: [`receive`](Self::receive) it.
    pub fn data(&self) -> Option<&[u8]> {
        if self.len() == 0 {
            return Some(&[]);
        }
        let data = self.raw().data();
        // SAFETY: the message's memory, which only its release and the end of the worker take away.
        // This value holds both.
        (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data.cast(), self.len()) })
    }

    /// Receives the data into a buffer, wherever it is. Returns its length.
    ///
    /// # Errors
    ///
    /// `MESSAGE_TRUNCATED` if the buffer is too short; `CONNECTION_RESET` if the data waits at a
    /// sender that is gone.
    pub fn receive<B: AsMut<[u8]> + Send + 'static>(self, buffer: B) -> Request<B, usize> {
        let raw = self.raw;
        Request::submit(buffer, Keep::Message(self), |buffer, params, out, _| {
            let bytes = buffer.as_mut();
            let part = [part(bytes.as_mut_ptr(), bytes.len())];
            // SAFETY: the message and the buffer stay there until the operation has completed: see
            // `request.rs`.
            unsafe { raw.as_ref().receive(&part, params, out) }
        })
    }

    /// The worker that has received it.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: it belongs to this value, and is not used again.
        unsafe { message::destroy(self.raw.as_ptr()) };
    }
}

impl Messages {
    /// The next message.
    pub async fn next(&self) -> Message {
        poll_fn(|context| self.waiting.poll(context)).await
    }

    /// The next message, waited for on this thread.
    ///
    /// # Errors
    ///
    /// `BUSY` from a handler.
    pub fn next_wait(&self) -> Result<Message> {
        self.waiting.wait(&self.worker)
    }
}

impl Stream for Messages {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.waiting.poll(context).map(Some)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        let _ = self.worker.remove_message_handler(self.id);
    }
}

opaque! { Message Messages }
