//! A fast box on its own: every length, full, wrapped around, and filled by a hostile writer.

use super::*;
use crate::engine::base::seed::Random;

struct Ends {
    lines: Box<Lines>,
    writer: Writer,
    reader: Reader,
}

fn ends() -> Ends {
    let lines = Box::<Lines>::default();
    // SAFETY: both are dropped before the lines, and are the only ones.
    let (writer, reader) =
        unsafe { (Writer::new(&raw const *lines), Reader::new(&raw const *lines)) };
    Ends { lines, writer, reader }
}

fn put(writer: &Writer, message: &[u8]) -> Put {
    // SAFETY: the slice has this length.
    unsafe { writer.put(message.as_ptr(), message.len()) }
}

fn message(number: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number as usize * 31 + at) as u8).collect()
}

/// Puts in a message of any length.
fn put_any(writer: &Writer, message: &[u8]) -> Put {
    match message.split_at_checked(MOST) {
        // SAFETY: the slices have these lengths.
        Some((first, rest)) if !rest.is_empty() => unsafe {
            writer.put_long(first.as_ptr(), rest.as_ptr(), rest.len())
        },
        _ => put(writer, message),
    }
}

fn take(reader: &Reader) -> Option<Result<Vec<u8>, Nonsense>> {
    let mut words = [0; WORDS];
    let taken = reader.take(&mut words)?;
    Some(taken.map(|length| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        if length > MOST {
            bytes.resize(length, 0);
            // SAFETY: there is room for the rest.
            unsafe { reader.take_rest(length, bytes.as_mut_ptr().add(MOST)) };
        }
        bytes.truncate(length);
        bytes
    }))
}

#[test]
fn what_goes_in_comes_out_at_every_length() {
    let Ends { writer, reader, lines: _lines } = ends();
    reader.wake_up();
    for round in 0..10 {
        for length in LEAST..=MOST {
            let sent = message(round * 1000 + length as u32, length);
            assert_eq!(put(&writer, &sent), Put::Done);
            assert!(reader.has_message());
            assert_eq!(take(&reader), Some(Ok(sent)));
            assert_eq!(take(&reader), None);
        }
    }
}

#[test]
fn a_full_box_refuses_and_goes_on_when_it_was_told() {
    let Ends { writer, reader, lines: _lines } = ends();
    reader.wake_up();
    let mut number = 0;
    for _ in 0..3 {
        (0..PLACES).for_each(|at| assert_eq!(put(&writer, &message(number + at, 24)), Put::Done));
        assert_eq!(put(&writer, &message(7, 24)), Put::Refused);
        for at in 0..PLACES {
            assert_eq!(take(&reader), Some(Ok(message(number + at, 24))));
        }
        assert_eq!(take(&reader), None);
        number += PLACES;
        // What was not reported yet.
        let untold = number % TOLD_EACH;
        (untold..PLACES).for_each(|_| assert_eq!(put(&writer, &message(number, 16)), Put::Done));
        while take(&reader).is_some() {
            number += 1;
        }
        while number % TOLD_EACH != 0 {
            assert_eq!(put(&writer, &message(number, 16)), Put::Done);
            assert!(take(&reader).is_some());
            number += 1;
        }
    }
}

#[test]
fn long_messages_come_out_as_they_went_in_between_short_ones() {
    let Ends { writer, reader, lines: _lines } = ends();
    reader.wake_up();
    for length in (LEAST..=LONGEST).step_by(7).chain(MOST - 2..MOST + 20).chain([LONGEST]) {
        let sent = message(length as u32, length);
        assert_eq!(put_any(&writer, &sent), Put::Done, "{length} bytes");
        assert_eq!(take(&reader), Some(Ok(sent)));
        assert_eq!(take(&reader), None);
    }
}

