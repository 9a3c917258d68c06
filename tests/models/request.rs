//! A request from its submission until its slot serves another one: completed, cancelled, waited
//! for and destroyed in any order, by several threads, and after its worker's end.

use crate::engine::base::completion_queue::Node;
use crate::engine::base::remote_free_list::RemoteFreeList;
use crate::engine::core::request::completion_flag::Done;
use crate::engine::core::request::queue_state::Stage;
use crate::{bounded_model, model};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

const IN_PROGRESS: i32 = 1;
const OK: i32 = 0;
const CANCELED: i32 = -16;
/// The holders of a slot.
const ENGINE: u8 = 1;
const USER: u8 = 2;

/// As `Slot`, with the parts that threads share. The cells belong to the owner until the status
/// reports a result.
#[repr(align(8))]
struct Slot {
    status: AtomicI32,
    done: Done,
    stage: Stage,
    hold: UnsafeCell<u8>,
    result: UnsafeCell<u32>,
    next: UnsafeCell<*const Slot>,
    /// How often it was freed.
    freed: UnsafeCell<u32>,
}

// SAFETY: one cell, set and read.
unsafe impl Node for Slot {
    fn set_next(&self, next: *const Self) {
        // SAFETY: loom refuses concurrent access, here and below.
        self.next.with_mut(|cell| unsafe { *cell = next });
    }
    fn next(&self) -> *const Self {
        // SAFETY: as above.
        self.next.with(|cell| unsafe { *cell })
    }
}

impl Slot {
    /// As `Slot::begin`, submitted.
    fn new() -> Self {
        let slot = Slot {
            status: AtomicI32::new(IN_PROGRESS),
            done: Done::new(),
            stage: Stage::new(),
            hold: UnsafeCell::new(ENGINE | USER),
            result: UnsafeCell::new(0),
            next: UnsafeCell::new(std::ptr::null()),
            freed: UnsafeCell::new(0),
        };
        slot.done.begin();
        slot.stage.enqueue();
        slot
    }

    /// As `Slot::status`.
    fn status(&self) -> i32 {
        let status = self.status.load(Ordering::Acquire);
        if status == IN_PROGRESS || self.done.is_set() {
            status
        } else {
            IN_PROGRESS
        }
    }

    fn read_result(&self) -> u32 {
        // SAFETY: as above.
        self.result.with(|cell| unsafe { *cell })
    }
}

struct World {
    slots: [Slot; 2],
    given_back: RemoteFreeList<Slot>,
    /// How often the last request's references were freed.
    ended: AtomicUsize,
}

// SAFETY: loom checks the cells.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            slots: [Slot::new(), Slot::new()],
            given_back: RemoteFreeList::new(),
            ended: AtomicUsize::new(0),
        })
    }

    /// As `Worker::give_up`.
    fn give_up(&self, slot: &Slot, holder: u8) {
        // SAFETY: as above.
        let hold = slot.hold.with_mut(|cell| unsafe {
            *cell &= !holder;
            *cell
        });
        if hold == 0 {
            // What `Slot::end` and the slot's next use write.
            // SAFETY: as above.
            slot.result.with_mut(|cell| unsafe { *cell = 0 });
            // SAFETY: as above.
            slot.freed.with_mut(|cell| unsafe { *cell += 1 });
        }
    }

    /// As `Worker::drain_ring`: the owner takes the request over and completes it.
    fn take_over(&self, slot: &Slot) {
        let outcome = if slot.stage.dequeue() { OK } else { CANCELED };
        // SAFETY: as above.
        slot.result.with_mut(|cell| unsafe { *cell = if outcome == OK { 7 } else { 9 } });
        slot.status.store(outcome, Ordering::Release);
        slot.done.publish_and_wake();
        self.give_up(slot, ENGINE);
    }

    fn drain(&self) {
        // SAFETY: the world owns the slots.
        unsafe { self.given_back.drain(|slot| self.give_up(slot, USER)) };
    }

    /// As `ucxx_request_destroy`, called by the holder.
    fn destroy(&self, slot: &Slot) {
        // SAFETY: as above; it is released once.
        if unsafe { RemoteFreeList::push(&self.given_back, slot) } {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As `Worker::shut_foreign`: counts what callers still hold.
    fn end(&self) {
        // SAFETY: as above.
        let held = self
            .slots
            .iter()
            .filter(|slot| slot.hold.with(|cell| unsafe { *cell }) & USER != 0)
            .count();
        // SAFETY: as above.
        if unsafe { self.given_back.shut(held) } {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn freed(&self, index: usize) -> u32 {
        // SAFETY: as above.
        self.slots[index].freed.with(|cell| unsafe { *cell })
    }
}

/// One thread waits, reads the result and destroys the request, while the owner completes it and
/// frees released slots: the result is valid until then, and the slot becomes free once.
#[test]
fn who_has_waited_reads_the_result_before_the_slot_is_used_again() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let user = thread::spawn(move || {
            let slot = &other.slots[0];
            assert_eq!(slot.done.wait(|| true, || None), Some(true));
            assert_eq!(slot.status(), OK);
            assert_eq!(slot.read_result(), 7);
            other.destroy(slot);
        });
        world.take_over(&world.slots[0]);
        world.drain();
        user.join().unwrap();
        world.drain();
        assert_eq!(world.freed(0), 1);
    });
}

