//! Socket functions that Rust's standard library lacks: polling many sockets, a long listen queue,
//! and limits.

use crate::engine::base::clock;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::retry_on_intr;
use rustix::process::{getrlimit, Resource};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

/// Length of the listen queue. The kernel may limit it further (net.core.somaxconn).
const QUEUE: libc::c_int = 4096;

/// An entry for `wait`.
pub(crate) fn entry(socket: &impl AsFd, read: bool, write: bool) -> PollFd<'_> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, read);
    events.set(PollFlags::OUT, write);
    PollFd::new(socket, events)
}

/// Was the socket ready in the last `wait`?
pub(crate) fn is_ready(entry: &PollFd<'_>) -> bool {
    !entry.revents().is_empty()
}

/// Waits until a socket is ready or the deadline has passed; `u64::MAX` for no deadline.
pub(crate) fn wait(entries: &mut [PollFd<'_>], deadline: u64) -> io::Result<()> {
    let poll = || poll(entries, clock::remaining(deadline).map(clock::timespec).as_ref());
    Ok(retry_on_intr(poll).map(drop)?)
}

/// A nonblocking socket that listens at `address`.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    // The standard library sets SO_REUSEADDR and close-on-exec.
    let listener = TcpListener::bind(address)?;
    // It listens already; this changes the length of the queue.
    let _ = SockRef::from(&listener).listen(QUEUE);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Limit of this process's open descriptors.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Did the kernel lack a descriptor or memory for another socket?
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
