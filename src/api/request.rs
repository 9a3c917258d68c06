//! Operations as futures.
//!
//! # Where a buffer lives
//!
//! An operation owns its buffer. `State` holds it, and two references hold the state: that of the
//! `Request`, and that of the engine, which the completion callback gives back. So the buffer stays
//! where it is until UCX no longer uses it, whatever becomes of the future: polled, dropped, or
//! forgotten. This is the promise to each `unsafe` function of the engine that is called in
//! `submit`.
//!
//! The state holds no worker and no endpoint, which the request does: if it is dropped, and its
//! operation cannot be cancelled, the end of the worker still ends it.
//!
//! A buffer is anything that is `AsRef<[u8]>` or `AsMut<[u8]>`. It is put into its place first, and
//! lends its bytes from there until the operation has ended. So it needs no stable address of its
//! own, and the traits need not be `unsafe`: a slice that was borrowed from a value is valid while
//! that value is neither moved nor used otherwise.
//!
//! # Publication
//!
//! The stage is behind a lock, which publishes the buffer and `info` to whoever finds `Ended`.
//! Before, UCX uses the buffer; afterwards, only the `Request` does.

use crate::api::endpoint::Endpoint;
use crate::api::hub::LinkInner;
use crate::api::memory::{Memory, Remote};
use crate::api::message::Message;
use crate::api::opaque;
use crate::api::worker::Worker;
use crate::api::{calling, nanoseconds};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, RecvInfo, Submitted};
use crate::engine::core::request::request::{self, Slot};
use crate::engine::ucx::memory_type;
use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What a request keeps alive: it is only dropped.
#[allow(dead_code)]
pub(crate) enum Keep {
    Worker(Worker),
    Endpoint(Endpoint),
    Message(Message),
    Remote(Remote),
    /// Memory of this process that peers of this process may still be writing to. Only the success
    /// of the operation shows that they are not; it is never freed otherwise.
    Written(Memory),
    Link(Arc<LinkInner>, Option<Endpoint>),
}

enum Stage {
    Running(Option<Waker>),
    Ended(Result<()>),
    /// The future has returned its output.
    Taken,
}

/// See the head of this file.
struct State<B> {
    stage: Mutex<Stage>,
    buffer: UnsafeCell<Option<B>>,
    info: UnsafeCell<RecvInfo>,
    /// Of `Keep::Written`.
    written: Option<Memory>,
}

// SAFETY: the buffer moves between threads, as `B: Send` allows, and is never used by two at once:
// see the head of this file. `info` is plain numbers, under the same rule.
unsafe impl<B: Send> Send for State<B> {}
// SAFETY: for the reason given at `Send`.
unsafe impl<B: Send> Sync for State<B> {}

