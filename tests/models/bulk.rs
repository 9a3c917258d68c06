//! Single operations on elements, and long ones that need exclusive access: first with the kernel's
//! barrier, then with every thread's own, and back.

use crate::bounded_model;
use crate::engine::window::data::exclusive_bulk::{Bulk, Head, Lanes, SHARED};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct World<const RANKS: usize> {
    head: Head,
    members: [Lanes; RANKS],
    /// Single operations read it: they do not exclude each other. loom detects a thread that is
    /// inside together with an exclusive one.
    elements: UnsafeCell<u32>,
}

// SAFETY: the test is whether access to the cell is exclusive.
unsafe impl<const RANKS: usize> Sync for World<RANKS> {}
// SAFETY: as above.
unsafe impl<const RANKS: usize> Send for World<RANKS> {}

impl<const RANKS: usize> World<RANKS> {
    fn new() -> Arc<Self> {
        let members = std::array::from_fn(|_| Lanes::default());
        Arc::new(World { head: Head::default(), members, elements: UnsafeCell::new(0) })
    }

    fn bulk(&self) -> Bulk<'_> {
        Bulk::of(&self.head, &self.members)
    }

    fn single(&self, rank: u32, lane: usize, lives: &dyn Fn(u32) -> bool) {
        let _single = self.bulk().single(rank, lane, lives);
        // SAFETY: this is being tested.
        self.elements.with(|elements| assert!(unsafe { *elements } < 10));
    }

    fn alone(&self, rank: u32, lives: &dyn Fn(u32) -> bool) {
        let _alone = self.bulk().alone(rank, lives).unwrap();
        // SAFETY: as above.
        self.elements.with_mut(|elements| unsafe { *elements += 1 });
    }

    fn ends(&self, written: u32) {
        // SAFETY: all threads have ended.
        self.elements.with(|elements| assert_eq!(unsafe { *elements }, written));
    }
}

fn all_live(_: u32) -> bool {
    true
}

/// Two processes do so many operations each, one of them exclusively, after `before` has set the
/// state.
fn beside(before: fn(&World<2>), singles: u32, alone: u32, written: u32) {
    bounded_model(3, move || {
        let world = World::<2>::new();
        before(&world);
        let other = world.clone();
        let single =
            thread::spawn(move || (0..singles).for_each(|_| other.single(1, 0, &all_live)));
        (0..alone).for_each(|_| world.alone(0, &all_live));
        single.join().unwrap();
        world.ends(written);
    });
}

#[test]
fn the_first_two() {
    beside(|_| (), 1, 2, 2);
}

#[test]
fn two_single_ones_and_the_first_two() {
    beside(|_| (), 2, 2, 2);
}

#[test]
fn where_one_has_been() {
    beside(|world| world.alone(0, &all_live), 3, 1, 2);
}

/// In between, the single operations return to the state without barriers of their own.
#[test]
fn back_and_forth() {
    beside(
        |world| {
            world.alone(0, &all_live);
            world.single(1, 0, &all_live);
        },
        2,
        2,
        3,
    );
}

#[test]
fn where_they_have_left_their_barriers_off() {
    beside(
        |world| {
            world.alone(0, &all_live);
            (0..3).for_each(|_| world.single(1, 0, &all_live));
        },
        2,
        1,
        2,
    );
}

/// Two threads need exclusive access, and one of them also does single operations. (Three threads
/// are too many: where two keep polling, loom has endless orders in which the third never runs.)
fn two_alone(before: fn(&World<3>), written: u32) {
    bounded_model(3, move || {
        let world = World::<3>::new();
        before(&world);
        let other = world.clone();
        let second = thread::spawn(move || {
            other.single(2, 0, &all_live);
            other.alone(2, &all_live);
            other.single(2, 0, &all_live);
        });
        world.alone(0, &all_live);
        world.single(0, 0, &all_live);
        second.join().unwrap();
        world.ends(written);
    });
}

#[test]
fn two_that_want_to_be_the_first() {
    two_alone(|_| (), 2);
}

#[test]
fn two_that_want_to_be_the_next() {
    two_alone(|world| world.alone(1, &all_live), 3);
}

/// Threads of one process that got no lane of their own.
#[test]
fn threads_that_share_a_lane() {
    bounded_model(3, || {
        let world = World::<2>::new();
        let other = world.clone();
        let single = thread::spawn(move || (0..2).for_each(|_| other.single(1, SHARED, &all_live)));
        world.single(1, SHARED, &all_live);
        (0..2).for_each(|_| world.alone(0, &all_live));
        single.join().unwrap();
        world.ends(2);
    });
}

/// Rank 2 leaves something unfinished and dies: the others continue, and still exclude each other.
fn after_a_death(before: fn(&World<3>), die: fn(&World<3>), written: u32) {
    bounded_model(2, move || {
        let world = World::<3>::new();
        before(&world);
        let lives = |rank| rank != 2;
        let other = world.clone();
        let single = thread::spawn(move || (0..2).for_each(|_| other.single(1, 0, &lives)));
        die(&world);
        (0..2).for_each(|_| world.alone(0, &lives));
        single.join().unwrap();
        world.ends(written);
    });
}

#[test]
fn the_first_one_dies_before_it_is_alone() {
    after_a_death(|_| (), |world| _ = world.bulk().own(2, &all_live), 2);
}

#[test]
fn the_next_one_dies() {
    after_a_death(|world| world.alone(0, &all_live), |world| _ = world.bulk().own(2, &all_live), 3);
}

#[test]
fn one_dies_in_the_midst_of_a_single_operation() {
    after_a_death(|_| (), |world| std::mem::forget(world.bulk().single(2, 0, &all_live)), 2);
}
