//! loom's atomics and locks, and a bounded queue built on them.

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use loom::thread::yield_now;
pub(crate) use loom::thread::yield_now as doze;

use loom::cell::UnsafeCell;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Lets the other threads run, however often it polls.
#[derive(Default)]
pub(crate) struct SpinWait {}

impl SpinWait {
    pub(crate) fn wait(&self) {
        yield_now();
    }
}

/// Lets the other threads run, however long the pause.
pub(crate) fn linger(_pauses: u32) {
    yield_now();
}

/// loom's SeqCst accesses are weaker than the standard's: the fence between two of them makes up
/// for it.
pub(crate) fn in_one_order() {
    fence(Ordering::SeqCst);
}

/// Replaces crossbeam's queue: a ring of slots, each with its turn, and two counters moved by
/// compare-and-swap. Its operations order exactly what crossbeam's do: a lock would hide missing
/// ordering elsewhere.
pub(crate) struct ArrayQueue<T> {
    head: AtomicUsize,
    tail: AtomicUsize,
    places: Vec<Place<T>>,
}

struct Place<T> {
    /// Twice the position that may be pushed here next; one more while it is being filled.
    turn: AtomicUsize,
    entry: UnsafeCell<Option<T>>,
}

// SAFETY: entries are passed from one thread to another.
unsafe impl<T: Send> Send for ArrayQueue<T> {}
// SAFETY: as above; loom checks the cells.
unsafe impl<T: Send> Sync for ArrayQueue<T> {}

impl<T> ArrayQueue<T> {
    pub(crate) fn new(depth: usize) -> Self {
        let place = |at| Place { turn: AtomicUsize::new(2 * at), entry: UnsafeCell::new(None) };
        ArrayQueue {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            places: (0..depth).map(place).collect(),
        }
    }

    fn place(&self, position: usize) -> &Place<T> {
        &self.places[position % self.places.len()]
    }

    pub(crate) fn push(&self, entry: T) -> Result<(), T> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let place = self.place(tail);
            let turn = place.turn.load(Ordering::Acquire);
            if turn == 2 * tail {
                match self.tail.compare_exchange(
                    tail,
                    tail + 1,
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        // SAFETY: exclusive until the turn changes.
                        place.entry.with_mut(|cell| unsafe { *cell = Some(entry) });
                        place.turn.store(2 * tail + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => tail = now,
                }
                continue;
            }
            fence(Ordering::SeqCst);
            if self.head.load(Ordering::Relaxed) + self.places.len() == tail {
                return Err(entry);
            }
            spin_loop();
            tail = self.tail.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let place = self.place(head);
            let turn = place.turn.load(Ordering::Acquire);
            if turn == 2 * head + 1 {
                match self.head.compare_exchange(
                    head,
                    head + 1,
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        // SAFETY: exclusive until the turn changes.
                        let entry = place.entry.with_mut(|cell| unsafe { (*cell).take() });
                        place.turn.store(2 * (head + self.places.len()), Ordering::Release);
                        return entry;
                    }
                    Err(now) => head = now,
                }
                continue;
            }
            fence(Ordering::SeqCst);
            if self.tail.load(Ordering::Relaxed) == head {
                return None;
            }
            spin_loop();
            head = self.head.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst) == head
    }

    pub(crate) fn len(&self) -> usize {
        self.tail.load(Ordering::SeqCst) - self.head.load(Ordering::SeqCst)
    }
}
