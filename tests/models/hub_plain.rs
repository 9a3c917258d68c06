//! A hub in lock-free mode, and threads that sleep until an item arrives: they have marked the
//! queue, and a push to a marked queue takes the lock and wakes them. Another thread may switch the
//! hub to its tables meanwhile.

use crate::bounded_model;
use crate::engine::base::spin_lock::{SpinLock, SpinLockGuard};
use crate::engine::hub::lockfree::queue_pair::QueuePair;
use crate::engine::hub::waiters::{Waiters, DATA, ROOM};
use loom::sync::Arc;
use loom::thread;

const READS: usize = 0;
const PRODUCES: usize = 1;

/// The part of the tables that waiting uses. Items stand for envelopes.
#[derive(Default)]
struct Tables {
    lists: [Vec<*mut u32>; 2],
    returned: Vec<*mut u32>,
    asleep: u8,
    in_tables: bool,
}

struct Hub {
    items: usize,
    queues: QueuePair<u32>,
    waiters: Waiters,
    tables: SpinLock<Tables>,
}

// SAFETY: an item is only an address that identifies it, and is never dereferenced.
unsafe impl Send for Hub {}
// SAFETY: as above.
unsafe impl Sync for Hub {}

impl Hub {
    fn new(items: usize) -> Arc<Self> {
        Arc::new(Hub {
            items,
            queues: QueuePair::new(
                (0..items).map(|at| std::ptr::without_provenance_mut(8 * (at + 1))),
            ),
            waiters: Waiters::new(),
            tables: SpinLock::new(Tables::default()),
        })
    }

    /// As `Tables::lock`.
    fn lock(&self) -> SpinLockGuard<'_, Tables> {
        let mut tables = self.tables.lock();
        if !std::mem::replace(&mut tables.in_tables, true) {
            tables.lists = self.queues.close();
            let returned = tables.returned.pop();
            tables.lists[READS].splice(0..0, returned);
        }
        tables
    }

    /// As `Hub::unlock`.
    fn unlock(&self, mut tables: SpinLockGuard<'_, Tables>, changed: u8) {
        let wake_mask = self.waiters.move_on(changed, &mut tables.asleep);
        drop(tables);
        self.waiters.wake(wake_mask);
    }

    fn take_plainly(&self, side: usize) -> Option<*mut u32> {
        if side == READS {
            self.queues.take_ready(|_, _| {}).ok()
        } else {
            self.queues.take_free(|_, _| {}).ok()
        }
    }

    /// As `Hub::lease`.
    fn take(&self, side: usize) -> *mut u32 {
        if let Some(item) = self.take_plainly(side) {
            return item;
        }
        loop {
            let mut tables = self.tables.lock();
            let found = if tables.in_tables {
                let list = &mut tables.lists[side];
                (!list.is_empty()).then(|| list.remove(0))
            } else if side == READS && !tables.returned.is_empty() {
                self.queues.mark_taking(false);
                tables.returned.pop()
            } else {
                self.queues.mark(side);
                self.take_plainly(side)
            };
            if let Some(item) = found {
                self.unlock(tables, 0);
                return item;
            }
            tables.asleep |= 1 << side;
            let seen = self.waiters.see(side);
            self.unlock(tables, 0);
            self.waiters.sleep(side, seen, None);
        }
    }

    fn push_plainly(&self, side: usize, item: *mut u32) -> bool {
        if side == READS {
            self.queues.push_ready(item)
        } else {
            self.queues.push_free(item)
        }
    }

    /// As `Lease::commit`.
    fn push(&self, side: usize, item: *mut u32) {
        if self.push_plainly(side, item) {
            return;
        }
        let mut tables = self.tables.lock();
        if tables.in_tables {
            tables.lists[side].push(item);
        } else {
            self.queues.unmark(side);
            let done = match side {
                READS => self.queues.push_most(item),
                _ => self.queues.push_free(item),
            };
            assert!(done, "refused under the lock");
        }
        self.unlock(tables, [DATA, ROOM][side]);
    }

    fn produce(&self) {
        let item = self.take(PRODUCES);
        self.push(READS, item);
    }

    fn consume(&self) {
        let item = self.take(READS);
        self.push(PRODUCES, item);
    }

    /// As `Lease::abort`, of a producer.
    fn give_back_room(&self, item: *mut u32) {
        let tables = self.tables.lock();
        assert!(!tables.in_tables);
        self.queues.unmark(PRODUCES);
        assert!(self.queues.push_unused(item));
        self.unlock(tables, ROOM);
    }

    /// As `State::stats_of_queues`: the largest number of chunks so far.
    fn ask(&self) -> u64 {
        let tables = self.tables.lock();
        let told = self.queues.traffic();
        self.unlock(tables, 0);
        let chunks = told.produced - told.consumed;
        assert!(told.free + chunks <= self.items as u64, "more than exist: {told:?}");
        assert!(told.ready <= chunks && chunks <= told.most, "{told:?}");
        told.most
    }

    /// As `Lease::abort`, of a reader.
    fn give_back(&self, item: *mut u32) {
        let mut tables = self.tables.lock();
        if tables.in_tables {
            tables.lists[READS].insert(0, item);
        } else {
            self.queues.unmark(READS);
            tables.returned.push(item);
            self.queues.mark_taking(true);
        }
        self.unlock(tables, DATA);
    }
}

