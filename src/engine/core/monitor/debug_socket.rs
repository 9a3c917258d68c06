//! `UCXX_RS_DEBUG_SOCKET`: a Unix socket that describes the process to each client of its user, and
//! of root.
//!
//! A client is sent lines of text and the end of file. Nothing is read from it.
#![deny(unsafe_code)]

use crate::engine::core::monitor::registry::Registry;
use crate::engine::core::monitor::service::{Offer, Service};
use crate::engine::core::monitor::text_server::{Answer, TextServer};
use crate::engine::ucx::runtime::ucx_release;
use rustix::event::PollFd;
use rustix::fs::Mode;
use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const OFFER: Offer = Offer {
    variable: "UCXX_RS_DEBUG_SOCKET",
    make: |value| {
        let path = path_for(value, std::process::id())?;
        match DebugSocket::new(path) {
            Ok(socket) => Ok(Box::new(socket)),
            Err(error) => Err(format!("no debug socket: {error}")),
        }
    },
};

/// How long a client waits at most until threads of the program have described what is theirs.
const PATIENCE: Duration = Duration::from_millis(500);
/// Clients that the kernel keeps until they are let in.
const BACKLOG: i32 = 16;

/// The socket's path: `value` with the pid for `%p`, or in this folder.
fn path_for(value: &str, pid: u32) -> Result<PathBuf, String> {
    let path = PathBuf::from(value.replace("%p", &pid.to_string()));
    if !path.is_absolute() {
        return Err("no debug socket: the path has to begin with /".to_owned());
    }
    Ok(if path.is_dir() { path.join(format!("ucxx_rs.{pid}.sock")) } else { path })
}

struct DebugSocket {
    server: TextServer,
    path: PathBuf,
    /// The file's number: by its end another process may have put its own there.
    inode: u64,
}

impl DebugSocket {
    fn new(path: PathBuf) -> io::Result<Self> {
        let listener = bind(&path)?;
        let inode = fs::symlink_metadata(&path)?.ino();
        listener.listen(BACKLOG)?;
        Ok(DebugSocket { server: TextServer::new(listener, false)?, path, inode })
    }
}

impl Drop for DebugSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A socket with a file of mode 0600. The file of a process that has ended is replaced.
fn bind(path: &Path) -> io::Result<Socket> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The kernel gives the file the socket's own mode, so it never has another one.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let bound = socket.bind(&address);
    if !bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
        return bound.map(|()| socket);
    }
    if !is_left_over(path, &address) {
        let text = "the file is there and is not a socket that an ended process of this user left";
        return Err(io::Error::new(ErrorKind::AddrInUse, text));
    }
    fs::remove_file(path)?;
    socket.bind(&address)?;
    Ok(socket)
}

fn is_left_over(path: &Path, address: &SockAddr) -> bool {
    let is_ours = fs::symlink_metadata(path)
        .is_ok_and(|file| file.file_type().is_socket() && file.uid() == geteuid().as_raw());
    is_ours
        && Socket::new(Domain::UNIX, Type::STREAM, None).is_ok_and(|socket| {
            socket.set_nonblocking(true).is_ok()
                && socket
                    .connect(address)
                    .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        })
}

/// Root can read this process's memory anyway.
fn is_of_our_user(client: &Socket) -> bool {
    rustix::net::sockopt::socket_peercred(client)
        .is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}

impl Service for DebugSocket {
    fn waits_for<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) -> Option<u64> {
        self.server.waits_for(polled)
    }

    fn turn(&mut self, registry: &Registry, now: u64) {
        // Clients that come at once get the same text.
        let mut text: Option<String> = None;
        self.server.turn(now, is_of_our_user, |_| {
            let text = text.get_or_insert_with(|| described(registry));
            Answer::Text(text.clone().into_bytes())
        });
    }
}

/// What the process consists of, in lines.
fn described(registry: &Registry) -> String {
    let name = fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let mut text = format!(
        "process {} ({}): ucxx_rs {}, UCX {}\n",
        std::process::id(),
        name.trim_end(),
        env!("CARGO_PKG_VERSION"),
        ucx_release()
    );
    registry.look(PATIENCE, |object, look| {
        for line in object.describe(look) {
            text += &line;
            text.push('\n');
        }
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_this_process() {
        let path = |value: &str| path_for(value, 12).map(|path| path.display().to_string());
        assert_eq!(path("/nowhere/%p.sock").as_deref(), Ok("/nowhere/12.sock"));
        assert_eq!(path("/nowhere/one").as_deref(), Ok("/nowhere/one"));
        assert_eq!(path("/tmp").as_deref(), Ok("/tmp/ucxx_rs.12.sock"));
        assert!(path("relative").is_err());
    }
}
