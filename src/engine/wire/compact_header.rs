//! The compact header of messages, fetch requests (`Kind::Ask`) and replies (`Kind::Answer`), for
//! short pieces between peers that know each other's connection number.
//!
//! UCX passes short messages through shared memory in elements whose first cache line has 28 bytes
//! left for us. A second line costs as much as the first. With 8 bytes of data, a message in this
//! form fits into the first line, and one with the full header does not.
//!
//! The first byte distinguishes both: the full header begins with its version. Numbers are
//! little-endian.
#![deny(unsafe_code)]

use crate::engine::wire::credit;
use crate::engine::wire::header::{flag, join_number, Amount, Header, Kind, Question, Unreadable};

/// Header length of a message, before the user's header or data.
pub(crate) const MESSAGE: usize = 16;
/// Header length of a request.
pub(crate) const QUESTION: usize = 20;
/// Header length of a reply.
pub(crate) const ANSWER: usize = 16;

/// Bit of the first byte; the kind is in the lower bits.
const SHORT: u8 = 0x80;
/// First byte of a message.
pub(crate) const MARK_OF_MESSAGE: u8 = SHORT | Kind::Message as u8;
/// First byte of a request.
pub(crate) const MARK_OF_QUESTION: u8 = SHORT | Kind::Ask as u8;
/// First byte of a reply.
pub(crate) const MARK_OF_ANSWER: u8 = SHORT | Kind::Answer as u8;
/// Only the lower bits of the sequence are sent: a window allows far fewer messages in flight.
pub(crate) const SEQUENCE: u32 = 0xffff;

/// Does a piece that begins with this byte have a compact header?
#[inline(always)]
fn is_short(first: u8) -> bool {
    first & SHORT != 0
}

/// Number of the connection of a piece that begins with these words, with either header.
#[inline(always)]
pub(crate) fn names(words: &[u64]) -> u32 {
    if is_short(words[0] as u8) {
        (words[0] >> 32) as u32
    } else {
        words[1] as u32
    }
}

/// A message that arrived as one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// With a compact header, omitted fields have the values that they always have.
    pub header: Header,
    /// Of a request with a compact header. With the full header it is at the beginning of the
    /// user's header.
    pub question: Option<Question>,
    /// Mask of the bits of `Header::sequence` that were sent.
    pub sequence: u32,
    /// The user's header.
    pub user_header: &'a [u8],
    /// The user's data.
    pub data: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Decodes either form.
    #[inline(always)]
    pub fn decode(message: &'a [u8]) -> Result<Self, Unreadable> {
        if message.first().is_some_and(|first| is_short(*first)) {
            return Self::decode_short(message)
                .ok_or(Unreadable::Garbage("a short message whose header is not valid"));
        }
        Self::decode_long(message)
    }

    #[inline(never)]
    fn decode_long(message: &'a [u8]) -> Result<Self, Unreadable> {
        let (header, user_header, data) = Header::decode_packed(message)?;
        Ok(Piece { header, question: None, sequence: u32::MAX, user_header, data })
    }

    /// Decodes the compact form.
    fn decode_short(message: &'a [u8]) -> Option<Self> {
        let short = Short::of(message)?;
        let connection = short.connection();
        if connection == 0 {
            return None;
        }
        let header = Header { connection, id: short.id(), ..Header::of(Kind::Message) };
        if short.is(Kind::Answer) {
            let flags = u16::from(short.second_byte()) << flag::MEMORY;
            let sender = short.second as u32;
            let header =
                Header { kind: Kind::Answer, flags, taken: short.taken(), sender, ..header };
            let piece =
                Piece { header, question: None, sequence: 0, user_header: &[], data: short.rest };
            return (flags & !flag::USER == 0).then_some(piece);
        }
        let user_header = u16::from(short.second_byte());
        let header = Header { user_header, sequence: short.second as u32 & SEQUENCE, ..header };
        if short.is(Kind::Message) {
            let (user_header, data) = short.parts()?;
            let (flags, sender) = (short.flags(), credit::charge(data.len()).into());
            let header = Header { flags, taken: short.taken(), sender, ..header };
            let piece = Piece { header, question: None, sequence: SEQUENCE, user_header, data };
            return (flags & !flag::USER == 0).then_some(piece);
        }
        let (question, short) = short.asked()?;
        let (user_header, data) = short.parts()?;
        let header =
            Header { kind: Kind::Ask, sender: credit::charge(data.len()).into(), ..header };
        Some(Piece { header, question: Some(question), sequence: SEQUENCE, user_header, data })
    }
}

