//! What callbacks bring, and who waits for it: tasks by their wakers, threads by a condition
//! variable.

use crate::api::calling;
use crate::api::worker::Worker;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// A queue between callbacks and those who wait.
pub(crate) struct Mailbox<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

struct Inner<T> {
    queue: VecDeque<T>,
    wakers: Vec<Waker>,
    closed: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        let inner = Inner { queue: VecDeque::new(), wakers: Vec::new(), closed: false };
        Mailbox { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    /// Adds one. Returns it if nobody takes it any more.
    pub(crate) fn push(&self, one: T) -> Option<T> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Some(one);
        }
        inner.queue.push_back(one);
        self.tell(inner);
        None
    }

    /// Nothing more is taken. Returns what was left.
    pub(crate) fn close(&self) -> VecDeque<T> {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let left = std::mem::take(&mut inner.queue);
        self.tell(inner);
        left
    }

    fn has_news(&self) -> bool {
        let inner = self.inner.lock();
        inner.closed || !inner.queue.is_empty()
    }

    /// Wakes everybody, outside the lock: wakers are user code.
    fn tell(&self, mut inner: MutexGuard<'_, Inner<T>>) {
        let wakers = std::mem::take(&mut inner.wakers);
        self.changed.notify_all();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// None after the end.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = self.inner.lock();
        if let Some(one) = inner.queue.pop_front() {
            return Poll::Ready(Some(one));
        }
        if inner.closed {
            return Poll::Ready(None);
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits on this thread. It makes the progress of the worker if no thread does.
    pub(crate) fn wait(&self, worker: &Worker) -> Result<Option<T>> {
        loop {
            let mut inner = self.inner.lock();
            if let Some(one) = inner.queue.pop_front() {
                return Ok(Some(one));
            }
            if inner.closed {
                return Ok(None);
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
    inner: Mutex<(Option<Status>, Vec<Waker>)>,
}

impl Once {
    pub(crate) fn new() -> Self {
        Once { inner: Mutex::new((None, Vec::new())) }
    }

    pub(crate) fn happen(&self, status: Status) {
        let mut inner = self.inner.lock();
        inner.0 = Some(status);
        let wakers = std::mem::take(&mut inner.1);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Status> {
        let mut inner = self.inner.lock();
        if let Some(status) = inner.0 {
            return Poll::Ready(status);
        }
        if !inner.1.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.1.push(context.waker().clone());
        }
        Poll::Pending
    }
}
