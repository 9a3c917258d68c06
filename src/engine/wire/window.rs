//! The messages of windows, for members that share no memory with the origin: one header for all of
//! them. docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

use crate::engine::wire::element_type::{ElementType, Reduce};
use crate::engine::wire::sync_constants::LockType;

/// Version of the protocol between members.
const VERSION: u16 = 1;

/// Kind of a message: a request, a notice or a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Write the data to the window.
    Put,
    /// Read bytes of the window.
    Get,
    /// Combine the data into the window.
    Accumulate,
    /// Like `Accumulate`, and return the old contents. NO_OP has no data.
    Fetch,
    /// Compare-and-swap: the data is the new element and the expected one; return the old element.
    Swap,
    /// Reply, with a status, when everything before has been done.
    Flush,
    /// Request the lock of the receiver's window.
    Lock,
    /// The sender gives up its lock request, whether it has been granted meanwhile or not.
    GiveUp,
    /// The sender confirms a lock that was granted after a wait, and holds it from now on.
    Took,
    /// Release the lock.
    Unlock,
    /// Number of times that the sender has posted.
    Posted,
    /// Number of times that the sender has completed.
    Completed,
    /// Number of barriers that the sender has begun, up to this round.
    Round,
    /// The sender no longer takes part.
    Ended,
    /// Reply, with the data of the request from `at` on.
    Answer,
}

impl What {
    const ALL: [What; 15] = [
        What::Put,
        What::Get,
        What::Accumulate,
        What::Fetch,
        What::Swap,
        What::Flush,
        What::Lock,
        What::GiveUp,
        What::Took,
        What::Unlock,
        What::Posted,
        What::Completed,
        What::Round,
        What::Ended,
        What::Answer,
    ];

    /// Is the reply to it the window's data?
    pub fn is_answered(self) -> bool {
        matches!(self, What::Get | What::Fetch | What::Swap)
    }

    /// Does it read or write the window's memory?
    pub fn is_data(self) -> bool {
        matches!(self, What::Put | What::Get | What::Accumulate | What::Fetch | What::Swap)
    }
}

/// The header of a message about a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowHeader {
    /// Kind of the message.
    pub what: What,
    /// For accumulates.
    pub op: Reduce,
    /// For accumulates.
    pub kind: ElementType,
    /// For locks.
    pub how: LockType,
    /// The sender's rank among all processes that were started together.
    pub from: u32,
    /// Number of pieces (offset and length) listed before the data; 0 if the message is about one
    /// range at `at`.
    pub pieces: u32,
    /// One more piece precedes the list: the extent of the whole operation, of which this message
    /// is a part. All of the extent has to be inside the window.
    pub has_extent: bool,
    /// Equal for all members of the window; other windows have other numbers.
    pub window: u64,
    /// The sender's number for the reply; 0 if it wants none.
    pub token: u64,
    /// Data messages: offset from the window's beginning in the receiver's memory, or an address
    /// for dynamic windows. Replies, and requests for data: see `offset`. Others: the count.
    pub at: u64,
    /// Length in the receiver's memory.
    pub bytes: u64,
    /// Position of this message's data in the whole operation.
    pub offset: u64,
    /// For replies and `Ended`.
    pub status: i32,
    /// In `Ended`, the rank in the window that caused it. In `Round`, the round. In the reply to a
    /// lock request, 1 if the sender expects `Took`.
    pub number: u32,
}

impl WindowHeader {
    /// Encoded length.
    pub const LENGTH: usize = 64;
    /// Bytes of a piece before the data.
    pub const PIECE: usize = 16;

    /// A header with all other fields 0.
    pub fn new(what: What, window: u64, from: u32) -> Self {
        WindowHeader {
            what,
            op: Reduce::NoOp,
            kind: ElementType::Byte,
            how: LockType::Shared,
            from,
            pieces: 0,
            has_extent: false,
            window,
            token: 0,
            at: 0,
            bytes: 0,
            offset: 0,
            status: 0,
            number: 0,
        }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2..6].copy_from_slice(&[
            self.what as u8,
            self.op as u8,
            self.kind as u8,
            self.how as u8,
        ]);
        bytes[6] = self.has_extent.into();
        for (at, word) in
            [(8, self.from), (12, self.pieces), (56, self.status as u32), (60, self.number)]
        {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let words = [self.window, self.token, self.at, self.bytes, self.offset];
        for (place, word) in bytes[16..56].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; Self::LENGTH] =
            bytes.try_into().map_err(|_| "a window's message of the wrong length")?;
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if half(0) as u16 != VERSION {
            return Err("a window's message of another version");
        }
        let what =
            *What::ALL.get(usize::from(bytes[2])).ok_or("a window's message of an unknown kind")?;
        let strange = "a window's message whose fields contradict each other";
        let op = Reduce::from_number(bytes[3].into()).map_err(|_| strange)?;
        let kind = ElementType::from_number(bytes[4].into()).map_err(|_| strange)?;
        let how = LockType::from_number(bytes[5].into()).map_err(|_| strange)?;
        let (pieces, status) = (half(12), half(56) as i32);
        let has_extent = bytes[6] == 1;
        if bytes[6] > 1
            || bytes[7] != 0
            || status > 0
            || ((pieces > 0 || has_extent) && !what.is_data())
        {
            return Err(strange);
        }
        Ok(WindowHeader {
            what,
            op,
            kind,
            how,
            from: half(8),
            pieces,
            has_extent,
            window: word(16),
            token: word(24),
            at: word(32),
            bytes: word(40),
            offset: word(48),
            status,
            number: half(60),
        })
    }
}

