//! The messages by which the members of a group meet over TCP: a handshake that proves the shared
//! secret in both directions, and the frames that follow it.
//!
//! Messages of the handshake have fixed lengths. Nothing in them is trusted before the other side's
//! proof has been verified. All numbers are little-endian; docs/wire-formats.md has the layout.
#![deny(unsafe_code)]

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

const MAGIC: [u8; 8] = *b"ucxxrsBs";
/// Version of the handshake and of the frames.
pub const VERSION: u16 = 1;
/// The most that one member can contribute to an exchange.
pub const LONGEST_PART: usize = 16 << 20;
/// Length of nonces, proofs and session keys.
pub const SECRET_SIZE: usize = 32;
const LONGEST_TEXT: usize = 1024;

/// A nonce, a proof, or a session key.
pub type Block = [u8; SECRET_SIZE];

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn block(bytes: &[u8], at: usize) -> Block {
    std::array::from_fn(|byte| bytes[at + byte])
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes keys of every length")
}

/// Do these bytes, as far as they go, begin like a message of the handshake?
pub fn begins_right(bytes: &[u8]) -> bool {
    let length = bytes.len().min(MAGIC.len());
    bytes[..length] == MAGIC[..length]
}

/// First message, from rank 0 to a member that has connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// Rank 0's version: [`VERSION`] unless it has another release.
    pub version: u16,
    /// Rank 0's nonce.
    pub nonce: Block,
}

impl Challenge {
    /// Encoded length.
    pub const LENGTH: usize = 48;

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.version.to_le_bytes(), &[0; 6], &self.nonce].concat()
    }

    /// Decodes one of any version, or returns the reason why it is not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != Self::LENGTH || bytes[..8] != MAGIC {
            return Err("not a group of this library");
        }
        let version = number(bytes, 8) as u16;
        if version == VERSION && bytes[10..16] != [0; 6] {
            return Err("damaged: what must be zero is not");
        }
        Ok(Challenge { version, nonce: block(bytes, 16) })
    }
}

/// Second message, from the member: its rank, and the proof that it knows the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The member's rank.
    pub rank: u32,
    /// Number of members that it expects.
    pub size: u32,
    /// The member's nonce.
    pub nonce: Block,
    /// [`Meeting::proof_of_member`].
    pub proof: Block,
}

impl Claim {
    /// Encoded length.
    pub const LENGTH: usize = 88;

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let Claim { rank, size, nonce, proof } = self;
        [
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            &[0; 6],
            &rank.to_le_bytes(),
            &size.to_le_bytes(),
            nonce,
            proof,
        ]
        .concat()
    }

    /// Decodes one, or returns the reason why it is not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != Self::LENGTH || bytes[..8] != MAGIC {
            return Err("not a member of a group");
        }
        if bytes[8..10] != VERSION.to_le_bytes() {
            return Err("of another version of this library");
        }
        if bytes[10..16] != [0; 6] {
            return Err("damaged: what must be zero is not");
        }
        let (rank, size) = (number(bytes, 16), number(bytes, 20));
        Ok(Claim { rank, size, nonce: block(bytes, 24), proof: block(bytes, 56) })
    }
}

/// Rank 0's decision on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The member is accepted.
    Welcome,
    /// The proof was made with another secret. Only this verdict comes without a proof of rank 0:
    /// that proof would help an attacker to guess the secret.
    WrongSecret,
    /// Another member has that rank.
    RankTaken,
    /// The group has this many members, and the claim says another number.
    OtherSize(u32),
    /// The rank does not exist in a group of this many members.
    NoSuchRank(u32),
}

impl Verdict {
    fn bytes(self) -> [u8; 8] {
        let (verdict, size) = match self {
            Verdict::Welcome => (0, 0),
            Verdict::WrongSecret => (1, 0),
            Verdict::RankTaken => (2, 0),
            Verdict::OtherSize(size) => (3, size),
            Verdict::NoSuchRank(size) => (4, size),
        };
        (verdict | u64::from(size) << 32).to_le_bytes()
    }
}

/// Third and last message, from rank 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The decision.
    pub verdict: Verdict,
    /// [`Meeting::proof_of_root`]; zero for [`Verdict::WrongSecret`].
    pub proof: Block,
}

impl Answer {
    /// Encoded length.
    pub const LENGTH: usize = 48;

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        [&MAGIC[..], &self.verdict.bytes(), &self.proof].concat()
    }

    /// Decodes one, or returns the reason why it is not valid.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() != Self::LENGTH || bytes[..8] != MAGIC {
            return Err("not an answer of a group");
        }
        let size = number(bytes, 12);
        let verdict = match number(bytes, 8) {
            0 => Verdict::Welcome,
            1 => Verdict::WrongSecret,
            2 => Verdict::RankTaken,
            3 => Verdict::OtherSize(size),
            4 => Verdict::NoSuchRank(size),
            _ => return Err("of an unknown kind"),
        };
        if verdict.bytes() != bytes[8..16] {
            return Err("damaged: what must be zero is not");
        }
        Ok(Answer { verdict, proof: block(bytes, 16) })
    }
}

