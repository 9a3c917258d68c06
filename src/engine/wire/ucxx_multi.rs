//! The header that announces frames in the tag form of multi-buffer transfer. Same bytes as UCXX
//! 0.52.
//!
//! 1209 bytes, packed, in the machine's byte order, as UCXX writes it: whether another header
//! follows (1 byte), number of frames in this header (8), for each of 100 frames whether it is
//! device memory (4), and its length (8). Unused entries are zero. A header announces 100 frames
//! unless it is the last. All headers precede the first frame, and all have the same tag. See
//! docs/wire-formats.md.
#![deny(unsafe_code)]

/// Frames in one header.
pub const FRAMES: usize = 100;
/// Length of a header.
pub const HEADER: usize = 1 + 8 + FRAMES * 4 + FRAMES * 8;

const COUNT: usize = 1;
const DEVICE: usize = COUNT + 8;
const LENGTH: usize = DEVICE + FRAMES * 4;

/// A frame, as a header announces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Length in bytes.
    pub length: u64,
    /// CUDA memory at the sender.
    pub device: bool,
}

/// A received header, checked.
#[derive(Clone, Copy)]
pub struct Announcement<'a> {
    bytes: &'a [u8; HEADER],
    count: usize,
    next: bool,
}

/// Number of headers for `frames` frames: at least one.
pub fn headers_for(frames: usize) -> usize {
    frames.div_ceil(FRAMES).max(1)
}

/// Appends the headers for these frames.
pub fn encode(frames: impl ExactSizeIterator<Item = Announced>, out: &mut Vec<u8>) {
    let (count, start) = (frames.len(), out.len());
    out.resize(start + headers_for(count) * HEADER, 0);
    for (index, header) in out[start..].chunks_exact_mut(HEADER).enumerate() {
        let left = count - index * FRAMES;
        header[0] = u8::from(left > FRAMES);
        header[COUNT..DEVICE].copy_from_slice(&(left.min(FRAMES) as u64).to_ne_bytes());
    }
    for (index, frame) in frames.enumerate() {
        let header = &mut out[start + index / FRAMES * HEADER..];
        let (device, length) = (DEVICE + index % FRAMES * 4, LENGTH + index % FRAMES * 8);
        header[device..device + 4].copy_from_slice(&i32::from(frame.device).to_ne_bytes());
        header[length..length + 8].copy_from_slice(&frame.length.to_ne_bytes());
    }
}

impl<'a> Announcement<'a> {
    /// Checks a received message that should be a header.
    pub fn decode(message: &'a [u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; HEADER] =
            message.try_into().map_err(|_| "a header that does not have 1209 bytes")?;
        let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let next = match bytes[0] {
            0 => false,
            1 => true,
            _ => return Err("a header whose flag for a further header is neither 0 nor 1"),
        };
        let count = match usize::try_from(number(COUNT)) {
            Ok(count) if count <= FRAMES => count,
            _ => return Err("a header with more than 100 frames"),
        };
        if next && count < FRAMES {
            return Err("a header with fewer than 100 frames that another header follows");
        }
        Ok(Announcement { bytes, count, next })
    }

    /// Does another header follow?
    pub fn has_next(&self) -> bool {
        self.next
    }

    /// Number of frames in this header.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The frames in this header.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Announced> + use<'a> {
        let bytes = self.bytes;
        (0..self.count).map(move |index| {
            let device = std::array::from_fn(|byte| bytes[DEVICE + index * 4 + byte]);
            let length = std::array::from_fn(|byte| bytes[LENGTH + index * 8 + byte]);
            Announced {
                length: u64::from_ne_bytes(length),
                device: i32::from_ne_bytes(device) != 0,
            }
        })
    }

    /// Their total length; `None` if it exceeds 64 bits.
    pub fn total(&self) -> Option<u64> {
        self.frames().try_fold(0u64, |total, frame| total.checked_add(frame.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(count: usize) -> Vec<Announced> {
        (0..count)
            .map(|index| Announced { length: 7 * index as u64, device: index % 3 == 1 })
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        for count in [0, 1, 8, 99, 100, 101, 250, 300] {
            let (wanted, mut bytes) = (frames(count), vec![0xee; 3]);
            encode(wanted.iter().copied(), &mut bytes);
            assert_eq!(bytes.len(), 3 + headers_for(count) * HEADER);
            let headers: Vec<_> = bytes[3..]
                .chunks(HEADER)
                .map(|header| Announcement::decode(header).unwrap())
                .collect();
            let nexts = headers.iter().filter(|header| header.has_next()).count();
            assert_eq!(nexts, headers.len() - 1);
            assert!(!headers.last().unwrap().has_next());
            assert_eq!(headers.iter().flat_map(Announcement::frames).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn the_bytes_are_those_of_ucxx() {
        let mut bytes = Vec::new();
        encode(
            [Announced { length: 0x0102, device: true }, Announced { length: 5, device: false }]
                .into_iter(),
            &mut bytes,
        );
        assert_eq!(bytes.len(), 1209);
        let mut wanted = vec![0; 1209];
        wanted[1] = 2;
        wanted[9] = 1;
        (wanted[409], wanted[410], wanted[417]) = (2, 1, 5);
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, wanted);
        }
    }

    #[test]
    fn hostile_ones_are_refused() {
        let mut good = Vec::new();
        encode(frames(100).into_iter(), &mut good);
        assert!(Announcement::decode(&good[1..]).is_err());
        assert!(Announcement::decode(&[]).is_err());
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Announcement::decode(&bytes).is_err()
        };
        assert!(spoilt(0, 2) && spoilt(1, 101) && spoilt(8, 0xff));
        assert!(!spoilt(0, 1) && !spoilt(1, 3));
        let mut bytes = good.clone();
        (bytes[0], bytes[1]) = (1, 99);
        assert!(Announcement::decode(&bytes).is_err());
        let huge = [Announced { length: u64::MAX, device: false }; 2];
        let mut bytes = Vec::new();
        encode(huge.into_iter(), &mut bytes);
        assert_eq!(Announcement::decode(&bytes).unwrap().total(), None);
    }
}
