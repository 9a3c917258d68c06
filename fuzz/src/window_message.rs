//! A message about a window: its header, then the pieces of memory that it accesses, and data.
#![no_main]

use layout::number;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use ucxx_rs::internals::decoders::window::{content_of, Content, WindowHeader};

const HEADER: usize = 64;
const PIECE: usize = 16;

/// A number of 8 bytes.
fn long(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 4) | number(bytes, at + 4, 4) << 32
}

/// 15 kinds, of which the first five may have pieces and an extent; 14 operations; 22 types; two
/// kinds of lock; a status that is OK or an error.
fn is_header(bytes: &[u8]) -> bool {
    let is_error_or_ok = bytes[59] >= 0x80 || bytes[56..60] == [0; 4];
    bytes[..2] == [1, 0]
        && bytes[2] < 15
        && bytes[3] < 14
        && bytes[4] < 22
        && matches!(bytes[5], 1 | 2)
        && bytes[6] < 2
        && bytes[7] == 0
        && is_error_or_ok
        && (bytes[2] < 5 || (bytes[6] == 0 && bytes[12..16] == [0; 4]))
}

fuzz_target!(|data: &[u8]| {
    let Some((bytes, data)) = data.split_at_checked(HEADER) else {
        assert!(WindowHeader::decode(data).is_err());
        return;
    };
    let header = match WindowHeader::decode(bytes) {
        Ok(header) => header,
        Err(_) => return assert!(!is_header(bytes)),
    };
    assert!(is_header(bytes));
    assert_eq!(header.encode(), bytes);
    assert_eq!(
        (u64::from(header.from), u64::from(header.number)),
        (number(bytes, 8, 4), number(bytes, 60, 4))
    );
    let words = [header.window, header.token, header.at, header.bytes, header.offset];
    assert_eq!(words, [16, 24, 32, 40, 48].map(|at| long(bytes, at)));

    let extent = usize::from(bytes[6]) * PIECE;
    let Some((in_front, data)) = data.split_at_checked(extent) else {
        return assert_eq!(content_of(&header, data), None);
    };
    let whole = [in_front, data].concat();
    let extent = (extent > 0).then(|| (long(in_front, 0), long(in_front, 8)));
    let pieces = number(bytes, 12, 4) as usize;
    let table: Option<Vec<(u64, u64)>> = data.get(..pieces.saturating_mul(PIECE)).map(|table| {
        table.chunks_exact(PIECE).map(|piece| (long(piece, 0), long(piece, 8))).collect()
    });
    let content = content_of(&header, &whole);
    assert!(content.as_ref().is_none_or(|content| content.extent == extent));
    match (content, table) {
        (Some(Content { pieces: found, data: rest, .. }), _) if pieces == 0 => {
            assert_eq!(found, [(header.at, header.bytes)]);
            assert_eq!(rest, data);
        }
        (Some(Content { pieces: found, data: rest, .. }), table) => {
            assert_eq!(
                found.iter().map(|(_, bytes)| u128::from(*bytes)).sum::<u128>(),
                u128::from(header.bytes)
            );
            assert_eq!(rest.len() + pieces * PIECE, data.len());
            assert_eq!(Some(found), table);
        }
        (None, Some(table)) => {
            let sum = table.iter().map(|(_, bytes)| u128::from(*bytes)).sum::<u128>();
            assert_ne!(sum, u128::from(header.bytes));
        }
        (None, None) => {}
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, max_size);
    // Usually make the fixed bytes and the sum of the pieces right. Otherwise the decoder would
    // never read further.
    if size < HEADER || seed % 8 == 0 {
        return size;
    }
    data[..2].copy_from_slice(&[1, 0]);
    for (at, numbers) in [(2, 15), (3, 14), (4, 22)] {
        data[at] %= numbers;
    }
    data[5] = 1 + data[5] % 2;
    data[6] = if data[2] < 5 { data[6] % 2 } else { 0 };
    data[7] = 0;
    data[56..60].copy_from_slice(&(seed % 2 * u32::MAX).to_le_bytes());
    let table = HEADER + usize::from(data[6]) * PIECE;
    let pieces = size.saturating_sub(table) / PIECE;
    if data[2] >= 5 {
        data[12..16].fill(0);
    } else if pieces > 0 && seed % 4 != 1 {
        let pieces = (seed >> 8) as usize % (pieces + 1);
        data[12..16].copy_from_slice(&(pieces as u32).to_le_bytes());
        let sum = (0..pieces)
            .fold(0_u64, |sum, piece| sum.wrapping_add(long(data, table + piece * PIECE + 8)));
        data[40..48].copy_from_slice(&sum.to_le_bytes());
    }
    size
});
