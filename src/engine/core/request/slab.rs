//! Memory for requests: chunks of slots, each slot with UCP's request memory before it.

use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::SharedWorker;
use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::cell::{Cell, RefCell};

/// Slots in one chunk. A worker starts with none, and frees no chunk before its end.
const CHUNK: usize = 64;
/// UCP needs its request memory aligned to a cache line, and a slot is aligned to one.
const ALIGN: usize = 64;

/// Used by the thread inside the worker's gate, like the cells of the slots.
pub(crate) struct Slab {
    /// Distance from the start of an entry to its slot: UCP's bytes, rounded up.
    front: usize,
    chunks: RefCell<Vec<*mut u8>>,
    free: Cell<*const Slot>,
}

// SAFETY: it owns its memory, and frees it when it is dropped.
unsafe impl Send for Slab {}

impl Slab {
    pub(crate) fn new(request_size: usize) -> Self {
        Slab {
            front: request_size.next_multiple_of(ALIGN),
            chunks: RefCell::default(),
            free: Cell::new(std::ptr::null()),
        }
    }

    fn stride(&self) -> usize {
        self.front + size_of::<Slot>()
    }

    fn layout(&self) -> Layout {
        Layout::from_size_align(self.stride() * CHUNK, ALIGN).expect("a few kilobytes")
    }

    /// A free slot, if there is one.
    #[inline]
    pub(crate) fn pop(&self) -> Option<&Slot> {
        // SAFETY: the list contains slots of our chunks, which live as long as the slab.
        let slot = unsafe { self.free.get().as_ref() }?;
        self.free.set(slot.next.get());
        Some(slot)
    }

    /// The slot that `pop` would return, without taking it.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&Slot> {
        // SAFETY: the list contains slots of our chunks, which live as long as the slab.
        unsafe { self.free.get().as_ref() }
    }

    /// Takes the slot that `first` has returned. No slot was taken or returned in between.
    #[inline(always)]
    pub(crate) fn take_first(&self, slot: &Slot) {
        debug_assert!(std::ptr::eq(self.free.get(), slot));
        self.free.set(slot.next.get());
    }

    /// Takes the slot that `first` has returned. No slot was taken in between, but some may have
    /// been returned: if a worker sends to itself, UCP's call completes other operations as well.
    #[inline(always)]
    pub(crate) fn take(&self, slot: &Slot) {
        if std::ptr::eq(self.free.get(), slot) {
            self.free.set(slot.next.get());
        } else {
            self.take_from_within(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_from_within(&self, slot: &Slot) {
        let mut before = self.free.get();
        // SAFETY: the list contains slots of our chunks, which live as long as the slab.
        while let Some(free) = unsafe { before.as_ref() } {
            if std::ptr::eq(free.next.get(), slot) {
                return free.next.set(slot.next.get());
            }
            before = free.next.get();
        }
        debug_assert!(false, "the slot was not free");
    }

    #[inline]
    pub(crate) fn push(&self, slot: &Slot) {
        slot.next.set(self.free.get());
        self.free.set(slot);
    }

    #[cold]
    pub(crate) fn grow(&self, worker: *const SharedWorker, pooled: bool) {
        // SAFETY: the layout is not empty.
        let chunk = unsafe { alloc(self.layout()) };
        if chunk.is_null() {
            handle_alloc_error(self.layout());
        }
        // SAFETY: the worker that grows its slab.
        let describes = unsafe { &*worker }.describes_requests;
        for index in (0..CHUNK).rev() {
            // SAFETY: inside the chunk and aligned: chunk, stride and front are multiples of the
            // alignment.
            let slot = unsafe {
                let slot = chunk.add(index * self.stride() + self.front).cast::<Slot>();
                slot.write(Slot::new(worker, pooled, describes));
                &*slot
            };
            self.push(slot);
        }
        self.chunks.borrow_mut().push(chunk);
    }

    /// All slots, including free ones.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Slot)) {
        for chunk in self.chunks.borrow().iter() {
            for index in 0..CHUNK {
                // SAFETY: written by `grow`, alive as long as the slab.
                visit(unsafe { &*chunk.add(index * self.stride() + self.front).cast::<Slot>() });
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for chunk in self.chunks.borrow().iter() {
            for index in 0..CHUNK {
                // SAFETY: written by `grow`, dropped once; the worker is being dropped, so no slot
                // has a holder any more.
                unsafe {
                    chunk.add(index * self.stride() + self.front).cast::<Slot>().drop_in_place()
                };
            }
            // SAFETY: allocated by `grow` with this layout.
            unsafe { dealloc(*chunk, self.layout()) };
        }
    }
}
