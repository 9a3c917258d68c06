//! A progress thread falls asleep while others submit to it, and while it is stopped.

use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::core::worker::control_list::Control;
use crate::engine::core::worker::sleep_flag::SleepFlag;
use crate::{model, Bell};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::Arc;
use loom::thread;

struct World {
    flag: SleepFlag,
    ring: PermitQueue<u32>,
    control: Control<Vec<u32>>,
    stop: AtomicBool,
    bell: Bell,
}

impl World {
    fn new() -> Arc<Self> {
        let world = World {
            flag: SleepFlag::new(),
            ring: PermitQueue::new(2),
            control: Control::default(),
            stop: AtomicBool::new(false),
            bell: Bell::default(),
        };
        world.control.open();
        Arc::new(world)
    }

    fn wake(&self) {
        if self.flag.must_wake() {
            self.bell.ring();
        }
    }

    fn submit(&self, number: u32) {
        assert!(self.ring.take());
        self.ring.push(number);
        self.wake();
    }

    fn post(&self, number: u32) {
        assert!(self.control.put(|list| list.push(number)));
        self.wake();
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.flag.awake();
        self.bell.ring();
    }

    /// As `doze`; the descriptor is armed by a check of it.
    fn doze(&self) {
        self.flag.announce();
        if !self.ring.is_empty() || self.control.is_pending() || self.stop.load(Ordering::SeqCst) {
            return self.flag.awake();
        }
        self.bell.sleep();
        self.bell.silence();
        self.flag.awake();
    }

    fn round(&self, seen: &mut Vec<u32>) {
        if self.control.is_pending() {
            let mut list = Vec::new();
            self.control.take(&mut list, false);
            seen.append(&mut list);
        }
        self.ring.drain(|number| seen.push(number));
    }

    fn run_until(&self, count: usize) -> Vec<u32> {
        let mut seen = Vec::new();
        loop {
            self.round(&mut seen);
            if seen.len() == count {
                return seen;
            }
            self.doze();
        }
    }
}

/// Two threads submit through the ring. loom reports a deadlock if nobody wakes the thread.
#[test]
fn no_submission_is_slept_over() {
    model(|| {
        let world = World::new();
        let submitters = [1, 2].map(|number| {
            let world = world.clone();
            thread::spawn(move || world.submit(number))
        });
        let mut seen = world.run_until(2);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    });
}

/// One thread submits, another one uses the list.
#[test]
fn nothing_on_the_list_is_slept_over() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let submitter = thread::spawn(move || other.submit(1));
        let other = world.clone();
        let poster = thread::spawn(move || other.post(2));
        let mut seen = world.run_until(2);
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        submitter.join().unwrap();
        poster.join().unwrap();
    });
}

/// A stop wakes it, even if another thread has cleared the flag meanwhile.
#[test]
fn a_stop_is_not_slept_over() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let submitter = thread::spawn(move || other.submit(1));
        let other = world.clone();
        let stopper = thread::spawn(move || other.stop());
        let mut seen = Vec::new();
        while !world.stop.load(Ordering::Acquire) {
            world.round(&mut seen);
            world.doze();
        }
        submitter.join().unwrap();
        stopper.join().unwrap();
    });
}
