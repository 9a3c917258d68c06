//! Which fetch an answer belongs to: by a number that goes out with the question and comes back.
//!
//! A number is never given to two fetches at a time, and to another one after 2^28 uses of its
//! place at the earliest, so an answer that comes late finds nothing.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::request::Slot;
use crate::engine::wire::header::Question;
use std::cell::{Cell, UnsafeCell};

/// How many can be under way on a worker: the rest of a number tells the uses of one place apart.
const PLACES: u64 = 1 << 20;

struct Entry {
    /// Null while the place is free.
    slot: Cell<*const Slot>,
    number: Cell<u64>,
    next_free: Cell<u32>,
}

/// The fetches of a worker that wait for their answers. Its functions call nobody, so that nothing
/// comes in between while they look at the entries.
pub(crate) struct Fetches {
    entries: UnsafeCell<Vec<Entry>>,
    free: Cell<u32>,
}

const NONE: u32 = u32::MAX;

impl Fetches {
    pub(crate) fn new() -> Self {
        Fetches { entries: UnsafeCell::default(), free: Cell::new(NONE) }
    }

    /// Not to be kept.
    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        // SAFETY: see the type: `add_place` alone changes the list itself, and nobody has kept this
        // until then.
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
        // SAFETY: see the type.
        add_place(unsafe { &mut *self.entries.get() }, slot)
    }

    #[inline(always)]
    fn entry(&self, number: u64) -> Option<(u32, &Entry)> {
        let place = (number % PLACES).checked_sub(1)?;
        let entry =
            self.entries().get(place as usize).filter(|entry| entry.number.get() == number)?;
        Some((place as u32, entry))
    }

    /// The fetch that has this number.
    #[inline(always)]
    pub(crate) fn find(&self, number: u64) -> Option<&Slot> {
        // SAFETY: a fetch takes its number back before its slot is used again.
        unsafe { self.entry(number)?.1.slot.get().as_ref() }
    }

    /// Its answer has come, or is of no interest any more.
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
        let text = format!("endpoint: {place} fetches of its worker wait for answers");
        return Err(Error::new(Status::NO_RESOURCE, text));
    }
    entries.push(Entry {
        slot: Cell::new(slot),
        number: Cell::new(place + 1),
        next_free: Cell::new(NONE),
    });
    Ok(place + 1)
}
