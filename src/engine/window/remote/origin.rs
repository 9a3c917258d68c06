//! The origin's side of operations and flushes at members that are reached by messages.
//!
//! An operation is sent to its target as one or several messages. The service of the target's group
//! executes it, whatever the target's own threads do (see `window::remote::target`). Messages to
//! one member are executed in sending order. So accumulates keep their order, and one flush message
//! after them confirms that all are done.
//!
//! Long operations are sent in parts, which are in flight together, up to a limit. Puts and
//! accumulates wait until UCX has released the caller's memory, unless they have a request; the
//! next flush reports their errors. Operations that fetch return when their messages are sent.
//! Replies are written to the caller's memory as they arrive (see `window::remote::outstanding`),
//! and a flush waits for them.
//!
//! **Ownership.** For each target, `sent` counts puts and accumulates that were sent, and `flushed`
//! how many of them a flush message has followed. A flush covers all threads. Each message with a
//! reply is counted in the target's `Tally`. Replies arrive in the order of their messages, so a
//! flush waits for as many as there were.
//!
//! **Costs.** A put or accumulate is one message. A flush is a round trip; without a message if
//! there were only operations that fetch, or a single one of any kind: an operation that finds
//! nothing in progress requests its own reply. Operations with a request allocate a record for each
//! message with data. Otherwise nothing is allocated once the lists of a message have been as long
//! before.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::group::service::Service;
use crate::engine::window::control_words::Ended;
use crate::engine::window::data::data::{edges_of, Side};
use crate::engine::window::data::datatype_layout::{together, Layout, Together};
use crate::engine::window::describe::Awaited;
use crate::engine::window::remote::outstanding::{Call, Run, Tally, Whom};
use crate::engine::window::remote::shipment::{part, part_at, Extent, Shipment};
use crate::engine::window::window::{Flavor, Window};
use crate::engine::wire::window::{encode_piece, What, WindowHeader};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// Most bytes of a message, and most pieces.
pub(crate) const AT_ONCE: u64 = 32 << 10;
const PIECES_AT_ONCE: usize = 1024;
/// Most replies that a target owes at a time.
const MOST_ASKED: u64 = 64;
/// Most messages whose memory UCX still uses.
const MOST_SENDING: usize = 16;
/// Pause before the next attempt when very many requests wait to be sent.
const CROWDED_NS: u64 = 200_000;

/// An operation, as its messages describe it.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) header: WindowHeader,
    /// Must not be split.
    pub(crate) whole: bool,
    /// The user's call that it belongs to.
    pub(crate) call: Call,
}

