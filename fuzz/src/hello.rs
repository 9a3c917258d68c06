//! A Hello: its header, and the sender's address behind it.
#![no_main]

use layout::{choice, is_address, mend_address, number};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::header::{Header, Hello, HEADER};

/// Longer addresses are refused.
const LONGEST: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    if data.len() < HEADER {
        return;
    }
    let (first, payload) = data.split_at(HEADER);
    let Ok(header) = Header::decode(first) else { return };
    match Hello::decode(&header, payload) {
        Ok(hello) => {
            assert!(header.sender != 0 && payload.len() <= LONGEST && is_address(payload));
            assert_eq!(hello.address.bytes(), payload);
            assert_eq!(u64::from(hello.sender), number(first, 20, 4));
            assert_eq!(hello.peer_failure, first[6] & 1 != 0);
        }
        Err(_) => assert!(header.sender == 0 || payload.len() > LONGEST || !is_address(payload)),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if size >= HEADER {
        let (header, payload) = data[..size].split_at_mut(HEADER);
        // Usually the right version and a known kind.
        if seed % 16 != 0 {
            header[0] = 1;
            header[1] = 1 + header[1] % 7;
            header[2..6].fill(0);
            header[6] &= 3;
            header[7] = 0;
            header[12..20].fill(0);
        }
        mend_address(payload, choice(seed >> 4));
    }
    size
});
