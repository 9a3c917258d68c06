//! The header of UCXX's active messages, which have UCP's id 0. Same bytes as UCXX 0.52, in the
//! machine's byte order.
//!
//! Memory type of the sender's buffer, as UCX numbers it (4 bytes); whether a callback is named
//! (1), and if so its owner (64, padded with zeros) and number (8); what the receiver does if it
//! has no memory of that type (1); length of the user's header (8), and the user's header. Missing
//! bytes at the end count as zero. See docs/wire-formats.md.
#![deny(unsafe_code)]

/// UCP's id of UCXX's messages.
pub(crate) const UCXX_ID: u32 = 0;

/// Length of an owner's name; its last byte is zero.
const OWNER: usize = 64;

/// Header length of a message without callback and user's header.
pub const PLAIN: usize = 14;
/// Header length of a message with a callback and no user's header.
pub const NAMED: usize = PLAIN + OWNER + 8;

/// Name of a callback at the receiver: owner and number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallbackName {
    owner: [u8; OWNER],
    id: u64,
}

impl CallbackName {
    /// The owner has at most 63 bytes, none of them zero.
    pub fn new(owner: &[u8], id: u64) -> Option<Self> {
        if owner.len() >= OWNER || owner.contains(&0) {
            return None;
        }
        let mut name = CallbackName { owner: [0; OWNER], id };
        name.owner[..owner.len()].copy_from_slice(owner);
        Some(name)
    }

    /// Decodes a received name; bytes after the first zero are ignored.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (owner, id) = bytes.split_first_chunk::<OWNER>()?;
        let length = owner.iter().position(|byte| *byte == 0)?;
        Self::new(&owner[..length], u64::from_ne_bytes(*id.first_chunk::<8>()?))
    }
}

impl std::fmt::Display for CallbackName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let owner = self.owner.split(|byte| *byte == 0).next().unwrap_or_default();
        write!(f, "owner {:?}, id {}", String::from_utf8_lossy(owner), self.id)
    }
}