/// Takes the next `bytes` bytes of the caller's memory, as pieces in order.
fn take_places(from: &mut (*mut u8, Together<'_, 1>), mut bytes: u64, runs: &mut Vec<Run>) {
    while bytes > 0 {
        let Some(([at], now)) = from.1.next_up_to(bytes) else { break };
        let (place, length) = (from.0.wrapping_offset(at as isize), now as usize);
        bytes -= now;
        match runs.last_mut() {
            Some((last, before)) if last.wrapping_add(*before) == place => *before += length,
            _ => runs.push((place, length)),
        }
    }
}

impl Window {
    /// Reports completed requests to the user's worker.
    pub(crate) fn tell_of_ends(
        &self,
    ) -> impl Fn(crate::engine::core::request::request::Ticket, Status) + '_ {
        |ticket, status| self.group.service.tell_user(ticket, status)
    }

    fn dispatch(
        &self,
        rank: u32,
        header: &WindowHeader,
        shipment: &mut Shipment<'_>,
        call: Call,
    ) -> Result<()> {
        let service = &*self.group.service;
        let (job_rank, header) = (self.remote(rank).job_rank, header.encode());
        if call.has_request() && !shipment.lists.parts.is_empty() {
            return self.dispatch_and_go(rank, &header, shipment, call);
        }
        let mut slot = std::ptr::null_mut();
        // SAFETY: `slot` outlives the call.
        let out = unsafe { Out::new(&raw mut slot) };
        let params = OpParams { flags: flag::OWED | shipment.form, ..service.params() };
        let sent = service.send_with(job_rank, &header, &shipment.lists.parts, &params, out);
        sent.map_err(|error| self.unreachable(rank, error))?;
        if !slot.is_null() {
            shipment.lists.slots.push(slot);
        }
        if shipment.lists.slots.len() >= MOST_SENDING || !shipment.lists.front.is_empty() {
            shipment.settle();
        }
        Ok(())
    }

    /// For a call with a request, which completes when UCX has released all memory.
    fn dispatch_and_go(
        &self,
        rank: u32,
        header: &[u8],
        shipment: &mut Shipment<'_>,
        call: Call,
    ) -> Result<()> {
        let service = &*self.group.service;
        let tell = self.tell_of_ends();
        let most = MOST_ASKED as u32 + MOST_SENDING as u32;
        if service.windows().awaited.left(call) >= most {
            service.await_news(&|| service.windows().awaited.left(call) < most, u64::MAX)?;
        }
        // The record owns this copy, so it lives until the message has been sent.
        let front = std::mem::take(&mut shipment.lists.front);
        let gone = Box::into_raw(Box::new(Gone { service, call, _front: front }));
        service.windows().awaited.count_in(call);
        let params = OpParams {
            callback: Some(on_gone),
            callback_arg: gone.cast(),
            flags: shipment.form,
            ..OpParams::DEFAULT
        };
        let job_rank = self.remote(rank).job_rank;
        let send =
            || service.send_with(job_rank, header, &shipment.lists.parts, &params, Out::NOWHERE);
        let mut sent = send();
        // Other messages may leave the queue, which is not reported: so try again after a pause.
        while sent.as_ref().is_err_and(|error| error.status() == Status::NO_RESOURCE) {
            if service.await_news(&|| false, clock::deadline_after(CROWDED_NS)).is_err() {
                break;
            }
            sent = send();
        }
        if !matches!(sent, Ok(Submitted::Pending)) {
            // SAFETY: boxed above. The send has ended, so its callback does not run.
            drop(unsafe { Box::from_raw(gone) });
            service.windows().awaited.count_out(call, Status::OK, &tell);
        }
        sent.map(drop).map_err(|error| self.unreachable(rank, error))
    }

    pub(crate) fn unreachable(&self, rank: u32, error: Error) -> Error {
        match self.what_left(rank) {
            Some(ended) => self.failed(ended),
            None if error.status().or_peer_failed() == Status::PEER_FAILED => {
                self.failed(Ended { status: Status::PEER_FAILED, blamed: rank })
            }
            None => error,
        }
    }

    /// Sends an operation in as many messages as it needs. With an origin they carry data. Fetched
    /// data is written to the result, also after this has returned.
    ///
    /// # Safety
    /// The origin is readable as its layout says. The result is writable until the next flush, or
    /// until the request completes.
    pub(crate) unsafe fn operate(
        &self,
        rank: u32,
        ask: &Ask,
        origin: Option<&Side<'_>>,
        result: Option<&Side<'_>>,
        to: &Layout<'_>,
    ) -> Result<()> {
        let awaited = &self.group.service.windows().awaited;
        let call = if ask.call == Call::NONE { awaited.call() } else { ask.call };
        let ask = Ask { call, ..*ask };
        // SAFETY: origin and result are valid by this function's contract.
        let done = unsafe { self.operate_as(rank, &ask, origin, result, to) };
        if done.is_err() {
            awaited.withdraw(call, &self.tell_of_ends());
            // Until then UCX still uses the caller's memory.
            let _ = self.group.service.await_news(&|| awaited.left(call) == 0, u64::MAX);
            self.await_pulls_for(call);
        }
        done
    }

    /// # Safety
    /// As for `operate`.
    unsafe fn operate_as(
        &self,
        rank: u32,
        ask: &Ask,
        origin: Option<&Side<'_>>,
        result: Option<&Side<'_>>,
        to: &Layout<'_>,
    ) -> Result<()> {
        let remote = self.remote(rank);
        // Declared before `shipment`: its messages may read it until `shipment` is dropped.
        let extent = self.extent_to_tell(ask, to)?;
        let mut shipment = Shipment::new(&self.group.service);
        let whole =
            origin.or(result).filter(|side| side.layout.is_contiguous() && to.is_contiguous());
        if let Some(side) = whole.filter(|_| self.goes_long(rank, ask.header.what, to.bytes())) {
            // SAFETY: origin and result are valid by this function's contract.
            return unsafe { self.operate_long(rank, ask, side, shipment) };
        }
        let here = origin.map_or(to, |side| &side.layout);
        let mut rest = together([here, to])?;
        let mut places = match result {
            Some(result) => Some((result.place, together([&result.layout])?)),
            None => None,
        };
        let (mut offset, mut left) = (0, to.bytes());
        let header = WindowHeader { has_extent: extent.is_some(), ..ask.header };
        let (at_once, most) =
            if ask.whole { (u64::MAX, usize::MAX) } else { (AT_ONCE, PIECES_AT_ONCE) };
        while left > 0 {
            // SAFETY: the origin is readable by this function's contract.
            let bytes = unsafe {
                shipment.lists.fill((header.at, extent.as_ref()), origin, &mut rest, at_once, most)
            };
            let table = &shipment.lists.table;
            let pieces = if table.len() > 1 { table.len() as u32 } else { 0 };
            let mut header = WindowHeader { bytes, offset, at: table[0].0, pieces, ..header };
            if let Some(places) = &mut places {
                // SAFETY: the result is writable by this function's contract.
                header.token = unsafe {
                    self.expect(rank, ask.call, (bytes, false), |runs| {
                        take_places(places, bytes, runs)
                    })
                }?;
            }
            // A single operation requests its own reply, so that a flush after it need not send a
            // message.
            let alone = places.is_none() && bytes == to.bytes() && remote.is_idle();
            if alone {
                // SAFETY: no data is written.
                header.token =
                    unsafe { self.expect(rank, ask.call.without_request(), (0, false), |_| ()) }?;
            }
            self.dispatch(rank, &header, &mut shipment, ask.call)?;
            if places.is_none() && !alone {
                // Only after it was sent: otherwise a flush of another thread would count messages
                // that follow its own as done.
                remote.sent.fetch_add(1, Ordering::AcqRel);
            }
            offset += bytes;
            left -= bytes;
        }
        self.shipped(rank, shipment)
    }

    /// The extent of the whole operation, which each of its messages carries, so that the target
    /// refuses either all or none of them. Needed in dynamic windows, where only the target knows
    /// what is attached.
    fn extent_to_tell(&self, ask: &Ask, to: &Layout<'_>) -> Result<Option<Extent>> {
        let is_one = to.is_contiguous() && (ask.whole || to.bytes() <= AT_ONCE);
        if self.flavor != Flavor::Dynamic || is_one || to.bytes() == 0 {
            return Ok(None);
        }
        let nowhere = || {
            Error::new(
                Status::RMA_ATTACH,
                "disp: the layout reaches beyond the end of the address space",
            )
        };
        let (begin, end) = edges_of(ask.header.at, to).ok_or_else(nowhere)?;
        Ok(Some(Extent {
            bytes: encode_piece((begin, end - begin)),
            is_copied: ask.call.has_request(),
        }))
    }

    /// A long put or get that is contiguous on both sides: one message with its own reply. See
    /// `window::remote::rendezvous`.
    ///
    /// # Safety
    /// As for `operate`.
    unsafe fn operate_long(
        &self,
        rank: u32,
        ask: &Ask,
        side: &Side<'_>,
        mut shipment: Shipment<'_>,
    ) -> Result<()> {
        let bytes = side.layout.bytes();
        let landing = |runs: &mut Vec<Run>| runs.push((side.place, bytes as usize));
        let token = if ask.header.what.is_answered() {
            // SAFETY: the result is writable by this function's contract.
            unsafe { self.expect(rank, ask.call, (bytes, true), landing) }?
        } else {
            shipment.lists.parts.push(part_at(side.place, bytes as usize));
            shipment.form = flag::RNDV;
            // SAFETY: no data is written.
            unsafe { self.expect(rank, ask.call.without_request(), (0, true), |_| ()) }?
        };
        self.dispatch(rank, &WindowHeader { bytes, token, ..ask.header }, &mut shipment, ask.call)?;
        self.shipped(rank, shipment)
    }

    fn shipped(&self, rank: u32, mut shipment: Shipment<'_>) -> Result<()> {
        shipment.settle();
        if shipment.status.is_error() {
            return Err(self.unreachable(
                rank,
                Error::new(shipment.status, "window: a message could not be sent"),
            ));
        }
        Ok(())
    }

    /// Compare-and-swap; `both` has the new element and the expected one.
    ///
    /// # Safety
    /// The result is writable for one element until the next flush.
    pub(crate) unsafe fn swap_far(
        &self,
        rank: u32,
        header: &WindowHeader,
        both: &[u8],
        result: *mut u8,
    ) -> Result<()> {
        let awaited = &self.group.service.windows().awaited;
        let (call, bytes) = (awaited.call(), both.len() as u64 / 2);
        let mut shipment = Shipment::new(&self.group.service);
        // SAFETY: the result is writable by this function's contract.
        let token = unsafe {
            self.expect(rank, call, (bytes, false), |runs| runs.push((result, bytes as usize)))
        }?;
        shipment.lists.parts.push(part(both));
        let sent =
            self.dispatch(rank, &WindowHeader { bytes, token, ..*header }, &mut shipment, call);
        let sent = sent.and_then(|()| self.shipped(rank, shipment));
        sent.inspect_err(|_| awaited.withdraw(call, &self.tell_of_ends()))
    }

    /// Registers an awaited reply. `what` is its length, and whether it belongs to a long
    /// operation; `landing` lists where its data goes. Returns its token.
    ///
    /// # Safety
    /// What is listed is writable until the reply has arrived or is no longer awaited.
    unsafe fn expect(
        &self,
        rank: u32,
        call: Call,
        what: (u64, bool),
        landing: impl FnOnce(&mut Vec<Run>),
    ) -> Result<u64> {
        let (remote, service) = (self.remote(rank), &self.group.service);
        let has_room = || remote.tally.missing() < MOST_ASKED;
        if !has_room() {
            service.await_news(&|| has_room() || self.what_left(rank).is_some(), u64::MAX)?;
        }
        let whom = Whom { window: self.number, member: remote.job_rank };
        // SAFETY: writable by this function's contract; the tally lives as long as the window,
        // which removes its entries before it is freed.
        let token =
            unsafe { service.windows().awaited.add(&remote.tally, whom, call, what, landing) };
        // After the registration: a thread that notices the member's end later finds the entry.
        match self.what_left(rank) {
            Some(ended) => {
                service.windows().awaited.withdraw(call, &self.tell_of_ends());
                Err(self.failed(ended))
            }
            None => Ok(token),
        }
    }

    /// When it returns, all operations sent to this target are done there, and all requested data
    /// has arrived.
    pub(crate) fn complete_at(&self, rank: u32) -> Result<()> {
        let begun = self.begin_completion(rank, Call::NONE);
        // Also after an error, so that nothing is written after the return.
        begun.and(self.await_answers(rank))
    }

    /// The same for all these targets; returns the first error.
    pub(crate) fn complete_at_all(&self, ranks: impl Iterator<Item = u32> + Clone) -> Result<()> {
        if !self.has_remotes {
            return Ok(());
        }
        // One round trip for all of them.
        let begun = self.begin_completions(ranks.clone());
        ranks.map(|rank| self.await_answers(rank)).fold(begun, Result::and)
    }

    pub(crate) fn begin_completions(&self, ranks: impl Iterator<Item = u32>) -> Result<()> {
        if !self.has_remotes {
            return Ok(());
        }
        ranks.map(|rank| self.begin_completion(rank, Call::NONE)).fold(Ok(()), Result::and)
    }

    /// Sends a flush message if there are operations without a reply; also, for a call with a
    /// request, if replies are missing.
    pub(crate) fn begin_completion(&self, rank: u32, call: Call) -> Result<()> {
        let Some(remote) = self.targets[rank as usize].remote() else { return Ok(()) };
        let sent = remote.sent.load(Ordering::Acquire);
        if remote.flushed.load(Ordering::Acquire) >= sent
            && !(call.has_request() && remote.tally.missing() > 0)
        {
            return Ok(());
        }
        let service = &self.group.service;
        let call = if call == Call::NONE { service.windows().awaited.call() } else { call };
        // SAFETY: no data is written.
        let token = unsafe { self.expect(rank, call, (0, false), |_| ()) }?;
        let asked = self.tell(rank, &WindowHeader { token, ..self.header(What::Flush) });
        match asked {
            // Flushes of other threads wait for this reply.
            Ok(()) => remote.flushed.fetch_max(sent, Ordering::AcqRel),
            Err(error) => {
                service.windows().awaited.withdraw(call, &self.tell_of_ends());
                return Err(error);
            }
        };
        Ok(())
    }

    /// Waits until all replies of this target have arrived. Reports an error of its operations
    /// once.
    pub(crate) fn await_answers(&self, rank: u32) -> Result<()> {
        self.await_some(rank, Tally::asked)
    }

    /// The same for replies with data.
    pub(crate) fn await_data(&self, rank: u32) -> Result<()> {
        self.await_some(rank, Tally::asked_for_data)
    }

    fn await_some(&self, rank: u32, which: impl Fn(&Tally) -> u64) -> Result<()> {
        let Some(remote) = self.targets[rank as usize].remote() else { return Ok(()) };
        let tally = &remote.tally;
        let asked = which(tally);
        let there = || tally.has_answers(asked);
        let gone = || self.what_left(rank);
        if !there() {
            let _waits = self.note_wait(Awaited::Replies, rank);
            let service = &self.group.service;
            let waited = service.await_news(&|| there() || gone().is_some(), u64::MAX);
            if !there() {
                // Discards replies that may still arrive. Reported once, as another thread may have
                // noticed it as well.
                service.windows().awaited.discard(tally, Status::PEER_FAILED, &self.tell_of_ends());
                // Transfers that have begun end with the connection.
                self.await_pulls_of(rank);
                waited?;
            }
        }
        tally.take_complaint().map_or(Ok(()), |status| Err(self.answered_badly(rank, status)))
    }

    /// From now on no reply of this window is written anywhere.
    pub(crate) fn drop_what_is_awaited(&self) {
        for remote in self.targets.iter().filter_map(|target| target.remote()) {
            let awaited = &self.group.service.windows().awaited;
            awaited.discard(&remote.tally, Status::CANCELED, &self.tell_of_ends());
        }
    }
}

/// A message that is sent after its call has returned.
struct Gone {
    /// The service shuts its worker down before it is freed, which ends all callbacks.
    service: *const Service,
    call: Call,
    _front: Vec<u8>,
}

unsafe extern "C" fn on_gone(arg: *mut c_void, _request: *mut Slot, status: i32) {
    // SAFETY: boxed in `dispatch_and_go`; the callback runs once.
    let gone = unsafe { Box::from_raw(arg.cast::<Gone>()) };
    // SAFETY: the service outlives its worker's callbacks.
    let service = unsafe { &*gone.service };
    let told = if status < 0 { Status(status).or_peer_failed() } else { Status::OK };
    service
        .windows()
        .awaited
        .count_out(gone.call, told, &|ticket, status| service.tell_user(ticket, status));
    service.tell();
}
