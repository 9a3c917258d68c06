//! The header of an active message of UCXX's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ucxx_rs::engine::ucxx_am::Envelope;

fuzz_target!(|data: &[u8]| {
    let Ok(envelope) = Envelope::decode(data) else { return };
    assert!(data.len() >= 4);
    assert_eq!(envelope.memory_type.to_ne_bytes(), data[..4]);
    assert_eq!(envelope.has_callback, data.get(4).is_some_and(|flag| *flag != 0));
    let before = if envelope.has_callback { 78 } else { 6 };
    if data.len() >= before {
        // All there is of a user's header is what its length says.
        assert!(data.len() == before || data[before..].len() >= 8);
    }
    if !envelope.has_callback {
        assert_eq!(Envelope::decode(&Envelope::encode(envelope.memory_type)), Ok(envelope));
    }
});
