//! Internet addresses: name resolution, and conversion to and from UCP's form.

use crate::engine::base::status::{Error, Result, Status};
use crate::sys;
use socket2::{SockAddr, SockAddrStorage};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// All addresses of the host, each once, in the resolver's order. A numeric host is not looked up.
pub(crate) fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().map_err(|cause| {
        Error::new(
            Status::UNREACHABLE,
            format!("host: {host:?} does not resolve to an address: {cause}"),
        )
    })?;
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(Error::new(
            Status::UNREACHABLE,
            format!("host: {host:?} does not resolve to an address"),
        ));
    }
    Ok(addresses)
}

/// A numeric address, with or without a port: "192.0.2.1", "192.0.2.1:4711", "::1", "[::1]:4711".
pub fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0)))
}

/// UCP's form of the address, for a call during which UCP reads it.
pub(crate) fn as_ucs(address: &SockAddr) -> sys::ucs_sock_addr_t {
    sys::ucs_sock_addr_t { addr: address.as_ptr().cast(), addrlen: address.len() }
}

/// The address that UCP filled in; `None` if it is neither IPv4 nor IPv6.
pub(crate) fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let mut place = SockAddrStorage::zeroed();
    // SAFETY: the storage has this size, and any bytes are a valid sockaddr_storage.
    unsafe { *place.view_as() = *storage };
    let length = place.size_of();
    // SAFETY: the length is that of the whole storage, which is initialised.
    unsafe { SockAddr::new(place, length) }.as_socket()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    fn given_and_taken(address: SocketAddr) -> Option<SocketAddr> {
        let given = SockAddr::from(address);
        // SAFETY: `SockAddr` holds a whole sockaddr_storage.
        from_storage(unsafe { &*given.as_ptr().cast() })
    }

    #[test]
    fn addresses_survive_the_systems_form() {
        for text in ["127.0.0.1:1", "192.0.2.77:65535", "[::1]:4711", "[2001:db8::1]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(given_and_taken(address), Some(address));
        }
        let scoped = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3));
        assert_eq!(given_and_taken(scoped), Some(scoped));
        // SAFETY: all-zero is a valid sockaddr_storage.
        assert_eq!(from_storage(&unsafe { std::mem::zeroed() }), None);
    }

    #[test]
    fn numeric_addresses_are_taken_with_and_without_a_port() {
        assert_eq!(parse("192.0.2.1"), Some("192.0.2.1:0".parse().unwrap()));
        assert_eq!(parse("192.0.2.1:7"), Some("192.0.2.1:7".parse().unwrap()));
        assert_eq!(parse("::1"), Some("[::1]:0".parse().unwrap()));
        assert_eq!(parse("[::1]:8"), Some("[::1]:8".parse().unwrap()));
        for text in ["", "localhost", "1.2.3", "1.2.3.4:", "1.2.3.4:70000", "::1:x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_numeric_host_is_itself() {
        assert_eq!(resolve("::1", 5).unwrap(), ["[::1]:5".parse().unwrap()]);
        assert_eq!(resolve("not a name", 5).unwrap_err().status(), Status::UNREACHABLE);
    }
}
