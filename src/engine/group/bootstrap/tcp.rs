//! The rendezvous over TCP: parsing of the root, listening, and when a secret is required.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::Bootstrap;
use crate::engine::group::bootstrap::tcp_member::{Member, Target};
use crate::engine::group::bootstrap::tcp_root::Root;
use crate::engine::group::bootstrap::tcp_socket as socket;
use crate::engine::os::socket_address;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Environment variable of the secret, for error messages.
pub(crate) const SECRET_VARIABLE: &str = "UCXX_RS_GROUP_SECRET";

/// Splits "host:port"; an IPv6 address is in brackets.
pub(crate) fn split_root(root: &str) -> Result<(&str, u16)> {
    let bad = |why: &str| {
        let text = format!(
            "root: {root:?} {why}; it is \"host:port\", an IPv6 address in \
            brackets: \"[::1]:4711\""
        );
        Error::invalid(text)
    };
    let (host, port) = match root.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").ok_or_else(|| bad("has no port behind the bracket"))?,
        None => root.rsplit_once(':').ok_or_else(|| bad("has no port"))?,
    };
    if host.is_empty() {
        return Err(bad("has no host"));
    }
    if host.contains(':') != root.starts_with('[') {
        return Err(bad("has brackets in the wrong place"));
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((host, number))
        }
        _ => Err(bad("has no valid port (1 to 65535)")),
    }
}

fn is_local(addresses: &[SocketAddr]) -> bool {
    !addresses.is_empty()
        && addresses.iter().all(|address| address.ip().to_canonical().is_loopback())
}

/// Listens at those of the addresses that this machine has.
fn listen(root: &str, addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    let mut foreign = None;
    for address in addresses {
        let error = match socket::listen(*address) {
            Ok(listener) => {
                listeners.push(listener);
                continue;
            }
            Err(error) => error,
        };
        let cannot = format!("root: rank 0 cannot listen at {root} ({address}): {error}");
        match error.kind() {
            // The machine need not have all addresses of a name, for example no IPv6.
            ErrorKind::AddrNotAvailable => foreign = Some(error),
            _ if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => foreign = Some(error),
            ErrorKind::AddrInUse => {
                let text = format!(
                    "{cannot}: another process listens there (under torchrun its \
                    own store has MASTER_PORT); choose another port"
                );
                return Err(Error::new(Status::BUSY, text));
            }
            ErrorKind::PermissionDenied => {
                return Err(Error::invalid(format!("{cannot}: choose a port from 1024 on")));
            }
            _ => return Err(Error::new(Status::IO_ERROR, cannot)),
        }
    }
    if let (true, Some(cause)) = (listeners.is_empty(), foreign) {
        let text = format!(
            "root: rank 0 cannot listen at {root}, which is not an address of this machine \
             ({cause}): name the machine on which rank 0 runs"
        );
        return Err(Error::new(Status::INVALID_ADDR, text));
    }
    Ok(listeners)
}

/// Meets the other members at `root`. The group has at least two.
pub(crate) fn open(
    rank: u32,
    size: u32,
    root: &str,
    secret: &[u8],
    timeout: u64,
) -> Result<Box<dyn Bootstrap>> {
    let (host, port) = split_root(root)?;
    let addresses = match socket_address::resolve(host, port) {
        Ok(addresses) => addresses,
        // A member may start before rank 0's name is known (Kubernetes). With a secret it can
        // resolve it later.
        Err(_) if rank > 0 && !secret.is_empty() => Vec::new(),
        Err(error) => return Err(Error::new(error.status(), format!("root: {}", error.message()))),
    };
    if secret.is_empty() && !is_local(&addresses) {
        let text = format!(
            "secret: without one a group can meet on a loopback address alone, and root is \
             {root:?}: give all members the same secret, in the parameters or (ENV) in \
             {SECRET_VARIABLE}"
        );
        return Err(Error::invalid(text));
    }
    if rank == 0 {
        return Ok(Box::new(Root::gather(listen(root, &addresses)?, size, secret, timeout)?));
    }
    Ok(Box::new(Member::join(
        Target { name: root, host, port, addresses },
        rank,
        size,
        secret,
        timeout,
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_host_and_a_port() {
        assert_eq!(split_root("localhost:1").unwrap(), ("localhost", 1));
        assert_eq!(split_root("192.0.2.1:65535").unwrap(), ("192.0.2.1", 65535));
        assert_eq!(split_root("[::1]:4711").unwrap(), ("::1", 4711));
        let bad = [
            "",
            ":",
            "host",
            "host:",
            ":1",
            "host:0",
            "host:65536",
            "host:+1",
            "host:-1",
            "host:x",
            "::1:1",
            "[::1]",
            "[::1]:",
            "[]:1",
            "[host]:1",
        ];
        for root in bad {
            let error = split_root(root).unwrap_err();
            assert_eq!(error.status(), Status::INVALID_PARAM, "{root}");
            assert!(error.message().starts_with("root: "), "{error}");
        }
    }

    #[test]
    fn without_a_secret_only_loopback_will_do() {
        for root in ["192.0.2.1:4711", "0.0.0.0:4711", "[::]:4711"] {
            for rank in [0, 1] {
                let error = open(rank, 2, root, b"", 1).err().unwrap();
                assert_eq!(error.status(), Status::INVALID_PARAM);
                assert!(error.message().contains(SECRET_VARIABLE), "{error}");
            }
        }
        assert!(is_local(&["127.3.2.1:1".parse().unwrap(), "[::1]:1".parse().unwrap()]));
        assert!(is_local(&["[::ffff:127.0.0.1]:1".parse().unwrap()]));
        assert!(
            !is_local(&["127.0.0.1:1".parse().unwrap(), "10.0.0.1:1".parse().unwrap()])
                && !is_local(&[])
        );
    }

    #[test]
    fn where_rank_0_cannot_listen_is_said() {
        // An address of a network that is reserved for documentation.
        let error = open(0, 2, "192.0.2.1:4711", b"s", 1).err().unwrap();
        assert_eq!(error.status(), Status::INVALID_ADDR);
        assert!(error.message().contains("192.0.2.1:4711"), "{error}");
        let taken = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let root = taken.local_addr().unwrap().to_string();
        let error = open(0, 2, &root, b"", 1).err().unwrap();
        assert_eq!(error.status(), Status::BUSY);
        assert!(error.message().contains(&root), "{error}");
    }
}
