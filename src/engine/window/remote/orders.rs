//! Requests of windows: what still has to end before each of them completes.
//!
//! A request has a place here from the beginning of its call until it completes. `Order` names one
//! use of a place. Only `release` empties a place, and it makes the name invalid. So a second end
//! of the same request finds nothing, whatever comes second: a reply, a cancel, a timeout, or a
//! death.
//!
//! For the states see `Stage`: `Calling` leads to `Given`, to `Lost`, or directly to the end.
//!
//! The lock of `window::remote::outstanding` guards everything here.

use crate::engine::base::status::Status;
use crate::engine::core::request::request::Ticket;
use crate::engine::window::remote::outstanding::Tally;

/// One use of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    place: u32,
    /// Wraps around after 2^32 uses.
    turn: u32,
}

/// Who is notified of the completion.
enum Stage {
    /// The place is free.
    Free,
    /// The call, which has not returned yet. It is counted in `left`.
    Calling,
    /// Nobody: the call has failed.
    Lost,
    /// The request that the call has returned.
    Given(Ticket),
}

struct Place {
    turn: u32,
    stage: Stage,
    /// Number of things that have to end before it.
    left: u32,
    status: Status,
    /// For a flush: it reports errors of earlier operations.
    tally: *const Tally,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Orders {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Orders {
    /// Begins a call; a flush has a tally.
    pub(crate) fn begin(&mut self, tally: Option<&Tally>) -> Order {
        let place = self.free.pop().unwrap_or_else(|| {
            let (stage, status) = (Stage::Free, Status::OK);
            self.places.push(Place { turn: 0, stage, left: 0, status, tally: std::ptr::null() });
            self.places.len() as u32 - 1
        });
        let entry = &mut self.places[place as usize];
        (entry.stage, entry.left, entry.status) = (Stage::Calling, 1, Status::OK);
        entry.tally = tally.map_or(std::ptr::null(), std::ptr::from_ref);
        Order { place, turn: entry.turn }
    }

    fn find(&mut self, order: Order) -> Option<&mut Place> {
        self.places.get_mut(order.place as usize).filter(|entry| entry.turn == order.turn)
    }

    /// Empties the place; the only way out. Returns the status, and who is notified.
    fn release(&mut self, order: Order) -> Option<(Stage, Status)> {
        let entry = self.find(order)?;
        entry.turn = entry.turn.wrapping_add(1);
        let (stage, status) = (std::mem::replace(&mut entry.stage, Stage::Free), entry.status);
        self.free.push(order.place);
        Some((stage, status))
    }

    /// One more thing has to end before it.
    pub(crate) fn count_in(&mut self, order: Order) {
        if let Some(entry) = self.find(order) {
            entry.left += 1;
        }
    }

    /// One thing has ended. Returns the request if that completes it.
    pub(crate) fn count_out(&mut self, order: Order, told: Status) -> Option<(Ticket, Status)> {
        let entry = self.find(order)?;
        entry.left -= 1;
        if entry.status == Status::OK {
            // A member that has left the window counts like a dead one.
            entry.status = if told == Status::CLOSED { Status::PEER_FAILED } else { told };
        }
        if entry.left > 0 {
            return None;
        }
        entry.take_complaint();
        let (stage, status) = self.release(order)?;
        match stage {
            Stage::Given(ticket) => Some((ticket, status)),
            Stage::Free | Stage::Calling | Stage::Lost => None,
        }
    }

    /// Number of things that have to end before it, the call included.
    pub(crate) fn left(&mut self, order: Order) -> u32 {
        self.find(order).map_or(0, |entry| entry.left)
    }

    /// The call returns. Returns its status if nothing else is left. Otherwise `ticket` will be
    /// notified; without a ticket nothing changes.
    pub(crate) fn return_with(&mut self, order: Order, ticket: Option<Ticket>) -> Option<Status> {
        let entry = self.find(order)?;
        if entry.left > 1 {
            if let Some(ticket) = ticket {
                entry.left -= 1;
                entry.stage = Stage::Given(ticket);
            }
            return None;
        }
        entry.take_complaint();
        self.release(order).map(|(_, status)| status)
    }

    /// The call fails; nobody is notified of the rest.
    pub(crate) fn lose(&mut self, order: Order) {
        if let Some(entry) = self.find(order) {
            entry.stage = Stage::Lost;
            self.count_out(order, Status::OK);
        }
    }

    /// Cancels it, if this ticket is to be notified and exactly `left` things are left. Returns
    /// whether it was a flush; `None` if it was not cancelled.
    pub(crate) fn cancel(&mut self, order: Order, ticket: Ticket, left: u32) -> Option<bool> {
        let entry = self.find(order)?;
        let is_its = matches!(entry.stage, Stage::Given(its) if its == ticket);
        let is_flush = !entry.tally.is_null();
        if !is_its || entry.left != left {
            return None;
        }
        self.release(order).map(|_| is_flush)
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Place {
    fn take_complaint(&mut self) {
        // SAFETY: the tally belongs to a window, which ends its flushes and removes its entries
        // before it is freed.
        if let (Some(tally), Status::OK) = (unsafe { self.tally.as_ref() }, self.status) {
            self.status = tally.take_complaint().unwrap_or(Status::OK);
        }
    }
}
