//! The full header of the library's messages: active messages of one UCP id, with a header of 24
//! bytes that names their kind.
//!
//! All numbers are little-endian; docs/wire-formats.md has the layout. Received bytes are untrusted
//! until they are decoded here.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::wire::address::Address;

/// UCP's id of all these messages. Id 0 belongs to UCXX's format.
pub(crate) const AM_ID: u32 = 1;
/// Incremented with every change that older libraries would not understand.
pub(crate) const VERSION: u8 = 1;
/// Length of the header.
pub const HEADER: usize = 24;
/// Longer than any real address: room for some hundred network devices.
const LONGEST_ADDRESS: usize = 1 << 16;

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First message of each endpoint: the sender's number for the connection, followed by its
    /// address.
    Hello = 1,
    /// Reply to Hello, with the receiver's number for the connection.
    Welcome = 2,
    /// Reply to a message of an unsupported version. The header's version is the supported one. The
    /// same in all versions.
    Refusal = 3,
    /// The endpoint is closed.
    Bye = 4,
    /// Reply to Bye: nothing here accesses the other side's memory any more.
    ByeAck = 5,
    /// Asks for a Pong.
    Ping = 6,
    /// Shows that the sender lives.
    Pong = 7,
    /// The user's message; the user's header follows this one.
    Message = 8,
    /// Credit update: room for more messages.
    Grant = 9,
    /// Request of a fetch, sent as a message; a `Question` precedes the user's header.
    Ask = 10,
    /// Reply of a fetch.
    Answer = 11,
    /// A message with frames: a `wire::multi_table` precedes the user's header.
    Multi = 12,
    /// The sender has made a fast box for messages to it; the name of its memory follows.
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

    /// It carries data of users: it is not a control message.
    #[inline(always)]
    pub(crate) fn has_data(self) -> bool {
        matches!(self, Kind::Message | Kind::Multi | Kind::Ask | Kind::Answer)
    }

    fn has_credits(self) -> bool {
        self.has_data() || self == Kind::Grant
    }
}

/// What a receiver has released on a connection since its beginning. The sender may be ahead of
/// that by a fixed amount. Both fields wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Number of messages.
    pub messages: u16,
    /// Their cost in memory, in units of `credit::UNIT` bytes.
    pub units: u16,
}

impl Amount {
    #[inline(always)]
    pub(crate) fn word(self) -> u32 {
        u32::from(self.messages) | u32::from(self.units) << 16
    }

    /// The amount of such a number.
    #[inline(always)]
    pub(crate) fn of_word(word: u32) -> Self {
        Amount { messages: word as u16, units: (word >> 16) as u16 }
    }
}

/// The header. Fields that a kind does not use are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Kind of the message.
    pub kind: Kind,
    /// Bits of `flag`.
    pub flags: u16,
    /// Id of the user's handler; in a reply, the upper part of the request's number.
    pub id: u16,
    /// Length of the user's header, which follows.
    pub user_header: u16,
    /// The receiver's number for the connection; 0 before the sender knows it.
    pub connection: u32,
    /// Sequence number among the connection's messages. In a reply, its status. In a Hello, index
    /// of the sender's endpoint among those that it has made for the receiver, from 1, or 0 for a
    /// connection by host and port.
    pub sequence: u32,
    /// Credit update: what the sender of this message has released.
    pub taken: Amount,
    /// The sender's number for the connection. In a message or request, its cost. In a reply, the
    /// lower part of the request's number.
    pub sender: u32,
}

/// Bits of `Header::flags`.
pub(crate) mod flag {
    /// Hello: the sender's endpoint has failure detection.
    pub(crate) const PEER_FAILURE: u16 = 1;
    /// Bye: the sender waits for the ByeAck.
    pub(crate) const ANSWER: u16 = 2;
    /// Message: the receiver must be able to reply.
    pub(crate) const REPLY: u16 = 4;
    /// Message: memory type of the sender's buffer (`UCXX_MEMORY_*`), in the bits from this one.
    pub(crate) const MEMORY: u32 = 8;
    /// Ask: the reply's data waits at its sender until it is fetched, as it goes to memory that the
    /// CPU cannot write.
    pub(crate) const WAITING: u16 = 8;
    /// Ask: an `Atomic`, which the library answers itself.
    pub(crate) const ATOMIC: u16 = 16;
    /// Message: belongs to a stream of chunks between two hubs; the library handles it.
    pub(crate) const HUB: u16 = 32;
    pub(crate) const LIBRARY: u16 = PEER_FAILURE | ANSWER;
    pub(crate) const USER: u16 = REPLY | WAITING | ATOMIC | HUB | 0x7f << MEMORY;
}

