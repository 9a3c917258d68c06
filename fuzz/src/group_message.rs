//! The header of a message from one member of a group to another.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::group::{GroupHeader, What};

fuzz_target!(|data: &[u8]| {
    let Ok(header) = GroupHeader::decode(data) else { return };
    assert_eq!(header.encode(), data);
    assert_eq!(u64::from(header.from), number(data, 20, 4));
    assert_eq!(header.what == What::Notice, header.status < 0);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    // Usually make the version right. Otherwise the decoder would never read further.
    if size > 4 && seed % 8 != 0 {
        let what = data[2] % 7;
        data[..4].copy_from_slice(&[1, 0, what, 0]);
    }
    size
});
