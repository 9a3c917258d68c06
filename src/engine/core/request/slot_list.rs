//! A list of slots in order of arrival, linked through the slots themselves: a slot is in one list
//! at a time.

use crate::engine::core::request::request::Slot;
use std::cell::Cell;

/// Used by the thread inside the worker's gate, and contains slots of that worker.
pub(crate) struct SlotList {
    head: Cell<*const Slot>,
    tail: Cell<*const Slot>,
}

impl Default for SlotList {
    fn default() -> Self {
        SlotList { head: Cell::new(std::ptr::null()), tail: Cell::new(std::ptr::null()) }
    }
}

impl SlotList {
    #[inline(always)]
    pub(crate) fn push(&self, slot: &Slot) {
        slot.next.set(std::ptr::null());
        // SAFETY: a slot of the worker, which outlives the list.
        match unsafe { self.tail.get().as_ref() } {
            Some(tail) => tail.next.set(slot),
            None => self.head.set(slot),
        }
        self.tail.set(slot);
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<&Slot> {
        let slot = self.first()?;
        self.head.set(slot.next.get());
        if slot.next.get().is_null() {
            self.tail.set(std::ptr::null());
        }
        Some(slot)
    }

    /// The oldest one.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&Slot> {
        // SAFETY: a slot of the worker, which outlives the list.
        unsafe { self.head.get().as_ref() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Takes out what is in it now, and passes each slot to `take`. Slots that `take` adds stay in
    /// the list. Returns the number of slots.
    #[inline(always)]
    pub(crate) fn drain_present(&self, mut take: impl FnMut(&Slot)) -> u32 {
        let last = self.tail.get();
        let mut count = 0;
        while let Some(slot) = self.pop() {
            let was_last = std::ptr::eq(slot, last);
            take(slot);
            count += 1;
            if was_last {
                break;
            }
        }
        count
    }
}