/// Whether a message that begins with this word has a long header of this version, and a kind that
/// has data.
#[inline(always)]
pub(crate) fn may_have_data(first: u64) -> bool {
    let [version, kind, ..] = first.to_le_bytes();
    version == VERSION && Kind::from_number(kind).is_some_and(Kind::has_data)
}

/// Why a message cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// Of another version; `connection` and `sender` have the same place in all versions.
    Version {
        /// The message's version.
        theirs: u8,
        /// It is a Refusal, which must not be answered.
        refusal: bool,
        /// As in `Header`.
        connection: u32,
        /// As in `Header`.
        sender: u32,
    },
    /// Damaged, or not of this library; the text says what is wrong.
    Garbage(&'static str),
}

impl Header {
    /// A header with all other fields 0.
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

    /// The bytes to send.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER] {
        let [first, second, third] = self.words();
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..16].copy_from_slice(&second.to_le_bytes());
        bytes[16..].copy_from_slice(&third.to_le_bytes());
        bytes
    }

    /// The header as three numbers. Few wide stores can be forwarded to loads sooner than many
    /// small ones.
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

    /// Decodes the header at the beginning of `message`; the rest is the user's header.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<Self, Unreadable> {
        let header = Self::decode_first(message)?;
        if HEADER + usize::from(header.user_header) != message.len() {
            return Err(Unreadable::Garbage("a header of the wrong length"));
        }
        Ok(header)
    }

    /// Decodes a message that arrived packed: header, user's header and data.
    #[inline]
    pub fn decode_packed(message: &[u8]) -> Result<(Self, &[u8], &[u8]), Unreadable> {
        let header = Self::decode_first(message)?;
        let rest = &message[HEADER..];
        if !header.kind.has_data() {
            return Err(Unreadable::Garbage("a packed message of a kind that is never packed"));
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
        let strange = if kind.has_data() {
            header.flags & !flag::USER != 0
        } else {
            let placed = header.sequence != 0 && kind != Kind::Hello;
            header.flags & !flag::LIBRARY != 0
                || header.id != 0
                || header.user_header != 0
                || placed
        };
        let strange = strange || (!kind.has_credits() && taken != Amount::default());
        if strange {
            return Err(Unreadable::Garbage("fields that its kind does not have"));
        }
        Ok(header)
    }
}

/// Fields of a fetch request, before the user's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Number by which the reply refers to the request; 48 bits.
    pub number: u64,
    /// Length of the buffer for the reply; `u64::MAX` if it is allocated when the reply arrives.
    pub capacity: u64,
}

impl Question {
    /// Encoded length.
    pub const LENGTH: usize = 16;
    /// The largest number.
    pub const NUMBERS: u64 = (1 << 48) - 1;

    /// The bytes to send.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Decodes one, and returns the bytes after it.
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

/// Splits a request's number into the two parts in the reply: `Header::id` and `Header::sender`.
#[inline]
pub(crate) fn split_number(number: u64) -> (u16, u32) {
    ((number >> 32) as u16, number as u32)
}

/// The inverse of `split_number`.
#[inline]
pub(crate) fn join_number(id: u16, sender: u32) -> u64 {
    u64::from(id) << 32 | u64::from(sender)
}

/// A reply's status, and its length if its data is not included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Number of the request.
    pub number: u64,
    /// Status from the user of the other side, or from its library.
    pub status: i32,
    /// Full length of a reply that is longer than the buffer.
    pub length: Option<u64>,
}

impl Answer {
    /// Decodes a reply's header and the bytes after it.
    pub fn decode(header: &Header, user_header: &[u8]) -> Result<Self, &'static str> {
        let status = header.sequence as i32;
        let length = match user_header.len() {
            0 => None,
            8 => user_header.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)),
            _ => return Err("an answer with a header of the wrong length"),
        };
        if status > 0 || length.is_some() != (status == Status::MESSAGE_TRUNCATED.0) {
            return Err("an answer whose status does not match its length");
        }
        Ok(Answer { number: join_number(header.id, header.sender), status, length })
    }
}

/// The contents of a Hello.
pub struct Hello {
    /// The sender's address.
    pub address: Address,
    /// The sender's endpoint has failure detection.
    pub peer_failure: bool,
    /// The sender's number for the connection.
    pub sender: u32,
    /// Index of the sender's endpoint among those that it has made for this worker, from 1; 0 for a
    /// connection by host and port.
    pub place: u32,
}

impl Hello {
    /// Decodes the bytes after a Hello's header.
    pub fn decode(header: &Header, payload: &[u8]) -> Result<Self, &'static str> {
        if header.sender == 0 {
            return Err("a connection request without a connection number");
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
