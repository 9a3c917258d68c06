//! A fast box: each message is read unchanged, and a reader that goes to sleep has seen the last
//! message or is woken.

use crate::bounded_model;
use crate::engine::base::membarrier::everywhere;
use crate::engine::core::channel::shm_ring::{
    Lines, Put, Reader, Writer, LEAST, LONGEST, PLACES, WORDS,
};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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

/// One with data in the area.
fn put_long(writer: &Writer, number: u64) -> Put {
    let (front, data) = ([number; LEAST / 8], [number; LONGEST / 8]);
    // SAFETY: as long as they are.
    unsafe { writer.put_beside((front.as_ptr().cast(), LEAST), (data.as_ptr().cast(), LONGEST)) }
}

/// Takes out the next one, with a number to give its data back.
fn take_long(reader: &Reader) -> Option<(u64, &[AtomicU64], Option<u8>)> {
    let mut words = [0; WORDS];
    let came = reader.take(&mut words)?.expect("a message's lengths");
    assert_eq!((came.length, came.data_length), (LEAST, LONGEST));
    // SAFETY: the words of the area, which outlives the reader.
    let data = unsafe { std::slice::from_raw_parts(came.data.cast(), LONGEST / 8) };
    is_whole(words[0], data);
    let lent = reader.lend();
    reader.settle();
    Some((words[0], data, lent))
}

fn is_whole(number: u64, data: &[AtomicU64]) {
    let same = data.iter().all(|word| word.load(Ordering::Relaxed) == number);
    assert!(same, "a message that was not complete, or was written over");
}

/// More than the area has room for at a time.
#[test]
fn lent_data_is_complete_when_it_comes_and_stays_until_it_is_given_back() {
    bounded_model(3, || {
        let (writer, reader) = sides();
        reader.0.wake_up();
        let sender = thread::spawn(move || {
            let writer = writer;
            (1..=5).take_while(|number| put_long(&writer.0, *number) != Put::Refused).count()
        });
        let (mut came, mut kept) = (0, None);
        for _ in 0..2 {
            if let Some((number, data, lent)) = take_long(&reader.0) {
                came += 1;
                assert_eq!(number, came);
                if let Some((number, data, lent)) = kept.replace((number, data, lent.unwrap())) {
                    is_whole(number, data);
                    reader.0.give_back(lent);
                }
            }
        }
        let put_in = sender.join().unwrap() as u64;
        assert!(put_in >= 4);
        while let Some((number, _, lent)) = take_long(&reader.0) {
            came += 1;
            assert_eq!(number, came);
            if let Some(lent) = lent {
                reader.0.give_back(lent);
            }
        }
        if let Some((number, data, _)) = kept {
            is_whole(number, data);
        }
        assert_eq!(came, put_in);
    });
}

fn take(reader: &Reader) -> Option<u64> {
    let mut words = [0; WORDS];
    let came = reader.take(&mut words)?.expect("a message's lengths");
    assert_eq!((came.length, words[1]), (LEAST, !words[0]), "a message that was not complete");
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
