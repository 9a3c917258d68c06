//! Worker addresses: UCP's bytes and a trailer of ours, which detects damage and mixed versions.
//!
//! UCP ignores what follows its own bytes, and aborts the process if they are not an address. So
//! the trailer is checked before UCP sees anything. All numbers are little-endian;
//! docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::process_identity::Identity;
use crate::engine::ucx::runtime::Release;

/// The last bytes of every address of this library.
const MAGIC: [u8; 8] = *b"ucxxrsAd";
const VERSION: u16 = 1;
/// magic 8, version 2, trailer length 2, checksum 4: the same in all versions, at the very end.
const TAIL: usize = 16;
const TRAILER: usize = 64 + TAIL;
/// UCP's addresses have a few hundred bytes for each device; this is far more than any real one.
const LONGEST: usize = 1 << 20;

/// A worker's address and its decoded trailer.
#[derive(Clone)]
pub struct Address {
    bytes: Vec<u8>,
    origin: Option<Origin>,
}

/// The fields of the trailer that endpoints use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Origin {
    pub(crate) identity: Identity,
    pub(crate) release: Release,
}

impl Address {
    /// Appends the trailer to UCP's bytes of a worker of this process.
    pub(crate) fn with_trailer(ucp: &[u8], origin: Origin) -> Self {
        let Identity { boot_id, pid_namespace, pid, start_time, worker } = origin.identity;
        let mut bytes = Vec::with_capacity(ucp.len() + TRAILER);
        bytes.extend_from_slice(ucp);
        bytes.extend_from_slice(&(ucp.len() as u32).to_le_bytes());
        let (major, minor, patch) = origin.release.numbers;
        for number in [major, minor, patch, 0] {
            bytes.extend_from_slice(&(number as u16).to_le_bytes());
        }
        bytes.extend_from_slice(&boot_id);
        bytes.extend_from_slice(&pid_namespace.to_le_bytes());
        bytes.extend_from_slice(&start_time.to_le_bytes());
        bytes.extend_from_slice(&worker.to_le_bytes());
        bytes.extend_from_slice(&pid.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        debug_assert_eq!(bytes.len(), ucp.len() + TRAILER - TAIL);
        let version = [VERSION.to_le_bytes(), (TRAILER as u16).to_le_bytes()].concat();
        let checksum = checksum(&bytes, &version);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&version);
        bytes.extend_from_slice(&MAGIC);
        Address { bytes, origin: Some(origin) }
    }

    /// Checks received bytes: returns an error unless the trailer matches.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let origin = parse(bytes).map_err(|why| {
            Error::new(
                Status::INVALID_ADDR,
                format!(
                    "data: not an address of this library, or damaged on the way ({why}); bytes \
                     made by another UCX program are taken by ucxx_address_from_ucp_bytes"
                ),
            )
        })?;
        Ok(Address { bytes: bytes.to_vec(), origin: Some(origin) })
    }

    /// Accepts bytes of a foreign UCP worker, which cannot be checked: the caller is responsible
    /// for them.
    pub fn from_ucp_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > LONGEST {
            return Err(Error::invalid(format!(
                "length: {} bytes cannot be a UCP address",
                bytes.len()
            )));
        }
        Ok(Address { bytes: bytes.to_vec(), origin: parse(bytes).ok() })
    }

    /// The bytes to send to a peer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn origin(&self) -> Option<Origin> {
        self.origin
    }
}

fn checksum(body: &[u8], version: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(version);
    hasher.finalize()
}

fn parse(bytes: &[u8]) -> std::result::Result<Origin, &'static str> {
    if bytes.len() <= TRAILER {
        return Err("too short");
    }
    if bytes.len() > LONGEST {
        return Err("too long");
    }
    let (body, tail) = bytes.split_at(bytes.len() - TAIL);
    if tail[8..] != MAGIC {
        return Err("no trailer");
    }
    let expected = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    if checksum(body, &tail[4..8]) != expected {
        return Err("wrong checksum");
    }
    if tail[4..6] != VERSION.to_le_bytes() || tail[6..8] != (TRAILER as u16).to_le_bytes() {
        return Err("unknown trailer version");
    }
    let (ucp, mut fields) = body.split_at(bytes.len() - TRAILER);
    let mut take = |length: usize| {
        let (field, rest) = fields.split_at(length);
        fields = rest;
        let mut number = [0; 8];
        number[..length.min(8)].copy_from_slice(&field[..length.min(8)]);
        (u64::from_le_bytes(number), field)
    };
    if take(4).0 != ucp.len() as u64 {
        return Err("wrong length");
    }
    let numbers = (take(2).0 as u32, take(2).0 as u32, take(2).0 as u32);
    take(2);
    let mut boot_id = [0; 16];
    boot_id.copy_from_slice(take(16).1);
    let (pid_namespace, start_time, worker, pid) =
        (take(8).0, take(8).0, take(8).0, take(4).0 as u32);
    let identity = Identity { boot_id, pid_namespace, pid, start_time, worker };
    Ok(Origin { identity, release: Release { numbers } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Address, Origin) {
        let identity =
            Identity { boot_id: [7; 16], pid_namespace: 11, pid: 4711, start_time: 13, worker: 3 };
        let origin = Origin { identity, release: Release { numbers: (1, 22, 1) } };
        (Address::with_trailer(b"bytes of UCP's own", origin), origin)
    }

    #[test]
    fn a_trailer_survives_the_journey() {
        let (address, origin) = sample();
        let back = Address::from_bytes(address.bytes()).unwrap();
        assert_eq!(back.origin(), Some(origin));
        assert_eq!(back.bytes(), address.bytes());
    }

    #[test]
    fn every_single_damaged_byte_is_noticed() {
        let (address, _) = sample();
        for position in 0..address.bytes().len() {
            for bit in 0..8 {
                let mut damaged = address.bytes().to_vec();
                damaged[position] ^= 1 << bit;
                let error = Address::from_bytes(&damaged).err().expect("damage went unnoticed");
                assert_eq!(error.status(), Status::INVALID_ADDR);
            }
        }
    }

    #[test]
    fn truncated_extended_and_foreign_bytes_are_refused() {
        let (address, _) = sample();
        for length in 0..address.bytes().len() {
            assert!(Address::from_bytes(&address.bytes()[..length]).is_err());
        }
        let longer = [address.bytes(), &[0]].concat();
        assert!(Address::from_bytes(&longer).is_err());
        assert!(Address::from_bytes(&[0x5a; 500]).is_err());
        assert!(Address::from_bytes(&vec![0; LONGEST + 1]).is_err());
        assert!(Address::from_ucp_bytes(&[]).is_err());
        assert!(Address::from_ucp_bytes(&[1, 2, 3]).unwrap().origin().is_none());
    }
}