/// The inputs of each proof: a proof is valid only for this connection, this member and this
/// direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// The member's claim.
    pub rank: u32,
    /// The member's claim.
    pub size: u32,
    /// Rank 0's nonce.
    pub root_nonce: Block,
    /// The member's nonce.
    pub member_nonce: Block,
}

#[derive(Clone, Copy)]
enum Purpose {
    ProofOfMember = 1,
    ProofOfRoot = 2,
    Session = 3,
}

impl Meeting {
    fn mac(&self, secret: &[u8], purpose: Purpose, verdict: Verdict) -> Hmac<Sha256> {
        let mut mac = keyed(secret);
        mac.update(&MAGIC);
        mac.update(&VERSION.to_le_bytes());
        mac.update(&[purpose as u8]);
        mac.update(&self.rank.to_le_bytes());
        mac.update(&self.size.to_le_bytes());
        mac.update(&self.root_nonce);
        mac.update(&self.member_nonce);
        mac.update(&verdict.bytes());
        mac
    }

    /// Proves that the member knows the secret.
    pub fn proof_of_member(&self, secret: &[u8]) -> Block {
        self.mac(secret, Purpose::ProofOfMember, Verdict::Welcome).finalize().into_bytes().into()
    }

    /// Verifies the member's proof, in constant time.
    pub fn is_from_member(&self, secret: &[u8], proof: &Block) -> bool {
        self.mac(secret, Purpose::ProofOfMember, Verdict::Welcome).verify_slice(proof).is_ok()
    }

    /// Proves that rank 0 knows the secret and made this verdict.
    pub fn proof_of_root(&self, secret: &[u8], verdict: Verdict) -> Block {
        self.mac(secret, Purpose::ProofOfRoot, verdict).finalize().into_bytes().into()
    }

    /// Verifies rank 0's proof, in constant time.
    pub fn is_from_root(&self, secret: &[u8], answer: &Answer) -> bool {
        self.mac(secret, Purpose::ProofOfRoot, answer.verdict).verify_slice(&answer.proof).is_ok()
    }

    /// Derives the key of the frames that follow.
    pub fn session(&self, secret: &[u8]) -> Session {
        Session {
            key: self
                .mac(secret, Purpose::Session, Verdict::Welcome)
                .finalize()
                .into_bytes()
                .into(),
        }
    }
}

/// Direction of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From a member to rank 0.
    Up = 1,
    /// From rank 0 to a member.
    Down = 2,
}

/// Kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// From rank 0: all members are connected. Empty.
    Begin = 1,
    /// From a member: its part of an exchange.
    Part = 2,
    /// From rank 0: the parts of all members, as [`join`] makes them.
    All = 3,
    /// From rank 0: the group has failed; a [`Failure`].
    Failure = 4,
    /// From a member: its time ran out while others were missing. Empty.
    Leave = 5,
}

/// Precedes each frame's payload. A seal of [`SECRET_SIZE`] bytes follows the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Kind of the frame.
    pub kind: Kind,
    /// Length of the payload.
    pub length: u64,
}

impl FrameHeader {
    /// Encoded length.
    pub const LENGTH: usize = 16;

    /// The bytes to send.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes
    }

    /// Decodes one, or returns the reason why it is not valid. `longest` is the longest payload
    /// that the reader accepts.
    pub fn decode(bytes: &[u8], longest: u64) -> Result<Self, &'static str> {
        if bytes.len() != Self::LENGTH || bytes[9..] != [0; 7] {
            return Err("not a frame of this library");
        }
        let kind = match bytes[8] {
            1 => Kind::Begin,
            2 => Kind::Part,
            3 => Kind::All,
            4 => Kind::Failure,
            5 => Kind::Leave,
            _ => return Err("a frame of an unknown kind"),
        };
        let length = u64::from(number(bytes, 0)) | u64::from(number(bytes, 4)) << 32;
        if length > longest {
            return Err("a frame that is too long");
        }
        Ok(FrameHeader { kind, length })
    }
}

/// Longest result of an exchange in a group of `size` members.
pub fn longest_all(size: u32) -> u64 {
    4 + u64::from(size) * (4 + LONGEST_PART as u64)
}

/// Digest of a payload, which the frame's seal covers. Rank 0 sends the same bytes to all members,
/// and computes their digest only once.
pub fn digest(payload: &[u8]) -> Block {
    Sha256::digest(payload).into()
}

/// The key of one connection's frames.
pub struct Session {
    key: Block,
}

