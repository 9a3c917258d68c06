//! The messages of members that create a window: the arguments of each, and the name of its
//! segment. The first byte selects the kind.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::Call;
use ucxx_rs::internals::decoders::SegmentName;

const CALL: usize = 72;
const NAME: usize = 40;

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    if kind % 2 == 1 {
        let Ok(bytes) = <&[u8; NAME]>::try_from(bytes) else { return };
        let name = SegmentName::decode(bytes);
        assert_eq!(name.encode(), *bytes);
        assert_eq!(
            (u64::from(name.pid), u64::from(name.descriptor)),
            (number(bytes, 0, 4), number(bytes, 4, 4))
        );
        return;
    }
    let sound = bytes.len() >= CALL && bytes[..8] == [3, 0, 0, 0, 0, 0, 0, 0] && bytes[16] < 4;
    let Some(call) = Call::decode(bytes) else { return assert!(!sound) };
    assert!(sound);
    let encoded = call.encode();
    assert_eq!(Call::decode(&encoded).map(|call| call.encode()), Some(encoded));
    // Compare everything except bits without a meaning, and the upper half of the status, which is
    // its sign.
    let meant = |at: &usize| !matches!(at, 12..=15 | 17..=19);
    for at in (0..CALL).filter(meant) {
        assert_eq!(encoded[at], bytes[at], "byte {at}");
    }
    assert_eq!(encoded[12..16], if bytes[11] < 0x80 { [0; 4] } else { [0xff; 4] });
    assert_eq!(encoded[17..20], [bytes[17] & 7, 0, 0]);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if size == 0 || seed % 8 == 0 {
        return size;
    }
    let length = if data[0] % 2 == 0 { CALL } else { NAME };
    if max_size <= length {
        return size;
    }
    if data[0] % 2 == 0 {
        data[1..9].copy_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0]);
        data[17] %= 9;
    }
    length + 1
});
