//! The header that UCXX puts before its active messages, which have UCP's id 0: UCXX 0.52's, byte for byte, in the byte order of the machine.
//!
//! Memory type of the sender's buffer, as UCX numbers it (4 bytes); whether a callback is named (1), and if so by which owner (64, padded with
//! zeros) and which number (8); what the receiver is to do where it has no memory of that type (1); length of the user's header (8), and that.
//! What is missing at the end is zero. See docs/wire-formats.md.
#![deny(unsafe_code)]

const OWNER: usize = 64;

/// Bytes of the header of a message that names no callback and has no header of the user's.
pub const PLAIN: usize = 14;

/// What a header says that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// UCX's number.
    pub memory_type: i32,
    /// It is for a callback of UCXX's, and for no receive.
    pub has_callback: bool,
}

impl Envelope {
    /// As it goes out.
    pub fn encode(memory_type: i32) -> [u8; PLAIN] {
        let mut bytes = [0; PLAIN];
        bytes[..4].copy_from_slice(&memory_type.to_ne_bytes());
        bytes
    }

    /// Reads one that came in.
    pub fn decode(header: &[u8]) -> Result<Self, &'static str> {
        let (memory_type, rest) = header.split_first_chunk::<4>().ok_or("a message of UCXX's without a header")?;
        let (flag, mut rest) = match rest.split_first() {
            None => (0, rest),
            Some((flag, rest)) => (*flag, rest),
        };
        if flag != 0 {
            rest = rest.get(OWNER + 8..).ok_or("a message of UCXX's for a callback that it does not name")?;
        }
        let rest = rest.get(1..).unwrap_or(&[]);
        if let Some((length, user)) = rest.split_first_chunk::<8>() {
            if usize::try_from(u64::from_ne_bytes(*length)).ok() != Some(user.len()) {
                return Err("a message of UCXX's with a header of another length");
            }
        } else if !rest.is_empty() {
            return Err("a message of UCXX's with a header that is cut off");
        }
        Ok(Envelope { memory_type: i32::from_ne_bytes(*memory_type), has_callback: flag != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = Envelope::encode(1);
        assert_eq!(Envelope::decode(&bytes).unwrap(), Envelope { memory_type: 1, has_callback: false });
        assert_eq!(&bytes[..4], &1i32.to_ne_bytes());
        assert!(bytes[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn callbacks_users_headers_and_short_ones() {
        let mut bytes = Envelope::encode(0).to_vec();
        bytes[6..].copy_from_slice(&3u64.to_ne_bytes());
        assert!(Envelope::decode(&bytes).is_err());
        bytes.extend_from_slice(b"abc");
        assert!(Envelope::decode(&bytes).is_ok());
        assert!(Envelope::decode(&bytes[..16]).is_err() && Envelope::decode(&bytes[..10]).is_err());
        for length in [4, 5, 6] {
            assert!(Envelope::decode(&bytes[..length]).is_ok());
        }
        (0..4).for_each(|length| assert!(Envelope::decode(&bytes[..length]).is_err()));
        let mut named = vec![0; 86];
        named[4] = 1;
        assert!(Envelope::decode(&named).unwrap().has_callback);
        assert!(Envelope::decode(&named[..76]).is_err() && Envelope::decode(&named[..78]).is_ok());
    }
}
