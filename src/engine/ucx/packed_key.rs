//! The encoded form of a key to registered memory: a header that describes the memory, UCX's bytes,
//! and a checksum.
//!
//! UCX trusts every byte of a key, so only keys that pass the checks here reach it. All numbers are
//! little-endian; docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

use crate::engine::os::process_identity::Identity;

const MAGIC: [u8; 8] = *b"ucxxrsKy";
const VERSION: u16 = 1;
/// Length of the header before UCX's bytes.
const HEADER: usize = 80;
const CHECKSUM: usize = 4;
/// Bit of the word with the memory type.
const READ_ONLY: u32 = 1 << 31;
/// UCX needs some ten bytes for each kind of device; this is far more than any real key.
const LONGEST_OF_UCX: usize = 1 << 14;

/// Describes the memory that a key gives access to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHeader {
    /// Address of its first byte in the owner.
    pub base: u64,
    /// Length in bytes.
    pub length: u64,
    /// Unique among all memory that its process ever registers.
    pub number: u64,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
    /// The owner may not write all of it.
    pub read_only: bool,
    /// The owning process; names no worker.
    pub(crate) owner: Identity,
}

impl KeyHeader {
    /// Encodes the header, UCX's bytes and the checksum.
    pub fn encode(&self, ucx: &[u8]) -> Vec<u8> {
        let Identity { boot_id, pid_namespace, pid, start_time, .. } = self.owner;
        let mut bytes = Vec::with_capacity(HEADER + ucx.len() + CHECKSUM);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(HEADER as u16).to_le_bytes());
        bytes.extend_from_slice(&(ucx.len() as u32).to_le_bytes());
        for number in [self.base, self.length, self.number] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&boot_id);
        bytes.extend_from_slice(&pid_namespace.to_le_bytes());
        bytes.extend_from_slice(&start_time.to_le_bytes());
        bytes.extend_from_slice(&pid.to_le_bytes());
        let read_only = if self.read_only { READ_ONLY } else { 0 };
        bytes.extend_from_slice(&(self.memory_type as u32 | read_only).to_le_bytes());
        debug_assert_eq!(bytes.len(), HEADER);
        bytes.extend_from_slice(ucx);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a key: header and UCX's bytes, or the reason why it is not valid.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let Some((checked, checksum)) = bytes.split_last_chunk::<CHECKSUM>() else {
            return Err("too short");
        };
        let Some((header, ucx)) = checked.split_at_checked(HEADER) else { return Err("too short") };
        if header[..8] != MAGIC {
            return Err("not a key of this library");
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        if half(8) as u16 != VERSION || usize::from(half(10) as u16) != HEADER {
            return Err("of another version of this library");
        }
        if half(12) as usize != ucx.len() || ucx.is_empty() || ucx.len() > LONGEST_OF_UCX {
            return Err("not of the length that its header states");
        }
        if crc32fast::hash(checked) != u32::from_le_bytes(*checksum) {
            return Err("damaged: the checksum does not match");
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&header[40..56]);
        let owner = Identity {
            boot_id,
            pid_namespace: number(56),
            start_time: number(64),
            pid: half(72),
            ..Identity::default()
        };
        let key = KeyHeader {
            base: number(16),
            length: number(24),
            number: number(32),
            memory_type: (half(76) & !READ_ONLY) as i32,
            read_only: half(76) & READ_ONLY != 0,
            owner,
        };
        if key.length == 0 || key.base == 0 || key.base.checked_add(key.length).is_none() {
            return Err("for an address range that is not possible");
        }
        Ok((key, ucx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> KeyHeader {
        let owner =
            Identity { boot_id: [7; 16], pid_namespace: 11, pid: 12, start_time: 13, worker: 0 };
        let (number, memory_type, read_only) = (5, 1, true);
        KeyHeader { base: 0x1234_5678_9abc, length: 4096, number, memory_type, read_only, owner }
    }

    #[test]
    fn a_key_arrives_as_it_left() {
        let bytes = key().encode(b"of UCX");
        assert_eq!(KeyHeader::decode(&bytes), Ok((key(), &b"of UCX"[..])));
    }

    #[test]
    fn every_bit_and_every_length_counts() {
        let bytes = key().encode(b"of UCX");
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert!(KeyHeader::decode(&damaged).is_err(), "bit {at}");
        }
        for length in 0..bytes.len() {
            assert!(KeyHeader::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(KeyHeader::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn ranges_that_wrap_around_are_refused() {
        for (base, length) in [(0, 1), (1, 0), (u64::MAX, 1), (2, u64::MAX)] {
            let bytes = KeyHeader { base, length, ..key() }.encode(b"of UCX");
            assert!(KeyHeader::decode(&bytes).is_err(), "{base} {length}");
        }
    }
}
