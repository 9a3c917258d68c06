//! The header that announces the frames of a tag transfer, in UCXX's format.
#![no_main]

use layout::number;
use libfuzzer_sys::fuzz_target;
use ucxx_rs::internals::decoders::ucxx_multi::{encode, Announcement, FRAMES, HEADER};

fuzz_target!(|data: &[u8]| {
    let Ok(header) = Announcement::decode(data) else { return };
    assert_eq!(data.len(), HEADER);
    let count = header.count();
    assert!(count <= FRAMES && (!header.has_next() || count == FRAMES));
    assert_eq!((number(data, 1, 4), number(data, 5, 4)), (count as u64, 0));
    let mut total = Some(0u64);
    for (index, frame) in header.frames().enumerate() {
        let at = 409 + 8 * index;
        assert_eq!(frame.length, number(data, at, 4) | number(data, at + 4, 4) << 32);
        assert_eq!(frame.device, number(data, 9 + 4 * index, 4) != 0);
        total = total.and_then(|total| total.checked_add(frame.length));
    }
    assert_eq!(header.total(), total);
    if !header.has_next() {
        let mut again = Vec::new();
        encode(header.frames(), &mut again);
        let read = Announcement::decode(&again).expect("what is written can be read");
        assert!(read.frames().eq(header.frames()) && !read.has_next());
    }
});
