//! What a rendezvous over TCP needs of sockets beyond Rust's standard library: waiting for many at
//! once, a long queue of connections, and how many there can be.

use crate::engine::base::clock;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::retry_on_intr;
use rustix::process::{getrlimit, Resource};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

/// Connections that the kernel keeps until they are accepted; it may have a limit of its own
/// (net.core.somaxconn).
const QUEUE: libc::c_int = 4096;

/// One socket to wait for.
pub(crate) fn entry(socket: &impl AsFd, read: bool, write: bool) -> PollFd<'_> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, read);
    events.set(PollFlags::OUT, write);
    PollFd::new(socket, events)
}

/// Can something be done with it, since `wait`?
pub(crate) fn is_ready(entry: &PollFd<'_>) -> bool {
    !entry.revents().is_empty()
}

/// Waits until something can be done with one of them, or until the deadline; `u64::MAX` is never.
pub(crate) fn wait(entries: &mut [PollFd<'_>], deadline: u64) -> io::Result<()> {
    let poll = || poll(entries, clock::remaining(deadline).map(clock::timespec).as_ref());
    Ok(retry_on_intr(poll).map(drop)?)
}

/// A socket that listens there, and does not block.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    // With SO_REUSEADDR and close-on-exec, as the standard library has it.
    let listener = TcpListener::bind(address)?;
    // It listens already: this changes the length of its queue.
    let _ = SockRef::from(&listener).listen(QUEUE);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Was there no descriptor, or no memory, for a further socket?
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
