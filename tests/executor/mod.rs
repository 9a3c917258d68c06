//! An executor for the tests of the Rust interface.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use ucxx_rs::{Error, Status};

/// An executor for one future. It waits `pause` before each poll.
pub(crate) fn run_slowly<T>(pause: Duration, future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    #[allow(clippy::disallowed_methods)] // A test has no thread whose storage is gone.
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        thread::sleep(pause);
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    run_slowly(Duration::ZERO, future)
}

/// The next of a stream.
pub(crate) async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

pub(crate) fn status<T>(result: Result<T, Error>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::OK)
}