/// loom fails if all threads sleep. `goes_over`: switches to the tables before the last chunk is
/// produced.
fn all_is_consumed(items: usize, chunks: usize, goes_over: bool, preemptions: usize) {
    bounded_model(preemptions, move || {
        let hub = Hub::new(items);
        let producer = hub.clone();
        let producing = thread::spawn(move || {
            for chunk in 1..=chunks {
                if goes_over && chunk == chunks {
                    producer.unlock(producer.lock(), 0);
                }
                producer.produce();
            }
        });
        (0..chunks).for_each(|_| hub.consume());
        producing.join().unwrap();
        let tables = hub.lock();
        assert_eq!(
            (tables.lists[PRODUCES].len(), tables.lists[READS].len(), tables.asleep),
            (items, 0, 0),
            "an item is lost, or a thread sleeps"
        );
    });
}

#[test]
fn whoever_waits_for_a_plain_hub_is_woken() {
    all_is_consumed(1, 2, false, 3);
}

/// Both sides at once, as neither waits for the other.
#[test]
fn whoever_waits_for_a_plain_hub_with_room_is_woken() {
    all_is_consumed(2, 2, false, 2);
}

/// One thread returns its item, for which the other may wait; with several chunks both take one.
fn what_is_given_back_is_had(chunks: usize) {
    bounded_model(2, move || {
        let hub = Hub::new(chunks);
        (0..chunks).for_each(|_| hub.produce());
        let item = hub.take(READS);
        let other = hub.clone();
        let consuming = thread::spawn(move || other.consume());
        hub.give_back(item);
        (1..chunks).for_each(|_| hub.consume());
        consuming.join().unwrap();
        let tables = hub.lock();
        assert_eq!((tables.lists[PRODUCES].len(), tables.asleep), (chunks, 0));
    });
}

#[test]
fn whoever_waits_has_what_is_given_back() {
    what_is_given_back_is_had(1);
    what_is_given_back_is_had(2);
}

#[test]
fn what_is_told_is_of_one_moment() {
    bounded_model(2, || {
        let hub = Hub::new(1);
        hub.produce();
        let other = hub.clone();
        let working = thread::spawn(move || {
            other.consume();
            other.produce();
        });
        hub.ask();
        working.join().unwrap();
        assert_eq!(hub.ask(), 1);
    });
}

/// A returned empty envelope does not count as a consumed chunk.
#[test]
fn the_most_chunks_are_counted_beside_who_gives_up() {
    bounded_model(2, || {
        let hub = Hub::new(2);
        hub.produce();
        hub.consume();
        let other = hub.clone();
        let producing = thread::spawn(move || other.produce());
        let item = hub.take(PRODUCES);
        hub.give_back_room(item);
        producing.join().unwrap();
        assert_eq!(hub.ask(), 1);
    });
}

#[test]
fn whoever_waits_for_a_hub_that_goes_over_is_woken() {
    all_is_consumed(1, 2, true, 3);
    all_is_consumed(2, 2, true, 2);
}
