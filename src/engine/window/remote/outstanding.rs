//! What this process has asked of members and waits for: data that is to come, and word that all
//! before is done.
//!
//! Calls return when what they ask for is on its way. An answer goes from the message that it came
//! in into the caller's memory, piece by piece, on the thread that takes it in; whoever flushes
//! waits until as many answers have come as were asked for. Where there is a request, what is left
//! of it is counted here, and its end goes onto a list of the user's worker (see
//! `window::lock_request`).
//!
//! Who owns what. Everything is behind one lock, which answers are written under: what was taken
//! out of here is written to no more. An entry names the member that is asked, as nobody else
//! answers, and its `Tally`, which belongs to a window that takes its entries out before it goes. A
//! token is not used again before its place has been used 2^31 times, so that an answer which comes
//! late finds nothing.
//!
//! Cost: the lock when something is asked for, and when it is answered; no allocation once there
//! are as many places as are used at a time.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::Status;
use crate::engine::core::request::request::Ticket;
use crate::engine::window::remote::orders::{Order, Orders};
use crate::engine::wire::window::WindowHeader;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Of the tokens given here. Others are of questions about locks.
const OURS: u64 = 1 << 63;
/// As many can be awaited at a time; the rest of a token tells the uses of one place apart.
const PLACES: u64 = 1 << 32;
/// Pieces whose list is kept for the next use of a place.
const PIECES_KEPT: usize = 64;

/// Is told of the end of requests. Under the lock.
pub(crate) type Tell<'a> = &'a dyn Fn(Ticket, Status);

/// Where some of an answer goes.
pub(crate) type Run = (*mut u8, usize);

/// What was asked of a member for a window, and what has come of it.
#[derive(Default)]
pub(crate) struct Tally {
    asked: AtomicU64,
    /// All up to this one have ended.
    answered: AtomicU64,
    /// Others that have: answers come in order, but a call that fails takes back what it has asked
    /// for.
    early: Mutex<Vec<u64>>,
    /// The last one that brings data.
    data: AtomicU64,
    /// The last one about something long: what is sent behind it may be done before it.
    long: AtomicU64,
    /// The first status that is wrong, for the next flush. 0 for none.
    complaint: AtomicI32,
}

impl Tally {
    /// To be compared with what is answered later.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Has everything ended that was asked by then? The answers are there, too.
    pub(crate) fn has_answers(&self, asked: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= asked
    }

    /// How many answers are missing.
    pub(crate) fn missing(&self) -> u64 {
        self.asked().saturating_sub(self.answered.load(Ordering::Acquire))
    }

    /// The last question so far whose answer brings data, as `asked` counts.
    pub(crate) fn asked_for_data(&self) -> u64 {
        self.data.load(Ordering::Acquire)
    }

    /// Is something long under way?
    pub(crate) fn owes_long(&self) -> bool {
        self.answered.load(Ordering::Acquire) < self.long.load(Ordering::Acquire)
    }

    fn ask(&self, bytes: u64, is_long: bool) -> u64 {
        let number = 1 + self.asked.fetch_add(1, Ordering::AcqRel);
        if bytes > 0 {
            self.data.store(number, Ordering::Release);
        }
        if is_long {
            self.long.store(number, Ordering::Release);
        }
        number
    }

    /// This one has. All up to which that is so of, then.
    fn end(&self, number: u64) -> u64 {
        let mut early = self.early.lock();
        let mut answered = self.answered.load(Ordering::Relaxed);
        if number != answered + 1 {
            early.push(number);
            return answered;
        }
        answered = number;
        while let Some(next) = early.iter().position(|number| *number == answered + 1) {
            early.swap_remove(next);
            answered += 1;
        }
        self.answered.store(answered, Ordering::Release);
        answered
    }

    pub(crate) fn complain(&self, status: Status) {
        let _ = self.complaint.compare_exchange(0, status.0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What was wrong, once.
    pub(crate) fn take_complaint(&self) -> Option<Status> {
        if self.complaint.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(Status(self.complaint.swap(0, Ordering::Relaxed))).filter(|status| status.is_error())
    }
}

/// A call of the user's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    number: u64,
    /// What is counted of it, if it has a request.
    order: Option<Order>,
}

impl Call {
    /// Nothing is asked for in its name.
    pub const NONE: Call = Call { number: 0, order: None };

