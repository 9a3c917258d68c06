//! The slot in which something is handed over to the target of a window: whose it is at each
//! moment, and that what was posted is done once or not at all.

use crate::bounded_model;
use crate::engine::window::delegation::slot_state::{Claim, Turns};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Two halves, as for what the next one sends, and what is fetched. loom fails where two sides are
/// at one of them at the same time, one of which writes.
#[derive(Default)]
struct Slot {
    /// Which half it is.
    turns: Turns<AtomicU32, ()>,
    sent: [UnsafeCell<u32>; 2],
    fetched: UnsafeCell<u32>,
}

/// Of the target alone.
#[derive(Default)]
struct Memory {
    sum: u32,
    taken: u32,
}

impl Slot {
    fn store(&self, half: usize, value: u32) {
        // SAFETY: loom sees to that.
        self.sent[half].with_mut(|place| unsafe { *place = value });
    }

    fn post(&self, claim: Claim, half: usize) {
        self.turns.sent.store(half as u32, Ordering::Relaxed);
        self.turns.post(claim);
    }

    /// As `await_served`, with one look before it is taken back: what was fetched, if it was done.
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

    /// As `serve`: the turn that has this number is refused.
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

/// One that goes in two pieces, the second of which is put there while the target is at the first:
/// what of it was done.
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
            let claim = slot.turns.claim().expect("it is nobody's");
            let done = in_pieces(&slot, claim);
            assert_eq!(serving.join().unwrap(), done);
        });
    }
}

/// Who finds it taken goes its own way; who comes after finds it as if nobody had been there.
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
