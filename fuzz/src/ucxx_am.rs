//! The header of an active message of UCXX.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ucxx_rs::internals::decoders::Envelope;

fuzz_target!(|data: &[u8]| {
    let Ok(envelope) = Envelope::decode(data) else { return };
    assert!(data.len() >= 4);
    assert_eq!(envelope.memory_type.to_ne_bytes(), data[..4]);
    assert_eq!(envelope.callback.is_some(), data.get(4).is_some_and(|flag| *flag != 0));
    let before = if envelope.callback.is_some() { 78 } else { 6 };
    if data.len() >= before {
        // The user's header has exactly the stated length.
        assert!(data.len() == before || data[before..].len() == 8 + envelope.user_header.len());
    }
    let mut again = vec![0; envelope.length()];
    envelope.encode(&mut again);
    assert_eq!(Envelope::decode(&again), Ok(envelope));
});
