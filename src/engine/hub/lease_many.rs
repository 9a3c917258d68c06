//! Leases through several links, all at once or none, so that callers that need several leases do
//! not block each other with a part of them.

use crate::engine::base::clock;
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::Refusal;
use crate::engine::hub::lease_end::End;
use crate::engine::hub::link::Link;
use crate::engine::hub::starvation::{find_starvation, Starvation};
use crate::engine::hub::state::State;
use crate::engine::hub::wait::{wake_external, EXTERNAL_WAITERS};
use crate::engine::ucx::context::forked;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Most links in one call: all about them is on the stack.
pub const MOST_LINKS: usize = 64;

/// How often a thread that waits for several hubs polls those whose changes cannot wake it, in
/// nanoseconds: it progresses several workers in turn, or one worker that not all hubs have.
const NAP: u64 = 1_000_000;

/// The hubs of the links, each once, sorted by address. Every thread that locks several hubs does
/// so in this order.
struct Hubs<'a> {
    hubs: [Option<&'a Hub>; MOST_LINKS],
    count: usize,
}

type Guards<'a> = [Option<SpinLockGuard<'a, State>>; MOST_LINKS];

impl<'a> Hubs<'a> {
    fn new(links: &[&'a Link]) -> Self {
        let mut all = Hubs { hubs: [None; MOST_LINKS], count: 0 };
        for link in links {
            let hub: &Hub = &link.hub;
            let place = all.hubs[..all.count]
                .iter()
                .position(|other| {
                    other.is_some_and(|other| std::ptr::from_ref(other) >= std::ptr::from_ref(hub))
                })
                .unwrap_or(all.count);
            if !all.hubs[place].is_some_and(|other| std::ptr::eq(other, hub)) {
                all.hubs[place..=all.count].rotate_right(1);
                all.hubs[place] = Some(hub);
                all.count += 1;
            }
        }
        all
    }

    fn iter(&self) -> impl Iterator<Item = &'a Hub> + Clone + '_ {
        self.hubs[..self.count].iter().copied().flatten()
    }

    fn lock(&self) -> Guards<'a> {
        let mut guards = [const { None }; MOST_LINKS];
        for (guard, hub) in guards.iter_mut().zip(self.iter()) {
            *guard = Some(hub.state.lock());
        }
        guards
    }

    fn state<'g>(&self, guards: &'g mut Guards<'a>, hub: &Hub) -> Option<&'g mut State> {
        let place = self.iter().position(|other| std::ptr::eq(other, hub))?;
        guards[place].as_deref_mut()
    }

    fn unlock(&self, guards: Guards<'a>) {
        let mut needs_wake = [false; MOST_LINKS];
        for ((guard, hub), needs_wake) in
            guards.into_iter().flatten().zip(self.iter()).zip(&mut needs_wake)
        {
            *needs_wake = hub.unlock_one(guard);
        }
        self.iter()
            .zip(needs_wake)
            .filter(|(_, needs_wake)| *needs_wake)
            .for_each(|(hub, _)| wake_external(hub.worker.as_deref()));
        self.iter().for_each(Hub::perform_pending);
    }

    /// Tries whenever one of the hubs has changed. Meanwhile it progresses the hubs' workers whose
    /// progress is manual and that this thread may progress; several workers in turn.
    fn wait(&self, attempt: &dyn Fn() -> bool, deadline: u64) {
        let over = Cell::new(false);
        let attempt = || {
            over.set(over.get() || attempt());
            over.get()
        };
        let driven = || self.iter().filter_map(Hub::driven);
        let mut turn = 0;
        loop {
            let is_last = clock::remaining(deadline) == Some(Duration::ZERO);
            let nap = deadline.min(clock::deadline_after(NAP));
            match driven().cycle().nth(turn) {
                // The progress thread may end, and then this thread has to progress.
                None => {
                    EXTERNAL_WAITERS
                        .sleep_until(&|| attempt() || driven().next().is_some(), deadline);
                }
                Some(worker) => {
                    let is_own = |hub: &Hub| {
                        hub.worker.as_deref().is_some_and(|own| std::ptr::eq(own, worker))
                    };
                    // A change of another hub does not wake a thread that sleeps on this worker's
                    // descriptor.
                    let until = if self.iter().all(is_own) { deadline } else { nap };
                    EXTERNAL_WAITERS.look_or(&attempt, |moved| {
                        if worker.drive(moved, until).is_err() {
                            EXTERNAL_WAITERS.sleep_until(moved, nap);
                        }
                    });
                }
            }
            if over.get() || is_last {
                return;
            }
            turn = (turn + 1) % MOST_LINKS;
        }
    }

