//! The lock of a window's target: who shares it, who is woken, who is next, and what dead and
//! impatient threads leave behind.
//!
//! Each of these errors was planted in turn, and at least one test here found it:
//! - a writer that drains without checking, or passes readers that are entering
//! - a thread that passes the queue, or ignores those before it in the queue
//! - a reader that gives up its slot while it enters, or checks before its slot is marked
//! - a thread that leaves the lock, the queue or the draining and wakes nobody, or does not notify
//!   a draining writer
//! - a thread that stops draining, or is removed from it, and forgets the readers
//! - arrivals that are not counted; a wakeup flag that is set after the check
//! - dead threads that stay in their slots; a dead writer that poisons though it was only draining;
//!   poison that is not reported
//! - relaxed orders where a writer or a reader leaves
//!
//! Not found, as loom lets no SeqCst load pass a newer SeqCst store: `in_one_order` left out before
//! a draining writer's scan, and between the wakeup flag and the check.

use crate::engine::base::status::Status;
use crate::engine::window::lock::lock_memory::{Head, Slot};
use crate::engine::window::lock::rw_lock::{Patience, WindowLock};
use crate::engine::wire::sync_constants::LockType::{self, Exclusive, Shared};
use crate::{bounded_model, model};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::time::Duration;

struct World<const RANKS: usize> {
    head: Head,
    slots: [Slot; RANKS],
    /// What the lock protects: loom detects a thread that is inside together with a writer.
    data: UnsafeCell<u32>,
    order: Mutex<Vec<u32>>,
}

// SAFETY: the test is whether access to the cell is exclusive.
unsafe impl<const RANKS: usize> Sync for World<RANKS> {}
// SAFETY: as above.
unsafe impl<const RANKS: usize> Send for World<RANKS> {}

/// Waits without limit: if nobody wakes the thread, loom reports a deadlock.
fn for_ever() -> Patience<'static> {
    Patience { deadline: u64::MAX, pace: None, is_alive: &|_| true, meanwhile: &|| () }
}

/// Gives up after one check.
fn impatient() -> Patience<'static> {
    Patience { deadline: 0, ..for_ever() }
}

/// Wakes up by itself, and checks who is alive.
fn asking(is_alive: &dyn Fn(u32) -> bool) -> Patience<'_> {
    Patience { deadline: u64::MAX, pace: Some(Duration::ZERO), is_alive, meanwhile: &|| () }
}

impl<const RANKS: usize> World<RANKS> {
    fn new() -> Arc<Self> {
        Arc::new(World {
            head: Head::default(),
            slots: std::array::from_fn(|_| Slot::default()),
            data: UnsafeCell::new(0),
            order: Mutex::default(),
        })
    }

    fn lock(&self) -> WindowLock<'_> {
        WindowLock::of(&self.head, &self.slots)
    }

    /// Called with the lock held.
    fn touch(&self, how: LockType) {
        match how {
            // SAFETY: the lock is for this.
            Exclusive => self.data.with_mut(|data| unsafe { *data += 1 }),
            // SAFETY: as above.
            Shared => self.data.with(|data| assert!(unsafe { *data } < 10)),
        }
    }

    fn visit(&self, rank: u32, how: LockType, patience: &Patience) -> bool {
        if let Err(error) = self.lock().lock(rank, how, patience) {
            assert_eq!(error.status(), Status::TIMED_OUT);
            return false;
        }
        self.touch(how);
        self.lock().unlock(rank, how).unwrap();
        true
    }

    fn ends(&self, written: u32) {
        assert!(self.lock().is_untouched());
        // SAFETY: all threads have ended.
        self.data.with(|data| assert_eq!(unsafe { *data }, written));
    }
}

