//! What libraries say to each other: active messages of one UCP id, each with a header of 24 bytes
//! that names its kind.
//!
//! All numbers are little-endian; docs/wire-formats.md has the layout. What comes in is hostile
//! until it has been read here.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::wire::address::Address;

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
    /// First on each endpoint: who sends, and the number under which it knows the connection.
    /// Behind it comes its address.
    Hello = 1,
    /// Answers it, with the number that the other side has for the connection.
    Welcome = 2,
    /// Answers a message of a version that is not spoken here; the header's version is the one that
    /// is. The same in all versions.
    Refusal = 3,
    /// The endpoint is closed.
    Bye = 4,
    /// Answers it: nothing here touches the other side's memory any more.
    ByeAck = 5,
    /// Asks for a sign of life.
    Ping = 6,
    /// Gives it.
    Pong = 7,
    /// The user's message, with the user's header behind this one.
    Message = 8,
    /// Room for more of them.
    Grant = 9,
    /// A question, as a message; a `Question` comes before the user's header.
    Ask = 10,
    /// Answers it.
    Answer = 11,
    /// As a message, with frames: a `wire::multi_table` comes before the user's header.
    Multi = 12,
    /// The sender has made a fast box for what is said to it; behind it comes the name of its
    /// memory.
    FastBox = 13,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        use Kind::{
            Answer, Ask, Bye, ByeAck, FastBox, Grant, Hello, Message, Multi, Ping, Pong, Refusal,
            Welcome,
        };
        const ALL: [Kind; 13] = [
            Hello, Welcome, Refusal, Bye, ByeAck, Ping, Pong, Message, Grant, Ask, Answer, Multi,
            FastBox,
        ];
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn has_credits(self) -> bool {
        matches!(self, Kind::Message | Kind::Multi | Kind::Grant | Kind::Ask | Kind::Answer)
    }
}

/// How much a receiver has taken in on one connection since its beginning: a sender may be ahead of
/// that by a fixed distance. Both wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Messages.
    pub messages: u16,
    /// What they cost in memory, in units of `credit::UNIT` bytes.
    pub units: u16,
}

impl Amount {
    /// As one number.
    #[inline(always)]
    pub(crate) fn word(self) -> u32 {
        u32::from(self.messages) | u32::from(self.units) << 16
    }

    /// Of such a number.
    #[inline(always)]
    pub(crate) fn of_word(word: u32) -> Self {
        Amount { messages: word as u16, units: (word >> 16) as u16 }
    }
}

/// The header. Kinds that have no use for a field have 0 there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is about.
    pub kind: Kind,
    /// Bits of `flag`.
    pub flags: u16,
    /// Of the handler that the user means; of an answer, the upper part of the question's number.
    pub id: u16,
    /// Of the user's header, which follows.
    pub user_header: u16,
    /// The connection, by the number that its receiver has given it; 0 before that is known.
    pub connection: u32,
    /// Place in the order of a connection's messages; of an answer, its status; of a Hello, the
    /// sender's end's place among those that it has made for the receiver, from 1 on, or 0 for a
    /// connection by host and port.
    pub sequence: u32,
    /// What its sender has taken in.
    pub taken: Amount,
    /// The number that its sender has given the connection; of a message or a question, what it
    /// costs its receiver; of an answer, the lower part of the question's number.
    pub sender: u32,
}

