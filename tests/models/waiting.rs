//! Threads sleep until an operation completes, while the thread that completes it starts and stops.

use crate::engine::base::event_count::EventCount;
use crate::engine::core::request::completion_flag::{Done, Marked};
use crate::engine::core::worker::thread_state::ThreadState;
use crate::{bounded_model, model};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::time::Duration;

/// As in `Worker::finish`: if no thread can be asleep, nobody is woken.
fn finish(presence: &ThreadState, done: &Done, any: &EventCount) {
    if !presence.is_used() {
        done.publish();
    } else if done.publish_and_wake() {
        any.notify();
    }
}

struct World {
    state: ThreadState,
    requests: [Done; 2],
    any: EventCount,
    gate: Mutex<()>,
}

impl World {
    fn new() -> Arc<Self> {
        let world = World {
            state: ThreadState::default(),
            requests: [Done::new(), Done::new()],
            any: EventCount::new(),
            gate: Mutex::new(()),
        };
        world.requests.iter().for_each(Done::begin);
        Arc::new(world)
    }

    fn start(&self) {
        {
            let _inside = self.gate.lock().unwrap();
            self.state.announce();
        }
        self.state.come(true);
    }

    /// The last round.
    fn stop(&self) {
        let _inside = self.gate.lock().unwrap();
        self.state.go();
        self.requests.iter().for_each(Done::disturb);
        self.any.notify();
    }

    fn complete(&self, index: usize) {
        let _inside = self.gate.lock().unwrap();
        finish(&self.state, &self.requests[index], &self.any);
    }

    /// As `Slot::wait_until`: None if the caller must progress.
    fn wait(&self, left: impl Fn() -> Option<Duration>) -> Option<bool> {
        if !self.state.is_running() {
            return None;
        }
        let finished = self.requests[0].wait(|| self.state.is_running(), left);
        if finished.is_none() {
            self.any.notify();
        }
        finished
    }

    /// As `wait_any`: false if the caller must progress.
    fn wait_any(&self) -> bool {
        if !self.state.is_running() {
            return false;
        }
        let will_notify = |done: &Done| {
            let marked = done.mark(|| self.state.is_running());
            if marked == Marked::Alone {
                self.any.notify();
            }
            marked == Marked::Yes
        };
        assert!(
            self.any.sleep_until(&|| !self.requests.iter().all(will_notify), u64::MAX),
            "there is no limit"
        );
        self.requests.iter().any(Done::is_set)
    }
}

/// Two threads sleep on one request, and a third one polls with a limit.
#[test]
fn a_completion_wakes_everyone() {
    model(|| {
        let world = World::new();
        world.start();
        let waiters = [None, Some(Duration::ZERO)].map(|left| {
            let world = world.clone();
            thread::spawn(move || world.wait(|| left))
        });
        let other = world.clone();
        let completer = thread::spawn(move || other.complete(0));
        assert_eq!(world.wait(|| None), Some(true));
        let [first, second] = waiters.map(|waiter| waiter.join().unwrap());
        assert_eq!(first, Some(true));
        assert!(second.is_some());
        completer.join().unwrap();
    });
}

/// The thread stops without having completed anything. A sleeping thread must progress now,
/// whatever marks the others set meanwhile.
#[test]
fn nobody_sleeps_on_when_the_thread_has_gone() {
    bounded_model(4, || {
        let world = World::new();
        world.start();
        let other = world.clone();
        let waiter = thread::spawn(move || other.wait(|| None));
        let other = world.clone();
        let stopper = thread::spawn(move || other.stop());
        assert_eq!(world.wait(|| None), None);
        assert_eq!(waiter.join().unwrap(), None);
        stopper.join().unwrap();
    });
}

/// The thread stops and starts again before the sleeping thread has looked: the new one wakes it.
#[test]
fn a_new_thread_wakes_those_who_slept_through_the_change() {
    model(|| {
        let world = World::new();
        world.start();
        let other = world.clone();
        let waiter = thread::spawn(move || other.wait(|| None));
        world.stop();
        world.start();
        world.complete(0);
        // None: it saw that there was no thread, and progresses.
        assert_ne!(waiter.join().unwrap(), Some(false));
    });
}

/// The same for threads that wait for any of several requests.
#[test]
fn who_waits_for_any_sleeps_through_the_change_as_well() {
    model(|| {
        let world = World::new();
        world.start();
        let other = world.clone();
        let waiter = thread::spawn(move || other.wait_any());
        world.stop();
        world.start();
        world.complete(1);
        waiter.join().unwrap();
    });
}

/// One waits for any, another one for the first request; the latter removes a mark, and the former
/// misses nothing.
#[test]
fn a_mark_taken_back_is_made_good() {
    model(|| {
        let world = World::new();
        world.start();
        let other = world.clone();
        let any = thread::spawn(move || other.wait_any());
        let other = world.clone();
        let one = thread::spawn(move || other.wait(|| None));
        world.stop();
        world.start();
        world.complete(0);
        any.join().unwrap();
        assert_ne!(one.join().unwrap(), Some(false));
    });
}

/// A thread that progresses by itself completes the operation while the first progress thread is
/// being started, and another thread already relies on that.
#[test]
fn the_first_thread_comes_while_another_one_completes() {
    model(|| {
        let world = World::new();
        let other = world.clone();
        let completer = thread::spawn(move || other.complete(0));
        let other = world.clone();
        let waiter = thread::spawn(move || other.wait(|| None));
        world.start();
        completer.join().unwrap();
        assert_ne!(waiter.join().unwrap(), Some(false));
    });
}

/// The event count alone: two sleeping threads with different conditions.
#[test]
fn no_notification_is_lost() {
    model(|| {
        let room = Arc::new(EventCount::new());
        let flags = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let setters = [0, 1].map(|index: usize| {
            let (room, flags) = (room.clone(), flags.clone());
            thread::spawn(move || {
                flags[index].store(true, Ordering::Release);
                room.notify();
            })
        });
        assert!(
            room.wait_until(&|| flags.iter().all(|flag| flag.load(Ordering::Acquire)), u64::MAX)
        );
        assert!(room.wait_until(&|| flags[0].load(Ordering::Acquire), 0));
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

#[test]
fn two_sleepers_are_woken_by_one_notification() {
    model(|| {
        let room = Arc::new(EventCount::new());
        let flag = Arc::new(AtomicBool::new(false));
        let (other_room, other_flag) = (room.clone(), flag.clone());
        let sleeper = thread::spawn(move || {
            other_room.wait_until(&|| other_flag.load(Ordering::Acquire), u64::MAX)
        });
        let (other_room, other_flag) = (room.clone(), flag.clone());
        let setter = thread::spawn(move || {
            other_flag.store(true, Ordering::Release);
            other_room.notify();
        });
        assert!(room.wait_until(&|| flag.load(Ordering::Acquire), u64::MAX));
        assert!(sleeper.join().unwrap());
        setter.join().unwrap();
    });
}
