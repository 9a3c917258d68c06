//! Which fetch an answer belongs to: by a number that goes out with the question and comes back.
//!
//! A number is never given to two fetches at a time, and to another one after 2^28 uses of its place at the earliest, so an answer
//! that comes late finds nothing.

use super::request::Slot;
use super::status::{Error, Result, Status};
use super::wire::Question;
use std::cell::{Cell, RefCell};

/// How many can be under way on a worker: the rest of a number tells the uses of one place apart.
const PLACES: u64 = 1 << 20;

struct Entry {
    /// Null while the place is free.
    slot: *const Slot,
    number: u64,
    next_free: u32,
}

/// The fetches of a worker that wait for their answers. Belongs to whoever is inside its gate.
pub(crate) struct Fetches {
    entries: RefCell<Vec<Entry>>,
    free: Cell<u32>,
}

const NONE: u32 = u32::MAX;

impl Fetches {
    pub(crate) fn new() -> Self {
        Fetches { entries: RefCell::default(), free: Cell::new(NONE) }
    }

    /// A number for this fetch.
    #[inline(always)]
    pub(crate) fn add(&self, slot: &Slot) -> Result<u64> {
        let mut entries = self.entries.borrow_mut();
        let place = self.free.get();
        if let Some(entry) = entries.get_mut(place as usize) {
            self.free.set(entry.next_free);
            entry.slot = slot;
            return Ok(entry.number);
        }
        add_place(&mut entries, slot)
    }

    /// The fetch that has this number.
    #[inline(always)]
    pub(crate) fn find(&self, number: u64) -> Option<&Slot> {
        let place = (number % PLACES).checked_sub(1)?;
        let entries = self.entries.borrow();
        let entry = entries.get(place as usize).filter(|entry| entry.number == number)?;
        // SAFETY: a fetch takes its number back before its slot is used again.
        unsafe { entry.slot.as_ref() }
    }

    /// Its answer has come, or is of no interest any more.
    #[inline(always)]
    pub(crate) fn remove(&self, number: u64) {
        let Some(place) = (number % PLACES).checked_sub(1) else { return };
        if let Some(entry) = self.entries.borrow_mut().get_mut(place as usize).filter(|entry| entry.number == number) {
            entry.slot = std::ptr::null();
            entry.number = (number + PLACES) & Question::NUMBERS;
            entry.next_free = self.free.replace(place as u32);
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
    entries.push(Entry { slot, number: place + 1, next_free: NONE });
    Ok(place + 1)
}
