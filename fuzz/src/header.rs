//! The header of the library's own active messages, alone and with what follows it.
#![no_main]

use layout::{is_header, number};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::header::{Header, Kind, Question, Unreadable, HEADER};
use ucxx_rs::internals::decoders::Piece;

fn check_header(header: &Header, data: &[u8]) {
    assert_eq!(header.encode(), data[..HEADER], "another header than the one that came");
    assert_eq!((header.kind as u8, header.connection), (data[1], number(data, 8, 4) as u32));
    assert_eq!(
        (header.id, header.user_header),
        (number(data, 2, 2) as u16, number(data, 4, 2) as u16)
    );
    assert_eq!(
        (header.sequence, header.sender),
        (number(data, 12, 4) as u32, number(data, 20, 4) as u32)
    );
    let taken = (header.taken.messages, header.taken.units);
    assert_eq!(taken, (number(data, 16, 2) as u16, number(data, 18, 2) as u16));
}

fn check_error(unreadable: &Unreadable, data: &[u8]) {
    if let Unreadable::Version { theirs, refusal, connection, sender } = *unreadable {
        assert_ne!(theirs, 1);
        let expected =
            (data[0], data[1] == 3, number(data, 8, 4) as u32, number(data, 20, 4) as u32);
        assert_eq!((theirs, refusal, connection, sender), expected);
    } else {
        assert!(data.len() < HEADER || data[0] == 1, "of another version, and called garbage");
    }
}

/// The short forms. Each message has exactly one encoding, so encoding what was decoded must give
/// the same bytes.
fn check_short(data: &[u8]) {
    let Ok(Piece { header, question, user_header, data: payload, .. }) = Piece::decode(data) else {
        return;
    };
    if data[0] < 0x80 {
        return;
    }
    assert_eq!((header.kind as u8 | 0x80, header.connection), (data[0], number(data, 4, 4) as u32));
    assert_ne!(header.connection, 0);
    let start = if question.is_some() { 20 } else { 16 };
    assert_eq!([&data[..start], user_header, payload].concat(), data);
    assert_eq!(question.is_some(), header.kind == Kind::Ask);
    if let Some(question) = question {
        let (lower, upper) = (number(data, 12, 4), number(data, 16, 4));
        assert_eq!(
            (question.number, question.capacity),
            (upper << 32 | lower, number(data, 10, 2))
        );
        assert!(question.number <= Question::NUMBERS);
    }
}

fuzz_target!(|data: &[u8]| {
    check_short(data);
    match Header::decode(data) {
        Ok(header) => {
            check_header(&header, data);
            assert!(is_header(data), "taken, and not a header");
            assert_eq!(usize::from(header.user_header), data.len() - HEADER);
        }
        Err(unreadable) => {
            check_error(&unreadable, data);
            let whole = data.len() >= HEADER && number(data, 4, 2) == (data.len() - HEADER) as u64;
            assert!(!(whole && is_header(data)), "a sound header was refused");
        }
    }
    match Header::decode_packed(data) {
        Ok((header, user_header, payload)) => {
            check_header(&header, data);
            assert!(
                is_header(data)
                    && matches!(
                        header.kind,
                        Kind::Message | Kind::Multi | Kind::Ask | Kind::Answer
                    )
            );
            assert_eq!([&data[..HEADER], user_header, payload].concat(), data);
            assert_eq!(usize::from(header.user_header), user_header.len());
        }
        Err(unreadable) => {
            check_error(&unreadable, data);
            let of_user = is_header(data) && [8, 10, 11, 12].contains(&data[1]);
            let fits = of_user && number(data, 4, 2) <= (data.len() - HEADER) as u64;
            assert!(!fits, "a sound message was refused");
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    if size >= HEADER {
        // Usually the right version. Half of them have a user header of the stated length.
        if seed % 16 != 0 {
            data[0] =
                if seed & 0x200 != 0 { 1 } else { [0x88, 0x8a, 0x8b][seed as usize / 16 % 3] };
        }
        if seed & 0x100 != 0 {
            data[4..6].copy_from_slice(&((size - HEADER) as u16).to_le_bytes());
        }
    }
    size
});
