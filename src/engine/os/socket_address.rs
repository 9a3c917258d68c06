//! Internet addresses: what a host's name stands for, and the form in which UCP takes and gives
//! them.

use crate::engine::base::status::{Error, Result, Status};
use crate::sys;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// Every address of the host, each once, in the resolver's order. A numeric host is not looked up.
pub(crate) fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().map_err(|cause| {
        Error::new(Status::UNREACHABLE, format!("host: {host:?} stands for no address: {cause}"))
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
            format!("host: {host:?} stands for no address"),
        ));
    }
    Ok(addresses)
}

/// A numeric address, with or without a port: "192.0.2.1", "192.0.2.1:4711", "::1", "[::1]:4711".
pub fn parse(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0)))
}

/// An address in the system's form.
pub(crate) struct Raw {
    storage: libc::sockaddr_storage,
    length: usize,
}

impl Raw {
    pub(crate) fn new(address: &SocketAddr) -> Self {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let place = &raw mut storage;
        let length = match address {
            SocketAddr::V4(address) => {
                // SAFETY: a sockaddr_storage is large and aligned enough for every kind of address.
                let raw = unsafe { &mut *place.cast::<libc::sockaddr_in>() };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = address.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                // SAFETY: as above.
                let raw = unsafe { &mut *place.cast::<libc::sockaddr_in6>() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = address.port().to_be();
                raw.sin6_flowinfo = address.flowinfo();
                raw.sin6_addr.s6_addr = address.ip().octets();
                raw.sin6_scope_id = address.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        Raw { storage, length }
    }

    /// For UCP, which reads it during its call.
    pub(crate) fn as_ucs(&self) -> sys::ucs_sock_addr_t {
        sys::ucs_sock_addr_t {
            addr: (&raw const self.storage).cast(),
            addrlen: self.length as libc::socklen_t,
        }
    }
}

/// What UCP filled in; none where it is neither IPv4 nor IPv6.
pub(crate) fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = IpAddr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_systems_form() {
        for text in ["127.0.0.1:1", "192.0.2.77:65535", "[::1]:4711", "[2001:db8::1]:0"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(from_storage(&Raw::new(&address).storage), Some(address));
        }
        let scoped = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3));
        assert_eq!(from_storage(&Raw::new(&scoped).storage), Some(scoped));
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
