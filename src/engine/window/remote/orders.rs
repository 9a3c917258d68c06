//! Requests of windows: what has still to happen before each of them ends.
//!
//! A request has a place here from the beginning of its call until its end. `Order` names one use
//! of a place: `release`, which alone empties a place, puts its name out of date. So an end that
//! comes second finds nothing, whoever comes second: an answer, a cancel, a time-out, or a death.
//!
//! States: see `Stage`. `Calling` leads to `Given`, to `Lost`, or straight to the end.
//!
//! Who owns what. Everything is behind the lock of `window::remote::outstanding`.

use crate::engine::base::status::Status;
use crate::engine::core::request::request::Ticket;
use crate::engine::window::remote::outstanding::Tally;

/// One use of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    place: u32,
    /// Of 2^32, after which the name comes again.
    turn: u32,
}

/// Who is told of the end.
enum Stage {
    /// Nobody: the place is free.
    Free,
    /// The call, which has not returned. It is counted in `left`.
    Calling,
    /// Nobody: the call has failed.
    Lost,
    /// The request that the call has returned.
    Given(Ticket),
}

struct Place {
    turn: u32,
    stage: Stage,
    /// What has to end before it.
    left: u32,
    status: Status,
    /// Of a flush: what was wrong before is told by it.
    tally: *const Tally,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Orders {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Orders {
    /// A call begins. With a tally it is a flush.
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

    /// The one way out: what it came to, and who is to be told.
    fn release(&mut self, order: Order) -> Option<(Stage, Status)> {
        let entry = self.find(order)?;
        entry.turn = entry.turn.wrapping_add(1);
        let (stage, status) = (std::mem::replace(&mut entry.stage, Stage::Free), entry.status);
        self.free.push(order.place);
        Some((stage, status))
    }

    /// Something has to end before it.
    pub(crate) fn count_in(&mut self, order: Order) {
        if let Some(entry) = self.find(order) {
            entry.left += 1;
        }
    }

    /// That has ended: the request that has ended with it, if any.
    pub(crate) fn count_out(&mut self, order: Order, told: Status) -> Option<(Ticket, Status)> {
        let entry = self.find(order)?;
        entry.left -= 1;
        if entry.status == Status::OK {
            // Who has left the window does no more for it than the dead.
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

    /// What has to end before it, the call included.
    pub(crate) fn left(&mut self, order: Order) -> u32 {
        self.find(order).map_or(0, |entry| entry.left)
    }

    /// The call returns: what it has come to, if nothing else is left. Otherwise the end is told by
    /// this ticket; without one nothing has changed.
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

    /// The call fails, and nobody is told of what is left.
    pub(crate) fn lose(&mut self, order: Order) {
        if let Some(entry) = self.find(order) {
            entry.stage = Stage::Lost;
            self.count_out(order, Status::OK);
        }
    }

    /// Ends it before its time, if its end is told by this ticket and this much is left: true, and
    /// whether it was a flush.
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
        // SAFETY: of a window that takes its entries out before it goes, and with that its flushes.
        if let (Some(tally), Status::OK) = (unsafe { self.tally.as_ref() }, self.status) {
            self.status = tally.take_complaint().unwrap_or(Status::OK);
        }
    }
}