/// A decoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope<'a> {
    /// UCX's number.
    pub memory_type: i32,
    /// The callback to call; `None` means that a receive takes the message.
    pub callback: Option<CallbackName>,
    /// The receiver fails rather than use another type of memory.
    pub exact_memory: bool,
    /// The user's header.
    pub user_header: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The receiver has to refuse a message with this memory type: it is neither host memory nor
    /// one of the types `known` to the receiver, which would use host memory.
    pub(crate) fn is_refused(&self, known: &[i32]) -> bool {
        self.exact_memory && !known.contains(&self.memory_type)
    }

    /// Encoded length.
    pub fn length(&self) -> usize {
        let fixed = if self.callback.is_some() { NAMED } else { PLAIN };
        fixed + self.user_header.len()
    }

    /// Encodes into `out`, which has `length()` bytes.
    pub fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        out[..4].copy_from_slice(&self.memory_type.to_ne_bytes());
        let mut at = 5;
        if let Some(CallbackName { owner, id }) = &self.callback {
            out[4] = 1;
            out[at..at + OWNER].copy_from_slice(owner);
            out[at + OWNER..at + OWNER + 8].copy_from_slice(&id.to_ne_bytes());
            at += OWNER + 8;
        }
        out[at] = self.exact_memory.into();
        let (length, user_header) = out[at + 1..].split_at_mut(8);
        length.copy_from_slice(&(self.user_header.len() as u64).to_ne_bytes());
        user_header.copy_from_slice(self.user_header);
    }

    /// Decodes a received header.
    pub fn decode(header: &'a [u8]) -> Result<Self, &'static str> {
        let (memory_type, rest) =
            header.split_first_chunk::<4>().ok_or("a message of UCXX's without a header")?;
        let (flag, mut rest) = match rest.split_first() {
            None => (0, rest),
            Some((flag, rest)) => (*flag, rest),
        };
        let mut callback = None;
        if flag != 0 {
            const UNNAMED: &str = "a message of UCXX's that does not name its callback";
            let (name, after) = rest.split_at_checked(OWNER + 8).ok_or(UNNAMED)?;
            callback = Some(CallbackName::read(name).ok_or(UNNAMED)?);
            rest = after;
        }
        // UCXX knows no other value.
        let exact_memory = rest.first() == Some(&1);
        let mut user_header = rest.get(1..).unwrap_or(&[]);
        if let Some((length, user)) = user_header.split_first_chunk::<8>() {
            if usize::try_from(u64::from_ne_bytes(*length)).ok() != Some(user.len()) {
                return Err("a message of UCXX's with a header of the wrong length");
            }
            user_header = user;
        } else if !user_header.is_empty() {
            return Err("a message of UCXX's with a header that is cut off");
        }
        let memory_type = i32::from_ne_bytes(*memory_type);
        Ok(Envelope { memory_type, callback, exact_memory, user_header })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(envelope: &Envelope<'_>) -> Vec<u8> {
        let mut bytes = vec![0xaa; envelope.length()];
        envelope.encode(&mut bytes);
        bytes
    }

    #[test]
    fn the_layout_is_what_ucxx_has() {
        let plain =
            Envelope { memory_type: 1, callback: None, exact_memory: false, user_header: &[] };
        let bytes = encoded(&plain);
        assert_eq!(bytes.len(), PLAIN);
        assert_eq!(Envelope::decode(&bytes), Ok(plain));
        assert_eq!(&bytes[..4], &1i32.to_ne_bytes());
        assert!(bytes[4..].iter().all(|byte| *byte == 0));

        let named = Envelope {
            memory_type: 0,
            callback: CallbackName::new(b"me", 0x0102),
            exact_memory: false,
            user_header: b"abc",
        };
        let bytes = encoded(&named);
        assert_eq!(bytes.len(), 89);
        assert_eq!(
            (&bytes[4..8], &bytes[69..77]),
            (&b"\x01me\0"[..], &0x0102u64.to_ne_bytes()[..])
        );
        assert_eq!(
            (bytes[77], &bytes[78..86], &bytes[86..]),
            (0, &3u64.to_ne_bytes()[..], &b"abc"[..])
        );
        assert_eq!(Envelope::decode(&bytes), Ok(named));
    }

    #[test]
    fn a_message_may_ask_for_its_own_type_of_memory() {
        let exact =
            Envelope { memory_type: 2, callback: None, exact_memory: true, user_header: b"a" };
        let mut bytes = encoded(&exact);
        assert_eq!(bytes[5], 1);
        assert_eq!(Envelope::decode(&bytes), Ok(exact));
        assert!(exact.is_refused(&[0, 1]) && !exact.is_refused(&[0, 1, 2]));
        bytes[5] = 2;
        let other = Envelope::decode(&bytes).unwrap();
        assert!(!other.exact_memory && !other.is_refused(&[]));
        let named = Envelope { callback: CallbackName::new(b"me", 1), ..exact };
        let bytes = encoded(&named);
        assert_eq!((bytes[77], Envelope::decode(&bytes)), (1, Ok(named)));
    }

    #[test]
    fn names_have_a_length() {
        assert!([&[b'x'; 63][..], b""].iter().all(|owner| CallbackName::new(owner, 1).is_some()));
        assert!([&[b'x'; 64][..], b"a\0b"]
            .iter()
            .all(|owner| CallbackName::new(owner, 1).is_none()));
    }

    #[test]
    fn short_and_hostile_ones() {
        let user =
            Envelope { memory_type: 0, callback: None, exact_memory: false, user_header: b"abc" };
        let mut bytes = encoded(&user);
        assert_eq!(Envelope::decode(&bytes), Ok(user));
        assert!(Envelope::decode(&bytes[..16]).is_err() && Envelope::decode(&bytes[..10]).is_err());
        for length in [4, 5, 6] {
            assert!(Envelope::decode(&bytes[..length]).is_ok());
        }
        (0..4).for_each(|length| assert!(Envelope::decode(&bytes[..length]).is_err()));
        bytes[6] = 4;
        assert!(Envelope::decode(&bytes).is_err());
        let named = encoded(&Envelope { callback: CallbackName::new(b"me", 7), ..user });
        assert!(Envelope::decode(&named[..76]).is_err());
        let short = Envelope::decode(&named[..77]).unwrap();
        assert_eq!((short.callback, short.user_header), (CallbackName::new(b"me", 7), &[][..]));
        let mut endless = named.clone();
        endless[5..5 + OWNER].fill(b'x');
        assert!(Envelope::decode(&endless).is_err());
    }
}
