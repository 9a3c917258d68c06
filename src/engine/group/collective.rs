//! Collectives: barrier, allgather, broadcast.
//!
//! The calling thread runs the algorithm and sends. The service's progress thread stores what
//! arrives in the mailbox. Each message names its collective. If a member receives one that does
//! not fit, the members have not called the same collectives in the same order, and it ends the
//! group's collectives for all.
//!
//! **Bound.** A root that only broadcasts could get ahead of the others without limit. So after a
//! fixed number of broadcasts or bytes all members meet in a barrier before the next one. All make
//! the same calls, so all do this at the same place. It bounds what members store for collectives
//! that they have not called yet.
//!
//! **Failure.** A member's end matters only to a member that waits for its message or sends to it.
//! That member ends the group's collectives and names the one that has ended. Members may leave as
//! soon as they have what they need.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::send::LONGEST_UNASKED;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::group::collective_transfer::Transfer;
use crate::engine::group::group::Group;
use crate::engine::group::mailbox::Failure;
use crate::engine::group::service::{distances, Arrived};
use crate::engine::group::service_connection::is_of_peer;
use crate::engine::ucx::memory_type;
use crate::engine::wire::group::{GroupHeader, What};
use std::cell::Cell;
use std::ffi::c_void;

/// When a member has gone, its last message may still be in another queue, and other members may
/// know better why it went. So the failure is declared after this time only.
const GRACE_NS: u64 = 250_000_000;

/// Up to this many bytes in all, allgather uses the algorithm with the fewest rounds and a
/// temporary buffer; above, the one with the fewest copies.
const FEW_ROUNDS: usize = 64 << 10;

/// How far a root may be ahead of the others: broadcasts in a row, and their bytes.
pub(crate) const MOST_AHEAD: usize = 64;
pub(crate) const MOST_BYTES_AHEAD: usize = 2 << 20;

/// Number of the group's next collective, and how far a root may have got ahead since the members
/// last met.
#[derive(Default)]
pub(crate) struct Turn {
    next: u32,
    broadcasts: usize,
    bytes: usize,
}

impl Turn {
    /// Number of collectives so far.
    pub(crate) fn number(&self) -> u32 {
        self.next
    }

    fn take(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Do the members have to meet before this collective? All members get the same answer.
    fn is_too_far(&mut self, what: What, length: usize) -> bool {
        if what != What::Broadcast {
            // The other collectives are meetings: no member returns before all have called.
            (self.broadcasts, self.bytes) = (0, 0);
            return false;
        }
        // Longer data waits at the root until it is pulled.
        let kept = if length > LONGEST_UNASKED { 0 } else { length };
        let too_far = self.broadcasts == MOST_AHEAD || self.bytes + kept > MOST_BYTES_AHEAD;
        if too_far {
            (self.broadcasts, self.bytes) = (0, 0);
        }
        (self.broadcasts, self.bytes) = (self.broadcasts + 1, self.bytes + kept);
        too_far
    }
}

/// A collective in progress.
pub(crate) struct Collective<'a> {
    pub(crate) group: &'a Group,
    what: What,
    sequence: u32,
    /// Bytes of each member.
    length: usize,
    pub(crate) deadline: u64,
    /// Once it has failed: when its transfers have to have ended. 0 before.
    lingers_until: Cell<u64>,
}

impl Group {
    /// Returns when all members have called it.
    pub fn barrier(&self) -> Result<()> {
        self.collective(What::Barrier, 0, |collective| collective.barrier())
    }

    /// Waits until all members of a new group have called it.
    pub(crate) fn meet(&self, deadline: u64) -> Result<()> {
        self.collective_until(What::Barrier, 0, deadline, |collective| collective.barrier())
    }

