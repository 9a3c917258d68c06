//! A key to a peer's memory, received from another process.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::KeyHeader;

const HEADER: usize = 80;

fuzz_target!(|data: &[u8]| {
    let Ok((key, ucx)) = KeyHeader::decode(data) else { return };
    assert_eq!(key.encode(ucx), data);
    assert_eq!(data.len(), HEADER + ucx.len() + 4);
    assert_eq!(ucx.len() as u64, number(data, 12, 4));
    assert!(key.length > 0 && key.base > 0 && key.base.checked_add(key.length).is_some());
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    // Usually make the lengths and the checksum right. Otherwise the decoder would never read
    // further.
    if size > HEADER + 4 && seed % 8 != 0 {
        data[..12].copy_from_slice(b"ucxxrsKy\x01\0\x50\0");
        data[12..16].copy_from_slice(&((size - HEADER - 4) as u32).to_le_bytes());
        let checksum = crc32fast::hash(&data[..size - 4]);
        data[size - 4..size].copy_from_slice(&checksum.to_le_bytes());
    }
    size
});
