//! A queue whose nodes bring their own link: any thread adds, any thread takes, and takers can
//! sleep.
//!
//! Adding never allocates, never fails for want of room and takes no lock: one compare-and-swap
//! onto a stack. Takers, under a mutex of their own, swap the whole stack out and turn it around,
//! so that nodes come out in the order in which they went in.
//!
//! Everything that an adding thread has to know stands in the one word `head`, so there is no
//! second word to race with:
//!
//! - a node: what was added since the last turn, newest first;
//! - no node: nothing was added since. The bits then say who must be told when that changes:
//!   `ASLEEP`, a taker sleeps on the condition variable; `ARMED`, somebody sleeps on the
//!   descriptor. Both are set under the mutex, with a compare-and-swap that fails when a node is
//!   there. Whoever adds a node takes them away with the same compare-and-swap, and then owes the
//!   wake-up;
//! - `GONE`: nothing is taken in any more.
//!
//! One who wakes takers passes through the mutex first: a taker holds it from before it sets
//! `ASLEEP` until it sleeps.

use crate::engine::base::condition::Condition;
use crate::engine::base::futex::Slept;
use crate::engine::base::sync::{lock, AtomicBool, AtomicPtr, Mutex, Ordering};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::time::Duration;

/// Bits of `Queue::head` while it holds no node.
const ASLEEP: usize = 1;
const ARMED: usize = 2;
const GONE: usize = 4;
const BITS: usize = ASLEEP | ARMED | GONE;

/// What can stand in a queue.
///
/// # Safety
/// `next` gives what `set_next` was last given, and nothing else touches the link while the node is
/// in a queue. Nodes are aligned to 8 bytes at least.
pub(crate) unsafe trait Node {
    fn set_next(&self, next: *const Self);
    fn next(&self) -> *const Self;
}

/// See the top of this file.
pub(crate) struct Queue<N> {
    head: AtomicPtr<N>,
    taken: Mutex<Taken<N>>,
    changed: Condition,
    /// Written under the mutex, never taken back.
    stopped: AtomicBool,
}

/// What has been turned around and not been handed out yet, oldest first.
struct Taken<N> {
    first: *const N,
    last: *const N,
}

// SAFETY: the pointers are nodes that were handed over with `push`, and are touched under the mutex
// alone.
unsafe impl<N: Sync> Send for Queue<N> {}
// SAFETY: as above.
unsafe impl<N: Sync> Sync for Queue<N> {}

/// How a node went in.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Pushed {
    /// Nobody sleeps on the descriptor.
    Quietly,
    /// The descriptor has to be made readable.
    Ring,
    /// It did not: the queue is gone.
    Refused,
}

/// How a wait or an attempt to arm ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Found {
    Something,
    /// Nothing; the time has run out, or the descriptor will tell.
    Nothing,
    /// Nothing, and it has been stopped.
    Stopped,
    /// Nothing, and a signal handler has run on this thread.
    Interrupted,
}