    /// Copies each member's `length` bytes to all, in rank order. If `data` is null, this member's
    /// bytes are already at their place in `out`.
    ///
    /// # Safety
    /// `data` is null or readable for `length` bytes. `out` is writable for `length` bytes for each
    /// member.
    pub unsafe fn allgather(
        &self,
        data: *const c_void,
        length: usize,
        out: *mut c_void,
    ) -> Result<()> {
        let total =
            length.checked_mul(self.ranks.len()).filter(|total| isize::try_from(*total).is_ok());
        let Some(total) = total else {
            let text =
                format!("length: {length} bytes of each of {} members are too many", self.size());
            return Err(Error::invalid(text));
        };
        self.collective(What::Allgather, length, |collective| {
            if length > 0 && !data.is_null() {
                // SAFETY: both are valid by this function's contract; `copy_from` allows that they
                // overlap.
                unsafe {
                    out.cast::<u8>().add(self.rank as usize * length).copy_from(data.cast(), length)
                };
            }
            // SAFETY: `out` is valid by this function's contract, and our own block is at its
            // place.
            unsafe {
                if total <= FEW_ROUNDS {
                    collective.allgather_in_few_rounds(out.cast(), total)
                } else {
                    collective.allgather_around(out.cast())
                }
            }
        })
    }

    /// Copies the root's bytes to all.
    ///
    /// # Safety
    /// `data` is readable for `length` bytes at the root, and writable for them at the others.
    pub unsafe fn broadcast(&self, data: *mut c_void, length: usize, root: u32) -> Result<()> {
        self.check_rank(root, "root")?;
        if isize::try_from(length).is_err() {
            return Err(Error::invalid(format!("length: {length} bytes are too many")));
        }
        // SAFETY: `data` is valid by this function's contract.
        self.collective(What::Broadcast, length, |collective| unsafe {
            collective.broadcast(data.cast(), root)
        })
    }

    /// Returns an error to a thread that must not wait, or must not progress the user's worker,
    /// before anything is sent.
    pub(crate) fn check_caller(&self) -> Result<()> {
        let user = &self.service.user;
        user.check_usable()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        if !user.has_progress_thread() {
            user.progress_and_tell()?;
        }
        Ok(())
    }

    /// This member's death was found between two collectives: makes the next one fail, for all
    /// members.
    pub(crate) fn lost(&self, rank: u32) -> Error {
        let failure = Failure {
            sequence: self.turn.lock().number(),
            status: Status::PEER_FAILED,
            blamed: self.ranks[rank as usize],
        };
        self.failed(self.service.fail(self.id, failure))
    }

    fn collective(
        &self,
        what: What,
        length: usize,
        run: impl FnOnce(&Collective<'_>) -> Result<()>,
    ) -> Result<()> {
        let deadline = clock::deadline_if_any(self.collective_timeout_ns);
        self.collective_until(what, length, deadline, run)
    }

    fn collective_until(
        &self,
        what: What,
        length: usize,
        deadline: u64,
        run: impl FnOnce(&Collective<'_>) -> Result<()>,
    ) -> Result<()> {
        let call = || {
            self.check_caller()?;
            let Some(mut turn) = self.turn.try_lock() else {
                return Err(Error::new(
                    Status::BUSY,
                    "group: another thread is in a collective of this group",
                ));
            };
            if turn.is_too_far(what, length) {
                self.next(&mut turn, What::Barrier, 0, deadline)?.barrier()?;
            }
            let begun = clock::now_ns();
            run(&self.next(&mut turn, what, length, deadline)?)?;
            // While this thread has the turn.
            self.meter.done(what, length as u64, clock::now_ns().saturating_sub(begun));
            Ok(())
        };
        call().inspect_err(|error| self.meter.failed.count(error.status()))
    }

    fn next(
        &self,
        turn: &mut Turn,
        what: What,
        length: usize,
        deadline: u64,
    ) -> Result<Collective<'_>> {
        if let Some(failure) = self.service.failure(self.id, turn.number()) {
            return Err(self.failed(failure));
        }
        let (sequence, lingers_until) = (turn.take(), Cell::new(0));
        Ok(Collective { group: self, what, sequence, length, deadline, lingers_until })
    }
}

impl Collective<'_> {
    fn size(&self) -> usize {
        self.group.ranks.len()
    }

    fn here(&self) -> usize {
        self.group.rank as usize
    }

    pub(crate) fn job_rank(&self, rank: u32) -> u32 {
        self.group.ranks[rank as usize]
    }

    /// The rank that is `distance` ahead.
    fn ahead(&self, distance: usize) -> u32 {
        ((self.here() + distance) % self.size()) as u32
    }

    /// The rank that is `distance` behind.
    fn behind(&self, distance: usize) -> u32 {
        ((self.here() + self.size() - distance) % self.size()) as u32
    }

