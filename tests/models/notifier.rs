//! The notifier's queue: every order in which a few threads add, take, sleep, arm and stop.

use crate::engine::base::completion_queue::{Found, Node, Pushed, Queue};
use crate::{bounded_model, model, Bell};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;
use std::collections::VecDeque;

/// loom also checks the link for races.
#[repr(align(8))]
struct Item {
    number: usize,
    next: UnsafeCell<*const Item>,
}

// SAFETY: one cell, set and read.
unsafe impl Node for Item {
    fn set_next(&self, next: *const Item) {
        // SAFETY: loom refuses concurrent access.
        self.next.with_mut(|place| unsafe { *place = next });
    }
    fn next(&self) -> *const Item {
        // SAFETY: as above.
        self.next.with(|place| unsafe { *place })
    }
}

// SAFETY: loom checks the cell.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

fn push(queue: &Queue<Item>, number: usize) -> Pushed {
    let item = Box::into_raw(Box::new(Item { number, next: UnsafeCell::new(std::ptr::null()) }));
    // SAFETY: freed by the thread that takes it.
    let pushed = unsafe { queue.push(item) };
    if pushed == Pushed::Refused {
        // SAFETY: not shared yet.
        drop(unsafe { Box::from_raw(item) });
    }
    pushed
}

fn free(item: *const Item) -> usize {
    // SAFETY: made by `push`, taken once.
    unsafe { Box::from_raw(item.cast_mut()) }.number
}

fn take(queue: &Queue<Item>, max: usize) -> Option<Vec<usize>> {
    queue.take(max).map(|chain| chain.map(free).collect())
}

/// Waits and takes until the queue is stopped and empty.
fn consume(queue: &Queue<Item>, max: usize) -> Vec<usize> {
    let mut seen = Vec::new();
    while queue.wait(|| None) != Found::Stopped {
        if let Some(numbers) = take(queue, max) {
            seen.extend(numbers);
        }
    }
    seen
}

/// A sleeping consumer gets everything that two threads add, each thread's in order, one at a time
/// or all at once.
#[test]
fn nothing_is_lost_and_nobody_sleeps_on() {
    for max in [1, 8] {
        // With three preemptions it takes as long as all other models together.
        bounded_model(2, move || {
            let queue = Arc::new(Queue::new());
            let other = {
                let queue = queue.clone();
                thread::spawn(move || {
                    push(&queue, 1);
                    push(&queue, 2);
                })
            };
            let third = {
                let queue = queue.clone();
                thread::spawn(move || push(&queue, 10))
            };
            let mut seen = Vec::new();
            while seen.len() < 3 {
                assert_eq!(queue.wait(|| None), Found::Something);
                seen.extend(take(&queue, max).unwrap());
            }
            let first = seen.iter().position(|number| *number == 1);
            assert!(first < seen.iter().position(|number| *number == 2), "{seen:?}");
            seen.sort_unstable();
            assert_eq!(seen, [1, 2, 10]);
            other.join().unwrap();
            third.join().unwrap();
        });
    }
}

/// Two consumers share the entries, and stopping wakes both, after everything has been taken.
#[test]
fn stopping_wakes_every_consumer_after_the_rest_has_been_taken() {
    // With three preemptions it takes a quarter of the time of all models.
    bounded_model(2, || {
        let queue = Arc::new(Queue::new());
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || consume(&queue, 1))
        };
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                push(&queue, 1);
                queue.stop();
            })
        };
        let mut seen = consume(&queue, 1);
        seen.extend(consumer.join().unwrap());
        assert_eq!(seen, [1]);
        producer.join().unwrap();
        assert!(take(&queue, 1).is_none());
    });
}

/// A thread that arms and sleeps on the descriptor misses nothing.
#[test]
fn an_armed_descriptor_rings() {
    model(|| {
        let (queue, bell) = (Arc::new(Queue::new()), Arc::new(Bell::default()));
        let producers = [1, 2].map(|number| {
            let (queue, bell) = (queue.clone(), bell.clone());
            thread::spawn(move || {
                if push(&queue, number) == Pushed::Ring {
                    bell.ring();
                }
            })
        });
        let mut seen = 0;
        while seen < 2 {
            match queue.arm(|| bell.silence(), || bell.ring()) {
                Found::Nothing => bell.sleep(),
                found => {
                    assert_eq!(found, Found::Something);
                    assert!(bell.is_readable());
                    seen += take(&queue, 8).unwrap().len();
                }
            }
        }
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

/// Stopping signals the descriptor too, and that signal is not cleared again.
#[test]
fn stopping_rings() {
    model(|| {
        let (queue, bell) = (Arc::new(Queue::<Item>::new()), Arc::new(Bell::default()));
        let stopper = {
            let (queue, bell) = (queue.clone(), bell.clone());
            thread::spawn(move || {
                queue.stop();
                bell.ring();
            })
        };
        while queue.arm(|| bell.silence(), || bell.ring()) != Found::Stopped {
            bell.sleep();
        }
        stopper.join().unwrap();
        assert!(bell.is_readable());
    });
}

/// An entry added while the queue is shut down is either returned by the shutdown, or refused.
#[test]
fn shutting_hands_over_or_refuses() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let refused = Arc::new(AtomicUsize::new(0));
        let waiter = {
            let queue = queue.clone();
            thread::spawn(move || consume(&queue, 1).len())
        };
        let producer = {
            let (queue, refused) = (queue.clone(), refused.clone());
            thread::spawn(move || {
                refused
                    .fetch_add(usize::from(push(&queue, 1) == Pushed::Refused), Ordering::Relaxed);
            })
        };
        let dropped = queue.shut().map(free).count();
        let polled = waiter.join().unwrap();
        producer.join().unwrap();
        assert_eq!(dropped + polled + refused.load(Ordering::Relaxed), 1);
        assert_eq!(push(&queue, 2), Pushed::Refused);
    });
}

/// The words around the queue: caller and queue release a slot on two threads, and exactly one of
/// them returns it. The bits are those of `notifier::outside`.
#[test]
fn exactly_one_of_two_hands_the_slot_back() {
    const QUEUE: usize = 2;
    const USER: usize = 4;
    model(|| {
        let outside = Arc::new(AtomicUsize::new(1 | QUEUE | USER));
        let returned = Arc::new(AtomicBool::new(false));
        let hand_back = |returned: &AtomicBool| assert!(!returned.swap(true, Ordering::Relaxed));
        let user = {
            let (outside, returned) = (outside.clone(), returned.clone());
            thread::spawn(move || {
                if outside.fetch_and(!USER, Ordering::AcqRel) & QUEUE == 0 {
                    hand_back(&returned);
                }
            })
        };
        if outside.fetch_and(!QUEUE, Ordering::AcqRel) & USER == 0 {
            hand_back(&returned);
        }
        user.join().unwrap();
        assert!(returned.load(Ordering::Relaxed));
    });
}

#[test]
fn the_order_of_one_thread_is_kept_over_turns() {
    model(|| {
        let queue = Queue::new();
        let mut expected = VecDeque::new();
        for round in 0..3 {
            for number in [1, 2, 3] {
                push(&queue, round * 10 + number);
                expected.push_back(round * 10 + number);
            }
            for number in take(&queue, 2).unwrap() {
                assert_eq!(Some(number), expected.pop_front());
            }
        }
        assert_eq!(take(&queue, usize::MAX).unwrap(), Vec::from(expected));
        assert_eq!(take(&queue, 1).unwrap(), []);
    });
}
