//! A progress thread starts and stops while others submit, with the steps of `Worker::delay`,
//! `Worker::enter` and the thread's rounds.

use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::core::worker::control_list::Control;
use crate::engine::core::worker::thread_state::ThreadState;
use crate::{bounded_model, model};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

struct World {
    state: ThreadState,
    ring: PermitQueue<u32>,
    control: Control<Vec<u32>>,
    /// The gate, and the operations submitted inside it.
    gate: Mutex<Vec<u32>>,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            state: ThreadState::default(),
            ring: PermitQueue::new(4),
            control: Control::default(),
            gate: Mutex::new(Vec::new()),
        })
    }

    /// For a thread that is not the progress thread.
    fn enter(&self) -> MutexGuard<'_, Vec<u32>> {
        let mut inside = self.gate.lock().unwrap();
        if !self.state.delays() {
            self.drain(&mut inside);
        }
        inside
    }

    fn drain(&self, inside: &mut Vec<u32>) {
        if !self.ring.is_empty() {
            self.ring.drain(|number| inside.push(number));
        }
    }

    fn submit(&self, number: u32) {
        if !self.state.delays() {
            return self.enter().push(number);
        }
        assert!(self.ring.take());
        self.ring.push(number);
        // Stands for the wakeup of the thread, which has the full fence.
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        if !self.state.is_running() {
            drop(self.enter());
        }
    }

    fn post(&self, number: u32) {
        if !(self.state.delays() && self.control.put(|list| list.push(number))) {
            self.enter().push(number);
        }
    }

    fn start(&self) {
        {
            let _inside = self.enter();
            self.state.announce();
        }
        self.control.open();
        self.state.come(true);
    }

    fn round(&self, close: bool) {
        let mut inside = self.gate.lock().unwrap();
        if close {
            self.state.go();
        }
        let mut list = Vec::new();
        if close || self.control.is_pending() {
            self.control.take(&mut list, close);
        }
        self.drain(&mut inside);
        inside.append(&mut list);
    }
}

fn position(seen: &[u32], number: u32) -> usize {
    seen.iter()
        .position(|other| *other == number)
        .unwrap_or_else(|| panic!("{number} is lost: {seen:?}"))
}

/// The thread stops while two others submit: nothing stays in the ring, and each thread's order is
/// kept.
#[test]
fn a_thread_that_goes_leaves_nothing_behind() {
    model(|| {
        let world = World::new();
        world.start();
        let other = world.clone();
        let first = thread::spawn(move || {
            other.submit(1);
            other.submit(2);
        });
        let other = world.clone();
        let second = thread::spawn(move || other.submit(10));
        world.round(true);
        first.join().unwrap();
        second.join().unwrap();
        let seen = world.gate.lock().unwrap();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(position(&seen, 1) < position(&seen, 2), "{seen:?}");
        position(&seen, 10);
    });
}

/// It starts, works and stops, and another one starts and stops.
#[test]
fn threads_that_come_and_go_keep_the_order() {
    bounded_model(3, || {
        let world = World::new();
        let other = world.clone();
        let submitter = thread::spawn(move || {
            for number in [1, 2, 3] {
                other.submit(number);
            }
        });
        for _ in 0..2 {
            world.start();
            world.round(false);
            world.round(true);
        }
        submitter.join().unwrap();
        assert_eq!(*world.gate.lock().unwrap(), [1, 2, 3]);
    });
}

/// The same with entries of the list: each is executed, by the thread or by its caller, after its
/// caller's earlier submissions.
#[test]
fn what_is_posted_is_done_by_one_or_the_other() {
    bounded_model(3, || {
        let world = World::new();
        let other = world.clone();
        let submitter = thread::spawn(move || {
            other.submit(1);
            other.post(2);
        });
        let other = world.clone();
        let poster = thread::spawn(move || other.post(10));
        world.start();
        world.round(false);
        world.round(true);
        submitter.join().unwrap();
        poster.join().unwrap();
        let seen = world.gate.lock().unwrap();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(position(&seen, 1) < position(&seen, 2), "{seen:?}");
        position(&seen, 10);
    });
}
