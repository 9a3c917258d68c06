//! Fetch: a question, and data as its reply.

use crate::api::calling;
use crate::api::endpoint::Endpoint;
use crate::api::mailbox::Mailbox;
use crate::api::message::{guarded, part, Handler};
use crate::api::opaque;
use crate::api::request::{Keep, Request};
use crate::api::worker::Worker;
use crate::engine::base::status::{Result, Status};
use crate::engine::messaging::fetch::reply::{self, FetchTo};
use crate::engine::messaging::fetch::request::Room;
use futures_core::Stream;
use std::ffi::c_void;
use std::future::poll_fn;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A question of a peer, which waits for its reply. Dropping it rejects it with `CANCELED`.
///
/// It may be kept, and answered later and on any thread.
pub struct Fetch {
    raw: NonNull<reply::Fetch>,
    worker: Worker,
}

// SAFETY: from the handler on, the question belongs to its user, who may use it on any thread.
unsafe impl Send for Fetch {}
// SAFETY: with a shared reference it is only read.
unsafe impl Sync for Fetch {}

/// The questions with one id, in the order of their arrival: see [`Worker::fetches`].
pub struct Fetches {
    waiting: Arc<Mailbox<Fetch>>,
    worker: Worker,
    id: u16,
}

unsafe extern "C" fn on_fetch<F: Fn(Fetch)>(arg: *mut c_void, raw: *mut reply::Fetch) {
    // SAFETY: the handler is kept while it runs.
    let handler = unsafe { &*arg.cast::<Handler<F>>() };
    match (handler.worker.upgrade(), NonNull::new(raw)) {
        (Some(worker), Some(raw)) => {
            let fetch = Fetch { raw, worker };
            guarded(|| (handler.function)(fetch));
        }
        // The worker is ending: nobody can have the question any more.
        // SAFETY: the question belongs to this call, and is not used again.
        _ => unsafe { reply::destroy(raw) },
    }
}

impl Worker {
    /// Calls the handler for each question with this id. Replaces an earlier handler of this id.
    ///
    /// What is said of [`on_message`](Self::on_message) holds here as well. Questions of a handler
    /// that panics are rejected.
    ///
    /// ```
    /// # use ucxx_rs::{Context, Worker};
    /// # let context = Context::builder().local().build()?;
    /// # let (server, client) = (Worker::new(&context)?, Worker::new(&context)?);
    /// server.on_fetch(1, |fetch| {
    ///     let reply = fetch.header().to_ascii_uppercase();
    ///     fetch.reply(reply).detach();
    /// })?;
    /// let endpoint = client.connect_to(&server.address()?)?;
    /// let (length, reply) = endpoint.fetch(1, b"shout", [0; 16]).wait();
    /// assert_eq!(&reply[..length?], b"SHOUT");
    /// # Ok::<(), ucxx_rs::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `BUSY` from a handler of another worker.
    pub fn on_fetch(&self, id: u16, handler: impl Fn(Fetch) + Send + Sync + 'static) -> Result<()> {
        self.set_fetch_handler(id, handler, false)
    }

    fn set_fetch_handler<F: Fn(Fetch) + Send + Sync + 'static>(
        &self,
        id: u16,
        handler: F,
        keeps_credit: bool,
    ) -> Result<()> {
        let arg = Handler::raw(self, handler);
        let destroy = Handler::<F>::destroy;
        let to = FetchTo { function: on_fetch::<F>, keeps_credit };
        let set = calling(|| self.shared().set_fetch_handler(id, Some(to), arg, Some(destroy)));
        set.inspect_err(|_| {
            // SAFETY: from `raw`, and not registered.
            unsafe { destroy(arg) };
        })
    }

    /// Removes the handler of an id. Questions without a handler fail with `NO_ELEM`.
    ///
    /// # Errors
    ///
    /// As [`on_fetch`](Self::on_fetch).
    pub fn remove_fetch_handler(&self, id: u16) -> Result<()> {
        calling(|| self.shared().set_fetch_handler(id, None, std::ptr::null_mut(), None))
    }

    /// The questions with this id, as a [`Stream`]. Replaces an earlier handler of this id, and is
    /// removed when it is dropped.
    ///
    /// # Errors
    ///
    /// As [`on_fetch`](Self::on_fetch).
    pub fn fetches(&self, id: u16) -> Result<Fetches> {
        let waiting = Arc::new(Mailbox::new());
        let mailbox = Arc::downgrade(&waiting);
        let push = move |fetch| {
            if let Some(waiting) = mailbox.upgrade() {
                drop(waiting.push(fetch));
            }
        };
        self.set_fetch_handler(id, push, true)?;
        Ok(Fetches { waiting, worker: self.clone(), id })
    }
}

