//! What the two ends of a joined link say to each other: one header for all of it.
//! docs/wire-formats.md has the layout.
//!
//! What comes in is hostile until it has been read here, and compared with what the stream knows
//! (`hub::stream::stream`).
#![deny(unsafe_code)]

use crate::engine::base::status::Status;

/// Bytes that travel with each chunk beside its data.
pub const METADATA: usize = 64;

/// What a message tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tells {
    /// There is an end of a stream here.
    Open = 1,
    /// A chunk: its metadata stands behind the header, and it is the data.
    Chunk = 2,
    /// What has become chunks, and what there are envelopes for.
    Credit = 3,
    /// No more chunks come.
    End = 4,
    /// Nothing more is taken, or sent.
    Close = 5,
}

/// The header of a message about a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamHeader {
    /// What it is.
    pub tells: Tells,
    /// Open: the sender of this message takes chunks in. End: the hub's stream is at its end, not
    /// only this link's.
    pub mark: bool,
    /// Open: its envelopes are on a device, where only what is pulled gets to.
    pub device: bool,
    /// Open: chunks that may be on their way at a time.
    pub window: u32,
    /// The number that the receiver of this message has given its end; 0 where that is not known.
    pub to: u32,
    /// The number that its sender has given its own.
    pub from: u32,
    /// Open: the stream, as both sides call it. Chunk: its place, from 0 on. Credit and Close:
    /// chunks that have been taken in for good. End: all that were sent.
    pub count: u64,
    /// Open: bytes of an envelope. Credit: chunks that there have been envelopes for so far.
    pub size: u64,
    /// Close: why, 0 or negative.
    pub status: i32,
}

impl StreamHeader {
    /// Bytes.
    pub const LENGTH: usize = 32;
    /// With what stands behind it in front of a chunk.
    pub const WITH_METADATA: usize = Self::LENGTH + METADATA;

    /// One that says nothing else.
    pub fn new(tells: Tells, to: u32, from: u32) -> Self {
        StreamHeader {
            tells,
            mark: false,
            device: false,
            window: 0,
            to,
            from,
            count: 0,
            size: 0,
            status: 0,
        }
    }

    /// The answer to an Open that names an end which waits for none.
    pub fn turned_away(&self) -> Self {
        StreamHeader { status: Status::CANCELED.0, ..Self::new(Tells::Close, self.from, self.to) }
    }

    /// As it is sent.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        (bytes[0], bytes[1], bytes[2]) = (self.tells as u8, self.mark.into(), self.device.into());
        let last =
            if self.tells == Tells::Close { u64::from(self.status as u32) } else { self.size };
        for (at, word) in [(4, self.window), (8, self.to), (12, self.from)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in [(16, self.count), (24, last)] {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Of bytes that came from somewhere; with what stands behind it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let (head, behind) = bytes
            .split_first_chunk::<{ Self::LENGTH }>()
            .ok_or("a hub's message that is too short")?;
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
        let tells = match head[0] {
            1 => Tells::Open,
            2 => Tells::Chunk,
            3 => Tells::Credit,
            4 => Tells::End,
            5 => Tells::Close,
            _ => return Err("a hub's message of an unknown kind"),
        };
        let (mark, window, to, from, count, last) =
            (head[1], half(4), half(8), half(12), word(16), word(24));
        let status = if tells == Tells::Close { last as u32 as i32 } else { 0 };
        let size = if tells == Tells::Close { 0 } else { last };
        let expected = if tells == Tells::Chunk { METADATA } else { 0 };
        let fits = behind.len() == expected
            && head[2] <= u8::from(tells == Tells::Open)
            && head[3] == 0
            && mark <= u8::from(matches!(tells, Tells::Open | Tells::End))
            && (tells == Tells::Open) == (window > 0)
            && from != 0
            && (to != 0 || matches!(tells, Tells::Open | Tells::Close))
            && match tells {
                Tells::Open => size > 0,
                Tells::Credit => size >= count,
                Tells::Close => status <= 0 && last <= u64::from(u32::MAX),
                Tells::Chunk | Tells::End => size == 0,
            };
        if !fits {
            return Err("a hub's message that contradicts itself");
        }
        let (mark, device) = (mark == 1, head[2] == 1);
        Ok((StreamHeader { tells, mark, device, window, to, from, count, size, status }, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> [StreamHeader; 5] {
        let of =
            |tells| StreamHeader { count: 7 << 40, ..StreamHeader::new(tells, 3, 1 << 31 | 5) };
        [
            StreamHeader { mark: true, device: true, window: 9, size: 1 << 33, ..of(Tells::Open) },
            of(Tells::Chunk),
            StreamHeader { size: 7 << 40 | 1, ..of(Tells::Credit) },
            StreamHeader { mark: true, ..of(Tells::End) },
            StreamHeader { status: -25, ..of(Tells::Close) },
        ]
    }

    fn whole(header: &StreamHeader) -> Vec<u8> {
        let behind = if header.tells == Tells::Chunk { METADATA } else { 0 };
        [&header.encode()[..], &vec![0xa5; behind]].concat()
    }

    #[test]
    fn what_is_sent_arrives_and_nothing_else_does() {
        for header in examples() {
            let bytes = whole(&header);
            let (read, behind) = StreamHeader::decode(&bytes).unwrap();
            assert_eq!((read, behind.len()), (header, bytes.len() - StreamHeader::LENGTH));
            for length in 0..bytes.len() {
                assert!(StreamHeader::decode(&bytes[..length]).is_err());
            }
            assert!(StreamHeader::decode(&[&bytes[..], &[0]].concat()).is_err());
            for (position, value) in [(0, 0), (0, 6), (1, 2), (2, 2), (3, 1)] {
                let mut damaged = bytes.clone();
                damaged[position] = value;
                assert!(StreamHeader::decode(&damaged).is_err(), "byte {position} of {header:?}");
            }
        }
    }

    #[test]
    fn fields_belong_to_what_is_told() {
        let [open, chunk, credit, end, close] = examples();
        let refused = |header: StreamHeader| {
            assert!(StreamHeader::decode(&whole(&header)).is_err(), "{header:?}")
        };
        let taken = |header: StreamHeader| {
            assert_eq!(StreamHeader::decode(&whole(&header)).unwrap().0, header)
        };
        refused(StreamHeader { window: 0, ..open });
        refused(StreamHeader { size: 0, ..open });
        taken(StreamHeader { device: false, ..open });
        refused(StreamHeader { mark: true, ..chunk });
        refused(StreamHeader { size: 1, ..chunk });
        refused(StreamHeader { window: 1, ..credit });
        refused(StreamHeader { size: credit.count - 1, ..credit });
        refused(StreamHeader { status: 1, ..close });
        for header in [chunk, credit, end, close] {
            refused(StreamHeader { device: true, ..header });
        }
        for header in [chunk, credit, end] {
            refused(StreamHeader { to: 0, ..header });
        }
        for header in [open, close] {
            taken(StreamHeader { to: 0, ..header });
            refused(StreamHeader { from: 0, ..header });
        }
        taken(StreamHeader { mark: false, ..end });
        let mut wide = close.encode();
        wide[28] = 1;
        assert!(StreamHeader::decode(&wide).is_err(), "a status of more than 4 bytes");
    }
}
