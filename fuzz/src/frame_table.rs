//! The table of a multi-buffer message. The first four bytes of the input are the length of the
//! data. The rest is the bytes before the user's header.
#![no_main]

use layout::number;
use libfuzzer_sys::fuzz_target;
use ucxx_rs::internals::decoders::multi_table::{check_table, frames, Prefix, ENTRY, PREFIX};

fuzz_target!(|data: &[u8]| {
    let Some((length, front)) = data.split_at_checked(4) else { return };
    let length = number(length, 0, 4) as usize;
    let Ok(prefix) = Prefix::decode(front, length) else { return };
    assert_eq!(prefix.count as u64, number(front, 0, 4));
    assert!(prefix.length <= front.len());
    if prefix.in_data {
        assert_eq!(prefix.length, PREFIX);
        assert!(prefix.count * ENTRY <= length);
        return;
    }
    let table = &front[PREFIX..prefix.length];
    assert_eq!(table.len(), prefix.count * ENTRY);
    assert!(check_table(table, length).is_ok());
    assert_eq!(frames(table).map(|frame| frame.length).sum::<usize>(), length);
    assert!(frames(table).all(|frame| frame.memory_type > 0));
});