impl Endpoint {
    /// Asks the peer's handler for this id, and receives its reply into the buffer. Returns the
    /// reply's length. The header is copied.
    ///
    /// # Errors
    ///
    /// `MESSAGE_TRUNCATED` if the reply is longer than the buffer; `NO_ELEM` if the peer has no
    /// handler; the status by which the peer has rejected it.
    pub fn fetch<B: AsMut<[u8]> + Send + 'static>(
        &self,
        id: u16,
        header: &[u8],
        buffer: B,
    ) -> Request<B, usize> {
        Request::submit(buffer, self.keep(), |buffer, params, out, _| {
            let bytes = buffer.as_mut();
            let part = [part(bytes.as_mut_ptr(), bytes.len())];
            // SAFETY: the buffer and `recv_info` stay there until the operation has completed: see
            // `request.rs`.
            unsafe { self.shared().fetch(id, header, Room::Parts(&part), params, out) }
        })
    }
}

impl Fetch {
    fn raw(&self) -> &reply::Fetch {
        // SAFETY: it belongs to this value until that is dropped.
        unsafe { self.raw.as_ref() }
    }

    /// The question.
    pub fn header(&self) -> &[u8] {
        self.raw().message().header()
    }

    /// Bytes of reply that the peer has room for. `usize::MAX` if it has no limit.
    pub fn capacity(&self) -> usize {
        usize::try_from(self.raw().capacity()).unwrap_or(usize::MAX)
    }

    /// Replies. It ends when the buffer may be used again. The peer fails with `MESSAGE_TRUNCATED`
    /// if the reply is longer than its buffer.
    pub fn reply<B: AsRef<[u8]> + Send + 'static>(self, buffer: B) -> Request<B> {
        Request::submit(buffer, Keep::Worker(self.worker.clone()), |buffer, params, out, _| {
            let bytes = (*buffer).as_ref();
            let part = [part(bytes.as_ptr(), bytes.len())];
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            // A reply that was started does not need the question any more.
            unsafe { self.raw().reply(&part, params, out) }
        })
    }

    /// Rejects the question: `NO_ELEM`, `REJECTED`, `BUSY`, `CANCELED`, or a status of your own,
    /// [`Status::APPLICATION`] or below.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` for any other status; the end of the connection.
    pub fn reject(self, status: Status) -> Result<()> {
        self.raw().reject(status)
    }

    /// The worker that has received it.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // SAFETY: it belongs to this value, and is not used again.
        unsafe { reply::destroy(self.raw.as_ptr()) };
    }
}

impl Fetches {
    /// The next question.
    pub async fn next(&self) -> Fetch {
        poll_fn(|context| self.waiting.poll(context)).await
    }

    /// The next question, waited for on this thread.
    ///
    /// # Errors
    ///
    /// `BUSY` from a handler.
    pub fn next_wait(&self) -> Result<Fetch> {
        self.waiting.wait(&self.worker)
    }
}

impl Stream for Fetches {
    type Item = Fetch;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Fetch>> {
        self.waiting.poll(context).map(Some)
    }
}

impl Drop for Fetches {
    fn drop(&mut self) {
        let _ = self.worker.remove_fetch_handler(self.id);
    }
}

opaque! { Fetch Fetches }
