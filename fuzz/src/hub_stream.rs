//! A message of a stream between two hubs: its header, and the metadata of a chunk.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::StreamHeader;

const HEADER: usize = 32;
const METADATA: usize = 64;

/// A number of 8 bytes.
fn long(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 4) | number(bytes, at + 4, 4) << 32
}

/// Whether it is a message according to docs/wire-formats.md.
fn is_message(bytes: &[u8]) -> bool {
    if bytes.len() < HEADER
        || bytes[2] > u8::from(bytes[0] == 1)
        || bytes[3] != 0
        || number(bytes, 12, 4) == 0
    {
        return false;
    }
    let (mark, window, to, last) =
        (bytes[1], number(bytes, 4, 4), number(bytes, 8, 4), long(bytes, 24));
    let behind = bytes.len() - HEADER;
    match bytes[0] {
        1 => mark < 2 && window != 0 && last != 0 && behind == 0,
        2 => mark == 0 && window == 0 && to != 0 && last == 0 && behind == METADATA,
        3 => mark == 0 && window == 0 && to != 0 && last >= long(bytes, 16) && behind == 0,
        4 => mark < 2 && window == 0 && to != 0 && last == 0 && behind == 0,
        5 => mark == 0 && window == 0 && (last == 0 || (last >> 31) == 1) && behind == 0,
        _ => false,
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok((header, behind)) = StreamHeader::decode(data) else {
        assert!(!is_message(data));
        return;
    };
    assert!(is_message(data));
    assert_eq!(header.encode(), data[..HEADER]);
    assert_eq!(behind, &data[HEADER..]);
    assert_eq!([header.tells as u8, header.mark.into(), header.device.into()], data[..3]);
    let numbers = [header.window, header.to, header.from].map(u64::from);
    assert_eq!(numbers, [4, 8, 12].map(|at| number(data, at, 4)));
    assert_eq!(header.count, long(data, 16));
    let last = if data[0] == 5 { u64::from(header.status as u32) } else { header.size };
    assert_eq!(last, long(data, 24));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    // Usually make the fixed bytes right. Otherwise the decoder would never read further.
    if size < HEADER || seed % 8 == 0 {
        return size;
    }
    data[0] = 1 + data[0] % 5;
    data[1] %= 2;
    data[2] %= 2;
    data[3] = 0;
    if data[0] != 1 {
        data[2] = 0;
        data[4..8].fill(0);
    }
    if data[0] == 2 || data[0] == 4 {
        data[24..32].fill(0);
    }
    if data[0] != 2 {
        return HEADER;
    }
    data[1] = 0;
    if max_size < HEADER + METADATA || size > HEADER + METADATA {
        return size.min(HEADER + METADATA);
    }
    HEADER + METADATA
});
