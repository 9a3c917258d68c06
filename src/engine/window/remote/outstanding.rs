//! What this process awaits from members: replies with data, and confirmations.
//!
//! Calls return when their messages are sent. The thread that receives a reply copies it from its
//! message to the caller's memory, piece by piece. A flush waits until as many replies have arrived
//! as were requested. If the call has a request, what is left of it is counted here, and its
//! completion goes to a list of the user's worker (see `window::pending_requests`).
//!
//! **Ownership.** Everything is behind one lock, which is held while replies are copied. So nothing
//! is written for an entry after it has been removed. An entry names the member that was asked, as
//! only its reply counts, and its `Tally`, which belongs to a window that removes its entries
//! before it is freed. A token is reused only after its place has been used 2^31 times, so a late
//! reply finds nothing.
//!
//! **Costs.** The lock for each request and each reply. No allocation once there are as many places
//! as are used at a time.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::Status;
use crate::engine::core::request::request::Ticket;
use crate::engine::window::remote::orders::{Order, Orders};
use crate::engine::wire::window::WindowHeader;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Bit of the tokens of this file. Other tokens belong to lock requests.
const OURS: u64 = 1 << 63;
/// Most places. The rest of a token distinguishes the uses of a place.
const PLACES: u64 = 1 << 32;
/// Longest list of pieces that is kept for the next use of a place.
const PIECES_KEPT: usize = 64;

/// Reports completed requests. Called under the lock.
pub(crate) type Tell<'a> = &'a dyn Fn(Ticket, Status);

/// A destination of a part of a reply.
pub(crate) type Run = (*mut u8, usize);

/// Counters of a window's requests to one member.
#[derive(Default)]
pub(crate) struct Tally {
    asked: AtomicU64,
    /// All requests up to this number have ended.
    answered: AtomicU64,
    /// Numbers of later ones that have ended: replies arrive in order, but a failed call withdraws
    /// its requests.
    early: Mutex<Vec<u64>>,
    /// Number of the last request for data.
    data: AtomicU64,
    /// Number of the last long operation: messages after it may be handled before it.
    long: AtomicU64,
    /// The first error, for the next flush. 0 for none.
    complaint: AtomicI32,
}

impl Tally {
    /// Number of requests so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Have the first `asked` requests ended? If so, their data is there, too.
    pub(crate) fn has_answers(&self, asked: u64) -> bool {
        self.answered.load(Ordering::Acquire) >= asked
    }

    /// Number of missing replies.
    pub(crate) fn missing(&self) -> u64 {
        self.asked().saturating_sub(self.answered.load(Ordering::Acquire))
    }

    /// Number of the last request for data.
    pub(crate) fn asked_for_data(&self) -> u64 {
        self.data.load(Ordering::Acquire)
    }

    /// Is a long operation in progress?
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

    /// Request `number` has ended. Returns the number up to which all have ended.
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

    /// Takes the error, so it is reported once.
    pub(crate) fn take_complaint(&self) -> Option<Status> {
        if self.complaint.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(Status(self.complaint.swap(0, Ordering::Relaxed))).filter(|status| status.is_error())
    }
}

/// A call of the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    number: u64,
    /// Its record, if it has a request.
    order: Option<Order>,
}

impl Call {
    /// No call.
    pub const NONE: Call = Call { number: 0, order: None };

    /// The same call, for something that its request does not wait for.
    pub(crate) fn without_request(self) -> Call {
        Call { order: None, ..self }
    }

    /// Do both belong to the same call?
    pub(crate) fn is_same(&self, other: Call) -> bool {
        self.number == other.number
    }

    /// Does it have a request?
    pub(crate) fn has_request(&self) -> bool {
        self.order.is_some()
    }
}

struct Entry {
    token: u64,
    /// Null while the place is free.
    tally: *const Tally,
    /// Number in the tally.
    number: u64,
    whom: Whom,
    call: Call,
    bytes: u64,
    /// Destination of the data; empty if it is no longer wanted.
    landing: Vec<Run>,
    /// It belongs to a long operation, whose data may be pulled.
    is_long: bool,
    /// UCX is writing to the destination: the entry cannot end before that has.
    is_pulled: bool,
    /// The status for the end, if it should have ended before that.
    told: Option<Status>,
}

/// The member that is asked, and the window.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Whom {
    /// Number of the window.
    pub(crate) window: u64,
    /// Job rank.
    pub(crate) member: u32,
}

/// Where UCX puts a reply.
pub(crate) struct Pull {
    pub(crate) place: *mut u8,
    pub(crate) bytes: usize,
}

impl Entry {
    /// Is it the first reply, from the member and for the window of this entry?
    fn is_answer(&self, header: &WindowHeader) -> bool {
        self.whom.member == header.from && self.whom.window == header.window && !self.is_pulled
    }
}

/// A flush whose reply has arrived before those of earlier requests.
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

// SAFETY: tallies are used under the table's lock, and their windows remove their entries before
// they are freed. The destinations are memory that callers keep until the entry has ended.
unsafe impl Send for Table {}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Awaited(Mutex<Table>);

