//! Connections of a listener's that have not asked for anything yet.
//!
//! UCX takes in whoever connects to the port, and hears what he wants when it comes. Who says nothing keeps his connection when the listener goes, and UCX calls back through the one
//! that has gone once he speaks: up to UCX 1.22 anybody who reaches the port can end the process by that. UCX has no list of them; the process's descriptors have.

use super::socket_address;
use std::collections::HashSet;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// See the module.
pub(crate) struct Sockets {
    /// Other addresses of the machine may have listeners of others with the same port.
    address: SocketAddr,
    /// Sockets with that address at this end that there were before the listener, by inode: none of them is the listener's.
    older: HashSet<u64>,
}

/// The process's sockets, by inode, which each keeps for its life.
pub(crate) fn all() -> HashSet<u64> {
    numbers().filter_map(inode).collect()
}

impl Sockets {
    /// Of a listener at this address; `before` are all that there were when it was made.
    pub(crate) fn new(address: SocketAddr, before: HashSet<u64>) -> Self {
        let there = connected(address).into_iter().map(|(inode, ..)| inode);
        Sockets { address, older: there.filter(|inode| before.contains(inode)).collect() }
    }

    /// Ends the connections that have come since from somebody else than those. How many there were: UCX lets go of them in its
    /// own time.
    pub(crate) fn cut(&self, asked: &HashSet<SocketAddr>) -> usize {
        let mut silent = connected(self.address);
        silent.retain(|(inode, _, peer)| !self.older.contains(inode) && !asked.contains(peer));
        for (_, connection, _) in &silent {
            // Fails where it is over.
            let _ = connection.shutdown(Shutdown::Both);
        }
        silent.len()
    }
}

/// The process's descriptors.
fn numbers() -> impl Iterator<Item = RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// If it is a socket. What the link says is the kernel's own: no file system is asked, which might not answer.
fn inode(number: RawFd) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inode, connection and peer of each that has this address here. Descriptors of its own: other threads may close theirs at any moment, and have another file under the
/// same number.
fn connected(address: SocketAddr) -> Vec<(u64, TcpStream, SocketAddr)> {
    let connection = |number| {
        let known = inode(number)?;
        if !is_tcp_at(number, address) {
            return None;
        }
        // SAFETY: a number of no descriptor is refused.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return None;
        }
        // SAFETY: just made, nobody else's.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        let is_same = inode(copy.as_raw_fd()) == Some(known);
        let connection = TcpStream::from(copy);
        // None where it listens.
        let peer = connection.peer_addr().ok()?;
        is_same.then_some((known, connection, peer))
    };
    numbers().filter_map(connection).collect()
}

/// Of a number that may be another file's at any moment: only asked.
fn is_tcp_at(number: RawFd, address: SocketAddr) -> bool {
    let mut protocol = 0;
    let mut length = size_of_val(&protocol) as libc::socklen_t;
    // SAFETY: an integer and its size.
    let asked = unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PROTOCOL, (&raw mut protocol).cast(), &raw mut length)
    };
    if asked != 0 || protocol != libc::IPPROTO_TCP {
        return false;
    }
    // SAFETY: all-zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&storage) as libc::socklen_t;
    // SAFETY: room for every kind of address, and its size.
    let asked = unsafe { libc::getsockname(number, (&raw mut storage).cast(), &raw mut length) };
    let here = socket_address::from_storage(&storage).filter(|_| asked == 0);
    here.is_some_and(|here| {
        here.port() == address.port() && (address.ip().is_unspecified() || here.ip() == address.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;

    #[test]
    fn only_those_that_came_since_and_have_not_asked_are_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let (older, _older_end) = connect();
        let sockets = Sockets::new(address, all());
        let (asked, (_asked_end, asked_from)) = connect();
        let (silent, _silent_end) = connect();
        let known = HashSet::from([asked_from]);
        assert_eq!(sockets.cut(&known), 1);
        for (mut stays, over) in [(&older, false), (&asked, false), (&silent, true)] {
            stays.set_nonblocking(true).unwrap();
            let read = stays.read(&mut [0]);
            assert!(if over { matches!(read, Ok(0)) } else { read.unwrap_err().kind() == ErrorKind::WouldBlock });
        }
        drop(_silent_end);
        assert_eq!(sockets.cut(&known), 0);
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], address.port()));
        assert_eq!(Sockets::new(address, HashSet::new()).older.len(), 0, "who came while it was made");
        assert_eq!(Sockets::new(elsewhere, all()).older.len(), 0, "of another address");
        assert_eq!(Sockets::new(SocketAddr::from(([0; 4], address.port())), all()).older.len(), 2, "of every address");
    }
}
