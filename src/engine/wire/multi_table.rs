//! The description of a multi-buffer message's frames, before the user's header.
//!
//! Little-endian: number of frames (4 bytes), place of their table (4): 0 for here, 1 for the
//! beginning of the data, if it is too long for a header. The table has 8 bytes for each frame: its
//! length, and in the most significant byte its memory type at the sender. The frames follow each
//! other in the data.
#![deny(unsafe_code)]

use crate::engine::ucx::memory_type;

/// Bytes before the table.
pub const PREFIX: usize = 8;
/// Bytes of the table for each frame.
pub const ENTRY: usize = 8;
const LENGTH: u64 = (1 << 56) - 1;

/// A frame, as its sender describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described {
    /// Length in bytes.
    pub length: usize,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
}

/// The decoded beginning of the header, checked against the length of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// Number of frames.
    pub count: usize,
    /// The table is at the beginning of the data.
    pub in_data: bool,
    /// Bytes before the user's header.
    pub length: usize,
}

impl Prefix {
    /// For `count` frames, if `most` bytes fit into the header.
    pub fn new(count: usize, most: usize) -> Self {
        let here = PREFIX + count.saturating_mul(ENTRY);
        let in_data = here > most;
        Prefix { count, in_data, length: if in_data { PREFIX } else { here } }
    }

    /// Appends the prefix, without the table.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.count as u32).to_le_bytes());
        out.extend_from_slice(&u32::from(self.in_data).to_le_bytes());
    }

    /// Decodes the prefix of a message with `data` bytes of data.
    pub fn decode(header: &[u8], data: usize) -> Result<Self, &'static str> {
        let prefix =
            header.first_chunk::<PREFIX>().ok_or("a multi-buffer message without a table")?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| prefix[at + byte]));
        let count = word(0) as usize;
        let table =
            count.checked_mul(ENTRY).ok_or("a multi-buffer message with an impossible table")?;
        match word(4) {
            0 => {
                let length = PREFIX + table;
                let table = header
                    .get(PREFIX..length)
                    .ok_or("a multi-buffer message whose table is cut off")?;
                check_table(table, data)?;
                Ok(Prefix { count, in_data: false, length })
            }
            1 if table <= data => Ok(Prefix { count, in_data: true, length: PREFIX }),
            _ => Err("a multi-buffer message whose table does not fit in its data"),
        }
    }
}

/// A frame's entry in the table.
pub fn entry(frame: Described) -> [u8; ENTRY] {
    let memory_type = (frame.memory_type as u64) << 56;
    (frame.length as u64 & LENGTH | memory_type).to_le_bytes()
}

/// Appends a frame's entry to a table.
pub fn describe(frame: Described, table: &mut Vec<u8>) {
    table.extend_from_slice(&entry(frame));
}

/// The frames that a table describes.
pub fn frames(table: &[u8]) -> impl ExactSizeIterator<Item = Described> + '_ {
    table.chunks_exact(ENTRY).map(|entry| {
        let word = u64::from_le_bytes(std::array::from_fn(|byte| entry[byte]));
        let told = (word >> 56) as i32;
        // Types that a later release may add are unknown here, so no allocator could be asked for
        // them.
        let known = told != memory_type::AUTO && memory_type::check(told).is_ok();
        let memory_type = if known { told } else { memory_type::HOST };
        Described { length: (word & LENGTH) as usize, memory_type }
    })
}

/// Checks that the frames of a table have `bytes` bytes in all.
pub fn check_table(table: &[u8], bytes: usize) -> Result<(), &'static str> {
    match frames(table).try_fold(0usize, |total, frame| total.checked_add(frame.length)) {
        Some(total) if total == bytes => Ok(()),
        _ => Err("a multi-buffer message whose frames are not its data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(lengths: &[usize], most: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut header, mut table) = (Vec::new(), Vec::new());
        let prefix = Prefix::new(lengths.len(), most);
        prefix.encode(&mut header);
        lengths.iter().for_each(|length| {
            describe(Described { length: *length, memory_type: memory_type::HOST }, &mut table)
        });
        if !prefix.in_data {
            header.append(&mut table);
        }
        header.extend_from_slice(b"user");
        (header, table)
    }

    #[test]
    fn what_is_written_is_read() {
        let (header, table) = message(&[5, 0, 1 << 40], 100);
        assert!(table.is_empty());
        let prefix = Prefix::decode(&header, (1 << 40) + 5).unwrap();
        assert_eq!(prefix, Prefix { count: 3, in_data: false, length: 32 });
        assert_eq!(&header[prefix.length..], b"user");
        let lengths: Vec<_> =
            frames(&header[PREFIX..prefix.length]).map(|frame| frame.length).collect();
        assert_eq!(lengths, [5, 0, 1 << 40]);
        let (header, table) = message(&[5, 0, 7], 31);
        let prefix = Prefix::decode(&header, 24 + 12).unwrap();
        assert_eq!(prefix, Prefix { count: 3, in_data: true, length: PREFIX });
        assert!(check_table(&table, 12).is_ok() && check_table(&table, 11).is_err());
        let (header, _) = message(&[], 100);
        assert_eq!(Prefix::decode(&header, 0).unwrap().count, 0);
    }

    #[test]
    fn hostile_ones_are_refused() {
        let (header, _) = message(&[5, 6], 100);
        assert!(Prefix::decode(&header, 10).is_err() && Prefix::decode(&header, 12).is_err());
        (0..24).for_each(|length| assert!(Prefix::decode(&header[..length], 11).is_err()));
        let spoilt = |at: usize, byte: u8| {
            let mut header = header.clone();
            header[at] = byte;
            Prefix::decode(&header, 11)
        };
        assert!(spoilt(4, 2).is_err() && spoilt(3, 0xff).is_err() && spoilt(4, 1).is_err());
        assert!(spoilt(14, 0xff).is_err());
        assert_eq!(spoilt(15, 0x55).unwrap().count, 2);
    }
}
