//! An intrusive queue: any thread adds, any thread takes, and takers can sleep.
//!
//! Adding never allocates, never fails for lack of room and takes no lock: it is one
//! compare-and-swap that pushes onto a stack. Takers lock `taken`, swap out the whole stack and
//! reverse it, so nodes come out in the order in which they went in.
//!
//! `head` holds everything that an adding thread needs to know, so there is no second word to race
//! with:
//!
//! - A node: the newest node that was added since the last swap. The others follow by their links.
//! - No node: nothing was added since. The bits say whom the next thread that adds has to wake.
//!   `ASLEEP`: a taker sleeps on the condition variable. `ARMED`: some thread sleeps on the
//!   descriptor. A taker sets them under the mutex, with a compare-and-swap that fails if a node is
//!   there. The thread that adds a node removes them with its own compare-and-swap, and then has to
//!   do the wake-up.
//! - `GONE`: the queue refuses nodes.
//!
//! Before it wakes takers, the adding thread locks and unlocks the mutex: a taker holds the mutex
//! from before it sets `ASLEEP` until it sleeps.

use crate::engine::base::condition::Condition;
use crate::engine::base::futex::Slept;
use crate::engine::base::sync::{lock, AtomicBool, AtomicPtr, Mutex, Ordering};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::time::Duration;

/// Bits of `Queue::head` when it holds no node.
const ASLEEP: usize = 1;
const ARMED: usize = 2;
const GONE: usize = 4;
const BITS: usize = ASLEEP | ARMED | GONE;

/// An object with room for the queue's link.
///
/// # Safety
/// `next` returns what `set_next` was last given, and nothing else touches the link while the node
/// is in a queue. Nodes are aligned to at least 8 bytes.
pub(crate) unsafe trait Node {
    fn set_next(&self, next: *const Self);
    fn next(&self) -> *const Self;
}

/// See the head of this file.
pub(crate) struct Queue<N> {
    head: AtomicPtr<N>,
    taken: Mutex<Taken<N>>,
    changed: Condition,
    /// Written under the mutex, and never reset.
    stopped: AtomicBool,
}

/// Nodes that were swapped out and reversed, and that no taker has received yet, oldest first.
struct Taken<N> {
    first: *const N,
    last: *const N,
}

// SAFETY: the pointers are nodes that `push` was given, valid until they are taken. Only a thread
// that holds the mutex follows them.
unsafe impl<N: Sync> Send for Queue<N> {}
// SAFETY: all methods synchronize by `head` or the mutex, and the nodes themselves are Sync.
unsafe impl<N: Sync> Sync for Queue<N> {}

/// Result of `push`.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Pushed {
    /// No thread sleeps on the descriptor.
    Quietly,
    /// The caller has to make the descriptor readable.
    Ring,
    /// Not added: the queue has been shut.
    Refused,
}

/// Result of `wait` or `arm`.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Found {
    Something,
    /// Nothing is there, and the time has run out; or, from `arm`, the next `push` will return
    /// `Ring`.
    Nothing,
    /// Nothing is there, and the queue has been stopped.
    Stopped,
    /// Nothing is there, and a signal handler has run on this thread.
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
            // SAFETY: the caller's contract: the node is valid, and in no list yet, so nobody else
            // uses its link.
            unsafe { (*node).set_next(if is_node(head) { head } else { null() }) };
            // Release publishes the node and its contents. Acquire orders this thread after the
            // taker that set the bits.
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

    /// Takes up to `max` nodes. `None` if there is none and the queue has been stopped.
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
            // SAFETY: nodes in the list stay valid until they are taken, which needs the mutex.
            taken.first = unsafe { (*last).next() };
        }
        if taken.first.is_null() {
            taken.last = null();
        }
        if last.is_null() {
            return Some(Chain { next: null() });
        }
        // SAFETY: `last` was in the list until now, and no other thread has received it.
        unsafe { (*last).set_next(null()) };
        Some(Chain { next: first })
    }

    /// Waits until there is a node. Calls `left` before each sleep for the time left; `None` means
    /// no limit.
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

    /// Arms the queue: the next `push` returns `Ring`. `clear` and `ring` clear and set the
    /// descriptor. After this call the descriptor is readable unless the result is `Nothing`.
    pub(crate) fn arm(&self, clear: impl FnOnce(), ring: impl FnOnce()) -> Found {
        let taken = lock(&self.taken);
        let any = self.has_any(&taken);
        if !any && self.is_stopped() {
            // The thread that stopped the queue made the descriptor readable, and nobody clears it
            // again.
            return Found::Stopped;
        }
        // This may clear a signal that was meant for another thread. Then either a node is there,
        // and `ring` below signals again, or the nodes have been taken already.
        clear();
        if any || !self.set_bit(ARMED) {
            ring();
            return Found::Something;
        }
        Found::Nothing
    }

    /// Ends all waiting: from here on a wait returns at once, with `Something` while nodes are
    /// left. Nodes that are added later can still be taken.
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

    /// Like `is_stopped`, but ordered by the mutex with `stop`, so that what one thread did before
    /// `stop` is visible to the other.
    pub(crate) fn is_stopped_in_order(&self) -> bool {
        let _taken = lock(&self.taken);
        self.is_stopped()
    }

    /// Stops the queue, takes all nodes, and makes every later `push` fail.
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

    /// Called under the mutex: only its holder removes nodes, so the answer stays true.
    fn has_any(&self, taken: &Taken<N>) -> bool {
        !taken.first.is_null() || is_node(self.head.load(Ordering::Relaxed))
    }

    /// Called under the mutex. Returns false if a node is there.
    fn set_bit(&self, bit: usize) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        while !is_node(head) {
            if head.addr() & bit != 0 {
                // At worst the bit has just been removed by a push. Then that thread still has to
                // pass through the mutex, and wakes us.
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
            // Still a node: only takers replace it by something else, under the mutex.
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
            // SAFETY: nodes stay valid until they are taken. The swap acquired what their pushes
            // released.
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
            // SAFETY: `taken.last` is in the list, and the caller holds the mutex.
            unsafe { (*taken.last).set_next(first) };
        }
        taken.last = newest;
    }
}

fn is_node<N>(head: *mut N) -> bool {
    head.addr() > BITS
}

/// Nodes that were taken, oldest first. They belong to the holder: dropping the chain frees
/// nothing.
#[must_use = "the nodes are nowhere else any more"]
pub(crate) struct Chain<N> {
    next: *const N,
}

impl<N: Node> Iterator for Chain<N> {
    type Item = *const N;

    /// Reads the link before it returns the node, as the caller may free the node.
    fn next(&mut self) -> Option<*const N> {
        let node = self.next;
        // SAFETY: the node was taken and has not been returned yet, so it is valid.
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

    // SAFETY: one cell, set and read. Nothing else uses it.
    unsafe impl Node for Item {
        fn set_next(&self, next: *const Item) {
            self.next.set(next);
        }
        fn next(&self) -> *const Item {
            self.next.get()
        }
    }
    // SAFETY: the queue passes an item from one thread to another, never to two at once.
    unsafe impl Sync for Item {}

    fn push(queue: &Queue<Item>, number: usize) -> Pushed {
        // SAFETY: the box is leaked here, and freed by `numbers` after it was taken.
        unsafe { queue.push(Box::into_raw(Box::new(Item { number, next: Cell::new(null()) }))) }
    }

    fn numbers(chain: Chain<Item>) -> Vec<usize> {
        // SAFETY: `push` made the box, and each node is taken once.
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
        // SAFETY: the queue refuses the node, so it keeps no pointer to it.
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