    /// The same, of which the request does not wait for this.
    pub(crate) fn without_request(self) -> Call {
        Call { order: None, ..self }
    }

    /// Are both of one call of the user's?
    pub(crate) fn is_same(&self, other: Call) -> bool {
        self.number == other.number
    }

    /// It has a request.
    pub(crate) fn has_request(&self) -> bool {
        self.order.is_some()
    }
}

struct Entry {
    token: u64,
    /// Null while the place is free.
    tally: *const Tally,
    /// As the tally counts.
    number: u64,
    whom: Whom,
    call: Call,
    bytes: u64,
    /// Where these go; empty where nobody wants them any more.
    landing: Vec<Run>,
    /// It is about something long, whose data may be pulled.
    is_long: bool,
    /// UCX writes there: it does not end before that has.
    is_pulled: bool,
    /// With this, then, where it would have ended before.
    told: Option<Status>,
}

/// Who is asked, and about what.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Whom {
    /// The window's number.
    pub(crate) window: u64,
    /// A job rank.
    pub(crate) member: u32,
}

/// Where UCX is to put an answer.
pub(crate) struct Pull {
    pub(crate) place: *mut u8,
    pub(crate) bytes: usize,
}

impl Entry {
    /// Does this come from who was asked, about that, and for the first time?
    fn is_answer(&self, header: &WindowHeader) -> bool {
        self.whom.member == header.from && self.whom.window == header.window && !self.is_pulled
    }
}

/// A flush that was answered before something that was asked for earlier.
struct Early {
    tally: *const Tally,
    number: u64,
    order: Order,
    told: Status,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    early: Vec<Early>,
    free: Vec<u32>,
    orders: Orders,
    calls: u64,
}

// SAFETY: the pointers in it are used under the lock that it is behind, as is said above; the
// pieces are memory that its caller has lent until the answer is there, or taken out.
unsafe impl Send for Table {}

/// See the module.
#[derive(Default)]
pub(crate) struct Awaited(Mutex<Table>);

impl Table {
    fn find(&mut self, token: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((token % PLACES) as usize)?;
        (entry.token == token && !entry.tally.is_null()).then_some(entry)
    }

    /// An entry has ended. `told` is what its call gets to know.
    fn end(&mut self, place: usize, told: Status, tell: Tell<'_>) {
        let entry = &mut self.entries[place];
        let tally = std::mem::replace(&mut entry.tally, std::ptr::null());
        if tally.is_null() {
            return;
        }
        let (call, number, asked_all) = (entry.call, entry.number, entry.bytes == 0);
        entry.token = OURS | (entry.token & !OURS).wrapping_add(PLACES) & !OURS;
        entry.landing.clear();
        entry.landing.shrink_to(PIECES_KEPT);
        entry.is_pulled = false;
        self.free.push(place as u32);
        // SAFETY: of a window that takes its entries out before it goes.
        let known = unsafe { &*tally };
        if call.order.is_none() && told.is_error() && call != Call::NONE {
            known.complain(told);
        }
        let answered = known.end(number);
        match call.order {
            Some(order) if asked_all && answered < number => {
                self.early.push(Early { tally, number, order, told })
            }
            Some(order) => self.count_down(order, told, tell),
            None => {}
        }
        while let Some(due) =
            self.early.iter().position(|early| early.tally == tally && early.number <= answered)
        {
            let Early { order, told, .. } = self.early.swap_remove(due);
            self.count_down(order, told, tell);
        }
    }

    fn count_down(&mut self, order: Order, told: Status, tell: Tell<'_>) {
        if let Some((ticket, status)) = self.orders.count_out(order, told) {
            tell(ticket, status);
        }
    }