    /// Dissemination barrier (Hensgen, Finkel, Manber 1988): in each round, one message to the
    /// member `distance` ahead, and one from the member `distance` behind.
    fn barrier(&self) -> Result<()> {
        for (round, distance) in distances(self.size()).enumerate() {
            // SAFETY: there is no data.
            unsafe { self.send(self.ahead(distance), round as u32, std::ptr::null(), 0) }?
                .finish()?;
            self.expect(self.behind(distance), round as u32, 0)?;
        }
        Ok(())
    }

    /// Bruck's algorithm (1997): blocks in the order of their distance, twice as many after each
    /// round.
    ///
    /// # Safety
    /// As for `Group::allgather`; our own block is at its place in `out`.
    unsafe fn allgather_in_few_rounds(&self, out: *mut u8, total: usize) -> Result<()> {
        let (size, here, length) = (self.size(), self.here(), self.length);
        let mut blocks = vec![0_u8; total];
        let blocks = blocks.as_mut_ptr();
        // SAFETY: our own block in `out`, and `blocks` has room for all.
        unsafe { blocks.copy_from_nonoverlapping(out.add(here * length), length) };
        for (round, distance) in distances(size).enumerate() {
            let count = distance.min(size - distance) * length;
            // SAFETY: the first `count` bytes of `blocks` are filled, and do not change until this
            // has ended.
            let sending = unsafe { self.send(self.behind(distance), round as u32, blocks, count) }?;
            let arrived = self.expect(self.ahead(distance), round as u32, count)?;
            // SAFETY: `blocks` has room for `count` bytes behind the blocks it has.
            unsafe {
                self.receive(self.ahead(distance), arrived, blocks.add(distance * length), count)
            }?;
            sending.finish()?;
        }
        for distance in 0..size {
            let rank = (here + distance) % size;
            // SAFETY: a filled block of `blocks`, and its place in `out`, which has room for all
            // ranks.
            unsafe {
                out.add(rank * length)
                    .copy_from_nonoverlapping(blocks.add(distance * length), length)
            };
        }
        Ok(())
    }

    /// Ring: each block passes from member to member, directly into its place.
    ///
    /// # Safety
    /// As for `Group::allgather`; our own block is at its place in `out`.
    unsafe fn allgather_around(&self, out: *mut u8) -> Result<()> {
        let (size, length) = (self.size(), self.length);
        for step in 0..size - 1 {
            let mine = self.behind(step) as usize;
            let theirs = self.behind(step + 1) as usize;
            // SAFETY: a block of `out` that is filled, and does not change any more.
            let sending =
                unsafe { self.send(self.ahead(1), step as u32, out.add(mine * length), length) }?;
            let arrived = self.expect(self.behind(1), step as u32, length)?;
            // SAFETY: the place of this block in `out`, which nothing else uses.
            unsafe { self.receive(self.behind(1), arrived, out.add(theirs * length), length) }?;
            sending.finish()?;
        }
        Ok(())
    }

    /// Binomial tree; its branches are the same distances as in the other collectives.
    ///
    /// # Safety
    /// As for `Group::broadcast`.
    unsafe fn broadcast(&self, data: *mut u8, root: u32) -> Result<()> {
        let (size, length) = (self.size(), self.length);
        let place = (self.here() + size - root as usize) % size;
        let mut distance = 1;
        while distance < size && place & distance == 0 {
            distance *= 2;
        }
        if place != 0 {
            let from = self.behind(distance);
            let arrived = self.expect(from, root, length)?;
            // SAFETY: not the root, so `data` is writable for `length` bytes.
            unsafe { self.receive(from, arrived, data, length) }?;
        }
        let below = std::iter::successors(Some(distance / 2), |distance| Some(distance / 2));
        let mut sendings = Vec::new();
        let begun = below
            .take_while(|distance| *distance > 0)
            .filter(|distance| place + distance < size)
            .try_for_each(|distance| {
                // SAFETY: `data` is readable for `length` bytes, at the root and after it has been
                // received.
                sendings.push(unsafe { self.send(self.ahead(distance), root, data, length) }?);
                Ok(())
            });
        let result = begun.and_then(|()| sendings.iter().try_for_each(Transfer::wait));
        if result.is_err() {
            Transfer::settle(&sendings);
        }
        result
    }

