//! Connections of a listener's that have not asked for anything yet.
//!
//! UCX takes in whoever connects to the port, and hears what he wants when it comes. Who says nothing keeps his connection when the listener goes, and UCX calls back through the one
//! that has gone once he speaks: up to UCX 1.22 anybody who reaches the port can end the process by that. UCX has no list of them; the process's descriptors have.

use std::collections::HashSet;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The process's TCP connections with the listener's address at this end when it began: none of them is the listener's.
pub(crate) struct Sockets {
    /// Other addresses of the machine may have listeners of others with the same port.
    address: SocketAddr,
    /// By inode, which a socket keeps.
    older: HashSet<u64>,
}

impl Sockets {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Sockets { address, older: connected(address).into_iter().map(|(inode, ..)| inode).collect() }
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

/// Inode, connection and peer of each. Descriptors of its own: other threads may close theirs at any moment, and have another file under the same number.
fn connected(address: SocketAddr) -> Vec<(u64, TcpStream, SocketAddr)> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| tcp_connection(number, address)).collect()
}

fn tcp_connection(number: RawFd, address: SocketAddr) -> Option<(u64, TcpStream, SocketAddr)> {
    if !std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?.file_type().is_socket() {
        return None;
    }
    // SAFETY: a number of no descriptor is refused.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return None;
    }
    // SAFETY: just made, nobody else's.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    let inode = std::fs::metadata(format!("/proc/self/fd/{}", copy.as_raw_fd())).ok()?.ino();
    let mut protocol = 0;
    let mut length = size_of_val(&protocol) as libc::socklen_t;
    // SAFETY: an integer and its size.
    let status = unsafe {
        libc::getsockopt(
            copy.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PROTOCOL,
            (&raw mut protocol).cast(),
            &raw mut length,
        )
    };
    if status != 0 || protocol != libc::IPPROTO_TCP {
        return None;
    }
    let connection = TcpStream::from(copy);
    let (peer, here) = (connection.peer_addr().ok()?, connection.local_addr().ok()?);
    let is_there = here.port() == address.port() && (address.ip().is_unspecified() || here.ip() == address.ip());
    is_there.then_some((inode, connection, peer))
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
        let sockets = Sockets::new(address);
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
        assert_eq!(Sockets::new(elsewhere).older.len(), 0, "of another address");
        assert_eq!(Sockets::new(SocketAddr::from(([0; 4], address.port()))).older.len(), 2, "of every address");
    }
}