    fn end_all(&mut self, which: impl Fn(&Entry) -> bool, told: Status, tell: Tell<'_>) {
        for place in 0..self.entries.len() {
            let entry = &mut self.entries[place];
            if entry.tally.is_null() || !which(entry) {
                continue;
            }
            if entry.is_pulled {
                entry.told.get_or_insert(told);
            } else {
                self.end(place, told, tell);
            }
        }
    }
}

impl Awaited {
    /// Is it one of those given here?
    pub(crate) fn knows(token: u64) -> bool {
        token & OURS != 0
    }

    /// Something is asked for: the token for the question. `landing` lists where so many bytes go.
    ///
    /// # Safety
    /// They are writable until the answer has come, or was taken out; the tally is there as long.
    pub(crate) unsafe fn add(
        &self,
        tally: &Tally,
        whom: Whom,
        call: Call,
        (bytes, is_long): (u64, bool),
        landing: impl FnOnce(&mut Vec<Run>),
    ) -> u64 {
        let mut table = self.0.lock();
        let place = match table.free.pop() {
            Some(place) => place as usize,
            None => {
                let place = table.entries.len();
                let (token, tally, landing) = (OURS | place as u64, std::ptr::null(), Vec::new());
                let (number, is_pulled, told) = (0, false, None);
                let entry = Entry {
                    token,
                    tally,
                    number,
                    whom,
                    call,
                    bytes,
                    landing,
                    is_long,
                    is_pulled,
                    told,
                };
                table.entries.push(entry);
                place
            }
        };
        if let Some(order) = call.order {
            table.orders.count_in(order);
        }
        let entry = &mut table.entries[place];
        (entry.tally, entry.whom, entry.call, entry.bytes, entry.is_long) =
            (tally, whom, call, bytes, is_long);
        entry.number = tally.ask(bytes, is_long);
        landing(&mut entry.landing);
        entry.token
    }

    /// An answer has come.
    pub(crate) fn answered(&self, header: &WindowHeader, data: &[u8], tell: Tell<'_>) {
        let mut table = self.0.lock();
        let Some(entry) = table.find(header.token).filter(|entry| entry.is_answer(header)) else {
            return;
        };
        let mut told = Status(header.status);
        if !told.is_error() && data.len() as u64 != entry.bytes {
            told = Status::MESSAGE_TRUNCATED;
        }
        if !told.is_error() {
            let mut rest = data;
            for (place, length) in &entry.landing {
                let (now, later) = rest.split_at(*length);
                // SAFETY: the caller's memory, which it has lent until this is taken out.
                unsafe { place.copy_from_nonoverlapping(now.as_ptr(), now.len()) };
                rest = later;
            }
        }
        table.end((header.token % PLACES) as usize, told, tell);
    }

    /// An answer of so many bytes waits at its sender: where to put it, if somebody wants it. Then
    /// `pulled` is its end.
    pub(crate) fn begin_pull(
        &self,
        header: &WindowHeader,
        length: u64,
        tell: Tell<'_>,
    ) -> Option<Pull> {
        let mut table = self.0.lock();
        let entry = table.find(header.token).filter(|entry| entry.is_answer(header))?;
        let mut told = Status(header.status);
        if !told.is_error() {
            match entry.landing[..] {
                [(place, bytes)] if entry.is_long && bytes as u64 == length => {
                    entry.is_pulled = true;
                    return Some(Pull { place, bytes });
                }
                // Nobody wants it any more.
                [] if entry.bytes == length => {}
                // It is in one piece, or was not asked for like this.
                _ => told = Status::MESSAGE_TRUNCATED,
            }
        }
        table.end((header.token % PLACES) as usize, told, tell);
        None
    }

    /// Of whom something is pulled that this is so of.
    pub(crate) fn pulls(&self, which: impl Fn(&Whom, Call) -> bool) -> Vec<u32> {
        let table = self.0.lock();
        let pulled =
            table.entries.iter().filter(|entry| entry.is_pulled && which(&entry.whom, entry.call));
        pulled.map(|entry| entry.whom.member).collect()
    }

