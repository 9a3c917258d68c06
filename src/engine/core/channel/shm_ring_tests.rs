//! A fast box on its own: every length, full, wrapped around, lending, and filled by a hostile
//! writer.

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

/// Puts in a message of any length: what does not fit into its place goes into the area.
fn put_any(writer: &Writer, message: &[u8]) -> Put {
    match message.split_at_checked(MOST) {
        // SAFETY: the slices have these lengths.
        Some((front, data)) if !data.is_empty() => unsafe {
            writer.put_beside((front.as_ptr(), front.len()), (data.as_ptr(), data.len()))
        },
        _ => put(writer, message),
    }
}

fn data_of(came: &Came) -> &[u8] {
    if came.data_length == 0 {
        return &[];
    }
    // SAFETY: in the area, of which nothing is written while a test reads it.
    unsafe { std::slice::from_raw_parts(came.data, came.data_length) }
}

fn take(reader: &Reader) -> Option<Result<Vec<u8>, Nonsense>> {
    let mut words = [0; WORDS];
    let taken = reader.take(&mut words)?;
    Some(taken.map(|came| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(came.length);
        bytes.extend(data_of(&came));
        reader.settle();
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
    for length in (LEAST..=MOST + LONGEST)
        .step_by(7)
        .chain(MOST - 2..MOST + 20)
        .chain(MOST + LONGEST - 2..=MOST + LONGEST)
    {
        let sent = message(length as u32, length);
        assert_eq!(put_any(&writer, &sent), Put::Done, "{length} bytes");
        assert_eq!(take(&reader), Some(Ok(sent)));
        assert_eq!(take(&reader), None);
    }
}

/// All numbers start shortly before they wrap.
fn ends_before_wrap() -> Ends {
    let ends = ends();
    let Ends { writer, reader, lines } = &ends;
    let begin = 0_u32.wrapping_sub(3 * PLACES);
    writer.put.set(begin);
    writer.full_at.set(begin.wrapping_add(PLACES));
    reader.taken.set(begin);
    lines.taken.0.store(begin, Ordering::Relaxed);
    let begin = 0_u32.wrapping_sub(3 * AREA);
    writer.used.set(begin);
    writer.area_full_at.set(begin.wrapping_add(AREA));
    reader.passed.set(begin);
    reader.freed.set(begin);
    lines.freed.0.store(begin, Ordering::Relaxed);
    reader.lent.set((u32::MAX - 90, u32::MAX - 90));
    reader.wake_up();
    ends
}

/// Random lengths, and as many in flight as there is room for. The contents of the messages look
/// like marks.
#[test]
fn random_messages_come_once_and_in_order() {
    let random = &mut Random::announced();
    let Ends { writer, reader, lines: _lines } = ends_before_wrap();
    let mut under_way = std::collections::VecDeque::new();
    let (mut refused, mut came) = (0, 0_u32);
    while came < 50_000 {
        let length = match random.below(4) {
            0 => random.below(MOST - LEAST) + LEAST,
            1 => random.below(MOST + LONGEST - LEAST + 1) + LEAST,
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

/// Data that is lent in a random order and for a random time does not change meanwhile, whatever
/// goes through the box.
#[test]
fn what_is_lent_stays_as_it_is_until_it_is_given_back() {
    let random = &mut Random::announced();
    let Ends { writer, reader, lines: _lines } = ends_before_wrap();
    let mut under_way = std::collections::VecDeque::new();
    let mut lent: Vec<(u8, Came, Vec<u8>)> = Vec::new();
    let (mut refused, mut copied, mut most_lent) = (0, 0, 0);
    for number in 0..40_000 {
        let most = [200, 3000, MOST + LONGEST - LEAST][random.below(3)];
        let sent = message(number, LEAST + random.below(most));
        match put_any(&writer, &sent) {
            Put::Done => under_way.push_back(sent),
            _ => refused += 1,
        }
        for _ in 0..random.below(3) {
            let mut words = [0; WORDS];
            let Some(came) = reader.take(&mut words) else { break };
            let (came, sent) = (came.unwrap(), under_way.pop_front().unwrap());
            let data = sent[came.length..].to_vec();
            assert_eq!(data_of(&came), data);
            if came.data_length != 0 {
                match reader.lend() {
                    Some(number) => lent.push((number, came, data)),
                    None => copied += 1,
                }
                reader.settle();
            }
        }
        most_lent = most_lent.max(lent.len());
        // In turn they are kept for longer and for shorter.
        let keeps = if number / 5000 % 2 == 0 { 100 } else { 3 };
        while !lent.is_empty() && random.below(keeps) < 2 {
            let (number, came, data) = lent.swap_remove(random.below(lent.len()));
            assert_eq!(data_of(&came), data);
            assert!(reader.has_lent(came.data));
            reader.give_back(number);
        }
        assert_eq!(reader.is_lending(), !lent.is_empty());
    }
    assert!(refused > 0 && copied > 0 && most_lent > 3, "{refused} {copied} {most_lent}");
    lent.iter().for_each(|(number, ..)| reader.give_back(*number));
    while take(&reader).is_some() {}
    assert_eq!(reader.freed.get(), writer.used.get(), "all of the area is free");
}

/// One message is kept for good: others are copied, and go through the box until its area is full.
#[test]
fn a_reader_that_keeps_what_it_was_lent_fills_the_box_and_nothing_else() {
    let Ends { writer, reader, lines: _lines } = ends();
    reader.wake_up();
    let mut kept = None;
    let mut came = 0;
    while put_any(&writer, &message(came, MOST + LONGEST)) == Put::Done {
        assert_eq!(reader.take(&mut [0; WORDS]).unwrap().unwrap().data_length, LONGEST);
        let lent = reader.lend();
        kept = kept.or(lent);
        if let Some(other) = lent.filter(|_| lent != kept) {
            reader.give_back(other);
        }
        reader.settle();
        came += 1;
    }
    assert_eq!(came, AREA / LONGEST as u32);
    assert_eq!(put(&writer, &message(1, 24)), Put::Done, "a short one has its place");
    reader.give_back(kept.unwrap());
    assert_eq!(put_any(&writer, &message(2, MOST + LONGEST)), Put::Done);
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
        let (length, data) = (random.below(MOST + 9), random.below(LONGEST + 9));
        let lengths = [length, data << 8 | length, random.next() as u32 as usize][random.below(3)];
        let (length, data) = (lengths & 0xff, lengths >> 8);
        let place = &lines.places[(reader.taken.get() % PLACES) as usize];
        place.mark.store(u64::from(number) << 32 | lengths as u64, Ordering::Relaxed);
        let taken = take(&reader);
        let sane = (LEAST..=MOST).contains(&length) && data <= LONGEST;
        match (number == expected, sane) {
            (false, _) => assert_eq!(taken, None),
            (true, false) => assert_eq!(taken, Some(Err(Nonsense))),
            (true, true) => assert_eq!(taken.unwrap().unwrap().len(), length + data),
        }
    }
    // And what the reader reports.
    let Ends { writer, reader, lines } = ends();
    reader.wake_up();
    for _ in 0..10_000 {
        lines.taken.0.store(random.next() as u32, Ordering::Relaxed);
        lines.freed.0.store(random.next() as u32, Ordering::Relaxed);
        put_any(&writer, &message(1, LEAST + random.below(MOST + LONGEST - LEAST)));
    }
}

#[test]
fn two_threads_lose_nothing_and_keep_the_order() {
    struct Shared<T>(T);
    // SAFETY: each side is used by one thread.
    unsafe impl<T> Send for Shared<T> {}
    const MESSAGES: u32 = 200_000;
    let length_of = |number: u32| LEAST + number as usize * 7 % (4 * MOST);
    let Ends { writer, reader, lines } = ends();
    reader.wake_up();
    let writer = Shared(writer);
    let sender = std::thread::spawn(move || {
        let writer = writer;
        for number in 0..MESSAGES {
            while put_any(&writer.0, &message(number, length_of(number))) != Put::Done {
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
        assert_eq!(taken, message(number, length_of(number)));
    }
    sender.join().unwrap();
    drop(lines);
}
