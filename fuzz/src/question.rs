//! The bytes of a question before the user's header.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::header::Question;

fuzz_target!(|data: &[u8]| match Question::decode(data) {
    Ok((question, rest)) => {
        assert_eq!([&question.encode()[..], rest].concat(), data);
        assert_eq!(question.capacity, number(data, 0, 4) | number(data, 4, 4) << 32);
        assert_eq!(question.number, number(data, 8, 4) | number(data, 12, 2) << 32);
        assert_eq!(number(data, 14, 2), 0);
    }
    Err(_) => assert!(
        data.len() < Question::LENGTH || number(data, 14, 2) != 0,
        "a sound question was refused"
    ),
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    // Usually a number of 48 bits.
    if size >= Question::LENGTH && seed % 8 != 0 {
        data[14..16].fill(0);
    }
    size
});