/// Random lengths, and as many in flight as there is room for. The contents of long messages look
/// like marks. Numbers start shortly before they wrap.
#[test]
fn random_messages_come_once_and_in_order() {
    let random = &mut Random::announced();
    let Ends { writer, reader, lines } = ends();
    let begin = 0_u32.wrapping_sub(3 * PLACES);
    writer.put.set(begin);
    writer.full_at.set(begin.wrapping_add(PLACES));
    reader.taken.set(begin);
    lines.taken.0.store(begin, Ordering::Relaxed);
    reader.wake_up();
    let mut under_way = std::collections::VecDeque::new();
    let (mut refused, mut came) = (0, 0_u32);
    while came < 50_000 {
        let length = match random.below(4) {
            0 => random.below(MOST - LEAST) + LEAST,
            1 => random.below(LONGEST - LEAST + 1) + LEAST,
            _ => random.below(600) + LEAST,
        };
        let mark = u64::from(writer.put.get().wrapping_add(random.below(1024) as u32)) << 32;
        let mark = mark | random.below(MOST) as u64;
        let sent: Vec<u8> = mark.to_ne_bytes().into_iter().cycle().take(length).collect();
        match put_any(&writer, &sent) {
            Put::Done => under_way.push_back(sent),
            _ => refused += 1,
        }
        // In turn the box fills up, and is emptied.
        let most = if came / 1000 % 2 == 0 { 2 } else { 4 };
        for _ in 0..random.below(most) {
            let expected = under_way.pop_front();
            came += u32::from(expected.is_some());
            assert_eq!(take(&reader), expected.map(Ok));
        }
    }
    assert!(refused > 0, "it was never full");
}

#[test]
fn one_that_sleeps_gets_nothing() {
    let Ends { writer, reader, lines: _lines } = ends();
    assert_eq!(put(&writer, &message(1, 16)), Put::Refused, "as it is at first");
    assert!(!reader.fall_asleep(), "it was asleep");
    reader.wake_up();
    assert_eq!(put(&writer, &message(1, 16)), Put::Done);
    assert!(reader.fall_asleep() && reader.has_message());
    assert_eq!(put(&writer, &message(2, 16)), Put::Refused);
    assert_eq!(take(&reader), Some(Ok(message(1, 16))));
    assert!(!reader.has_message());
}

#[test]
fn numbers_wrap_around() {
    let Ends { writer, reader, lines } = ends();
    reader.wake_up();
    let start = 0u32.wrapping_sub(PLACES);
    writer.put.set(start);
    writer.full_at.set(start);
    reader.taken.set(start);
    lines.taken.0.store(start, Ordering::Relaxed);
    for number in 0..3 * PLACES {
        assert_eq!(put(&writer, &message(number, 40)), Put::Done);
        assert_eq!(take(&reader), Some(Ok(message(number, 40))));
    }
}

#[test]
fn what_a_liar_writes_is_nonsense_or_a_message_of_its_own() {
    let random = &mut Random::announced();
    let Ends { writer: _, reader, lines } = ends();
    for _ in 0..100_000 {
        let expected = reader.taken.get().wrapping_add(1);
        let number = [expected, expected, random.next() as u32][random.below(3)];
        let length =
            [random.below(LONGEST + 9) as u64, random.next() & 0xffff_ffff][random.below(2)];
        let place = &lines.places[(reader.taken.get() % PLACES) as usize];
        place.mark.store(u64::from(number) << 32 | length, Ordering::Relaxed);
        let taken = take(&reader);
        let sane = (LEAST as u64..=LONGEST as u64).contains(&length);
        match (number == expected, sane) {
            (false, _) => assert_eq!(taken, None),
            (true, false) => assert_eq!(taken, Some(Err(Nonsense))),
            (true, true) => assert_eq!(taken.unwrap().unwrap().len(), length as usize),
        }
    }
    // And the reader's number of places taken.
    let Ends { writer, reader, lines } = ends();
    reader.wake_up();
    for _ in 0..10_000 {
        lines.taken.0.store(random.next() as u32, Ordering::Relaxed);
        put_any(&writer, &message(1, LEAST + random.below(LONGEST - LEAST)));
    }
}

#[test]
fn two_threads_lose_nothing_and_keep_the_order() {
    struct Shared<T>(T);
    // SAFETY: each side is used by one thread.
    unsafe impl<T> Send for Shared<T> {}
    const MESSAGES: u32 = 200_000;
    let Ends { writer, reader, lines } = ends();
    reader.wake_up();
    let writer = Shared(writer);
    let sender = std::thread::spawn(move || {
        let writer = writer;
        for number in 0..MESSAGES {
            while put(&writer.0, &message(number, LEAST + number as usize % (MOST - LEAST)))
                != Put::Done
            {
                std::thread::yield_now();
            }
        }
    });
    for number in 0..MESSAGES {
        let taken = loop {
            match take(&reader) {
                Some(taken) => break taken.unwrap(),
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(taken, message(number, LEAST + number as usize % (MOST - LEAST)));
    }
    sender.join().unwrap();
    drop(lines);
}
