//! Connections to a listener on which no request has arrived yet.
//!
//! UCX accepts every client that connects to the port, and reads its request when that arrives. A
//! client that sends nothing stays connected after the listener is destroyed, and if it sends
//! something later, UCX calls back through the destroyed listener. Up to UCX 1.22, anyone who
//! reaches the port can crash the process this way. UCX has no list of these connections, so this
//! file finds them among the process's descriptors.

use crate::engine::os::readable::is_readable;
use rustix::io::fcntl_dupfd_cloexec;
use socket2::{Protocol, SockFilter, SockRef};
use std::collections::HashSet;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The sockets of one listener. See the head of this file.
pub(crate) struct Sockets {
    /// Other addresses of the machine may have other listeners with the same port.
    address: SocketAddr,
    /// Inodes of sockets with this local address that existed before the listener: none of them
    /// belongs to it.
    older: HashSet<u64>,
    /// Inode of the listening socket. None if UCX listens only by other means.
    listening: Option<u64>,
}

/// What is left of connections without a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unaccepted {
    Nothing,
    /// Everything that arrived was read.
    Silent,
    /// UCX has not accepted one yet, or has not read something that arrived: it may be a request.
    Unread,
}

/// Inodes of the process's sockets. A socket keeps its inode for its life.
pub(crate) fn all() -> HashSet<u64> {
    numbers().filter_map(inode).collect()
}

impl Sockets {
    /// The sockets of a listener at this address. `before`: all sockets that existed before it was
    /// made.
    pub(crate) fn new(address: SocketAddr, before: HashSet<u64>) -> Self {
        let (mut older, mut listening) = (HashSet::new(), None);
        for (inode, socket) in at(address) {
            if before.contains(&inode) {
                older.insert(inode);
            } else if listens_at(&socket, address) {
                listening = Some(inode);
            }
        }
        Sockets { address, older, listening }
    }

    /// Accepts no more connections: the kernel drops what arrives for the listening socket. The
    /// socket keeps listening, so that its port stays reserved and UCX finds nothing to do there. A
    /// client that connects gets no answer, and its kernel retries after a second. Returns false if
    /// this is not possible.
    pub(crate) fn bar(&self) -> bool {
        let Some(listening) = self.listening else { return false };
        let Some((_, socket)) = at(self.address).find(|(inode, _)| *inode == listening) else {
            return false;
        };
        let code = (libc::BPF_RET | libc::BPF_K) as u16;
        let keep_nothing = SockFilter::new(code, 0, 0, 0);
        SockRef::from(&socket).attach_filter(&[keep_nothing]).is_ok()
    }

    /// Shuts down the connections that arrived since, except those of the clients in `asked`, and
    /// returns what there was. UCX releases them later.
    pub(crate) fn cut(&self, asked: &HashSet<SocketAddr>) -> Unaccepted {
        self.look(asked, |connection| {
            // Fails if the connection has ended.
            let _ = connection.shutdown(Shutdown::Both);
        })
    }

    /// There is no such connection, and none waits to be accepted.
    pub(crate) fn has_nobody(&self, asked: &HashSet<SocketAddr>) -> bool {
        self.look(asked, |_| {}) == Unaccepted::Nothing
    }

    /// Calls `meet` for each such connection, and returns what there was.
    fn look(&self, asked: &HashSet<SocketAddr>, meet: impl Fn(&TcpStream)) -> Unaccepted {
        let mut left = Unaccepted::Nothing;
        for (inode, socket) in at(self.address) {
            if Some(inode) == self.listening {
                // A client that waits to be accepted has no descriptor yet.
                if is_readable(&socket) {
                    left = Unaccepted::Unread;
                }
                continue;
            }
            let connection = TcpStream::from(socket);
            // No peer if the connection has ended.
            let Ok(peer) = connection.peer_addr() else { continue };
            if self.older.contains(&inode) || asked.contains(&peer) {
                continue;
            }
            meet(&connection);
            // Checked after a shutdown: what arrives from now on is dropped.
            left = left.max(if has_unread(&connection) {
                Unaccepted::Unread
            } else {
                Unaccepted::Silent
            });
        }
        left
    }
}