/// Of `Header::flags`.
pub(crate) mod flag {
    /// Hello: the sender's endpoint has failure detection.
    pub(crate) const PEER_FAILURE: u16 = 1;
    /// Bye: the sender waits for the answer.
    pub(crate) const ANSWER: u16 = 2;
    /// Message: the receiver is to be able to answer.
    pub(crate) const REPLY: u16 = 4;
    /// Message: where the sender's buffer is, in the bits from here on (`UCXX_MEMORY_*`).
    pub(crate) const MEMORY: u32 = 8;
    /// Ask: data of the answer is to wait at its sender, as it goes to where the processor cannot
    /// put it.
    pub(crate) const WAITING: u16 = 8;
    /// Ask: it is an `Atomic`, which the library answers by itself.
    pub(crate) const ATOMIC: u16 = 16;
    /// Message: it is about a stream of chunks between two hubs, and the library's own.
    pub(crate) const HUB: u16 = 32;
    pub(crate) const LIBRARY: u16 = PEER_FAILURE | ANSWER;
    pub(crate) const USER: u16 = REPLY | WAITING | ATOMIC | HUB | 0x7f << MEMORY;
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
    /// Of a message of the library's own that has nothing but its kind.
    pub fn of(kind: Kind) -> Self {
        let taken = Amount::default();
        Header {
            kind,
            flags: 0,
            id: 0,
            user_header: 0,
            connection: 0,
            sequence: 0,
            taken,
            sender: 0,
        }
    }

    /// As it goes out.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER] {
        let [first, second, third] = self.words();
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..16].copy_from_slice(&second.to_le_bytes());
        bytes[16..].copy_from_slice(&third.to_le_bytes());
        bytes
    }

    /// The same as three numbers: few wide stores are read back sooner than many small ones.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u64; 3] {
        let (id, user_header, flags) =
            (u64::from(self.id), u64::from(self.user_header), u64::from(self.flags));
        let (messages, units) = (u64::from(self.taken.messages), u64::from(self.taken.units));
        [
            u64::from(VERSION)
                | u64::from(self.kind as u8) << 8
                | id << 16
                | user_header << 32
                | flags << 48,
            u64::from(self.connection) | u64::from(self.sequence) << 32,
            messages | units << 16 | u64::from(self.sender) << 32,
        ]
    }

    /// Reads one that came in: the first bytes of `message`, whose rest is the user's header.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, Unreadable> {
        let header = Self::decode_first(message)?;
        if HEADER + usize::from(header.user_header) != message.len() {
            return Err(Unreadable::Garbage("a header of another length"));
        }
        Ok(header)
    }

    /// Reads one that came in packed with what belongs to it: the user's header, and the data.
    #[inline]
    pub fn decode_packed(message: &[u8]) -> Result<(Self, &[u8], &[u8]), Unreadable> {
        let header = Self::decode_first(message)?;
        let rest = &message[HEADER..];
        if !matches!(header.kind, Kind::Message | Kind::Multi | Kind::Ask | Kind::Answer) {
            return Err(Unreadable::Garbage("packed, and not of a user"));
        }
        let Some((user_header, data)) = rest.split_at_checked(header.user_header.into()) else {
            return Err(Unreadable::Garbage("a header that is too short"));
        };
        Ok((header, user_header, data))
    }

    #[inline]
    fn decode_first(message: &[u8]) -> Result<Self, Unreadable> {
        let Some(bytes) = message.first_chunk::<HEADER>() else {
            return Err(Unreadable::Garbage("a header that is too short"));
        };
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (connection, sender) = (long(8), long(20));
        if bytes[0] != VERSION {
            return Err(Unreadable::Version {
                theirs: bytes[0],
                refusal: bytes[1] == Kind::Refusal as u8,
                connection,
                sender,
            });
        }
        let Some(kind) = Kind::from_number(bytes[1]) else {
            return Err(Unreadable::Garbage("an unknown kind"));
        };
        let taken = Amount { messages: short(16), units: short(18) };
        let header = Header {
            kind,
            flags: short(6),
            id: short(2),
            user_header: short(4),
            connection,
            sequence: long(12),
            taken,
            sender,
        };
        let strange = match kind {
            Kind::Message | Kind::Multi | Kind::Ask | Kind::Answer => {
                header.flags & !flag::USER != 0
            }
            _ => {
                let placed = header.sequence != 0 && kind != Kind::Hello;
                header.flags & !flag::LIBRARY != 0
                    || header.id != 0
                    || header.user_header != 0
                    || placed
            }
        };
        let strange = strange || (!kind.has_credits() && taken != Amount::default());
        if strange {
            return Err(Unreadable::Garbage("fields that its kind does not have"));
        }
        Ok(header)
    }
}

