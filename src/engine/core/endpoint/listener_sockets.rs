//! Connections of a listener's that have not asked for anything yet.
//!
//! UCX takes in whoever connects to the port, and hears what he wants when it comes. Who says
//! nothing keeps his connection when the listener goes, and UCX calls back through the one that has
//! gone once he speaks: up to UCX 1.22 anybody who reaches the port can end the process by that.
//! UCX has no list of them; the process's descriptors have.

use crate::engine::os::readable::is_readable;
use rustix::io::fcntl_dupfd_cloexec;
use socket2::{Protocol, SockFilter, SockRef};
use std::collections::HashSet;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// See the module.
pub(crate) struct Sockets {
    /// Other addresses of the machine may have listeners of others with the same port.
    address: SocketAddr,
    /// Sockets with that address at this end that there were before the listener, by inode: none of
    /// them is the listener's.
    older: HashSet<u64>,
    /// The one that listens, by inode. UCX may listen by other means alone.
    listening: Option<u64>,
}

/// What is left of connections that nobody has asked on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unaccepted {
    Nothing,
    /// All that came has been read.
    Silent,
    /// One that UCX has to accept yet, or on which something has come that UCX has not read: that
    /// may be a request.
    Unread,
}

/// The process's sockets, by inode, which each keeps for its life.
pub(crate) fn all() -> HashSet<u64> {
    numbers().filter_map(inode).collect()
}

impl Sockets {
    /// Of a listener at this address; `before` are all that there were when it was made.
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

    /// Lets nobody in any more: the system drops what comes for the listening socket. It goes on
    /// listening, so that its port stays its own and UCX finds nothing to be done there; who
    /// connects hears nothing, and his system tries again after a second. False where that cannot
    /// be had.
    pub(crate) fn bar(&self) -> bool {
        let Some(listening) = self.listening else { return false };
        let Some((_, socket)) = at(self.address).find(|(inode, _)| *inode == listening) else {
            return false;
        };
        let code = (libc::BPF_RET | libc::BPF_K) as u16;
        let keep_nothing = SockFilter::new(code, 0, 0, 0);
        SockRef::from(&socket).attach_filter(&[keep_nothing]).is_ok()
    }

    /// Ends the connections that have come since from somebody else than those, and tells what
    /// there was: UCX lets go of them in its own time.
    pub(crate) fn cut(&self, asked: &HashSet<SocketAddr>) -> Unaccepted {
        self.look(asked, |connection| {
            // Fails where it is over.
            let _ = connection.shutdown(Shutdown::Both);
        })
    }

    /// There is no such connection, and none that waits to be accepted.
    pub(crate) fn has_nobody(&self, asked: &HashSet<SocketAddr>) -> bool {
        self.look(asked, |_| {}) == Unaccepted::Nothing
    }

    fn look(&self, asked: &HashSet<SocketAddr>, meet: impl Fn(&TcpStream)) -> Unaccepted {
        let mut left = Unaccepted::Nothing;
        for (inode, socket) in at(self.address) {
            if Some(inode) == self.listening {
                // Who waits to be accepted has no descriptor yet.
                if is_readable(&socket) {
                    left = Unaccepted::Unread;
                }
                continue;
            }
            let connection = TcpStream::from(socket);
            // None where it is over.
            let Ok(peer) = connection.peer_addr() else { continue };
            if self.older.contains(&inode) || asked.contains(&peer) {
                continue;
            }
            meet(&connection);
            // After a cut: what comes now is dropped.
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

/// If it is a socket. What the link says is the kernel's own: no file system is asked, which might
/// not answer.
fn inode(number: RawFd) -> Option<u64> {
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Those that have this address here, with their inodes. Descriptors of its own: other threads may
/// close theirs at any moment, and have another file under the same number.
fn at(address: SocketAddr) -> impl Iterator<Item = (u64, OwnedFd)> {
    numbers().filter_map(move |number| {
        let known = inode(number)?;
        // SAFETY: it is copied at once, and a number of no descriptor is refused.
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

/// Of this address itself: where ours listens at every one of a family, somebody else's may at one
/// of the other family.
fn listens_at(socket: &OwnedFd, address: SocketAddr) -> bool {
    SockRef::from(socket).is_listener().unwrap_or(false)
        && tcp_address(socket).is_some_and(|here| here.ip() == address.ip())
}

/// The address here of a TCP socket.
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
        // The listening one is among them.
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