impl<B> State<B> {
    fn end(&self, result: Result<()>) {
        if result.is_err() {
            mem::forget(self.written.clone());
        }
        let before = mem::replace(&mut *self.stage.lock(), Stage::Ended(result));
        if let Stage::Running(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// Runs once, after the operation has ended, if it has not ended inside its call.
unsafe extern "C" fn ended<B>(arg: *mut c_void, slot: *mut Slot, status: i32) {
    // SAFETY: the reference that `submit` gave to the engine.
    let state = unsafe { Arc::from_raw(arg.cast::<State<B>>()) };
    let status = Status(status);
    state.end(if status.is_error() {
        // SAFETY: the engine holds the request while its callback runs. Null if it was released:
        // then nobody will read the text.
        let text = unsafe { slot.as_ref() }
            .map_or_else(String::new, |slot| slot.error_message().to_string_lossy().into_owned());
        Err(Error::new(status, text))
    } else {
        Ok(())
    });
}

/// The engine's request, which the caller holds.
struct Held(NonNull<Slot>);

// SAFETY: requests may be cancelled, waited for and released on any thread.
unsafe impl Send for Held {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for Held {}

impl Held {
    fn slot(&self) -> &Slot {
        // SAFETY: held until this is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the request is held, and not used again.
        unsafe { request::destroy(self.0.as_ptr()) };
    }
}

/// What a request returns on success.
mod outcome {
    use crate::engine::core::request::operation::RecvInfo;

    pub trait Outcome {
        /// The engine reports length and tag of what was received.
        const RECEIVES: bool = true;
        fn of(info: RecvInfo) -> Self;
    }
}
pub(crate) use outcome::Outcome;

impl Outcome for () {
    const RECEIVES: bool = false;
    fn of(_: RecvInfo) {}
}

impl Outcome for usize {
    fn of(info: RecvInfo) -> Self {
        info.length as usize
    }
}

/// What a receive has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Received {
    /// Bytes of the message.
    pub length: usize,
    /// The tag that it was sent with.
    pub tag: u64,
}

impl Outcome for Received {
    fn of(info: RecvInfo) -> Self {
        Received { length: info.length as usize, tag: info.sender_tag }
    }
}

/// An operation with a buffer, as a future.
///
/// The operation starts when it is called, not when it is first polled: two sends keep their order,
/// whichever is awaited first. Its output is the result, and the buffer.
///
/// - **The buffer** belongs to the operation until it has ended. It comes back with the output,
///   also after an error.
/// - **Dropping** the request asks for the operation to be cancelled. The buffer is freed when UCX
///   no longer uses it, which may be later. A message that was already being received is lost: call
///   [`cancel`](Self::cancel) and await the request to know. [`detach`](Self::detach) drops it
///   without cancelling.
/// - **Executors**: any. The future is woken on the thread that makes progress, and never polls.
/// - **Threads**: it is `Send` if the buffer is.
///
/// ```
/// # use ucxx_rs::{Context, Worker};
/// # let context = Context::builder().local().build()?;
/// # let worker = Worker::new(&context)?;
/// # let endpoint = worker.connect_to(&worker.address()?)?;
/// let receive = worker.tag_recv(vec![0; 16], 7);
/// let (sent, _buffer) = endpoint.tag_send("hello", 7).wait();
/// sent?;
/// let (received, buffer) = receive.wait(); // in async code: receive.await
/// assert_eq!(&buffer[..received?.length], b"hello");
/// # Ok::<(), ucxx_rs::Error>(())
/// ```
#[must_use = "dropping a request cancels its operation; await it, wait for it, or detach it"]
pub struct Request<B, T = ()> {
    state: Arc<State<B>>,
    /// Nothing if it ended inside its call.
    slot: Option<Held>,
    /// Dropped after the two above.
    _keep: Keep,
    result: PhantomData<fn() -> T>,
}

opaque! { Request<B, T> Operation<T> }

impl<B: Send + 'static, T: Outcome> Request<B, T> {
    /// Puts the buffer into its place and starts the operation. `start` may use its arguments in
    /// the operation until it has completed, and calls nothing else with them.
    pub(crate) fn submit(
        buffer: B,
        keep: Keep,
        start: impl FnOnce(&mut B, &OpParams, Out, *mut RecvInfo) -> Result<Submitted>,
    ) -> Self {
        let state = Arc::new(State {
            stage: Mutex::new(Stage::Running(None)),
            buffer: UnsafeCell::new(Some(buffer)),
            info: UnsafeCell::default(),
            written: match &keep {
                Keep::Written(memory) => Some(memory.clone()),
                _ => None,
            },
        });
        let mut slot = std::ptr::null_mut();
        let params = OpParams {
            memory_type: memory_type::HOST,
            callback: Some(ended::<B>),
            callback_arg: Arc::into_raw(state.clone()).cast_mut().cast(),
            recv_info: if T::RECEIVES { state.info.get() } else { std::ptr::null_mut() },
            ..OpParams::DEFAULT
        };
        // SAFETY: nobody else has the state yet.
        let place = unsafe { &mut *state.buffer.get() };
        // SAFETY: the place outlives the call.
        let out = unsafe { Out::new(&raw mut slot) };
        let submitted = match place {
            Some(buffer) => start(buffer, &params, out, state.info.get()),
            None => unreachable!("the buffer was put there"),
        };
        if !matches!(submitted, Ok(Submitted::Pending)) {
            // SAFETY: the engine's reference: its callback will not run.
            drop(unsafe { Arc::from_raw(params.callback_arg.cast::<State<B>>()) });
            state.end(submitted.map(drop));
        }
        let slot = NonNull::new(slot).map(Held);
        Request { state, slot, _keep: keep, result: PhantomData }
    }

    /// Waits on this thread until the operation has ended. With a progress thread it sleeps;
    /// otherwise it makes the worker's progress.
    ///
    /// # Panics
    ///
    /// In a handler or a waker that the library calls, where waiting would never end, and in a
    /// forked child.
    pub fn wait(mut self) -> (Result<T>, B) {
        loop {
            if let Some(output) = self.take() {
                return output;
            }
            if let Err(error) = self.wait_for(u64::MAX) {
                panic!("{error}");
            }
        }
    }

    /// Waits at most this long. Returns whether the operation has ended, which then makes
    /// [`wait`](Self::wait) return at once.
    ///
    /// # Errors
    ///
    /// `BUSY` in a handler or a waker that the library calls; `FORKED` in a forked child.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<bool> {
        self.wait_for(nanoseconds(timeout))?;
        Ok(self.is_done())
    }

    fn wait_for(&self, timeout_ns: u64) -> Result<()> {
        match &self.slot {
            Some(held) if !self.is_done() => calling(|| held.slot().wait(timeout_ns)).map(drop),
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Option<(Result<T>, B)> {
        let mut stage = self.state.stage.lock();
        if let Stage::Running(_) = *stage {
            return None;
        }
        let Stage::Ended(result) = mem::replace(&mut *stage, Stage::Taken) else {
            panic!("a request was polled after it had returned its output");
        };
        drop(stage);
        // SAFETY: the operation has ended, and this is its only request.
        let (buffer, info) = unsafe { ((*self.state.buffer.get()).take(), *self.state.info.get()) };
        let buffer = buffer.expect("taken once, with the stage");
        Some((result.map(|()| T::of(info)), buffer))
    }
}

impl<B, T> Request<B, T> {
    /// Has the operation ended?
    pub fn is_done(&self) -> bool {
        !matches!(*self.state.stage.lock(), Stage::Running(_))
    }

    /// Asks for the operation to end. The request still has to be awaited: it returns `CANCELED`,
    /// or what the operation has achieved before. A transfer that UCX has started may go on.
    pub fn cancel(&self) {
        if let Some(held) = &self.slot {
            // Fails only where the operation ends anyway.
            let _ = calling(|| held.slot().cancel());
        }
    }

    /// Lets the operation go on without its request. Its result is lost, and its buffer is freed
    /// when it has ended. It does not keep the worker or the endpoint open.
    pub fn detach(mut self) {
        self.slot = None;
    }
}

impl<B: Send + 'static, T: Outcome> Future for Request<B, T> {
    type Output = (Result<T>, B);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(output) = self.take() {
            return Poll::Ready(output);
        }
        let mut stage = self.state.stage.lock();
        match &mut *stage {
            Stage::Running(Some(waker)) if waker.will_wake(context.waker()) => {}
            Stage::Running(place) => {
                let before = place.replace(context.waker().clone());
                drop(stage);
                drop(before);
                return Poll::Pending;
            }
            // It has ended in the meantime.
            _ => {
                drop(stage);
                return self.take().map_or(Poll::Pending, Poll::Ready);
            }
        }
        Poll::Pending
    }
}

impl<B, T> Drop for Request<B, T> {
    fn drop(&mut self) {
        if !self.is_done() {
            self.cancel();
        }
    }
}

/// An operation without a buffer, as a future: its output is the result.
///
/// All that is said of [`Request`] holds for it as well.
#[must_use = "dropping an operation cancels it; await it, wait for it, or detach it"]
pub struct Operation<T = ()>(Request<(), T>);

impl<T: Outcome> Operation<T> {
    pub(crate) fn submit(
        keep: Keep,
        start: impl FnOnce(&OpParams, Out, *mut RecvInfo) -> Result<Submitted>,
    ) -> Self {
        Operation(Request::submit((), keep, |(), params, out, info| start(params, out, info)))
    }

    /// As [`Request::wait`].
    pub fn wait(self) -> Result<T> {
        self.0.wait().0
    }

    /// As [`Request::wait_timeout`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<bool> {
        self.0.wait_timeout(timeout)
    }
}

impl<T> Operation<T> {
    /// As [`Request::is_done`].
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// As [`Request::cancel`].
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// As [`Request::detach`].
    pub fn detach(self) {
        self.0.detach();
    }
}

impl<T: Outcome> Future for Operation<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|(result, ())| result)
    }
}

/// The parameters of a call that waits.
pub(crate) const WAITS: OpParams = OpParams {
    flags: crate::engine::core::request::operation::WAITS,
    memory_type: memory_type::HOST,
    ..OpParams::DEFAULT
};