    /// # Safety
    /// `data` is readable for `length` bytes until the result is finished or dropped.
    unsafe fn send(
        &self,
        to: u32,
        step: u32,
        data: *const u8,
        length: usize,
    ) -> Result<Transfer<'_>> {
        let header = GroupHeader {
            what: self.what,
            step,
            group: self.group.id,
            sequence: self.sequence,
            from: self.group.service.rank(),
            length: self.length as u64,
            blamed: 0,
            status: 0,
        };
        let part = Part { data: data.cast_mut().cast(), length, memory_type: memory_type::HOST };
        let parts: &[Part] = if length > 0 { &[part] } else { &[] };
        let mut slot = std::ptr::null_mut();
        // SAFETY: `slot` outlives the call.
        let out = unsafe { Out::new(&raw mut slot) };
        match self.group.service.send(self.job_rank(to), &header, parts, out) {
            // SAFETY: null, or the request of this send, which belongs to us.
            Ok(()) => Ok(unsafe { Transfer::new(self, to, slot, None) }),
            Err(error) if is_of_peer(error.status()) => Err(self.blame(to, error.status())),
            Err(error) => {
                self.end(self.group.rank, Status::PEER_FAILED);
                Err(error)
            }
        }
    }

    /// Waits for the member's message of this step, with `length` bytes of data.
    fn expect(&self, from: u32, step: u32, length: usize) -> Result<Arrived> {
        let arrived = self.await_message(from)?;
        let header = &arrived.header;
        let data = arrived.held.message().length();
        if !self.is_of_this(header) || header.sequence != self.sequence {
            return Err(self.differs(header));
        }
        if header.step == step && data == length as u64 {
            return Ok(arrived);
        }
        let text = if self.what == What::Broadcast {
            format!(
                "rank {from} called a broadcast from rank {}, and this member one from rank {step}",
                header.step
            )
        } else {
            format!(
                "rank {from} sent {data} bytes in round {}, not {length} in round {step}",
                header.step
            )
        };
        Err(self.end_with(header.from, text))
    }

    /// Does the message fit this collective? It is of this one, or of a later one by a member that
    /// has already returned from this one.
    fn is_of_this(&self, header: &GroupHeader) -> bool {
        header.sequence != self.sequence
            || (header.what == self.what && header.length == self.length as u64)
    }

    fn differs(&self, header: &GroupHeader) -> Error {
        let (mine, theirs) = (self.what.name(), header.what.name());
        let from =
            self.group.ranks.iter().position(|rank| *rank == header.from).unwrap_or_default();
        let text = format!(
            "rank {from} called {theirs} of {} bytes as number {} of the group's collectives, and \
             this one {mine} of {} bytes as number {}: all members call the same, in the same \
             order",
            header.length, header.sequence, self.length, self.sequence
        );
        self.end_with(header.from, text)
    }

    fn end_with(&self, blamed: u32, text: String) -> Error {
        let status = Status::INVALID_PARAM;
        self.group.service.fail(self.group.id, Failure { sequence: self.sequence, status, blamed });
        Error::new(status, format!("group: {text}; the group allows no further collectives"))
    }

    fn await_message(&self, from: u32) -> Result<Arrived> {
        let (service, job_rank) = (&self.group.service, self.job_rank(from));
        let mut watched = false;
        loop {
            let news = service.news();
            if let Some(arrived) = service.take(self.group.id, job_rank) {
                return Ok(arrived);
            }
            self.check_failure()?;
            if let Some(header) =
                service.find_other(self.group.id, |header| self.is_of_this(header))
            {
                return Err(self.differs(&header));
            }
            if !std::mem::replace(&mut watched, true) {
                // Its end counts as news from now on; check once more before waiting.
                service.watch(job_rank);
                continue;
            }
            let (gone, now) = (service.gone(job_rank), clock::now_ns());
            let patience = gone.map_or(u64::MAX, |(since, _)| since + GRACE_NS);
            match gone {
                Some((_, status)) if now >= patience => return Err(self.blame(from, status)),
                _ if now >= self.deadline => return Err(self.blame(from, Status::TIMED_OUT)),
                _ => {
                    let waits = service.waits.get();
                    let _waits = waits.map(|waits| waits.begin(job_rank));
                    self.drive(&|| service.news() != news, patience.min(self.deadline))?;
                }
            }
        }
    }

    /// Copies the data of a message to `place`.
    ///
    /// # Safety
    /// `place` is writable for `length` bytes, and nothing else uses them.
    unsafe fn receive(
        &self,
        from: u32,
        arrived: Arrived,
        place: *mut u8,
        length: usize,
    ) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let held = arrived.held;
        let part = Part { data: place.cast(), length, memory_type: memory_type::HOST };
        let mut slot = std::ptr::null_mut();
        // SAFETY: `slot` outlives the call.
        let out = unsafe { Out::new(&raw mut slot) };
        // SAFETY: `place` is writable by this function's contract, and `finish` returns after the
        // pull has ended.
        let pulled = unsafe { held.message().receive(&[part], &self.group.service.params(), out) };
        if let Err(error) = pulled {
            return Err(self.blame(from, error.status()));
        }
        // SAFETY: null, or the request of this pull, which belongs to us.
        unsafe { Transfer::new(self, from, slot, Some(held)) }.finish()
    }

    /// Returns an error if this collective is known to have failed.
    pub(crate) fn check_failure(&self) -> Result<()> {
        match self.group.service.failure(self.group.id, self.sequence) {
            Some(failure) => Err(self.group.failed(failure)),
            None => Ok(()),
        }
    }

    /// Has the collective failed because this member died, as far as is known?
    pub(crate) fn is_said_dead(&self, rank: u32) -> bool {
        let failure = self.group.service.failure(self.group.id, self.sequence);
        let job_rank = self.job_rank(rank);
        failure.is_some_and(|failure| {
            failure.blamed == job_rank && failure.status == Status::PEER_FAILED
        })
    }

    /// Deadline for the transfers of a failed collective. The time starts at the first call.
    pub(crate) fn lingers_until(&self, linger_ns: u64) -> u64 {
        if self.lingers_until.get() == 0 {
            self.lingers_until.set(clock::deadline_after(linger_ns));
        }
        self.lingers_until.get()
    }

    /// Waits while the user's worker makes progress. If that worker has ended or must not be used
    /// any more, this member is blamed.
    pub(crate) fn drive(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<()> {
        let service = &self.group.service;
        if service.assist_and_serve(done, deadline) {
            return Ok(());
        }
        let driven = service.user.drive(done, deadline);
        driven.map(drop).inspect_err(|_| drop(self.end(self.group.rank, Status::PEER_FAILED)))
    }

    /// Like `drive`, for a collective that has failed: ignores errors of the user's worker.
    pub(crate) fn drive_on(&self, done: &dyn Fn() -> bool, deadline: u64) {
        let service = &self.group.service;
        if !service.assist(done) {
            let _ = service.user.drive(done, deadline);
        }
    }

    /// A member that this one needs has ended, or is late: ends the group's collectives.
    pub(crate) fn blame(&self, rank: u32, status: Status) -> Error {
        let status = match status {
            Status::TIMED_OUT | Status::NO_MEMORY => return self.end(rank, status),
            // Closed by the other side, or by us after it had ended.
            Status::OK | Status::CLOSED | Status::CONNECTION_RESET => Status::CONNECTION_RESET,
            _ => Status::PEER_FAILED,
        };
        let service = &self.group.service;
        let since =
            service.gone(self.job_rank(rank)).map_or_else(clock::now_ns, |(since, _)| since);
        let _ = service
            .user
            .drive(&|| service.failure(self.group.id, self.sequence).is_some(), since + GRACE_NS);
        self.end(rank, status)
    }

    fn end(&self, rank: u32, status: Status) -> Error {
        let failure = Failure { sequence: self.sequence, status, blamed: self.job_rank(rank) };
        self.group.failed(self.group.service.fail(self.group.id, failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_gets_so_far_ahead() {
        let mut turn = Turn::default();
        for _ in 0..3 {
            assert!((0..MOST_AHEAD).all(|_| !turn.is_too_far(What::Broadcast, 8)));
            assert!(turn.is_too_far(What::Broadcast, 8));
            assert!(!turn.is_too_far(What::Barrier, 0));
        }
        assert!(
            !turn.is_too_far(What::Broadcast, 1 << 20)
                && !turn.is_too_far(What::Broadcast, 1 << 20)
        );
        assert!(!turn.is_too_far(What::Broadcast, 1 << 30), "it waits to be pulled");
        assert!(turn.is_too_far(What::Broadcast, 1));
        assert!(!turn.is_too_far(What::Broadcast, MOST_BYTES_AHEAD / 2));
    }
}
