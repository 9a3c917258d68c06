//! The slot through which an operation is delegated to a window's target: its owner at each moment,
//! and that a posted operation is executed once or not at all.

use crate::bounded_model;
use crate::engine::window::delegation::slot_state::{Claim, Turns};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Two halves, for data to send and fetched data. loom fails if both sides access one at the same
/// time and one of them writes.
#[derive(Default)]
struct Slot {
    /// The number of the half.
    turns: Turns<AtomicU32, ()>,
    sent: [UnsafeCell<u32>; 2],
    fetched: UnsafeCell<u32>,
}

/// Used by the target alone.
#[derive(Default)]
struct Memory {
    sum: u32,
    taken: u32,
}

impl Slot {
    fn store(&self, half: usize, value: u32) {
        // SAFETY: loom checks exclusive access.
        self.sent[half].with_mut(|place| unsafe { *place = value });
    }

    fn post(&self, claim: Claim, half: usize) {
        self.turns.sent.store(half as u32, Ordering::Relaxed);
        self.turns.post(claim);
    }

    /// As `await_served`, with one check before withdrawal: the fetched value, if it was executed.
    fn await_served(&self, claim: Claim) -> Option<u32> {
        let mut may_take_back = true;
        let done = loop {
            if let Some(done) = self.turns.answer(claim) {
                break done;
            }
            if std::mem::take(&mut may_take_back) && self.turns.take_back(claim) {
                break false;
            }
            thread::yield_now();
        };
        // SAFETY: as above.
        done.then(|| self.fetched.with(|place| unsafe { *place }))
    }

    /// As `serve`: refuses the turn with this number.
    fn serve(&self, memory: &mut Memory, refuses: u32) {
        let Some(claim) = self.turns.take() else { return };
        memory.taken += 1;
        let does = memory.taken != refuses;
        if does {
            let half = self.turns.sent.load(Ordering::Relaxed) as usize;
            // SAFETY: as above.
            let value = self.sent[half].with(|place| unsafe { *place });
            // SAFETY: as above.
            self.fetched.with_mut(|place| unsafe { *place = memory.sum });
            memory.sum += value;
        }
        self.turns.tell(claim, does);
    }
}

/// An operation in two pieces; the second is posted while the target executes the first. Returns
/// what was executed.
fn in_pieces(slot: &Slot, first: Claim) -> u32 {
    slot.store(0, 1);
    slot.post(first, 0);
    slot.store(1, 10);
    let Some(before) = slot.await_served(first) else {
        slot.turns.give_back(first);
        return 0;
    };
    assert_eq!(before, 0);
    let second = slot.turns.renew(first);
    slot.post(second, 1);
    let done = match slot.await_served(second) {
        Some(before) => {
            assert_eq!(before, 1);
            11
        }
        None => 1,
    };
    slot.turns.give_back(second);
    done
}

#[test]
fn an_origin_and_a_target() {
    for refuses in 0..3 {
        bounded_model(3, move || {
            let slot = Arc::new(Slot::default());
            let target = slot.clone();
            let serving = thread::spawn(move || {
                let mut memory = Memory::default();
                for _ in 0..3 {
                    target.serve(&mut memory, refuses);
                }
                memory.sum
            });
            let claim = slot.turns.claim().expect("the slot is free");
            let done = in_pieces(&slot, claim);
            assert_eq!(serving.join().unwrap(), done);
        });
    }
}

/// A thread that finds the slot taken uses another way; the next one finds it as if it had never
/// been used.
#[test]
fn two_origins_and_a_target() {
    bounded_model(2, || {
        let slot = Arc::new(Slot::default());
        let origin = |slot: Arc<Slot>, value: u32| {
            move || {
                let Some(claim) = slot.turns.claim() else { return 0 };
                slot.store(0, value);
                slot.post(claim, 0);
                let done = slot.await_served(claim).map_or(0, |_| value);
                slot.turns.give_back(claim);
                done
            }
        };
        let others =
            [thread::spawn(origin(slot.clone(), 1)), thread::spawn(origin(slot.clone(), 10))];
        let mut memory = Memory::default();
        for _ in 0..2 {
            slot.serve(&mut memory, 0);
        }
        let done: u32 = others.map(|other| other.join().unwrap()).into_iter().sum();
        assert_eq!(memory.sum, done);
    });
}
