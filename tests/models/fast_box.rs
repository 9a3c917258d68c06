//! A fast box: each message is read unchanged, and a reader that goes to sleep has seen the last
//! message or is woken.

use crate::bounded_model;
use crate::engine::base::membarrier::everywhere;
use crate::engine::core::channel::shm_ring::{Lines, Put, Reader, Writer, LEAST, PLACES, WORDS};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Side<T>(T, #[allow(dead_code)] Arc<Lines>);
// SAFETY: one thread at a time uses each side, and keeps the lines alive.
unsafe impl<T> Send for Side<T> {}

fn sides() -> (Side<Writer>, Side<Reader>) {
    let lines = Arc::new(Lines::default());
    let place: *const Lines = &*lines;
    // SAFETY: the lines are kept alive beside them, and there are no other sides.
    unsafe { (Side(Writer::new(place), lines.clone()), Side(Reader::new(place), lines)) }
}

fn put(writer: &Writer, number: u64) -> Put {
    let message = [number, !number];
    // SAFETY: as long as the shortest message.
    unsafe { writer.put(message.as_ptr().cast(), LEAST) }
}

/// One of two places.
fn put_long(writer: &Writer, number: u64) -> Put {
    let message = [number; 2 * WORDS];
    let [first, rest] = [&message[..WORDS], &message[WORDS..]].map(|half| half.as_ptr().cast());
    // SAFETY: as long as they are.
    unsafe { writer.put_long(first, rest, 8 * WORDS) }
}

fn take_long(reader: &Reader) -> Option<u64> {
    let (mut words, mut rest) = ([0; WORDS], [0_u64; WORDS + 1]);
    let length = reader.take(&mut words)?.expect("a message's length");
    assert_eq!(length, 16 * WORDS);
    // SAFETY: room for it.
    unsafe { reader.take_rest(length, rest.as_mut_ptr().cast()) };
    let same = words.iter().chain(&rest[..WORDS]).all(|word| *word == words[0]);
    assert!(same, "a message that was not complete");
    Some(words[0])
}

#[test]
fn long_messages_are_complete_when_they_come_and_take_no_place_that_is_in_use() {
    bounded_model(3, || {
        let (writer, reader) = sides();
        reader.0.wake_up();
        let sender = thread::spawn(move || {
            let writer = writer;
            (1..=3).take_while(|number| put_long(&writer.0, *number) != Put::Refused).count()
        });
        let mut came = 0;
        for _ in 0..2 {
            if let Some(number) = take_long(&reader.0) {
                came += 1;
                assert_eq!(number, came);
            }
        }
        let put_in = sender.join().unwrap() as u64;
        assert!(put_in >= 2);
        while let Some(number) = take_long(&reader.0) {
            came += 1;
            assert_eq!(number, came);
        }
        assert_eq!(came, put_in);
    });
}

fn take(reader: &Reader) -> Option<u64> {
    let mut words = [0; WORDS];
    let length = reader.take(&mut words)?.expect("a message's length");
    assert_eq!((length, words[1]), (LEAST, !words[0]), "a message that was not complete");
    Some(words[0])
}

#[test]
fn messages_come_once_and_in_order_also_where_the_box_is_full() {
    bounded_model(3, || {
        let (writer, reader) = sides();
        reader.0.wake_up();
        let sender = thread::spawn(move || {
            let writer = writer;
            let mut put_in = 0;
            for number in 0..u64::from(PLACES) + 2 {
                if put(&writer.0, number) == Put::Refused {
                    break;
                }
                put_in += 1;
            }
            put_in
        });
        let mut came = 0;
        for _ in 0..2 {
            if let Some(number) = take(&reader.0) {
                assert_eq!(number, came);
                came += 1;
            }
        }
        let put_in: u64 = sender.join().unwrap();
        assert!(put_in >= u64::from(PLACES));
        while let Some(number) = take(&reader.0) {
            assert_eq!(number, came);
            came += 1;
        }
        assert_eq!(came, put_in);
    });
}

#[test]
fn who_falls_asleep_sees_the_message_or_is_woken() {
    bounded_model(4, || {
        let (writer, reader) = sides();
        reader.0.wake_up();
        let woken = Arc::new(AtomicU32::new(0));
        let bell = woken.clone();
        let sender = thread::spawn(move || {
            let writer = writer;
            let put = put(&writer.0, 7);
            if put != Put::Done {
                bell.store(1, Ordering::SeqCst);
            }
            put
        });
        assert!(reader.0.fall_asleep());
        assert!(everywhere());
        let seen = take(&reader.0).is_some();
        let put = sender.join().unwrap();
        let rung = woken.load(Ordering::SeqCst) == 1;
        assert!(seen || rung, "the reader sleeps although a message is there");
        assert_eq!(put == Put::Refused, !seen && take(&reader.0).is_none());
    });
}