    /// It is there, or will not come.
    pub(crate) fn pulled(&self, token: u64, status: Status, tell: Tell<'_>) {
        let mut table = self.0.lock();
        let Some(entry) = table.find(token).filter(|entry| entry.is_pulled) else { return };
        let told = entry.told.take().unwrap_or(status);
        table.end((token % PLACES) as usize, told, tell);
    }

    /// A call has failed: nothing is written that it has asked for, but for what is being pulled,
    /// which ends by itself.
    pub(crate) fn withdraw(&self, call: Call, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| entry.call.number == call.number, Status::OK, tell);
    }

    /// Nothing of this member's is to be expected for a window any more.
    pub(crate) fn discard(&self, tally: &Tally, told: Status, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| std::ptr::eq(entry.tally, tally), told, tell);
    }

    /// Nor for any.
    pub(crate) fn discard_all_of(&self, from: u32, told: Status, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| entry.whom.member == from, told, tell);
    }

    /// A call without a request.
    pub(crate) fn call(&self) -> Call {
        let mut table = self.0.lock();
        table.calls += 1;
        Call { number: table.calls, order: None }
    }

    /// One that has a request. With a tally it is a flush.
    pub(crate) fn call_with_request(&self, tally: Option<&Tally>) -> Call {
        let mut table = self.0.lock();
        table.calls += 1;
        let order = table.orders.begin(tally);
        Call { number: table.calls, order: Some(order) }
    }

    /// Something else belongs to it that has to end before it does.
    pub(crate) fn count_in(&self, call: Call) {
        if let Some(order) = call.order {
            self.0.lock().orders.count_in(order);
        }
    }

    /// That has ended.
    pub(crate) fn count_out(&self, call: Call, told: Status, tell: Tell<'_>) {
        if let Some(order) = call.order {
            self.0.lock().count_down(order, told, tell);
        }
    }

    /// What has to end before it does, beside the call itself.
    pub(crate) fn left(&self, call: Call) -> u32 {
        call.order.map_or(0, |order| self.0.lock().orders.left(order).saturating_sub(1))
    }

    /// The call is over: what has come of its request, if that has ended. Else this ticket's end is
    /// told later.
    pub(crate) fn is_over(&self, call: Call, ticket: Option<Ticket>) -> Option<Status> {
        let Some(order) = call.order else { return Some(Status::OK) };
        self.0.lock().orders.return_with(order, ticket)
    }

    /// The call has failed, and has no request.
    pub(crate) fn is_lost(&self, call: Call) {
        if let Some(order) = call.order {
            self.0.lock().orders.lose(order);
        }
    }

    /// The request is not waited for any more, and nothing is written that it has asked for. False
    /// where it has ended, which is told, or where there is something of it that does not end
    /// before its time.
    pub(crate) fn cancel(&self, call: Call, ticket: Ticket) -> bool {
        let Some(order) = call.order else { return false };
        let mut table = self.0.lock();
        let of_it =
            table.entries.iter().filter(|entry| !entry.tally.is_null() && entry.call == call);
        let (asked, is_pulled) =
            of_it.fold((0, false), |(sum, any), entry| (sum + 1, any || entry.is_pulled));
        let early = table.early.iter().filter(|early| early.order == order).count() as u32;
        if is_pulled {
            return false;
        }
        let Some(is_flush) = table.orders.cancel(order, ticket, asked + early) else {
            return false;
        };
        // What a flush would have told the next one tells.
        let left = if is_flush { call.without_request() } else { Call::NONE };
        while let Some(place) = table.early.iter().position(|early| early.order == order) {
            let early = table.early.swap_remove(place);
            if early.told.is_error() {
                // SAFETY: of a window that takes its entries out before it goes.
                unsafe { &*early.tally }.complain(early.told);
            }
        }
        for entry in
            table.entries.iter_mut().filter(|entry| !entry.tally.is_null() && entry.call == call)
        {
            // Its answer is counted all the same.
            entry.landing.clear();
            entry.call = left;
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
#[path = "outstanding_tests.rs"]
mod tests;

#[cfg(all(test, not(loom)))]
#[path = "outstanding_model_tests.rs"]
mod model_tests;
