//! What a rendezvous over TCP needs of sockets beyond Rust's standard library: waiting for many at
//! once, a long queue of connections, and how many there can be.

use crate::engine::base::clock;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;

/// Connections that the kernel keeps until they are accepted; it may have a limit of its own
/// (net.core.somaxconn).
const QUEUE: libc::c_int = 4096;

/// One socket to wait for.
pub(crate) fn entry(socket: &impl AsRawFd, read: bool, write: bool) -> libc::pollfd {
    let events = if read { libc::POLLIN } else { 0 } | if write { libc::POLLOUT } else { 0 };
    libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 }
}

/// Waits until something can be done with one of them, or until the deadline; `u64::MAX` is never.
/// What can be done is in `revents`.
pub(crate) fn wait(entries: &mut [libc::pollfd], deadline: u64) -> io::Result<()> {
    loop {
        let timeout = match clock::remaining(deadline) {
            // Rounded up: else it would spin through the last millisecond.
            Some(left) => left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as libc::c_int,
            None => -1,
        };
        // SAFETY: valid entries, as many as is said.
        let found =
            unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
        if found >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
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
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid out-pointer.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Was there no descriptor, or no memory, for a further socket?
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
