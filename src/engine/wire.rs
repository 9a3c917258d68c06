//! What libraries say to each other: active messages of one UCP id, each with a header of 24 bytes that names its kind.
//!
//! All numbers are little-endian; docs/wire-formats.md has the layout. What comes in is hostile until it has been read here.
#![deny(unsafe_code)]

use super::address::Address;

/// UCP's id for all of it. Id 0 is left to the format of UCXX.
pub(crate) const AM_ID: u32 = 1;
/// Changes with every change that an older library would not understand.
pub(crate) const VERSION: u8 = 1;
/// Of the header.
pub const HEADER: usize = 24;
/// No real address is as long: room for some hundred network devices.
const LONGEST_ADDRESS: usize = 1 << 16;

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First on each endpoint: who sends, and the number under which it knows the connection. Behind it comes its address.
    Hello = 1,
    /// Answers it, with the number that the other side has for the connection.
    Welcome = 2,
    /// Answers a message of a version that is not spoken here; the header's version is the one that is. The same in all versions.
    Refusal = 3,
    /// The endpoint is closed.
    Bye = 4,
    /// Answers it: nothing here touches the other side's memory any more.
    ByeAck = 5,
    /// Asks for a sign of life.
    Ping = 6,
    /// Gives it.
    Pong = 7,
}

/// The header. Kinds that have no use for a field have 0 there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is about.
    pub kind: Kind,
    /// Bits of `flag`.
    pub flags: u16,
    /// The connection, by the number that its receiver has given it; 0 before that is known.
    pub connection: u32,
    /// The number that its sender has given the connection.
    pub sender: u32,
}

/// Of `Header::flags`.
pub(crate) mod flag {
    /// Hello: the sender's endpoint has failure detection.
    pub(crate) const PEER_FAILURE: u16 = 1;
    /// Bye: the sender waits for the answer.
    pub(crate) const ANSWER: u16 = 2;
    pub(super) const ALL: u16 = PEER_FAILURE | ANSWER;
}

/// Why a message cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Of another version; `connection` and `sender` stand where they always do.
    Version {
        /// That version.
        theirs: u8,
        /// It is a refusal, which is not to be answered.
        refusal: bool,
        /// As in `Header`.
        connection: u32,
        /// As in `Header`.
        sender: u32,
    },
    /// Damaged, or from somebody who speaks another language; with what is wrong.
    Garbage(&'static str),
}

impl Header {
    /// As it goes out.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.connection.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.sender.to_le_bytes());
        bytes
    }

    /// Reads one that came in.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let Ok(bytes) = <&[u8; HEADER]>::try_from(bytes) else {
            return Err(Unreadable::Garbage("a header of another length"));
        };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (connection, sender) = (long(8), long(20));
        if bytes[0] != VERSION {
            return Err(Unreadable::Version {
                theirs: bytes[0],
                refusal: bytes[1] == Kind::Refusal as u8,
                connection,
                sender,
            });
        }
        let kind = match bytes[1] {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Refusal,
            4 => Kind::Bye,
            5 => Kind::ByeAck,
            6 => Kind::Ping,
            7 => Kind::Pong,
            _ => return Err(Unreadable::Garbage("an unknown kind")),
        };
        // User id, header length, sequence and credits belong to kinds that are not spoken yet.
        if short(2) != 0 || short(4) != 0 || long(12) != 0 || long(16) != 0 || short(6) & !flag::ALL != 0 {
            return Err(Unreadable::Garbage("fields that its kind does not have"));
        }
        Ok(Header { kind, flags: short(6), connection, sender })
    }
}

/// What stands in a Hello.
pub struct Hello {
    /// Of the sender.
    pub address: Address,
    /// The sender's endpoint has failure detection.
    pub peer_failure: bool,
    /// The number that the sender has given the connection.
    pub sender: u32,
}

impl Hello {
    /// Reads what came behind a header of that kind.
    pub fn decode(header: &Header, payload: &[u8]) -> Result<Self, &'static str> {
        if header.sender == 0 {
            return Err("a connection without a number");
        }
        if payload.len() > LONGEST_ADDRESS {
            return Err("an address that is too long");
        }
        let address = Address::from_bytes(payload).map_err(|_| "a damaged address")?;
        Ok(Hello { address, peer_failure: header.flags & flag::PEER_FAILURE != 0, sender: header.sender })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { kind: Kind::Hello, flags: flag::PEER_FAILURE, connection: 0, sender: 0x0102_0304 }
    }

    #[test]
    fn the_layout_is_what_the_documentation_says() {
        let bytes = header().encode();
        assert_eq!(bytes, [1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(Header::decode(&bytes), Ok(header()));
    }

    #[test]
    fn every_kind_survives_the_journey() {
        for number in 1..=7 {
            let mut bytes = header().encode();
            bytes[1] = number;
            assert_eq!(Header::decode(&bytes).unwrap().encode(), bytes);
        }
    }

    #[test]
    fn another_version_is_told_with_all_that_a_refusal_needs() {
        let mut bytes = header().encode();
        (bytes[0], bytes[1], bytes[8]) = (9, 200, 5);
        let expected = Unreadable::Version { theirs: 9, refusal: false, connection: 5, sender: 0x0102_0304 };
        assert_eq!(Header::decode(&bytes), Err(expected));
    }

    #[test]
    fn garbage_is_refused() {
        let good = header().encode();
        for length in 0..HEADER {
            assert!(matches!(Header::decode(&good[..length]), Err(Unreadable::Garbage(_))));
        }
        assert!(Header::decode(&[&good[..], &[0]].concat()).is_err());
        for at in [2, 3, 4, 5, 12, 16, 19] {
            let mut bytes = good;
            bytes[at] = 1;
            assert!(matches!(Header::decode(&bytes), Err(Unreadable::Garbage(_))), "byte {at}");
        }
        for kind in [0, 8, 255] {
            let mut bytes = good;
            bytes[1] = kind;
            assert!(matches!(Header::decode(&bytes), Err(Unreadable::Garbage(_))), "kind {kind}");
        }
    }

    #[test]
    fn a_hello_needs_a_number_and_a_sound_address() {
        assert!(Hello::decode(&Header { sender: 0, ..header() }, b"").is_err());
        assert!(Hello::decode(&header(), b"not an address").is_err());
        assert!(Hello::decode(&header(), &vec![0; LONGEST_ADDRESS + 1]).is_err());
    }
}
