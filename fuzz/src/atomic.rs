//! An atomic operation that a peer requests.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::Atomic;

fuzz_target!(|data: &[u8]| match Atomic::decode(data) {
    Ok(atomic) => {
        assert_eq!(&atomic.encode()[..], data);
        assert!(matches!(atomic.size, 4 | 8));
        let mut word = [number(data, 24, 4), number(data, 28, 4)];
        // The target has 16 bytes. The operation must change only the first 8.
        // SAFETY: the memory is aligned, and nothing else uses it.
        unsafe { atomic.execute(word.as_mut_ptr().cast()) };
        assert_eq!(word[1], number(data, 28, 4));
    }
    Err(_) => {
        let sound = data.len() == Atomic::LENGTH
            && data[0] < 6
            && matches!(data[1], 4 | 8)
            && data[2..8] == [0; 6];
        assert!(!sound, "a sound operation was refused");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if seed % 8 == 0 || max_size < Atomic::LENGTH {
        return size;
    }
    data[2..8].fill(0);
    (data[0], data[1]) = (data[0] % 6, if data[1] % 2 == 0 { 4 } else { 8 });
    Atomic::LENGTH
});
