//! What callbacks bring, and who waits for it: tasks by their wakers, threads by a condition
//! variable.

use crate::api::calling;
use crate::api::worker::Worker;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// A queue between callbacks and those who wait.
pub(crate) struct Mailbox<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

struct Inner<T> {
    queue: VecDeque<T>,
    wakers: Wakers,
    closed: bool,
}

/// Tasks that wait.
#[derive(Default)]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) fn add(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    /// Takes them out of their lock. They are user code, so they are woken outside of it.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        let inner = Inner { queue: VecDeque::new(), wakers: Wakers::default(), closed: false };
        Mailbox { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Adds one. Returns it if nobody takes it any more.
    pub(crate) fn push(&self, one: T) -> Option<T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Some(one);
        }
        inner.queue.push_back(one);
        let wakers = inner.wakers.take();
        self.changed.notify_all();
        drop(inner);
        wakers.wake();
        None
    }

    /// Nothing more is taken. Only the owner's end calls it, so nobody waits then. Returns what was
    /// left.
    pub(crate) fn close(&self) -> VecDeque<T> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        std::mem::take(&mut inner.queue)
    }

    fn has_news(&self) -> bool {
        !self.inner.lock().queue.is_empty()
    }

    /// The next one.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut inner = self.inner.lock();
        if let Some(one) = inner.queue.pop_front() {
            return Poll::Ready(one);
        }
        inner.wakers.add(context);
        Poll::Pending
    }

    /// Waits on this thread. It makes the progress of the worker if no thread does.
    pub(crate) fn wait(&self, worker: &Worker) -> Result<T> {
        loop {
            let mut inner = self.inner.lock();
            if let Some(one) = inner.queue.pop_front() {
                return Ok(one);
            }
            if deferred::in_callback() {
                return Err(Error::new(Status::BUSY, "a callback or a handler may not wait"));
            }
            if worker.shared().has_progress_thread() {
                self.changed.wait(&mut inner);
            } else {
                drop(inner);
                // Not one pass: another thread may make the pass that brings it.
                calling(|| worker.shared().drive(&|| self.has_news(), u64::MAX))?;
            }
        }
    }
}

/// Something that happens once, and that many may wait for.
pub(crate) struct Once {
    inner: Mutex<(Option<Status>, Wakers)>,
}

impl Once {
    pub(crate) fn new() -> Self {
        Once { inner: Mutex::default() }
    }

    pub(crate) fn happen(&self, status: Status) {
        let mut inner = self.inner.lock();
        inner.0 = Some(status);
        let wakers = inner.1.take();
        drop(inner);
        wakers.wake();
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Status> {
        let mut inner = self.inner.lock();
        if let Some(status) = inner.0 {
            return Poll::Ready(status);
        }
        inner.1.add(context);
        Poll::Pending
    }
}