impl Session {
    fn mac(
        &self,
        direction: Direction,
        sequence: u64,
        header: &FrameHeader,
        digest: &Block,
    ) -> Hmac<Sha256> {
        let mut mac = keyed(&self.key);
        mac.update(&[direction as u8]);
        mac.update(&sequence.to_le_bytes());
        mac.update(&header.encode());
        mac.update(digest);
        mac
    }

    /// The seal of the frame with this number in this direction.
    pub fn seal(
        &self,
        direction: Direction,
        sequence: u64,
        header: &FrameHeader,
        digest: &Block,
    ) -> Block {
        self.mac(direction, sequence, header, digest).finalize().into_bytes().into()
    }

    /// Verifies a seal, in constant time.
    pub fn is_sealed(
        &self,
        way: Direction,
        sequence: u64,
        header: &FrameHeader,
        digest: &Block,
        seal: &[u8],
    ) -> bool {
        self.mac(way, sequence, header, digest).verify_slice(seal).is_ok()
    }
}

/// Joins the parts of all members: their number, their lengths, and the parts.
pub fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(4 + 4 * parts.len() + parts.iter().map(Vec::len).sum::<usize>());
    bytes.extend_from_slice(&(parts.len() as u32).to_le_bytes());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Splits joined parts of `size` members, or returns the reason why they are not valid.
pub fn split(bytes: &[u8], size: u32) -> Result<Vec<Vec<u8>>, &'static str> {
    let Some((count, rest)) = bytes.split_first_chunk::<4>() else { return Err("too short") };
    if u32::from_le_bytes(*count) != size {
        return Err("for a different number of members");
    }
    let table = (size as usize).checked_mul(4).and_then(|length| rest.split_at_checked(length));
    let Some((lengths, mut data)) = table else { return Err("too short") };
    let mut parts = Vec::with_capacity(size as usize);
    for at in 0..size as usize {
        let length = number(lengths, 4 * at) as usize;
        if length > LONGEST_PART {
            return Err("a part that is too long");
        }
        let Some((part, rest)) = data.split_at_checked(length) else { return Err("too short") };
        parts.push(part.to_vec());
        data = rest;
    }
    if !data.is_empty() {
        return Err("longer than its table states");
    }
    Ok(parts)
}

/// Why rank 0 gave up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// A status of this library, negative.
    pub status: i32,
    /// Text for the error message.
    pub text: String,
}

impl Failure {
    /// Longest encoding.
    pub const LONGEST: u64 = 4 + LONGEST_TEXT as u64;

    /// Encodes it, and truncates a text that is too long.
    pub fn encode(&self) -> Vec<u8> {
        let mut end = self.text.len().min(LONGEST_TEXT);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        [&self.status.to_le_bytes()[..], &self.text.as_bytes()[..end]].concat()
    }

