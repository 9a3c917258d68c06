//! The header of the library's own active messages.
#![no_main]

use layout::number;
use libfuzzer_sys::fuzz_target;
use ucxx_rs::engine::wire::{Header, Unreadable, HEADER};

fuzz_target!(|data: &[u8]| {
    let decoded = Header::decode(data);
    if data.len() != HEADER {
        assert!(matches!(decoded, Err(Unreadable::Garbage(_))));
        return;
    }
    let (receiver, own) = (number(data, 8, 4) as u32, number(data, 20, 4) as u32);
    match decoded {
        Ok(header) => {
            assert_eq!(header.encode(), data, "another header than the one that came");
            assert_eq!((header.kind as u8, header.connection, header.sender), (data[1], receiver, own));
        }
        Err(Unreadable::Version { theirs, refusal, connection, sender }) => {
            assert_ne!(theirs, 1);
            assert_eq!((theirs, refusal, connection, sender), (data[0], data[1] == 3, receiver, own));
        }
        Err(Unreadable::Garbage(_)) => {
            let sound = data[0] == 1 && (1..=7).contains(&data[1]) && number(data, 6, 2) <= 3;
            let empty = data[2..6].iter().chain(&data[12..20]).all(|byte| *byte == 0);
            assert!(!(sound && empty), "a sound header was refused");
        }
    }
});