    fn count_waiter(&self, change: i32) {
        for hub in self.iter() {
            let mut state = hub.state.lock();
            state.external_waiters = state.external_waiters.wrapping_add_signed(change);
        }
    }
}

/// Leases through all links into `leases`. Returns false if that was not possible in time.
pub fn lease_many(links: &[&Link], timeout_ns: u64, leases: &mut [*const Lease]) -> Result<bool> {
    let Some(first) = links.first() else { return Ok(true) };
    if links.len() > MOST_LINKS {
        let text = format!("count: {} links are more than {MOST_LINKS}", links.len());
        return Err(Error::new(Status::EXCEEDS_LIMIT, text));
    }
    if first.hub.generation.is_past() {
        return Err(forked("link"));
    }
    if timeout_ns != 0 && deferred::in_callback() {
        return Err(from_callback());
    }
    let hubs = Hubs::new(links);
    let outcome = Cell::new(None);
    let leases = Cell::new(leases);
    let attempt = || {
        let places = leases.take();
        let answer = try_all(&hubs, links, places);
        leases.set(places);
        outcome.set((!matches!(answer, Err(Refused::Link(_, Refusal::NotNow)))).then_some(answer));
        // Reads the outcome without losing it: a Cell can only be taken and set.
        let over = outcome.take();
        let is_over = over.is_some();
        outcome.set(over);
        is_over
    };
    if !attempt() && timeout_ns != 0 {
        hubs.count_waiter(1);
        hubs.wait(&attempt, clock::deadline_after(timeout_ns));
        hubs.count_waiter(-1);
    }
    match outcome.take() {
        None => Ok(false),
        Some(Ok(())) => Ok(true),
        Some(Err(Refused::Link(index, refusal))) => {
            Err(links[index].hub.refused(&links[index].request, refusal))
        }
        Some(Err(Refused::Call(starvation))) => Err(starvation.error(links)),
    }
}

/// What was refused.
enum Refused {
    /// The request of one link.
    Link(usize, Refusal),
    /// The whole call: it can never be served.
    Call(Starvation),
}

fn try_all(
    hubs: &Hubs<'_>,
    links: &[&Link],
    places: &mut [*const Lease],
) -> std::result::Result<(), Refused> {
    let mut guards = hubs.lock();
    let mut numbers = [0; MOST_LINKS];
    let (mut taken, mut answer) = (0, Ok(()));
    for (index, link) in links.iter().enumerate() {
        let Some(state) = hubs.state(&mut guards, &link.hub) else { continue };
        if state.closed {
            // Nobody but this call can give back what it has taken: it counts as this link's own.
            let same_hub = |other: &&Link| Arc::ptr_eq(&other.hub, &link.hub);
            let before = numbers[..taken].iter().zip(links).filter(|(_, other)| same_hub(other));
            before.for_each(|(number, _)| state.hold(*number, link.request.link));
        }
        let found = match state.has_stream(link.request.link) {
            true => Err(Refusal::Joined),
            false => state.look(&link.request),
        };
        match found {
            Ok(found) if answer.is_ok() => {
                numbers[index] = state.take(&link.request, found);
                taken += 1;
            }
            Ok(_) => {}
            // A refusal for now must not hide one that is final.
            Err(Refusal::NotNow) if answer.is_err() => {}
            Err(refusal) => {
                // Only for this link: the others were only looked at, and marking them would make
                // their callbacks run again and again.
                state.note_attempt(link.request.link);
                state.clear_failure(refusal);
                answer = Err(Refused::Link(index, refusal));
                if refusal != Refusal::NotNow {
                    break;
                }
            }
        }
    }
    if answer.is_ok() {
        for (index, link) in links.iter().enumerate() {
            let Some(state) = hubs.state(&mut guards, &link.hub) else { continue };
            state.note_attempt(link.request.link);
            if state.closed {
                state.hold(numbers[index], link.request.link);
            }
            places[index] = link.hub.hand_out(state, numbers[index]);
        }
    } else {
        for (number, link) in numbers[..taken].iter().zip(links).rev() {
            let Some(state) = hubs.state(&mut guards, &link.hub) else { continue };
            // Undone under the same lock: nothing has changed for others.
            let wake_mask = state.wake_mask;
            state.end(*number, End::Undo);
            state.wake_mask = wake_mask;
        }
    }
    if let Err(Refused::Link(_, Refusal::NotNow | Refusal::Starved { .. })) = answer {
        // Each link may be served later, but perhaps never all at once. Also, if one can never be
        // served, report how much all of them lack.
        let whole =
            hubs.iter().find_map(|hub| find_starvation(hubs.state(&mut guards, hub)?, hub, links));
        answer = whole.map_or(answer, |starvation| Err(Refused::Call(starvation)));
    }
    hubs.unlock(guards);
    answer
}
