//! Finds the fetch that a reply belongs to, by a number that is sent with the request and returned
//! with the reply.
//!
//! No two fetches have the same number at a time. A number is reused only after 2^28 uses of its
//! place, so a late reply finds nothing.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::request::Slot;
use crate::engine::wire::header::Question;
use std::cell::{Cell, UnsafeCell};

/// Most fetches in flight on a worker. The rest of a number distinguishes the uses of one place.
const PLACES: u64 = 1 << 20;

struct Entry {
    /// Null while the place is free.
    slot: Cell<*const Slot>,
    number: Cell<u64>,
    next_free: Cell<u32>,
}

/// The fetches of a worker that wait for their replies. Its methods call no other code, so that
/// nothing changes the entries while they are used.
pub(crate) struct Fetches {
    entries: UnsafeCell<Vec<Entry>>,
    free: Cell<u32>,
}

const NONE: u32 = u32::MAX;

impl Fetches {
    pub(crate) fn new() -> Self {
        Fetches { entries: UnsafeCell::default(), free: Cell::new(NONE) }
    }

    /// The reference must not be kept.
    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        // SAFETY: see the type: only `add_place` changes the list itself, and no reference exists
        // then.
        unsafe { &*self.entries.get() }
    }

    /// A number for this fetch.
    #[inline(always)]
    pub(crate) fn add(&self, slot: &Slot) -> Result<u64> {
        if let Some(entry) = self.entries().get(self.free.get() as usize) {
            self.free.set(entry.next_free.get());
            entry.slot.set(slot);
            return Ok(entry.number.get());
        }
        // SAFETY: see the type: no reference into the list exists.
        add_place(unsafe { &mut *self.entries.get() }, slot)
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> Option<(u32, &Entry)> {
        let place = (number % PLACES).checked_sub(1)?;
        let entry =
            self.entries().get(place as usize).filter(|entry| entry.number.get() == number)?;
        Some((place as u32, entry))
    }

    /// The fetch with this number.
    #[inline(always)]
    pub(crate) fn find(&self, number: u64) -> Option<&Slot> {
        // SAFETY: a fetch removes its number before its slot is used again.
        unsafe { self.entry(number)?.1.slot.get().as_ref() }
    }

    /// Its reply has arrived, or is not needed any more.
    #[inline(always)]
    pub(crate) fn remove(&self, number: u64) {
        if let Some((place, entry)) = self.entry(number) {
            entry.slot.set(std::ptr::null());
            entry.number.set((number + PLACES) & Question::NUMBERS);
            entry.next_free.set(self.free.replace(place));
        }
    }
}

#[cold]
fn add_place(entries: &mut Vec<Entry>, slot: &Slot) -> Result<u64> {
    let place = entries.len() as u64;
    if place + 1 == PLACES {
        let text = format!(
            "worker: {place} fetches wait for replies, which is the limit; try again later"
        );
        return Err(Error::new(Status::NO_RESOURCE, text));
    }
    entries.push(Entry {
        slot: Cell::new(slot),
        number: Cell::new(place + 1),
        next_free: Cell::new(NONE),
    });
    Ok(place + 1)
}
