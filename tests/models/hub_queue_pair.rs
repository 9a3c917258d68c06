//! A hub in lock-free mode: threads take and return items while another one closes the queues
//! and counts what is there.

use crate::bounded_model;
use crate::engine::hub::lockfree::queue_pair::QueuePair;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

/// An envelope: its contents, how often they were written, and who has it.
struct Item {
    contents: UnsafeCell<u32>,
    written: AtomicU32,
    holder: AtomicU32,
}

const NOBODY: u32 = 0;
const PRODUCER: u32 = 1;
const CONSUMER: u32 = 2;

struct World {
    queues: QueuePair<Item>,
    items: Vec<Item>,
}

// SAFETY: loom fails if two threads access the contents at once.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

fn at<'a>(item: *mut Item) -> &'a Item {
    // SAFETY: owned by the world, which outlives its threads.
    unsafe { &*item }
}

impl World {
    /// `ready` of the items are chunks.
    fn new(count: usize, ready: usize) -> Arc<Self> {
        let item = |_| {
            let (written, holder) = (AtomicU32::new(0), AtomicU32::new(NOBODY));
            Item { contents: UnsafeCell::new(0), written, holder }
        };
        let items: Vec<_> = (0..count).map(item).collect();
        let queues = QueuePair::new(items.iter().map(|item| std::ptr::from_ref(item).cast_mut()));
        let world = World { queues, items };
        // The maximum of chunks was reached before, so counting them needs no lock.
        for _ in 0..count {
            let item = world.queues.take_free(|_, _| {}).unwrap();
            assert!(world.queues.push_most(item));
        }
        (0..count).for_each(|_| assert!(world.consume(false).is_none()));
        (0..ready).for_each(|_| assert!(world.produce(false).is_none()));
        Arc::new(world)
    }

    /// A lease and its commit. Returns the item if it could not be given back.
    fn produce(&self, quick: bool) -> Option<*mut Item> {
        let mark = |item: *mut Item, _| at(item).holder.store(PRODUCER, Ordering::Relaxed);
        let item = if quick {
            self.queues.try_take_free(mark).ok()?
        } else {
            self.queues.take_free(mark).ok()?
        };
        // SAFETY: loom fails if another thread does this at once.
        at(item).contents.with_mut(|contents| unsafe { *contents += 1 });
        at(item).written.store(at(item).written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let done =
            if quick { self.queues.try_push_ready(item) } else { self.queues.push_ready(item) };
        (!done).then_some(item)
    }

    /// A lease and its release.
    fn consume(&self, quick: bool) -> Option<*mut Item> {
        let mark = |item: *mut Item, _| at(item).holder.store(CONSUMER, Ordering::Relaxed);
        let item = if quick {
            self.queues.try_take_ready(mark).ok()?
        } else {
            self.queues.take_ready(mark).ok()?
        };
        // SAFETY: as above.
        let contents = at(item).contents.with(|contents| unsafe { *contents });
        assert_eq!(contents, at(item).written.load(Ordering::Relaxed));
        let done =
            if quick { self.queues.try_push_free(item) } else { self.queues.push_free(item) };
        (!done).then_some(item)
    }

    /// Checks that each item is in one of the queues or with its reported owner, and that nothing
    /// moves while the queues are closed.
    fn look(&self) -> usize {
        let [ready, free] = self.queues.close();
        let mut held = 0;
        for item in &self.items {
            let here = std::ptr::from_ref(item).cast_mut();
            let times = free.iter().chain(&ready).filter(|other| **other == here).count();
            assert!(times < 2, "an item is there twice");
            if times == 0 {
                assert_ne!(item.holder.load(Ordering::Relaxed), NOBODY, "an item is missing");
                held += 1;
            }
        }
        let traffic = self.queues.traffic();
        assert!(traffic.most as usize <= self.items.len() && traffic.most as usize >= ready.len());
        assert_eq!((traffic.free as usize, traffic.ready as usize), (free.len(), ready.len()));
        held
    }
}

/// One thread produces and one consumes, with one attempt or as many as needed, while the queues is
/// closed.
fn while_it_is_closed(quick: bool) {
    bounded_model(2, move || {
        let world = World::new(2, 1);
        let (one, other) = (world.clone(), world.clone());
        let produces = thread::spawn(move || one.produce(quick).is_some());
        let consumes = thread::spawn(move || other.consume(quick).is_some());
        world.look();
        let kept = usize::from(produces.join().unwrap()) + usize::from(consumes.join().unwrap());
        assert_eq!(world.look(), kept, "an item is lost");
    });
}

#[test]
fn nothing_is_lost_when_it_is_closed() {
    while_it_is_closed(true);
    while_it_is_closed(false);
}

/// A failed attempt is true of some moment only: here no such moment exists before the last chunk
/// is taken.
#[test]
fn it_is_idle_when_all_are_free() {
    bounded_model(2, || {
        let world = World::new(2, 1);
        let other = world.clone();
        let works = thread::spawn(move || {
            // One of two envelopes is always taken, or a chunk exists.
            let held = other.queues.take_free(|_, _| {}).unwrap();
            other.consume(false);
            assert!(other.queues.push_ready(held));
        });
        assert!(!world.queues.is_idle(2));
        works.join().unwrap();
        assert!(!world.queues.is_idle(2));
        assert!(world.consume(false).is_none());
        assert!(world.queues.is_idle(2));
    });
}

/// Two threads that take the same kind, and a consumer reads what its producer wrote.
#[test]
fn each_item_is_taken_by_one() {
    bounded_model(2, || {
        let world = World::new(1, 0);
        let other = world.clone();
        let kept = |item: Option<*mut Item>| usize::from(item.is_some());
        let consumes =
            thread::spawn(move || kept(other.consume(false)) + kept(other.produce(true)));
        let here = kept(world.produce(false)) + kept(world.consume(true));
        // With a single attempt an item may not have been returned.
        let there = consumes.join().unwrap();
        assert_eq!(world.look(), here + there);
    });
}