/// The first words of a piece that may have a compact header, and the bytes after them. Nothing is
/// checked yet.
#[derive(Clone, Copy)]
pub(crate) struct Short<'a> {
    first: u64,
    second: u64,
    rest: &'a [u8],
}

impl<'a> Short<'a> {
    #[inline(always)]
    pub(crate) fn of(message: &'a [u8]) -> Option<Self> {
        let (bytes, rest) = message.split_first_chunk::<16>()?;
        let both = u128::from_le_bytes(*bytes);
        Some(Short { first: both as u64, second: (both >> 64) as u64, rest })
    }

    #[inline(always)]
    fn is(&self, kind: Kind) -> bool {
        self.first as u8 == SHORT | kind as u8
    }

    #[inline(always)]
    pub(crate) fn connection(&self) -> u32 {
        (self.first >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> u16 {
        (self.first >> 16) as u16
    }

    /// Length of the user's header; in a reply, the memory type.
    #[inline(always)]
    pub(crate) fn second_byte(&self) -> u8 {
        (self.first >> 8) as u8
    }

    /// In a message or request, the lower bits of its sequence number.
    #[inline(always)]
    pub(crate) fn sequence(&self) -> u16 {
        self.second as u16
    }

    /// In a message.
    #[inline(always)]
    pub(crate) fn flags(&self) -> u16 {
        (self.second >> 16) as u16
    }

    /// In a message or reply.
    #[inline(always)]
    pub(crate) fn taken(&self) -> Amount {
        Amount::of_word(self.consumed_word())
    }

    #[inline(always)]
    pub(crate) fn consumed_word(&self) -> u32 {
        (self.second >> 32) as u32
    }

    /// In a reply: the number of its request.
    #[inline(always)]
    pub(crate) fn answers(&self) -> u64 {
        join_number(self.id(), self.second as u32)
    }

    /// The bytes after the words: in a reply the data, otherwise the input of `parts`.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The request's own fields, if it is a request, and the rest of it for `parts`.
    #[inline(always)]
    pub(crate) fn asked(self) -> Option<(Question, Self)> {
        let (upper, rest) = self.rest.split_first_chunk::<4>()?;
        let upper = u32::from_le_bytes(*upper);
        let question = Question {
            number: self.second >> 32 | u64::from(upper) << 32,
            capacity: self.second >> 16 & 0xffff,
        };
        (self.is(Kind::Ask) && upper <= 0xffff).then_some((question, Short { rest, ..self }))
    }

    /// The user's header and the data, of a message or of what `asked` returned.
    #[inline(always)]
    pub(crate) fn parts(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.rest.split_at_checked(self.second_byte().into())
    }
}

/// The compact header of a message or reply, if it can have one.
#[inline]
pub(crate) fn of(header: &Header) -> Option<[u64; 2]> {
    let known = header.connection != 0;
    match header.kind {
        Kind::Message if known && header.user_header <= 0xff => Some(message(header)),
        Kind::Answer if known && header.user_header == 0 && header.sequence == 0 => {
            Some(answer(header))
        }
        _ => None,
    }
}

/// The compact header of a request, if it can have one. `asked` is the beginning of the user's
/// header in the full form.
#[inline]
pub(crate) fn of_question(
    header: &Header,
    asked: &[u8; Question::LENGTH],
) -> Option<([u64; 2], u32)> {
    let (asked, _) = Question::decode(asked).ok()?;
    let user_header = header.user_header.checked_sub(Question::LENGTH as u16)?;
    let fits = header.connection != 0
        && header.flags == 0
        && user_header <= 0xff
        && asked.capacity <= 0xffff;
    fits.then(|| question(&Header { user_header, ..*header }, &asked))
}

/// A message's header. `header.user_header` fits into a byte.
#[inline(always)]
pub(crate) fn message(header: &Header) -> [u64; 2] {
    let Header { flags, sequence, taken, .. } = *header;
    [
        beginning(header, Kind::Message),
        upper_half(taken) | u64::from(sequence & SEQUENCE) | u64::from(flags) << 16,
    ]
}

/// A request's header. The capacity fits into 16 bits. It carries no credit update.
#[inline(always)]
pub(crate) fn question(header: &Header, question: &Question) -> ([u64; 2], u32) {
    let Question { number, capacity } = *question;
    let second = u64::from(header.sequence & SEQUENCE) | capacity << 16 | number << 32;
    ([beginning(header, Kind::Ask), second], (number >> 32) as u32)
}

/// A reply's header. Its status is OK.
#[inline(always)]
pub(crate) fn answer(header: &Header) -> [u64; 2] {
    let Header { flags, taken, sender, .. } = *header;
    let header = Header { user_header: flags >> flag::MEMORY, ..*header };
    [beginning(&header, Kind::Answer), upper_half(taken) | u64::from(sender)]
}

#[inline(always)]
fn beginning(header: &Header, kind: Kind) -> u64 {
    let Header { id, user_header, connection, .. } = *header;
    let mark = u64::from(SHORT | kind as u8);
    mark | u64::from(user_header as u8) << 8 | u64::from(id) << 16 | u64::from(connection) << 32
}

#[inline(always)]
fn upper_half(taken: Amount) -> u64 {
    u64::from(taken.word()) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: [u64; 2], rest: &[u8]) -> Vec<u8> {
        [&words[0].to_le_bytes()[..], &words[1].to_le_bytes(), rest].concat()
    }

    fn header(kind: Kind) -> Header {
        Header {
            id: 0xbeef,
            connection: 0x1234_5678,
            taken: Amount { messages: 7, units: 65535 },
            ..Header::of(kind)
        }
    }

    #[test]
    fn a_message_comes_back_but_for_the_upper_half_of_its_place() {
        let flags = flag::REPLY | 0x7f << flag::MEMORY;
        let sent = Header {
            user_header: 3,
            sequence: 0x9_fff1,
            flags,
            sender: 1,
            ..header(Kind::Message)
        };
        let message = bytes(message(&sent), b"abcdata");
        let piece = Piece::decode(&message).unwrap();
        assert_eq!(piece.header, Header { sequence: 0xfff1, ..sent });
        assert_eq!((piece.sequence, piece.question), (SEQUENCE, None));
        assert_eq!((piece.user_header, piece.data), (&b"abc"[..], &b"data"[..]));
        assert!(Piece::decode(&message[..MESSAGE + 2]).is_err(), "a header that is cut off");
        (0..MESSAGE).for_each(|length| assert!(Piece::decode(&message[..length]).is_err()));
    }

    #[test]
    fn a_question_comes_back() {
        let sent = Header {
            user_header: 8,
            sequence: 5,
            sender: 1,
            taken: Amount::default(),
            ..header(Kind::Ask)
        };
        let asked = Question { number: Question::NUMBERS - 1, capacity: 65535 };
        let (words, upper) = question(&sent, &asked);
        let message = bytes(words, &[&upper.to_le_bytes()[..], b"12345678"].concat());
        assert_eq!(message.len(), QUESTION + 8);
        let piece = Piece::decode(&message).unwrap();
        assert_eq!((piece.header, piece.question), (sent, Some(asked)));
        assert_eq!((piece.user_header, piece.data), (&b"12345678"[..], &b""[..]));
        (0..message.len()).for_each(|length| assert!(Piece::decode(&message[..length]).is_err()));
        let mut large = message.clone();
        large[18] = 1;
        assert!(Piece::decode(&large).is_err(), "a number beyond 48 bits");
    }

    #[test]
    fn an_answer_comes_back() {
        let sent =
            Header { flags: 0x11 << flag::MEMORY, sender: 0xfeed_f00d, ..header(Kind::Answer) };
        let message = bytes(answer(&sent), b"12345678");
        let piece = Piece::decode(&message).unwrap();
        assert_eq!(
            (piece.header, piece.user_header, piece.data),
            (sent, &b""[..], &b"12345678"[..])
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let good = bytes(message(&header(Kind::Message)), b"");
        for (place, value) in [(0, 0x80), (0, 0x81), (0, 0x89), (0, 0xff), (10, 1), (11, 0x80)] {
            let mut bad = good.clone();
            bad[place] = value;
            assert!(Piece::decode(&bad).is_err(), "byte {place}");
        }
        let nobody = bytes(message(&Header { connection: 0, ..header(Kind::Message) }), b"");
        assert!(Piece::decode(&nobody).is_err(), "without a connection");
    }
}
