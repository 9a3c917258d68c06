//! A hub that goes without its lock, and those who sleep behind the lock until something has come:
//! whoever goes to sleep has closed the lane, and as long as somebody sleeps it is not opened.

use crate::bounded_model;
use crate::engine::base::spin_lock::{SpinLock, SpinLockGuard};
use crate::engine::hub::lockfree::queue_pair::Lane;
use crate::engine::hub::waiters::{Sides, DATA, ROOM};
use loom::sync::Arc;
use loom::thread;

const READS: usize = 0;
const PRODUCES: usize = 1;

/// The tables, as far as waiting goes. Items stand for envelopes.
#[derive(Default)]
struct Tables {
    free: Vec<*mut u32>,
    ready: Vec<*mut u32>,
    asleep: u8,
    is_open: bool,
}

struct Hub {
    lane: Lane<u32>,
    sides: Sides,
    tables: SpinLock<Tables>,
}

// SAFETY: an item is an address to tell it by, and nothing is ever read from there.
unsafe impl Send for Hub {}
// SAFETY: as above.
unsafe impl Sync for Hub {}

impl Hub {
    fn new(items: usize) -> Arc<Self> {
        let free = (0..items).map(|at| std::ptr::without_provenance_mut(8 * (at + 1))).collect();
        let hub = Hub {
            lane: Lane::new(items),
            sides: Sides::new(),
            tables: SpinLock::new(Tables { free, ..Tables::default() }),
        };
        hub.leave(hub.tables.lock(), 0);
        Arc::new(hub)
    }

    /// As `Tables::lock`.
    fn lock(&self) -> SpinLockGuard<'_, Tables> {
        let mut tables = self.tables.lock();
        if std::mem::take(&mut tables.is_open) {
            let closed = self.lane.close();
            (tables.free, tables.ready) = (closed.free().collect(), closed.ready().collect());
        }
        tables
    }

    /// As `Tables::lock_unless`.
    fn lock_unless<T>(
        &self,
        plainly: impl Fn() -> Option<T>,
    ) -> Result<SpinLockGuard<'_, Tables>, T> {
        let tables = self.tables.lock();
        if !tables.is_open {
            return Ok(tables);
        }
        drop(tables);
        plainly().map_or_else(|| Ok(self.lock()), Err)
    }

    /// As `Hub::leave`, which opens the lane after some leases: here as soon as it may.
    fn leave(&self, mut tables: SpinLockGuard<'_, Tables>, changed: u8) {
        if tables.asleep == 0 {
            let Tables { free, ready, .. } = &mut *tables;
            self.lane.open(free.drain(..), [].into_iter(), ready.drain(..), |_, _| {});
            tables.is_open = true;
        }
        let woken = self.sides.move_on(changed, &mut tables.asleep);
        drop(tables);
        self.sides.wake(woken);
    }

    fn take(&self, side: usize) -> *mut u32 {
        loop {
            let plainly = || {
                if side == READS {
                    self.lane.take_ready(|_, _| {})
                } else {
                    self.lane.take_free(|_, _| {})
                }
                .ok()
            };
            if let Some(item) = plainly() {
                return item;
            }
            let mut tables = match self.lock_unless(plainly) {
                Ok(tables) => tables,
                Err(item) => return item,
            };
            let list = if side == READS { &mut tables.ready } else { &mut tables.free };
            if !list.is_empty() {
                let item = list.remove(0);
                self.leave(tables, 0);
                return item;
            }
            tables.asleep |= 1 << side;
            let seen = self.sides.see(side);
            self.leave(tables, 0);
            self.sides.sleep(side, seen, None);
        }
    }

    fn produce(&self) {
        let item = self.take(PRODUCES);
        let plainly = || self.lane.push_ready(item).then_some(());
        if plainly().is_some() {
            return;
        }
        if let Ok(mut tables) = self.lock_unless(plainly) {
            tables.ready.push(item);
            self.leave(tables, DATA);
        }
    }

    fn consume(&self) {
        let item = self.take(READS);
        let plainly = || self.lane.push_free(item).then_some(());
        if plainly().is_some() {
            return;
        }
        if let Ok(mut tables) = self.lock_unless(plainly) {
            tables.free.push(item);
            self.leave(tables, ROOM);
        }
    }
}

/// Loom fails where all sleep.
fn all_is_consumed(items: usize, chunks: usize, preemptions: usize) {
    bounded_model(preemptions, move || {
        let hub = Hub::new(items);
        let producer = hub.clone();
        let producing = thread::spawn(move || (0..chunks).for_each(|_| producer.produce()));
        (0..chunks).for_each(|_| hub.consume());
        producing.join().unwrap();
        let tables = hub.lock();
        assert_eq!(
            (tables.free.len(), tables.ready.len(), tables.asleep),
            (items, 0, 0),
            "an item is lost, or somebody sleeps"
        );
    });
}

#[test]
fn whoever_waits_for_a_plain_hub_is_woken() {
    all_is_consumed(1, 2, 3);
}

/// Both sides at once, as neither waits for the other.
#[test]
fn whoever_waits_for_a_plain_hub_with_room_is_woken() {
    all_is_consumed(2, 2, 2);
}
