//! The header of an answer to a fetch. If the answer did not fit, its length follows the header.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::header::{Answer, Header, Kind, HEADER};

/// UCXX_ERR_MESSAGE_TRUNCATED, the only status with a length.
const TRUNCATED: i32 = -9;

fuzz_target!(|data: &[u8]| {
    let Ok(header) = Header::decode(data) else { return };
    if header.kind != Kind::Answer {
        return;
    }
    let user_header = &data[HEADER..];
    let status = number(data, 12, 4) as u32 as i32;
    match Answer::decode(&header, user_header) {
        Ok(answer) => {
            assert!(answer.status <= 0);
            assert_eq!(answer.status, status);
            assert_eq!(answer.number, number(data, 20, 4) | number(data, 2, 2) << 32);
            assert_eq!(answer.length.is_some(), status == TRUNCATED);
            assert_eq!(answer.length.map_or(0, |_| 8), user_header.len());
            if let Some(length) = answer.length {
                assert_eq!(length, number(user_header, 0, 4) | number(user_header, 4, 4) << 32);
            }
        }
        Err(_) => {
            let sound = status <= 0 && user_header.len() == if status == TRUNCATED { 8 } else { 0 };
            assert!(!sound, "a sound answer was refused");
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut size = fuzzer_mutate(data, size, max_size);
    if size >= HEADER && seed % 16 != 0 {
        // Usually: the right version and kind, no unknown bits, and the stated length.
        (data[0], data[1]) = (1, 11);
        data[6] &= 0x0c;
        data[7] &= 0x7f;
        if seed & 0x100 != 0 {
            size = (if seed & 0x200 != 0 { HEADER } else { HEADER + 8 }).min(max_size).min(size);
        }
        data[4..6].copy_from_slice(&((size - HEADER) as u16).to_le_bytes());
        if seed & 0x400 != 0 {
            data[12..16].copy_from_slice(&TRUNCATED.to_le_bytes());
        }
    }
    size
});