/// What comes before the user's header in a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// By which its answer names it; 48 bits.
    pub number: u64,
    /// Bytes that there is room for; `u64::MAX` where room is made when the answer has come.
    pub capacity: u64,
}

impl Question {
    /// Bytes on the wire.
    pub const LENGTH: usize = 16;
    /// The largest number.
    pub const NUMBERS: u64 = (1 << 48) - 1;

    /// As it goes out.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads one, and what follows it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let Some((bytes, rest)) = bytes.split_first_chunk::<{ Self::LENGTH }>() else {
            return Err("a question that is too short");
        };
        let (mut capacity, mut number) = ([0; 8], [0; 8]);
        capacity.copy_from_slice(&bytes[..8]);
        number.copy_from_slice(&bytes[8..]);
        let question =
            Question { number: u64::from_le_bytes(number), capacity: u64::from_le_bytes(capacity) };
        if question.number > Self::NUMBERS {
            return Err("a question with a number that is too large");
        }
        Ok((question, rest))
    }
}

/// The two parts of a question's number in an answer: `Header::id` and `Header::sender`.
#[inline]
pub(crate) fn split_number(number: u64) -> (u16, u32) {
    ((number >> 32) as u16, number as u32)
}

/// A question's number of these.
#[inline]
pub(crate) fn join_number(id: u16, sender: u32) -> u64 {
    u64::from(id) << 32 | u64::from(sender)
}

/// What an answer says of itself: its status, and its length where its data does not come along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Of its question.
    pub number: u64,
    /// What the user of the other side has said, or its library.
    pub status: i32,
    /// In full, of one that is longer than there is room for.
    pub length: Option<u64>,
}

