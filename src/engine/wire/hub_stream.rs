//! The messages between the two ends of a joined link: one header for all of them.
//! docs/wire-formats.md has the layout.
//!
//! Received bytes are untrusted until they are decoded here and compared with the stream's state
//! (`hub::stream::stream`).
#![deny(unsafe_code)]

use crate::engine::base::status::Status;

/// Bytes of metadata that each chunk carries beside its data.
pub const METADATA: usize = 64;

/// Kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tells {
    /// The sender has this end of a stream.
    Open = 1,
    /// A chunk: its metadata after the header, and its data.
    Chunk = 2,
    /// Numbers of chunks: consumed so far, and permitted so far.
    Credit = 3,
    /// No more chunks follow.
    End = 4,
    /// The sender of this message no longer sends or accepts chunks.
    Close = 5,
}

/// The header of a message about a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamHeader {
    /// Kind of the message.
    pub tells: Tells,
    /// Open: the sender of this message receives chunks. End: the hub's whole stream has ended, not
    /// only this link's.
    pub mark: bool,
    /// Open: the sender's envelopes are on a device, so chunks have to be pulled.
    pub device: bool,
    /// Open: chunks that may be in flight at a time.
    pub window: u32,
    /// The receiver's number for its own end; 0 if the sender does not know it.
    pub to: u32,
    /// The sender's number for its own end.
    pub from: u32,
    /// Open: the stream's name, the same on both sides. Chunk: its index, from 0. Credit and Close:
    /// chunks received and kept. End: chunks sent in all.
    pub count: u64,
    /// Open: size of an envelope in bytes. Credit: chunks for which there have been envelopes so
    /// far.
    pub size: u64,
    /// Close: the reason, 0 or negative.
    pub status: i32,
}

impl StreamHeader {
    /// Encoded length.
    pub const LENGTH: usize = 32;
    /// Length of the header and the metadata of a chunk.
    pub const WITH_METADATA: usize = Self::LENGTH + METADATA;

    /// A header with all other fields 0.
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

    /// The reply to an Open for which no end waits.
    pub fn turned_away(&self) -> Self {
        StreamHeader { status: Status::CANCELED.0, ..Self::new(Tells::Close, self.from, self.to) }
    }

    /// The bytes to send.
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

    /// Decodes a header; returns it with the bytes after it.
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
            return Err("a hub's message whose fields contradict each other");
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