/// Offset and length of a piece of the receiver's memory.
pub type Piece = (u64, u64);

/// Encoded form before the data.
pub(crate) fn encode_piece((at, bytes): Piece) -> [u8; WindowHeader::PIECE] {
    let mut piece = [0; WindowHeader::PIECE];
    piece[..8].copy_from_slice(&at.to_le_bytes());
    piece[8..].copy_from_slice(&bytes.to_le_bytes());
    piece
}

/// The decoded bytes after the header of a message about the receiver's memory.
#[derive(PartialEq, Eq, Debug)]
pub struct Content<'a> {
    /// Extent of the whole operation, if the message has it.
    pub extent: Option<Piece>,
    /// The pieces that this message is about.
    pub pieces: Vec<Piece>,
    /// The bytes after the pieces.
    pub data: &'a [u8],
}

/// The pieces of a message, and its data; `None` if they are inconsistent.
pub fn content_of<'a>(header: &WindowHeader, data: &'a [u8]) -> Option<Content<'a>> {
    let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
    let piece = |piece: &[u8]| (word(&piece[..8]), word(&piece[8..]));
    let (extent, data) =
        data.split_at_checked(if header.has_extent { WindowHeader::PIECE } else { 0 })?;
    let extent = header.has_extent.then(|| piece(extent));
    if header.pieces == 0 {
        return Some(Content { extent, pieces: vec![(header.at, header.bytes)], data });
    }
    let table = usize::try_from(header.pieces).ok()?.checked_mul(WindowHeader::PIECE)?;
    let (table, data) = data.split_at_checked(table)?;
    let pieces: Vec<Piece> = table.chunks_exact(WindowHeader::PIECE).map(piece).collect();
    let sum = pieces.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    (sum == Some(header.bytes)).then_some(Content { extent, pieces, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> WindowHeader {
        WindowHeader {
            what: What::Fetch,
            op: Reduce::Max,
            kind: ElementType::Double,
            how: LockType::Exclusive,
            from: 3,
            pieces: 2,
            has_extent: true,
            window: 1 << 40,
            token: 7,
            at: 1 << 50 | 1,
            bytes: 24,
            offset: 11,
            status: -12,
            number: 5,
        }
    }

    #[test]
    fn what_is_sent_arrives_and_nothing_else_does() {
        let header = header();
        let bytes = header.encode();
        assert_eq!(WindowHeader::decode(&bytes), Ok(header));
        for length in 0..bytes.len() {
            assert!(WindowHeader::decode(&bytes[..length]).is_err());
        }
        assert!(WindowHeader::decode(&[&bytes[..], &[0]].concat()).is_err());
        for (position, value) in
            [(0, 2), (2, 15), (3, 14), (4, 22), (5, 0), (5, 3), (6, 2), (7, 1), (59, 0)]
        {
            let mut damaged = bytes;
            damaged[position] = value;
            assert!(WindowHeader::decode(&damaged).is_err(), "byte {position}");
        }
        let extent_alone = WindowHeader { pieces: 0, ..header };
        for header in [header, extent_alone, WindowHeader { has_extent: false, ..header }] {
            let mut other = header.encode();
            other[2] = What::Flush as u8;
            assert!(WindowHeader::decode(&other).is_err(), "pieces of what has none");
        }
    }

    #[test]
    fn pieces_add_up_or_are_none() {
        let (table, extent) = ([(100, 8), (8, 16)], (8, 100));
        let mut data = [extent, table[0], table[1]].map(encode_piece).concat();
        data.extend([9; 3]);
        let content = Content { extent: Some(extent), pieces: table.to_vec(), data: &[9; 3] };
        assert_eq!(content_of(&header(), &data), Some(content));
        let content = Content { extent: None, pieces: table.to_vec(), data: &[9; 3] };
        assert_eq!(
            content_of(&WindowHeader { has_extent: false, ..header() }, &data[16..]),
            Some(content)
        );
        assert_eq!(content_of(&WindowHeader { bytes: 25, ..header() }, &data), None);
        assert_eq!(content_of(&WindowHeader { pieces: 3, ..header() }, &data[..51]), None);
        assert_eq!(content_of(&WindowHeader { pieces: u32::MAX, ..header() }, &data), None);
        let endless = [extent, (0, u64::MAX), (0, 25)].map(encode_piece).concat();
        assert_eq!(content_of(&header(), &endless), None);
        let one = WindowHeader { pieces: 0, ..header() };
        assert_eq!(content_of(&one, &data).unwrap().pieces, [(1 << 50 | 1, 24)]);
        assert_eq!(content_of(&one, &data[..15]), None);
    }
}
