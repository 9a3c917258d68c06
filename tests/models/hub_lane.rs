//! A hub without its lock: what threads take and give back while another one closes the lane, and
//! looks at what is there.

use crate::bounded_model;
use crate::engine::hub::lockfree::queue_pair::Lane;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

/// An envelope: what is written into it, how often that was, and who has it.
struct Item {
    contents: UnsafeCell<u32>,
    written: AtomicU32,
    holder: AtomicU32,
}

const NOBODY: u32 = 0;
const PRODUCER: u32 = 1;
const CONSUMER: u32 = 2;

struct World {
    lane: Lane<Item>,
    items: Vec<Item>,
}

// SAFETY: loom fails where two threads touch the contents at once.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

fn at<'a>(item: *mut Item) -> &'a Item {
    // SAFETY: of the world, which outlives its threads.
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
        let lane = Lane::new(items.iter().map(|item| std::ptr::from_ref(item).cast_mut()));
        let world = World { lane, items };
        // As many chunks as there can be have been there before: no lock is needed to count them.
        for _ in 0..count {
            let item = world.lane.take_free(|_, _| {}).unwrap();
            assert!(world.lane.push_most(item));
        }
        (0..count).for_each(|_| assert!(world.consume(false).is_none()));
        (0..ready).for_each(|_| assert!(world.produce(false).is_none()));
        Arc::new(world)
    }

    /// As a lease and its commit. What it could not give back it has still.
    fn produce(&self, quick: bool) -> Option<*mut Item> {
        let mark = |item: *mut Item, _| at(item).holder.store(PRODUCER, Ordering::Relaxed);
        let item = if quick {
            self.lane.try_take_free(mark).ok()?
        } else {
            self.lane.take_free(mark).ok()?
        };
        // SAFETY: loom fails where somebody else does so at once.
        at(item).contents.with_mut(|contents| unsafe { *contents += 1 });
        at(item).written.store(at(item).written.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let done = if quick { self.lane.try_push_ready(item) } else { self.lane.push_ready(item) };
        (!done).then_some(item)
    }

    /// As a lease and its release.
    fn consume(&self, quick: bool) -> Option<*mut Item> {
        let mark = |item: *mut Item, _| at(item).holder.store(CONSUMER, Ordering::Relaxed);
        let item = if quick {
            self.lane.try_take_ready(mark).ok()?
        } else {
            self.lane.take_ready(mark).ok()?
        };
        // SAFETY: as above.
        let contents = at(item).contents.with(|contents| unsafe { *contents });
        assert_eq!(contents, at(item).written.load(Ordering::Relaxed));
        let done = if quick { self.lane.try_push_free(item) } else { self.lane.push_free(item) };
        (!done).then_some(item)
    }

    /// Each item is in one of the queues, or with one of those that say so; and nothing moves while
    /// it is closed.
    fn look(&self) -> usize {
        let [ready, free] = self.lane.close();
        let mut held = 0;
        for item in &self.items {
            let here = std::ptr::from_ref(item).cast_mut();
            let times = free.iter().chain(&ready).filter(|other| **other == here).count();
            assert!(times < 2, "an item is there twice");
            if times == 0 {
                assert_ne!(item.holder.load(Ordering::Relaxed), NOBODY, "nobody has it");
                held += 1;
            }
        }
        let traffic = self.lane.traffic();
        assert!(traffic.most as usize <= self.items.len() && traffic.most as usize >= ready.len());
        assert_eq!((traffic.free as usize, traffic.ready as usize), (free.len(), ready.len()));
        held
    }
}

/// One produces and one consumes, at the first look or as long as it takes, while the lane is
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

/// Who asks is told so only of a moment in which it was so: here there is none before the last
/// chunk has gone.
#[test]
fn it_is_idle_when_all_are_free() {
    bounded_model(2, || {
        let world = World::new(2, 1);
        let other = world.clone();
        let works = thread::spawn(move || {
            // One of both is always taken, or a chunk.
            let held = other.lane.take_free(|_, _| {}).unwrap();
            other.consume(false);
            assert!(other.lane.push_ready(held));
        });
        assert!(!world.lane.is_idle(2));
        works.join().unwrap();
        assert!(!world.lane.is_idle(2));
        assert!(world.consume(false).is_none());
        assert!(world.lane.is_idle(2));
    });
}

/// Two who take the same, and what a producer has written is what a consumer reads.
#[test]
fn each_item_is_taken_by_one() {
    bounded_model(2, || {
        let world = World::new(1, 0);
        let other = world.clone();
        let kept = |item: Option<*mut Item>| usize::from(item.is_some());
        let consumes =
            thread::spawn(move || kept(other.consume(false)) + kept(other.produce(true)));
        let here = kept(world.produce(false)) + kept(world.consume(true));
        // At one look it may be that an item could not be given back.
        let there = consumes.join().unwrap();
        assert_eq!(world.look(), here + there);
    });
}
