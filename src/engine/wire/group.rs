//! The messages between members of a group: the header of a collective's message, and of the notice
//! that ends a group. docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

/// Version of the protocol between members.
const VERSION: u16 = 1;

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Only its arrival counts.
    Barrier,
    /// Blocks of several members.
    Allgather,
    /// The root's data.
    Broadcast,
    /// The group's collectives have failed; says why.
    Notice,
    /// The sender is about to end, and waits for `Left`, which confirms that all its earlier
    /// messages have arrived.
    Leave,
    /// The reply to `Leave`.
    Left,
}

impl What {
    const ALL: [What; 6] =
        [What::Barrier, What::Allgather, What::Broadcast, What::Notice, What::Leave, What::Left];

    /// For error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Barrier => "barrier",
            What::Allgather => "allgather",
            What::Broadcast => "broadcast",
            What::Notice => "notice",
            What::Leave => "leave",
            What::Left => "left",
        }
    }
}

/// The header of a message from one member to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupHeader {
    /// Kind of the message.
    pub what: What,
    /// Round of the collective; in a broadcast, the root.
    pub step: u32,
    /// Equal for all members of the group; other groups have other numbers.
    pub group: u64,
    /// Number of collectives of the group before this one; in a notice, before the first that
    /// cannot succeed.
    pub sequence: u32,
    /// The sender's rank among all processes that were started together.
    pub from: u32,
    /// Bytes that each member contributes: the length that the call was made with.
    pub length: u64,
    /// In a notice: the rank that caused it, counted like `from`.
    pub blamed: u32,
    /// In a notice: the status; otherwise 0.
    pub status: i32,
}

impl GroupHeader {
    /// Encoded length.
    pub const LENGTH: usize = 40;

    /// A header for a message that belongs to no collective.
    pub(crate) fn aside(what: What, from: u32) -> Self {
        GroupHeader { what, step: 0, group: 0, sequence: 0, from, length: 0, blamed: 0, status: 0 }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2] = self.what as u8;
        bytes[4..8].copy_from_slice(&self.step.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.group.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.from.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.blamed.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.status.to_le_bytes());
        bytes
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; Self::LENGTH] =
            bytes.try_into().map_err(|_| "a group's message of the wrong length")?;
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if half(0) as u16 != VERSION {
            return Err("a group's message of another version");
        }
        let what =
            *What::ALL.get(usize::from(bytes[2])).ok_or("a group's message of an unknown kind")?;
        let status = half(36) as i32;
        if bytes[3] != 0 || (what == What::Notice) != (status < 0) {
            return Err("a group's message whose fields contradict each other");
        }
        Ok(GroupHeader {
            what,
            step: half(4),
            group: word(8),
            sequence: half(16),
            from: half(20),
            length: word(24),
            blamed: half(32),
            status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives_and_nothing_else_does() {
        let header = GroupHeader {
            what: What::Broadcast,
            step: 3,
            group: 1 << 60 | 7,
            sequence: 9,
            from: 2,
            length: 1 << 40,
            blamed: 0,
            status: 0,
        };
        let bytes = header.encode();
        assert_eq!(GroupHeader::decode(&bytes), Ok(header));
        let notice = GroupHeader { what: What::Notice, blamed: 5, status: -210, ..header };
        assert_eq!(GroupHeader::decode(&notice.encode()), Ok(notice));
        for length in 0..bytes.len() {
            assert!(GroupHeader::decode(&bytes[..length]).is_err());
        }
        assert!(GroupHeader::decode(&[&bytes[..], &[0]].concat()).is_err());
        for (position, value) in [(0, 2), (1, 1), (2, 6), (3, 1), (39, 0x80)] {
            let mut damaged = bytes;
            damaged[position] = value;
            assert!(GroupHeader::decode(&damaged).is_err(), "byte {position}");
        }
    }
}
