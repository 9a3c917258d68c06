//! The messages of a rendezvous: those from anybody to rank 0, and those from rank 0 to the
//! members. The first byte selects the kind of message.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::bootstrap::*;

const MAGIC: &[u8] = b"ucxxrsBs";
/// The number of members of the group whose exchange is decoded.
const MEMBERS: u32 = 3;
const LONGEST: u64 = 1 << 20;

/// The length, and the place of the bytes that are fixed: version and zeros, or a verdict.
const MESSAGES: [usize; 3] = [48, 88, 48];

fn is_exchange(bytes: &[u8]) -> bool {
    let table = 4 + 4 * MEMBERS as usize;
    let length = |at: usize| number(bytes, 4 + 4 * at, 4);
    bytes.len() >= table
        && number(bytes, 0, 4) == u64::from(MEMBERS)
        && (0..MEMBERS as usize).map(length).sum::<u64>() == (bytes.len() - table) as u64
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let is_message = |length: usize| bytes.len() == length && bytes.starts_with(MAGIC);
    let begins_as_version_1 = || bytes[8..16] == [1, 0, 0, 0, 0, 0, 0, 0];
    match kind % 6 {
        0 => match Challenge::decode(bytes) {
            Ok(challenge) if challenge.version == 1 => assert_eq!(challenge.encode(), bytes),
            Ok(challenge) => assert_eq!(u64::from(challenge.version), number(bytes, 8, 2)),
            Err(_) => assert!(!is_message(48) || !begins_as_version_1()),
        },
        1 => match Claim::decode(bytes) {
            Ok(claim) => {
                assert_eq!(claim.encode(), bytes);
                let Claim { rank, size, nonce, proof } = claim;
                let meeting = Meeting { rank, size, root_nonce: [0; 32], member_nonce: nonce };
                assert!(!meeting.is_from_member(b"a secret that is in no corpus", &proof));
            }
            Err(_) => assert!(!is_message(88) || !begins_as_version_1()),
        },
        2 => match Answer::decode(bytes) {
            Ok(answer) => assert_eq!(answer.encode(), bytes),
            Err(_) => {
                let sound = |verdict, size| verdict < 5 && (verdict > 2 || size == 0);
                assert!(!is_message(48) || !sound(number(bytes, 8, 4), number(bytes, 12, 4)));
            }
        },
        3 => match FrameHeader::decode(bytes, LONGEST) {
            Ok(header) => {
                assert_eq!(header.encode(), bytes);
                assert!(header.length <= LONGEST);
            }
            Err(_) => {
                let sound = bytes.len() == 16 && (1..6).contains(&bytes[8]) && bytes[9..] == [0; 7];
                assert!(!sound || number(bytes, 4, 4) > 0 || number(bytes, 0, 4) > LONGEST);
            }
        },
        4 => match split(bytes, MEMBERS) {
            Ok(parts) => {
                assert_eq!(parts.len(), MEMBERS as usize);
                assert_eq!(join(&parts), bytes);
            }
            Err(_) => assert!(!is_exchange(bytes)),
        },
        _ => match Failure::decode(bytes) {
            Ok(failure) => {
                assert!(failure.status < 0 && !failure.text.chars().any(char::is_control));
                assert_eq!(failure.encode(), bytes);
            }
            Err(_) => {
                let plain = |text: &[u8]| {
                    text.len() <= 1024 && text.iter().all(|byte| (b' '..=b'~').contains(byte))
                };
                assert!(bytes.len() < 4 || bytes[3] < 0x80 || !plain(&bytes[4..]));
            }
        },
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if size == 0 || seed % 8 == 0 {
        return size;
    }
    // Usually make the length and the magic bytes right, and the lengths in an exchange.
    let kind = usize::from(data[0] % 6);
    match kind {
        0..=2 if max_size > MESSAGES[kind] => {
            data[1..9].copy_from_slice(MAGIC);
            if seed % 4 != 1 {
                data[9..17].copy_from_slice(&[
                    (seed >> 8) as u8 % 6 * u8::from(kind == 2) + u8::from(kind < 2),
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
            }
            1 + MESSAGES[kind]
        }
        3 if max_size > 16 => {
            data[5..9].fill(0);
            data[10..17].fill(0);
            17
        }
        4 if size > 17 => {
            data[1..5].copy_from_slice(&MEMBERS.to_le_bytes());
            let mut left = (size - 17) as u32;
            for (at, share) in [(5, seed >> 8), (9, seed >> 16), (13, u32::MAX)] {
                let length = if at == 13 { left } else { share % (left + 1) };
                data[at..at + 4].copy_from_slice(&length.to_le_bytes());
                left -= length;
            }
            size
        }
        _ => size,
    }
});