/// The same for a thread that polls.
#[test]
fn who_has_polled_reads_the_result_as_well() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let user = thread::spawn(move || {
            let slot = &other.slots[0];
            while slot.status() == IN_PROGRESS {
                thread::yield_now();
            }
            assert_eq!(slot.read_result(), 7);
            other.destroy(slot);
        });
        world.take_over(&world.slots[0]);
        world.drain();
        user.join().unwrap();
        world.drain();
        assert_eq!(world.freed(0), 1);
    });
}

/// The request is destroyed while in progress: it is completed all the same, and its slot becomes
/// free once, in either order.
#[test]
fn one_that_is_let_go_of_in_progress_is_freed_once() {
    model(|| {
        let world = World::new();
        let others = [0, 1].map(|index: usize| {
            let other = world.clone();
            thread::spawn(move || other.destroy(&other.slots[index]))
        });
        world.drain();
        world.take_over(&world.slots[0]);
        world.drain();
        world.take_over(&world.slots[1]);
        others.into_iter().for_each(|other| other.join().unwrap());
        world.drain();
        assert_eq!([world.freed(0), world.freed(1)], [1, 1]);
    });
}

/// One thread cancels, another one waits and destroys the request when both are done with it, as
/// the contract requires. A request counts as cancelled exactly if it was not submitted.
#[test]
fn a_cancel_ends_it_or_comes_too_late() {
    bounded_model(4, || {
        let world = World::new();
        let other = world.clone();
        let canceller = thread::spawn(move || other.slots[0].stage.cancel());
        let other = world.clone();
        let waiter = thread::spawn(move || {
            let slot = &other.slots[0];
            assert_eq!(slot.done.wait(|| true, || None), Some(true));
            (slot.status(), slot.read_result())
        });
        world.take_over(&world.slots[0]);
        let canceled = canceller.join().unwrap();
        let (status, result) = waiter.join().unwrap();
        assert_eq!((status, result), if canceled { (CANCELED, 9) } else { (OK, 7) });
        world.destroy(&world.slots[0]);
        world.drain();
        assert_eq!(world.freed(0), 1);
    });
}

/// Its only holder cancels and destroys it at once, while it is taken over.
#[test]
fn one_that_is_cancelled_and_let_go_of_is_freed_once() {
    bounded_model(4, || {
        let world = World::new();
        let other = world.clone();
        let user = thread::spawn(move || {
            other.slots[0].stage.cancel();
            other.destroy(&other.slots[0]);
        });
        world.drain();
        world.take_over(&world.slots[0]);
        user.join().unwrap();
        world.drain();
        assert_eq!(world.freed(0), 1);
    });
}

/// The worker ends while two threads release a request each: its memory is freed once, with the
/// last of them, in every order.
#[test]
fn the_last_to_let_go_frees_what_is_left_of_the_worker() {
    bounded_model(4, || {
        let world = World::new();
        for slot in &world.slots {
            world.take_over(slot);
        }
        let others = [0, 1].map(|index: usize| {
            let other = world.clone();
            thread::spawn(move || other.destroy(&other.slots[index]))
        });
        world.drain();
        world.end();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(world.ended.load(Ordering::Relaxed), 1);
    });
}
