//! The trailer of a worker address.
#![no_main]

use layout::{choice, is_address, mend_address};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::Address;

fuzz_target!(|data: &[u8]| {
    match Address::from_bytes(data) {
        Ok(address) => {
            assert!(is_address(data), "taken, and not an address");
            assert_eq!(address.bytes(), data);
            // Damage to an accepted address must be noticed. The input selects the position, so
            // that the fuzzer can search for one that is not.
            let mut damaged = data.to_vec();
            let at = data
                .iter()
                .fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
                % data.len();
            damaged[at] ^= 1 << (data[0] % 8);
            assert!(Address::from_bytes(&damaged).is_err(), "damage at {at} goes unnoticed");
        }
        Err(_) => assert!(!is_address(data), "an address was refused"),
    }
    // The unchecked decoder accepts any bytes, and must not fail on them.
    match Address::from_ucp_bytes(data) {
        Ok(address) => assert_eq!(address.bytes(), data),
        Err(_) => assert!(data.is_empty() || data.len() > 1 << 20),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    mend_address(&mut data[..size], choice(seed));
    size
});
