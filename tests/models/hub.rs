//! The lock of a hub, and those who sleep until something has changed behind it.

use crate::engine::base::spin_lock::SpinLock;
use crate::engine::hub::waiters::{Sides, DATA, ROOM};
use crate::model;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Two threads take the lock, or try to; loom sees to it that one at a time touches what it guards,
/// and sees what the others did.
#[test]
fn one_thread_at_a_time_behind_the_lock() {
    model(|| {
        let lock = Arc::new(SpinLock::new(UnsafeCell::new(0)));
        let add = |lock: &SpinLock<UnsafeCell<u32>>| {
            let held = lock.lock();
            // SAFETY: loom fails where two do so at once.
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

/// A hub, as far as waiting goes: how many chunks there are, and its marks.
struct Hub {
    sides: Sides,
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
            sides: Sides::new(),
            state: SpinLock::new(State { room, ..State::default() }),
        })
    }

    /// As `Hub::wait_for`: `take` says whether it has had what it wants, and what that changes.
    fn until(&self, side: usize, take: impl Fn(&mut State) -> Option<u8>) {
        loop {
            let mut state = self.state.lock();
            let changed = take(&mut state);
            if changed.is_none() {
                state.asleep |= 1 << side;
            }
            let seen = self.sides.see(side);
            let woken = self.sides.move_on(changed.unwrap_or(0), &mut state.asleep);
            drop(state);
            self.sides.wake(woken);
            if changed.is_some() {
                return;
            }
            self.sides.sleep(side, seen, None);
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

/// Nobody sleeps for ever: loom fails where all do.
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