fn all_visit<const RANKS: usize>(preemptions: usize, how: [LockType; RANKS]) {
    bounded_model(preemptions, move || {
        let world = World::<RANKS>::new();
        let threads: Vec<_> = (1..RANKS as u32)
            .map(|rank| {
                let world = world.clone();
                thread::spawn(move || assert!(world.visit(rank, how[rank as usize], &for_ever())))
            })
            .collect();
        assert!(world.visit(0, how[0], &for_ever()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.ends(how.iter().filter(|how| **how == Exclusive).count() as u32);
    });
}

#[test]
fn two_writers() {
    all_visit(4, [Exclusive; 2]);
}

#[test]
fn a_reader_and_a_writer() {
    all_visit(4, [Shared, Exclusive]);
}

#[test]
fn two_readers() {
    all_visit(4, [Shared, Shared]);
}

#[test]
fn two_writers_and_a_reader() {
    all_visit(3, [Exclusive, Exclusive, Shared]);
}

#[test]
fn two_readers_and_a_writer() {
    all_visit(3, [Shared, Exclusive, Shared]);
}

/// A writer that finds traces of readers, and one that finds a reader inside.
#[test]
fn a_writer_after_readers() {
    model(|| {
        let world = World::<2>::new();
        assert!(world.visit(0, Shared, &for_ever()));
        let other = world.clone();
        let writer = thread::spawn(move || assert!(other.visit(1, Exclusive, &for_ever())));
        assert!(world.visit(0, Shared, &for_ever()));
        writer.join().unwrap();
        world.ends(1);
    });
}

/// A thread has waited and given up, so the mark is set without anybody waiting. A thread that
/// arrives while the mark is removed is not forgotten, even if another one passes the queue and
/// takes the lock at once.
#[test]
fn a_newcomer_while_the_mark_is_taken_away() {
    model(|| {
        let world = World::<3>::new();
        assert!(world.lock().try_lock(0, Exclusive));
        world.lock().begin_waiting(2, Exclusive);
        world.lock().give_up(2);
        let other = world.clone();
        let newcomer = thread::spawn(move || assert!(other.visit(1, Exclusive, &for_ever())));
        world.touch(Exclusive);
        world.lock().unlock(0, Exclusive).unwrap();
        assert!(world.visit(0, Exclusive, &for_ever()));
        newcomer.join().unwrap();
        world.ends(3);
    });
}

/// One gives up while the other waits behind it: in every combination, nobody is left waiting.
fn one_gives_up(held: LockType, how: [LockType; 2]) {
    bounded_model(3, move || {
        let world = World::<3>::new();
        assert!(world.lock().try_lock(0, held));
        world.lock().begin_waiting(1, how[0]);
        world.lock().begin_waiting(2, how[1]);
        let other = world.clone();
        let impatient = thread::spawn(move || {
            let gets_it = other.lock().wait_in_line(1, how[0], &impatient()).is_ok();
            if gets_it {
                other.touch(how[0]);
                other.lock().unlock(1, how[0]).unwrap();
            }
            u32::from(gets_it && how[0] == Exclusive)
        });
        let other = world.clone();
        let patient = thread::spawn(move || {
            other.lock().wait_in_line(2, how[1], &for_ever()).unwrap();
            other.touch(how[1]);
            other.lock().unlock(2, how[1]).unwrap();
        });
        world.touch(held);
        world.lock().unlock(0, held).unwrap();
        let written = impatient.join().unwrap();
        patient.join().unwrap();
        world.ends(written + u32::from(held == Exclusive) + u32::from(how[1] == Exclusive));
    });
}

#[test]
fn a_writer_gives_up_before_a_writer() {
    one_gives_up(Exclusive, [Exclusive, Exclusive]);
}

#[test]
fn a_writer_gives_up_before_a_reader() {
    one_gives_up(Exclusive, [Exclusive, Shared]);
}

#[test]
fn a_writer_that_drains_gives_up_before_a_reader() {
    one_gives_up(Shared, [Exclusive, Shared]);
}

#[test]
fn a_reader_gives_up_before_a_writer() {
    one_gives_up(Exclusive, [Shared, Exclusive]);
}

/// The queue is served in order, and no later thread passes it.
fn in_their_order(how: [LockType; 2], held: LockType) {
    bounded_model(3, move || {
        let world = World::<4>::new();
        assert!(world.lock().try_lock(0, held));
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|rank| {
                let how = how[rank as usize - 1];
                world.lock().begin_waiting(rank, how);
                let world = world.clone();
                thread::spawn(move || {
                    world.lock().wait_in_line(rank, how, &for_ever()).unwrap();
                    world.order.lock().unwrap().push(rank);
                    world.touch(how);
                    world.lock().unlock(rank, how).unwrap();
                })
            })
            .collect();
        assert!(!world.lock().try_lock(3, Shared));
        world.lock().unlock(0, held).unwrap();
        if world.lock().try_lock(3, Exclusive) {
            assert_eq!(world.order.lock().unwrap().len(), 2);
            world.lock().unlock(3, Exclusive).unwrap();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if how != [Shared, Shared] {
            assert_eq!(*world.order.lock().unwrap(), [1, 2]);
        }
    });
}

#[test]
fn a_reader_comes_before_a_later_writer() {
    in_their_order([Shared, Exclusive], Exclusive);
}

#[test]
fn a_writer_comes_before_a_later_writer() {
    in_their_order([Exclusive, Exclusive], Exclusive);
}

#[test]
fn a_writer_comes_before_a_later_reader() {
    in_their_order([Exclusive, Shared], Shared);
}

#[test]
fn readers_in_line() {
    in_their_order([Shared, Shared], Exclusive);
}

/// Rank 0 has died. The two others wait, and at least one of them is only woken by its own timer.
fn after_a_death(how: [LockType; 2], die: fn(&World<3>), poisons: bool) {
    bounded_model(3, move || {
        let world = World::<3>::new();
        die(&world);
        let visit = move |world: &World<3>, rank: u32| {
            let is_alive = |rank| rank != 0;
            let how = how[rank as usize - 1];
            match world.lock().lock(rank, how, &asking(&is_alive)) {
                Ok(()) => {
                    assert!(!poisons);
                    world.touch(how);
                    world.lock().unlock(rank, how).unwrap();
                }
                Err(error) => assert!(poisons && error.status() == Status::RMA_POISONED),
            }
        };
        let other = world.clone();
        let thread = thread::spawn(move || visit(&other, 1));
        visit(&world, 2);
        thread.join().unwrap();
        assert_eq!(world.lock().is_poisoned(), poisons);
    });
}

#[test]
fn a_dead_writer() {
    after_a_death([Exclusive, Shared], |world| assert!(world.lock().try_lock(0, Exclusive)), true);
}

/// One of two checks who is alive, and the other one is notified.
#[test]
fn poison_is_told() {
    for how in [Exclusive, Shared] {
        model(move || {
            let world = World::<3>::new();
            assert!(world.lock().try_lock(0, Exclusive));
            let other = world.clone();
            let told =
                thread::spawn(move || other.lock().lock(1, how, &for_ever()).unwrap_err().status());
            let asked =
                world.lock().lock(2, Exclusive, &asking(&|rank| rank != 0)).unwrap_err().status();
            assert_eq!([asked, told.join().unwrap()], [Status::RMA_POISONED; 2]);
        });
    }
}

#[test]
fn a_dead_reader() {
    after_a_death([Exclusive, Shared], |world| assert!(world.lock().try_lock(0, Shared)), false);
}

#[test]
fn a_dead_reader_and_two_writers() {
    after_a_death([Exclusive, Exclusive], |world| assert!(world.lock().try_lock(0, Shared)), false);
}

#[test]
fn one_that_died_in_line() {
    after_a_death([Exclusive, Shared], |world| world.lock().begin_waiting(0, Exclusive), false);
}

/// It had seen a reader, which has left since.
#[test]
fn one_that_died_while_it_drained() {
    after_a_death(
        [Shared, Exclusive],
        |world| {
            assert!(world.lock().try_lock(1, Shared));
            world.lock().begin_waiting(0, Exclusive);
            assert!(!world.lock().poll(0, Exclusive).unwrap());
            world.lock().unlock(1, Shared).unwrap();
        },
        false,
    );
}

/// The reader that it waited for is still inside when it is removed.
#[test]
fn one_that_died_while_a_reader_was_there() {
    model(|| {
        let world = World::<3>::new();
        assert!(world.lock().try_lock(1, Shared));
        world.lock().begin_waiting(0, Exclusive);
        assert!(!world.lock().poll(0, Exclusive).unwrap());
        world.lock().begin_waiting(2, Exclusive);
        world.lock().undo_the_dead(2, &|rank| rank != 0);
        let other = world.clone();
        let writer = thread::spawn(move || {
            other.lock().wait_in_line(2, Exclusive, &for_ever()).unwrap();
            other.touch(Exclusive);
            other.lock().unlock(2, Exclusive).unwrap();
        });
        world.touch(Shared);
        world.lock().unlock(1, Shared).unwrap();
        writer.join().unwrap();
        world.ends(1);
    });
}