impl Answer {
    /// Reads it from a header of that kind and what follows.
    pub fn decode(header: &Header, user_header: &[u8]) -> Result<Self, &'static str> {
        let status = header.sequence as i32;
        let length = match user_header.len() {
            0 => None,
            8 => user_header.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)),
            _ => return Err("an answer with a header of another length"),
        };
        if status > 0 || length.is_some() != (status == Status::MESSAGE_TRUNCATED.0) {
            return Err("an answer that contradicts itself");
        }
        Ok(Answer { number: join_number(header.id, header.sender), status, length })
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
    /// Of the sender's end among those that it has made for this worker, from 1 on; 0 for a
    /// connection by host and port.
    pub place: u32,
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
        let peer_failure = header.flags & flag::PEER_FAILURE != 0;
        Ok(Hello { address, peer_failure, sender: header.sender, place: header.sequence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { flags: flag::PEER_FAILURE, sender: 0x0102_0304, ..Header::of(Kind::Hello) }
    }

    #[test]
    fn the_layout_is_what_the_documentation_says() {
        let bytes = header().encode();
        assert_eq!(bytes, [1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(Header::decode(&bytes), Ok(header()));
    }

    #[test]
    fn every_kind_survives_the_journey() {
        for number in 1..=13 {
            let mut bytes = Header { flags: 0, ..header() }.encode();
            bytes[1] = number;
            assert_eq!(Header::decode(&bytes).unwrap().encode(), bytes);
        }
    }

    #[test]
    fn a_message_has_all_fields_and_its_own_header_behind() {
        let message = Header {
            kind: Kind::Message,
            flags: flag::REPLY | 2 << flag::MEMORY,
            id: 0xfffe,
            user_header: 3,
            connection: 5,
            sequence: 0xffff_fff0,
            taken: Amount { messages: 0xff01, units: 7 },
            sender: 9,
        };
        let bytes = [&message.encode()[..], b"abc"].concat();
        assert_eq!(
            bytes[..HEADER],
            [1, 8, 254, 255, 3, 0, 4, 2, 5, 0, 0, 0, 240, 255, 255, 255, 1, 255, 7, 0, 9, 0, 0, 0]
        );
        assert_eq!(Header::decode(&bytes), Ok(message));
        assert!(Header::decode(&bytes[..HEADER + 2]).is_err());
        assert!(Header::decode(&[&bytes[..], &[0]].concat()).is_err());

        let packed = [&bytes[..], b"data"].concat();
        assert_eq!(Header::decode_packed(&packed), Ok((message, &b"abc"[..], &b"data"[..])));
        assert_eq!(Header::decode_packed(&bytes), Ok((message, &b"abc"[..], &b""[..])));
        assert!(Header::decode_packed(&bytes[..HEADER + 2]).is_err());
        assert!(Header::decode_packed(&Header::of(Kind::Bye).encode()).is_err());
    }

    #[test]
    fn another_version_is_told_with_all_that_a_refusal_needs() {
        let mut bytes = header().encode();
        (bytes[0], bytes[1], bytes[8]) = (9, 200, 5);
        let expected =
            Unreadable::Version { theirs: 9, refusal: false, connection: 5, sender: 0x0102_0304 };
        assert_eq!(Header::decode(&bytes), Err(expected));
    }

    #[test]
    fn garbage_is_refused() {
        let good = Header { kind: Kind::Welcome, ..header() }.encode();
        for length in 0..HEADER {
            assert!(matches!(Header::decode(&good[..length]), Err(Unreadable::Garbage(_))));
        }
        assert!(Header::decode(&[&good[..], &[0]].concat()).is_err());
        for at in [2, 3, 4, 5, 12, 16, 19] {
            let mut bytes = good;
            bytes[at] = 1;
            assert!(matches!(Header::decode(&bytes), Err(Unreadable::Garbage(_))), "byte {at}");
        }
        for kind in [0, 14, 255] {
            let mut bytes = good;
            bytes[1] = kind;
            assert!(matches!(Header::decode(&bytes), Err(Unreadable::Garbage(_))), "kind {kind}");
        }
    }

    #[test]
    fn questions_and_answers_survive_the_journey() {
        let question = Question { number: 0xfeed_dead_beef, capacity: 0x1_0000_0002 };
        let bytes = [&question.encode()[..], b"user"].concat();
        assert_eq!(Question::decode(&bytes), Ok((question, &b"user"[..])));
        assert!(Question::decode(&bytes[..15]).is_err());
        let mut strange = bytes;
        strange[14] = 1;
        assert!(Question::decode(&strange).is_err());

        let number = question.number;
        let (id, sender) = split_number(number);
        let answer = |status: Status| Header {
            sequence: status.0 as u32,
            id,
            sender,
            ..Header::of(Kind::Answer)
        };
        let truncated = Answer { number, status: Status::MESSAGE_TRUNCATED.0, length: Some(7) };
        assert_eq!(
            Answer::decode(&answer(Status::MESSAGE_TRUNCATED), &7u64.to_le_bytes()),
            Ok(truncated)
        );
        assert_eq!(
            Answer::decode(&answer(Status::OK), b""),
            Ok(Answer { number, status: 0, length: None })
        );
        assert!(Answer::decode(&answer(Status::MESSAGE_TRUNCATED), b"").is_err());
        assert!(Answer::decode(&answer(Status::OK), &7u64.to_le_bytes()).is_err());
        assert!(Answer::decode(&answer(Status::OK), b"1234").is_err());
        assert!(Answer::decode(&answer(Status::INPROGRESS), b"").is_err());
    }

    #[test]
    fn a_hello_needs_a_number_and_a_sound_address() {
        assert!(Hello::decode(&Header { sender: 0, ..header() }, b"").is_err());
        assert!(Hello::decode(&header(), b"not an address").is_err());
        assert!(Hello::decode(&header(), &vec![0; LONGEST_ADDRESS + 1]).is_err());
    }
}
