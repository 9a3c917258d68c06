//! A second implementation of docs/wire-formats.md, to compare the decoders with. It also makes
//! inputs that pass the checksum.

/// The length of an address's trailer.
pub const TRAILER: usize = 80;
const MAGIC: &[u8] = b"ucxxrsAd";
/// The longest address that is accepted.
const LONGEST: usize = 1 << 20;

/// A number of up to four bytes.
pub fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// Whether it begins with a header whose fields are valid for its kind.
pub fn is_header(bytes: &[u8]) -> bool {
    if bytes.len() < 24 || bytes[0] != 1 {
        return false;
    }
    let (id, user_header, flags) = (number(bytes, 2, 2), number(bytes, 4, 2), number(bytes, 6, 2));
    let (place, taken) = (number(bytes, 12, 4), number(bytes, 16, 4));
    match bytes[1] {
        // A Hello has its endpoint's place there.
        1 => id == 0 && user_header == 0 && flags < 4 && taken == 0,
        2..=7 | 13 => id == 0 && user_header == 0 && flags < 4 && place == 0 && taken == 0,
        9 => id == 0 && user_header == 0 && flags < 4 && place == 0,
        8 | 10..=12 => flags & 0x80c3 == 0,
        _ => false,
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let end = bytes.len() - 16;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..end]);
    hasher.update(&bytes[end + 4..end + 8]);
    hasher.finalize()
}

/// Whether it is an undamaged address of this library.
pub fn is_address(bytes: &[u8]) -> bool {
    let length = bytes.len();
    length > TRAILER
        && length <= LONGEST
        && bytes.ends_with(MAGIC)
        && number(bytes, length - 10, 2) == TRAILER as u64
        && number(bytes, length - 12, 2) == 1
        && number(bytes, length - 16, 4) == u64::from(checksum(bytes))
        && number(bytes, length - 80, 4) == (length - TRAILER) as u64
}

/// Turns the bytes into an address. Each bit of `choice` leaves one part unchanged. Without this
/// function no input would pass the checksum.
pub fn mend_address(bytes: &mut [u8], choice: u32) {
    let length = bytes.len();
    if length <= TRAILER {
        return;
    }
    let mut set = |bit: u32, at: usize, value: &[u8]| {
        if choice & (1 << bit) == 0 {
            bytes[at..at + value.len()].copy_from_slice(value);
        }
    };
    set(0, length - 80, &((length - TRAILER) as u32).to_le_bytes());
    set(1, length - 12, &1u16.to_le_bytes());
    set(2, length - 10, &(TRAILER as u16).to_le_bytes());
    set(3, length - 8, MAGIC);
    let sum = checksum(bytes).to_le_bytes();
    if choice & (1 << 4) == 0 {
        bytes[length - 16..length - 12].copy_from_slice(&sum);
    }
}

/// Selects the parts to leave unchanged: none in half of the cases, otherwise one or two.
pub fn choice(seed: u32) -> u32 {
    match seed % 4 {
        0 | 1 => 0,
        2 => 1 << ((seed >> 2) % 5),
        _ => 1 << ((seed >> 2) % 5) | 1 << ((seed >> 5) % 5),
    }
}
