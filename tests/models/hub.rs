//! A hub's lock, and threads that sleep until a change under the lock.

use crate::engine::base::spin_lock::SpinLock;
use crate::engine::hub::waiters::{Waiters, DATA, ROOM};
use crate::model;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two threads take the lock, or try to. loom checks that access to the guarded value is exclusive,
/// and that each sees the other's changes.
#[test]
fn one_thread_at_a_time_behind_the_lock() {
    model(|| {
        let lock = Arc::new(SpinLock::new(UnsafeCell::new(0)));
        let add = |lock: &SpinLock<UnsafeCell<u32>>| {
            let held = lock.lock();
            // SAFETY: loom fails if two threads do this at once.
            held.with_mut(|value| unsafe { *value += 1 });
        };
        let other = lock.clone();
        let adding = thread::spawn(move || {
            add(&other);
            if let Some(held) = other.try_lock() {
                // SAFETY: as above.
                held.with_mut(|value| unsafe { *value += 1 });
            }
        });
        add(&lock);
        adding.join().unwrap();
        let held = lock.lock();
        // SAFETY: as above.
        let sum = held.with(|value| unsafe { *value });
        assert!(sum == 2 || sum == 3);
    });
}

/// The part of a hub that waiting uses: the number of chunks, and the marks of the sleeping
/// threads.
struct Hub {
    waiters: Waiters,
    state: SpinLock<State>,
}

#[derive(Default)]
struct State {
    chunks: u32,
    room: u32,
    asleep: u8,
}

const READS: usize = 0;
const PRODUCES: usize = 1;

impl Hub {
    fn new(room: u32) -> Arc<Self> {
        Arc::new(Hub {
            waiters: Waiters::new(),
            state: SpinLock::new(State { room, ..State::default() }),
        })
    }

    /// As `Hub::wait_for`: `take` returns None until it has what it wants, then what that changes.
    fn until(&self, side: usize, take: impl Fn(&mut State) -> Option<u8>) {
        loop {
            let mut state = self.state.lock();
            let changed = take(&mut state);
            if changed.is_none() {
                state.asleep |= 1 << side;
            }
            let seen = self.waiters.see(side);
            let wake_mask = self.waiters.move_on(changed.unwrap_or(0), &mut state.asleep);
            drop(state);
            self.waiters.wake(wake_mask);
            if changed.is_some() {
                return;
            }
            self.waiters.sleep(side, seen, None);
        }
    }

    fn produce(&self) {
        self.until(PRODUCES, |state| {
            state.room = state.room.checked_sub(1)?;
            state.chunks += 1;
            Some(DATA)
        });
    }

    fn consume(&self) {
        self.until(READS, |state| {
            state.chunks = state.chunks.checked_sub(1)?;
            state.room += 1;
            Some(ROOM)
        });
    }
}

/// No thread sleeps without end: loom fails if all do.
#[test]
fn whoever_waits_for_a_hub_is_woken() {
    model(|| {
        let hub = Hub::new(1);
        let producer = hub.clone();
        let producing = thread::spawn(move || {
            producer.produce();
            producer.produce();
        });
        hub.consume();
        hub.consume();
        producing.join().unwrap();
    });
}
