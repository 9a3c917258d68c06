//! The messages by which windows reach members that share no memory with the origin: one header for
//! all of them. docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

use crate::engine::wire::element_type::{ElementType, Reduce};
use crate::engine::wire::sync_constants::LockType;

/// Of the protocol between members.
const VERSION: u16 = 1;

/// What a message asks for or tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The data goes into the window.
    Put,
    /// Bytes of the window are asked for.
    Get,
    /// The data is combined into the window.
    Accumulate,
    /// The same, and what was there is asked for. NO_OP has no data.
    Fetch,
    /// The data is an element and what it is compared with; what was there is asked for.
    Swap,
    /// Everything before has been done: that is asked for, and how it went.
    Flush,
    /// The lock of the window at the receiver.
    Lock,
    /// It is not wanted any more, whether it was granted meanwhile or not.
    GiveUp,
    /// It was granted after some waiting, and the sender has it from now on.
    Took,
    /// It is given back.
    Unlock,
    /// So often the sender has posted.
    Posted,
    /// So often the sender has completed.
    Completed,
    /// So many barriers the sender has begun, in this round.
    Round,
    /// The sender takes part in nothing any more.
    Ended,
    /// To whoever has asked: with the data from `at` on of what was asked for.
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

    /// Does it ask for what is there?
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
    /// What it is.
    pub what: What,
    /// Of accumulates.
    pub op: Reduce,
    /// Of accumulates.
    pub kind: ElementType,
    /// Of locks.
    pub how: LockType,
    /// The sender's rank among all that were started together.
    pub from: u32,
    /// Pieces that stand in front of the data, as their places and lengths; 0 where it is one, from
    /// `at` on.
    pub pieces: u32,
    /// In front of the pieces stands one more: the extent of the whole operation, of which this
    /// message is a part. All of it has to be there.
    pub has_extent: bool,
    /// The same for all members, and different from other windows of any of them.
    pub window: u64,
    /// The sender's, for the answer; 0 where none is wanted.
    pub token: u64,
    /// A place in the receiver's memory: bytes from the window's beginning on, or an address for
    /// dynamic ones. Of an answer, and of a call that wants one, see `offset`. Of the others, how
    /// often.
    pub at: u64,
    /// Of the receiver's memory.
    pub bytes: u64,
    /// Where what this message is about begins in what was asked for as a whole.
    pub offset: u64,
    /// Of answers, and of the end.
    pub status: i32,
    /// Of the end, the rank in the window that is to blame; of barriers, the round; of the answer
    /// about a lock, 1 if it is to be said that it was taken.
    pub number: u32,
}

impl WindowHeader {
    /// Bytes.
    pub const LENGTH: usize = 64;
    /// Bytes of a piece in front of the data.
    pub const PIECE: usize = 16;

    /// One that says nothing else.
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

    /// As it is sent.
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

    /// Of bytes that came from somewhere.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; Self::LENGTH] =
            bytes.try_into().map_err(|_| "a window's message of another length")?;
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if half(0) as u16 != VERSION {
            return Err("a window's message of another version");
        }
        let what =
            *What::ALL.get(usize::from(bytes[2])).ok_or("a window's message of an unknown kind")?;
        let strange = "a window's message that contradicts itself";
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

/// Where a piece of the receiver's memory begins, and its bytes.
pub type Piece = (u64, u64);

/// As it stands in front of the data.
pub(crate) fn encode_piece((at, bytes): Piece) -> [u8; WindowHeader::PIECE] {
    let mut piece = [0; WindowHeader::PIECE];
    piece[..8].copy_from_slice(&at.to_le_bytes());
    piece[8..].copy_from_slice(&bytes.to_le_bytes());
    piece
}

/// What stands behind the header of a message about the receiver's memory.
#[derive(PartialEq, Eq, Debug)]
pub struct Content<'a> {
    /// Of the whole operation, where that is told.
    pub extent: Option<Piece>,
    /// What this message is about.
    pub pieces: Vec<Piece>,
    /// The rest.
    pub data: &'a [u8],
}

/// The pieces that a message is about, and its data: none if they do not fit together.
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