/// The process's descriptors.
fn numbers() -> impl Iterator<Item = RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The inode, if it is a socket. The kernel provides the link's text; no file system is asked,
/// which might not answer.
fn inode(number: RawFd) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Sockets with this local address, with their inodes. The descriptors are duplicates: other
/// threads may close theirs at any moment and reuse the number.
fn at(address: SocketAddr) -> impl Iterator<Item = (u64, OwnedFd)> {
    numbers().filter_map(move |number| {
        let known = inode(number)?;
        // SAFETY: it is duplicated at once, and the call refuses a number that is not open.
        let copy = fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(number) }, 0).ok()?;
        let here = tcp_address(&copy)?;
        let is_there = here.port() == address.port()
            && (address.ip().is_unspecified() || here.ip() == address.ip());
        (is_there && inode(copy.as_raw_fd()) == Some(known)).then_some((known, copy))
    })
}

fn has_unread(connection: &TcpStream) -> bool {
    rustix::io::ioctl_fionread(connection).is_ok_and(|bytes| bytes > 0)
}

/// Listens at this address itself: if ours listens at all addresses of one family, another listener
/// may use the other family.
fn listens_at(socket: &OwnedFd, address: SocketAddr) -> bool {
    SockRef::from(socket).is_listener().unwrap_or(false)
        && tcp_address(socket).is_some_and(|here| here.ip() == address.ip())
}

/// The local address of a TCP socket.
fn tcp_address(socket: &OwnedFd) -> Option<SocketAddr> {
    let socket = SockRef::from(socket);
    let protocol = socket.protocol().ok()?;
    (protocol == Some(Protocol::TCP)).then(|| socket.local_addr().ok()?.as_socket())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

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
        assert_eq!(sockets.cut(&known), Unaccepted::Silent);
        for (mut stays, over) in [(&older, false), (&asked, false), (&silent, true)] {
            stays.set_nonblocking(true).unwrap();
            let read = stays.read(&mut [0]);
            assert!(if over {
                matches!(read, Ok(0))
            } else {
                read.unwrap_err().kind() == ErrorKind::WouldBlock
            });
        }
        drop(_silent_end);
        assert_eq!(sockets.cut(&known), Unaccepted::Nothing);
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], address.port()));
        assert_eq!(
            Sockets::new(address, HashSet::new()).older.len(),
            0,
            "who came while it was made"
        );
        assert_eq!(Sockets::new(elsewhere, all()).older.len(), 0, "of another address");
        // The listening socket is among them.
        assert_eq!(
            Sockets::new(SocketAddr::from(([0; 4], address.port())), all()).older.len(),
            3,
            "of every address"
        );
    }

    #[test]
    fn what_has_not_been_read_is_told() {
        let before = all();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets::new(listener.local_addr().unwrap(), before);
        let nobody = HashSet::new();
        assert_eq!(sockets.cut(&nobody), Unaccepted::Nothing);
        let mut client = TcpStream::connect(sockets.address).unwrap();
        assert_eq!(sockets.cut(&nobody), Unaccepted::Unread, "it is not accepted yet");
        client.write_all(&[1]).unwrap();
        let (mut end, _) = listener.accept().unwrap();
        assert_eq!(sockets.cut(&nobody), Unaccepted::Unread);
        assert_eq!(end.read(&mut [0; 2]).unwrap(), 1);
        assert_eq!(sockets.cut(&nobody), Unaccepted::Silent);
        drop(end);
        assert_eq!(sockets.cut(&nobody), Unaccepted::Nothing);
    }

    #[test]
    fn nobody_gets_in_where_it_is_barred() {
        let bind = |host: [u8; 4], port| TcpListener::bind(SocketAddr::from((host, port))).unwrap();
        let before = all();
        let listener = bind([127, 0, 0, 1], 0);
        let address = listener.local_addr().unwrap();
        let elsewhere = bind([127, 0, 0, 2], address.port());
        let sockets = Sockets::new(address, before);
        let (mut inside, mut inside_end) =
            (TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
        assert!(sockets.bar());
        let short = Duration::from_millis(50);
        assert_eq!(
            TcpStream::connect_timeout(&address, short).unwrap_err().kind(),
            ErrorKind::TimedOut
        );
        let listener = OwnedFd::from(listener);
        assert!(!is_readable(&listener));
        inside.write_all(&[1]).unwrap();
        assert_eq!(inside_end.read(&mut [0; 2]).unwrap(), 1, "who was in before stays");
        TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
        drop(listener);
        assert!(!sockets.bar(), "it is gone");
    }
}