impl Table {
    fn find(&mut self, token: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((token % PLACES) as usize)?;
        (entry.token == token && !entry.tally.is_null()).then_some(entry)
    }

    /// Ends an entry; `told` is the status for its call.
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
        // SAFETY: the tally belongs to a window, which removes its entries before it is freed.
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
    /// Is it a token of this file?
    pub(crate) fn knows(token: u64) -> bool {
        token & OURS != 0
    }

    /// Registers a request, and returns its token. `landing` lists where the `bytes` bytes of its
    /// reply go.
    ///
    /// # Safety
    /// The destinations are writable until the reply has arrived or the entry was removed. The
    /// tally lives as long.
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

    /// A reply has arrived.
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
                // SAFETY: the caller's memory, valid until the entry is removed, and the lock keeps
                // it.
                unsafe { place.copy_from_nonoverlapping(now.as_ptr(), now.len()) };
                rest = later;
            }
        }
        table.end((header.token % PLACES) as usize, told, tell);
    }

    /// A reply of `length` bytes waits at its sender. Returns where to put it, if it is wanted;
    /// then `pulled` ends the entry.
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
                // It is no longer wanted.
                [] if entry.bytes == length => {}
                // Not contiguous, or not a long operation.
                _ => told = Status::MESSAGE_TRUNCATED,
            }
        }
        table.end((header.token % PLACES) as usize, told, tell);
        None
    }

    /// Members from which something is being pulled, where `which` is true.
    pub(crate) fn pulls(&self, which: impl Fn(&Whom, Call) -> bool) -> Vec<u32> {
        let table = self.0.lock();
        let pulled =
            table.entries.iter().filter(|entry| entry.is_pulled && which(&entry.whom, entry.call));
        pulled.map(|entry| entry.whom.member).collect()
    }

    /// A pull has ended.
    pub(crate) fn pulled(&self, token: u64, status: Status, tell: Tell<'_>) {
        let mut table = self.0.lock();
        let Some(entry) = table.find(token).filter(|entry| entry.is_pulled) else { return };
        let told = entry.told.take().unwrap_or(status);
        table.end((token % PLACES) as usize, told, tell);
    }

    /// A call has failed: no more of its replies are written, except pulls in progress, which end
    /// by themselves.
    pub(crate) fn withdraw(&self, call: Call, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| entry.call.number == call.number, Status::OK, tell);
    }

    /// Ends everything that a window awaits from this member.
    pub(crate) fn discard(&self, tally: &Tally, told: Status, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| std::ptr::eq(entry.tally, tally), told, tell);
    }

    /// Ends everything that is awaited from this member.
    pub(crate) fn discard_all_of(&self, from: u32, told: Status, tell: Tell<'_>) {
        self.0.lock().end_all(|entry| entry.whom.member == from, told, tell);
    }

    /// Begins a call without a request.
    pub(crate) fn call(&self) -> Call {
        let mut table = self.0.lock();
        table.calls += 1;
        Call { number: table.calls, order: None }
    }

    /// Begins a call with a request; a flush has a tally.
    pub(crate) fn call_with_request(&self, tally: Option<&Tally>) -> Call {
        let mut table = self.0.lock();
        table.calls += 1;
        let order = table.orders.begin(tally);
        Call { number: table.calls, order: Some(order) }
    }

    /// One more thing has to end before the call's request completes.
    pub(crate) fn count_in(&self, call: Call) {
        if let Some(order) = call.order {
            self.0.lock().orders.count_in(order);
        }
    }

    /// One of these has ended.
    pub(crate) fn count_out(&self, call: Call, told: Status, tell: Tell<'_>) {
        if let Some(order) = call.order {
            self.0.lock().count_down(order, told, tell);
        }
    }

    /// Number of things that have to end before the request completes, the call itself not counted.
    pub(crate) fn left(&self, call: Call) -> u32 {
        call.order.map_or(0, |order| self.0.lock().orders.left(order).saturating_sub(1))
    }

    /// The call returns. Returns the status of its request if that is complete. Otherwise `ticket`
    /// is notified later.
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

    /// Cancels a request: nothing of it is written afterwards. Returns false if it is complete,
    /// which is reported, or if a part of it cannot be ended early.
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
        // The next flush reports what this one would have reported.
        let left = if is_flush { call.without_request() } else { Call::NONE };
        while let Some(place) = table.early.iter().position(|early| early.order == order) {
            let early = table.early.swap_remove(place);
            if early.told.is_error() {
                // SAFETY: the tally belongs to a window, which removes its entries before it is
                // freed.
                unsafe { &*early.tally }.complain(early.told);
            }
        }
        for entry in
            table.entries.iter_mut().filter(|entry| !entry.tally.is_null() && entry.call == call)
        {
            // The reply is still counted when it arrives.
            entry.landing.clear();
            entry.call = left;
        }
        true
    }
}

#[cfg(test)]
#[path = "outstanding_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "outstanding_model_tests.rs"]
mod model_tests;