    /// Decodes one, or returns the reason why it is not valid. The text is shown to people, so
    /// control characters are refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((status, text)) = bytes.split_first_chunk::<4>() else { return Err("too short") };
        let status = i32::from_le_bytes(*status);
        if status >= 0 || text.len() > LONGEST_TEXT {
            return Err("not a failure");
        }
        let text = std::str::from_utf8(text).map_err(|_| "a text that is not UTF-8")?;
        if text.chars().any(char::is_control) {
            return Err("a text with control characters");
        }
        Ok(Failure { status, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meeting() -> Meeting {
        Meeting { rank: 3, size: 7, root_nonce: [1; 32], member_nonce: [2; 32] }
    }

    #[test]
    fn messages_arrive_as_they_left_and_at_no_other_length() {
        let challenge = Challenge { version: VERSION, nonce: [9; 32] };
        let claim = Claim { rank: 3, size: 7, nonce: [2; 32], proof: [5; 32] };
        assert_eq!(Challenge::decode(&challenge.encode()), Ok(challenge));
        assert_eq!(Claim::decode(&claim.encode()), Ok(claim));
        for length in 0..Claim::LENGTH {
            assert!(Claim::decode(&claim.encode()[..length]).is_err());
        }
        for length in 0..Challenge::LENGTH {
            assert!(Challenge::decode(&challenge.encode()[..length]).is_err());
        }
        use Verdict::*;
        for verdict in [Welcome, WrongSecret, RankTaken, OtherSize(8), NoSuchRank(7)] {
            let answer = Answer { verdict, proof: [6; 32] };
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
            for length in 0..Answer::LENGTH {
                assert!(Answer::decode(&answer.encode()[..length]).is_err());
            }
        }
        assert!(begins_right(&claim.encode()) && begins_right(b"") && !begins_right(b"GET"));
    }

    #[test]
    fn what_must_be_zero_is_looked_at() {
        for at in 8..16 {
            let mut claim = Claim { rank: 0, size: 0, nonce: [0; 32], proof: [0; 32] }.encode();
            claim[at] ^= 1 << 6;
            assert!(Claim::decode(&claim).is_err(), "byte {at}");
            let mut answer = Answer { verdict: Verdict::Welcome, proof: [0; 32] }.encode();
            answer[at] ^= 1 << 6;
            assert!(Answer::decode(&answer).is_err(), "byte {at}");
        }
        let of_tomorrow = Challenge { version: 2, nonce: [0; 32] };
        assert_eq!(Challenge::decode(&of_tomorrow.encode()), Ok(of_tomorrow));
        let mut damaged = Challenge { version: VERSION, nonce: [0; 32] }.encode();
        damaged[12] = 1;
        assert!(Challenge::decode(&damaged).is_err());
    }

    #[test]
    fn a_proof_serves_for_nothing_else() {
        let secret = b"a secret";
        let proof = meeting().proof_of_member(secret);
        assert!(meeting().is_from_member(secret, &proof));
        assert!(!meeting().is_from_member(b"another", &proof));
        assert!(
            !meeting().is_from_root(secret, &Answer { verdict: Verdict::Welcome, proof }),
            "reflected"
        );
        for other in [
            Meeting { rank: 4, ..meeting() },
            Meeting { size: 8, ..meeting() },
            Meeting { root_nonce: [3; 32], ..meeting() },
            Meeting { member_nonce: [3; 32], ..meeting() },
        ] {
            assert!(!other.is_from_member(secret, &proof), "{other:?}");
        }
        let verdict = Verdict::OtherSize(8);
        let answer = Answer { verdict, proof: meeting().proof_of_root(secret, verdict) };
        assert!(meeting().is_from_root(secret, &answer));
        assert!(!meeting().is_from_root(secret, &Answer { verdict: Verdict::Welcome, ..answer }));
        assert!(
            !meeting().is_from_root(secret, &Answer { verdict: Verdict::OtherSize(9), ..answer })
        );
        assert!(!meeting().is_from_member(secret, &answer.proof), "reflected");
    }

    #[test]
    fn a_frame_serves_at_its_place_alone() {
        let (session, header) =
            (meeting().session(b"s"), FrameHeader { kind: Kind::Part, length: 3 });
        let seal = session.seal(Direction::Up, 5, &header, &digest(b"abc"));
        assert!(session.is_sealed(Direction::Up, 5, &header, &digest(b"abc"), &seal));
        assert!(!session.is_sealed(Direction::Down, 5, &header, &digest(b"abc"), &seal));
        assert!(!session.is_sealed(Direction::Up, 6, &header, &digest(b"abc"), &seal));
        assert!(!session.is_sealed(Direction::Up, 5, &header, &digest(b"abd"), &seal));
        let other = FrameHeader { kind: Kind::All, ..header };
        assert!(!session.is_sealed(Direction::Up, 5, &other, &digest(b"abc"), &seal));
        assert!(!meeting().session(b"t").is_sealed(
            Direction::Up,
            5,
            &header,
            &digest(b"abc"),
            &seal
        ));
        assert_eq!(FrameHeader::decode(&header.encode(), 3), Ok(header));
        assert!(FrameHeader::decode(&header.encode(), 2).is_err());
        for at in 9..16 {
            let mut damaged = header.encode();
            damaged[at] = 1;
            assert!(FrameHeader::decode(&damaged, 3).is_err());
        }
    }

    #[test]
    fn parts_are_found_again_and_truncation_is_noticed_at_each_byte() {
        let parts = vec![vec![], vec![1; 5], vec![2; 300], vec![]];
        let joined = join(&parts);
        assert_eq!(split(&joined, 4), Ok(parts));
        for length in 0..joined.len() {
            assert!(split(&joined[..length], 4).is_err(), "{length} bytes");
        }
        assert!(split(&[&joined[..], &[0]].concat(), 4).is_err());
        assert!(split(&joined, 3).is_err() && split(&joined, u32::MAX).is_err());
        let huge = [&1u32.to_le_bytes()[..], &u32::MAX.to_le_bytes()].concat();
        assert!(split(&huge, 1).is_err());
    }

    #[test]
    fn failures_are_cut_and_looked_at() {
        let failure = Failure { status: -20, text: "ä".repeat(600) };
        let read = Failure::decode(&failure.encode()).unwrap();
        assert_eq!((read.status, read.text.len()), (-20, LONGEST_TEXT));
        assert!(Failure::decode(&[1, 0, 0, 0]).is_err(), "a status that is none");
        assert!(Failure::decode(b"\xff\xff\xff\xff\x1b[2J").is_err());
        assert!(Failure::decode(b"\xff\xff\xff\xff\xff").is_err());
        assert!(Failure::decode(b"\xff\xff").is_err());
    }
}