impl<N: Node> Queue<N> {
    pub(crate) fn new() -> Self {
        const { assert!(align_of::<N>() > BITS) };
        Queue {
            head: AtomicPtr::new(null_mut()),
            taken: Mutex::new(Taken { first: null(), last: null() }),
            changed: Condition::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds a node, and wakes the takers that sleep for it.
    ///
    /// # Safety
    /// The node stays valid until it has been taken, and is in no other list until then.
    pub(crate) unsafe fn push(&self, node: *const N) -> Pushed {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            if !is_node(head) && head.addr() & GONE != 0 {
                return Pushed::Refused;
            }
            // SAFETY: as for this function.
            unsafe { (*node).set_next(if is_node(head) { head } else { null() }) };
            // Release hands over the node and what it holds; Acquire orders us behind the taker
            // that left its bit.
            match self.head.compare_exchange_weak(
                head,
                node.cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        let sleepers = if is_node(head) { 0 } else { head.addr() };
        if sleepers & ASLEEP != 0 {
            drop(lock(&self.taken));
            self.changed.notify_all();
        }
        if sleepers & ARMED != 0 {
            Pushed::Ring
        } else {
            Pushed::Quietly
        }
    }

    /// Takes up to `max` nodes. None when there is none and the queue has been stopped.
    pub(crate) fn take(&self, max: usize) -> Option<Chain<N>> {
        let mut taken = lock(&self.taken);
        self.collect(&mut taken);
        if taken.first.is_null() && self.is_stopped() {
            return None;
        }
        let first = taken.first;
        let mut last: *const N = null();
        for _ in 0..max {
            if taken.first.is_null() {
                break;
            }
            last = taken.first;
            // SAFETY: nodes in the list are valid until they have been taken.
            taken.first = unsafe { (*last).next() };
        }
        if taken.first.is_null() {
            taken.last = null();
        }
        if last.is_null() {
            return Some(Chain { next: null() });
        }
        // SAFETY: as above.
        unsafe { (*last).set_next(null()) };
        Some(Chain { next: first })
    }

    /// Waits until there is something to take, for as long as `left` says before each sleep; None
    /// is for ever.
    pub(crate) fn wait(&self, left: impl Fn() -> Option<Duration>) -> Found {
        let mut taken = lock(&self.taken);
        let mut slept = Slept::Woken;
        loop {
            if self.has_any(&taken) {
                return Found::Something;
            }
            if self.is_stopped() {
                return Found::Stopped;
            }
            if slept == Slept::Interrupted {
                return Found::Interrupted;
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Found::Nothing;
            }
            if !self.set_bit(ASLEEP) {
                return Found::Something;
            }
            (taken, slept) = self.changed.sleep(&self.taken, taken, left);
        }
    }

    /// Asks for the next node to ring; `clear` and `ring` act on the descriptor. It is readable
    /// unless this returns Nothing.
    pub(crate) fn arm(&self, clear: impl FnOnce(), ring: impl FnOnce()) -> Found {
        let taken = lock(&self.taken);
        let any = self.has_any(&taken);
        if !any && self.is_stopped() {
            // Rung by whoever stopped it, and never cleared again.
            return Found::Stopped;
        }
        // A ring that is cleared here and meant somebody else is made good below, or had nothing
        // left to tell.
        clear();
        if any || !self.set_bit(ARMED) {
            ring();
            return Found::Something;
        }
        Found::Nothing
    }

    /// No sleep begins or goes on from here, but for what can still be taken. What is added later
    /// can be taken.
    pub(crate) fn stop(&self) {
        let taken = lock(&self.taken);
        self.stopped.store(true, Ordering::Release);
        drop(taken);
        self.changed.notify_all();
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Looks whether it has been stopped, in one order with `stop` and what its caller does before
    /// or after.
    pub(crate) fn is_stopped_in_order(&self) -> bool {
        let _taken = lock(&self.taken);
        self.is_stopped()
    }

    /// Stops it, takes what is in it, and refuses what comes later.
    pub(crate) fn shut(&self) -> Chain<N> {
        let mut taken = lock(&self.taken);
        self.stopped.store(true, Ordering::Release);
        let head = self.head.swap(without_provenance_mut(GONE), Ordering::AcqRel);
        Self::append(&mut taken, head);
        let chain = Chain { next: taken.first };
        *taken = Taken { first: null(), last: null() };
        drop(taken);
        self.changed.notify_all();
        chain
    }

    /// Under the mutex, hence the only one who could take what is there away.
    fn has_any(&self, taken: &Taken<N>) -> bool {
        !taken.first.is_null() || is_node(self.head.load(Ordering::Relaxed))
    }

    /// False when a node is there instead. Under the mutex.
    fn set_bit(&self, bit: usize) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        while !is_node(head) {
            if head.addr() & bit != 0 {
                // Seen too late at worst: then whoever took it away has yet to pass through the
                // mutex.
                return true;
            }
            let with_bit = without_provenance_mut(head.addr() | bit);
            match self.head.compare_exchange_weak(
                head,
                with_bit,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        false
    }

    fn collect(&self, taken: &mut Taken<N>) {
        if is_node(self.head.load(Ordering::Relaxed)) {
            // Still a node: only takers put anything else there, under the mutex.
            let head = self.head.swap(null_mut(), Ordering::Acquire);
            Self::append(taken, head);
        }
    }

    fn append(taken: &mut Taken<N>, newest: *mut N) {
        if !is_node(newest) {
            return;
        }
        let (mut node, mut first): (*const N, *const N) = (newest, null());
        while !node.is_null() {
            // SAFETY: nodes stay valid until they have been taken, and the swap has acquired what
            // was pushed.
            unsafe {
                let next = (*node).next();
                (*node).set_next(first);
                first = node;
                node = next;
            }
        }
        if taken.first.is_null() {
            taken.first = first;
        } else {
            // SAFETY: as above.
            unsafe { (*taken.last).set_next(first) };
        }
        taken.last = newest;
    }
}

fn is_node<N>(head: *mut N) -> bool {
    head.addr() > BITS
}

/// Nodes that were taken, oldest first. They are the holder's: dropping the chain frees nothing.
#[must_use = "the nodes are nowhere else any more"]
pub(crate) struct Chain<N> {
    next: *const N,
}

impl<N: Node> Iterator for Chain<N> {
    type Item = *const N;

    /// The link is read before the node is handed out, which may free it.
    fn next(&mut self) -> Option<*const N> {
        let node = self.next;
        // SAFETY: taken, and not handed out yet.
        self.next = unsafe { node.as_ref() }?.next();
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;

    struct Item {
        number: usize,
        next: Cell<*const Item>,
    }

    // SAFETY: one cell, set and read.
    unsafe impl Node for Item {
        fn set_next(&self, next: *const Item) {
            self.next.set(next);
        }
        fn next(&self) -> *const Item {
            self.next.get()
        }
    }
    // SAFETY: the queue hands an item from one thread to the other.
    unsafe impl Sync for Item {}

    fn push(queue: &Queue<Item>, number: usize) -> Pushed {
        // SAFETY: freed by `take`.
        unsafe { queue.push(Box::into_raw(Box::new(Item { number, next: Cell::new(null()) }))) }
    }

    fn numbers(chain: Chain<Item>) -> Vec<usize> {
        // SAFETY: made by `push`, taken once.
        chain.map(|item| unsafe { Box::from_raw(item.cast_mut()) }.number).collect()
    }

    fn no_time() -> Option<Duration> {
        Some(Duration::ZERO)
    }

    #[test]
    fn what_goes_in_comes_out_in_order_whatever_the_size_of_the_batches() {
        let queue = Queue::new();
        let mut seen = Vec::new();
        for number in 0..100 {
            assert_eq!(push(&queue, number), Pushed::Quietly);
            seen.extend(numbers(queue.take(number % 3).unwrap()));
        }
        seen.extend(numbers(queue.take(usize::MAX).unwrap()));
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert_eq!(numbers(queue.take(1).unwrap()), []);
        assert_eq!(queue.wait(no_time), Found::Nothing);
    }

    #[test]
    fn an_end_comes_after_what_is_left() {
        let queue = Queue::new();
        push(&queue, 1);
        push(&queue, 2);
        assert_eq!(numbers(queue.take(1).unwrap()), [1]);
        queue.stop();
        assert_eq!(queue.wait(no_time), Found::Something);
        assert_eq!(queue.arm(|| (), || ()), Found::Something);
        assert_eq!(numbers(queue.take(9).unwrap()), [2]);
        assert!(queue.take(9).is_none());
        assert_eq!(queue.wait(|| None), Found::Stopped);
        push(&queue, 3);
        assert_eq!(queue.wait(|| None), Found::Something);
        assert_eq!(numbers(queue.shut()), [3]);
        let item = Item { number: 4, next: Cell::new(null()) };
        // SAFETY: refused, so the queue keeps nothing of it.
        assert_eq!(unsafe { queue.push(&item) }, Pushed::Refused);
    }

    #[test]
    fn only_the_first_one_after_arming_rings() {
        let queue = Queue::new();
        assert_eq!(queue.arm(|| (), || panic!("rang for nothing")), Found::Nothing);
        assert_eq!(push(&queue, 1), Pushed::Ring);
        assert_eq!(push(&queue, 2), Pushed::Quietly);
        let rung = Cell::new(false);
        assert_eq!(queue.arm(|| (), || rung.set(true)), Found::Something);
        assert!(rung.get());
        assert_eq!(numbers(queue.take(9).unwrap()), [1, 2]);
    }

    #[test]
    fn threads_that_add_and_threads_that_sleep_and_take_lose_nothing() {
        const EACH: usize = 100_000;
        let queue = Queue::new();
        let (sum, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while queue.wait(|| None) == Found::Something {
                        let taken = queue.take(10).map(numbers).unwrap_or_default();
                        sum.fetch_add(taken.iter().sum(), Ordering::Relaxed);
                        count.fetch_add(taken.len(), Ordering::Relaxed);
                    }
                });
            }
            let producers: Vec<_> = (0..2)
                .map(|half| {
                    let queue = &queue;
                    scope.spawn(move || {
                        for number in 0..EACH {
                            push(queue, half * EACH + number);
                        }
                    })
                })
                .collect();
            for producer in producers {
                producer.join().unwrap();
            }
            queue.stop();
        });
        assert_eq!(count.into_inner(), 2 * EACH);
        assert_eq!(sum.into_inner(), (0..2 * EACH).sum());
    }
}
