//! loom's atomics and locks, and a bounded queue made of them.

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

/// However often it is looked, the others go on.
#[derive(Default)]
pub(crate) struct SpinWait;

impl SpinWait {
    pub(crate) fn wait(&self) {
        yield_now();
    }
}

/// However long it is, the others go on.
pub(crate) fn linger(_pauses: u32) {
    yield_now();
}

/// loom does less for SeqCst accesses than the standard promises: the fence makes up for it,
/// between two of them.
pub(crate) fn in_one_order() {
    fence(Ordering::SeqCst);
}

/// Stands in for crossbeam's: a ring of places, each with the turn it is in, and two counters that
/// are moved by compare-and-swap. Its operations order what they order there, and no more: a lock
/// would hide what is missing elsewhere.
pub(crate) struct ArrayQueue<T> {
    head: AtomicUsize,
    tail: AtomicUsize,
    places: Vec<Place<T>>,
}

struct Place<T> {
    /// Twice the position that may be pushed here next; one more while it is filled.
    turn: AtomicUsize,
    entry: UnsafeCell<Option<T>>,
}

// SAFETY: entries are handed from one thread to another.
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
                        // SAFETY: ours until the turn moves on.
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
                        // SAFETY: ours until the turn moves on.
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
