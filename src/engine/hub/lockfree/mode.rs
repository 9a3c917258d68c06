//! A hub in its plainest form, and how it goes without the lock.
//!
//! Most hubs are two queues: one kind of host memory, producers, and consumers that compete. There
//! a lease and its end are an exchange on one word each (`hub::lockfree::queue_pair`), where the
//! lock costs two and the tables behind it as much again. Whatever else is asked of a hub asks
//! under the lock, and taking the lock closes the lane: what was in it is entered in the tables,
//! and everything goes on there as if it always had. After some leases that ended under the lock,
//! and nothing else that stands against it, the lane is opened again: with those that have not
//! ended, as two threads that are busy hardly ever have none. Both take a few instructions for each
//! envelope, so they wait the longer the less the lane was used last time.
//!
//! **Who owns what.** While the lane is open the tables are what they were when it was opened, and
//! nobody reads them. An envelope has one handle, of its own number, and is in one of the lane's
//! queues, or is whose who has taken it; that one alone touches it, its memory and its handle.
//! `tenure` and `taken` say of the handle who has it and in which place of the queue it was,
//! written before it is known that it has been taken; so who has closed the lane finds it there.
//!
//! **Nobody sleeps, and nobody is to be told,** while it is open: who wants to says so under the
//! lock. So there is nothing to look for when something has come or gone.
//!
//! **When it is worth it.** The free envelope that is taken is the one that has been free longest,
//! which under the lock is the one that was used last. So it is opened only where all envelopes
//! together stay in a core's cache: with longer ones it is the bytes that cost, and not the calls.

use crate::engine::base::spin_lock::{Brief, Held};
use crate::engine::core::worker::deferred;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::Seeker;
use crate::engine::hub::lockfree::queue_pair::{Lane, Missing, Patience};
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of all envelopes together, and their number.
const WARM: u64 = 1 << 20;
const MOST: usize = 4096;
/// Leases that end before it is opened, beside two for each envelope: at first, and at most.
const SOON: u32 = 64;
const LATE: u32 = 1 << 16;
/// And before it is tried again where somebody was asleep, or the like.
const AGAIN: u32 = 16;

/// In `tenure`: what the holder does, and whether its release commits; above, the number of its
/// link.
const PRODUCES: u64 = 1;
const CONSUMES: u64 = 2;
const COMMITS: u64 = 4;
pub(crate) const IN_TABLES: u64 = 8;
const LINK: u32 = 8;

/// A hub's tables, behind its lock.
pub(crate) struct Tables(Brief<State>);

/// What the tables know of the lane.
pub(crate) struct Plain {
    /// The last one is in use. The others may still be looked at by who found them closed, and have
    /// become too small.
    // They are found by their address, so they do not move when there is another one.
    #[allow(clippy::vec_box)]
    lanes: Vec<Box<Lane<Lease>>>,
    pub(crate) is_open: bool,
    /// Leases that have ended since there was last something that stood against it, and how many it
    /// takes.
    pub(crate) calm: u32,
    pub(crate) patience: u32,
    /// `SOON`, but in tests.
    pub(crate) soon: u32,
    /// It was used for all of its envelopes, or more, when it was open.
    was_used: bool,
    /// For `enter_leases`: places, numbers, and who has them.
    consumed: Vec<(u64, u32, u64)>,
}

impl Plain {
    pub(crate) fn new() -> Self {
        Plain {
            lanes: Vec::new(),
            is_open: false,
            calm: 0,
            patience: SOON,
            soon: SOON,
            was_used: false,
            consumed: Vec::new(),
        }
    }

    /// When so many more leases have ended.
    fn try_again_after(&mut self, leases: u32) {
        self.calm = self.patience.saturating_sub(leases);
    }
}

impl Tables {
    pub(crate) fn new(state: State) -> Self {
        Tables(Brief::new(state))
    }

    /// With all that there is in them.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Held<'_, State> {
        let mut state = self.0.lock();
        if state.plain.is_open {
            state.close_lane();
        }
        state
    }

    /// The same for what could be done without the lock, where that has failed: it is tried again
    /// if another thread has opened the lane meanwhile, which would be in vain otherwise. Err: what
    /// that has given.
    #[inline(always)]
    pub(crate) fn lock_unless<T>(
        &self,
        plainly: impl FnOnce() -> Option<T>,
    ) -> Result<Held<'_, State>, T> {
        let state = self.0.lock();
        if !state.plain.is_open {
            return Ok(state);
        }
        drop(state);
        self.lock_after(plainly)
    }

    #[cold]
    fn lock_after<T>(&self, plainly: impl FnOnce() -> Option<T>) -> Result<Held<'_, State>, T> {
        plainly().map_or_else(|| Ok(self.lock()), Err)
    }
}

/// What a lease of the seeker's has for `tenure`; 0 for one that cannot have one here.
pub(crate) fn tenure(seeker: &Seeker) -> u64 {
    if seeker.settled {
        return 0;
    }
    word(seeker.role, seeker.link, seeker.autocommit)
}

fn word(role: Role, link: u32, autocommit: bool) -> u64 {
    let what = match role {
        Role::Produce => PRODUCES,
        Role::Consume => CONSUMES,
        Role::Peek | Role::Modify => return 0,
    };
    u64::from(link) << LINK | if autocommit { COMMITS } else { 0 } | what
}

impl Hub {
    #[inline(always)]
    fn lane(&self) -> Option<&Lane<Lease>> {
        // SAFETY: null, or one that the tables keep as long as the hub is there.
        unsafe { self.lane.load(Ordering::Acquire).as_ref() }
    }

    /// A lease without the lock, at the first look; None says nothing yet.
    #[inline(always)]
    pub(crate) fn try_lease_plainly(&self, tenure: u64, timeout_ns: u64) -> Option<*const Lease> {
        let lane = self.lane()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return None;
        }
        if tenure & PRODUCES != 0 {
            let lease = lane.try_take_free(|lease, _| begin(lease, tenure))?;
            // SAFETY: a handle of the hub's, which are there as long as it is.
            unsafe { &*lease }.clear_metadata();
            return Some(lease);
        }
        if tenure & CONSUMES != 0 {
            return Some(lane.try_take_ready(|lease, order| take_over(lease, tenure, order))?);
        }
        None
    }

    /// The same for as long as it takes. Err: it is to be asked for under the lock; Ok(None): there
    /// is none now, and who asks does not wait.
    pub(crate) fn lease_plainly(
        &self,
        tenure: u64,
        timeout_ns: u64,
    ) -> Result<Option<*const Lease>, ()> {
        let Some(lane) = self.lane() else { return Err(()) };
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(());
        }
        match take(lane, tenure) {
            Ok(lease) => return Ok(Some(lease)),
            Err(Missing::Closed) => return Err(()),
            Err(Missing::Empty) if timeout_ns == 0 => return Ok(None),
            Err(Missing::Empty) => {}
        }
        // Who is to progress the worker does so instead. To sleep is for under the lock.
        if self.driven().is_some() {
            return Err(());
        }
        let side = usize::from(tenure & PRODUCES != 0);
        self.sides.look_for(side, is_long(timeout_ns), &|| lane.has_some(side) != Ok(false));
        take(lane, tenure).map(Some).map_err(|_| ())
    }

    /// Ends a lease without the lock, at the first look: a commit of so many bytes, or a release.
    /// False says nothing yet.
    #[inline(always)]
    pub(crate) fn try_end_plainly(&self, lease: &Lease, length: Option<u64>) -> bool {
        let Some(lane) = self.lane() else { return false };
        self.end_by(
            lease,
            length,
            #[inline(always)]
            |item| lane.try_push_ready(item),
            #[inline(always)]
            |item| lane.try_push_free(item),
        )
    }

    /// The same for as long as it takes. False: it is to be done under the lock, and nothing has
    /// been.
    pub(crate) fn end_plainly(&self, lease: &Lease, length: Option<u64>) -> bool {
        self.lane().is_some_and(|lane| {
            self.end_by(lease, length, |item| lane.push_ready(item), |item| lane.push_free(item))
        })
    }

    #[inline(always)]
    fn end_by(
        &self,
        lease: &Lease,
        length: Option<u64>,
        push_ready: impl Fn(*mut Lease) -> bool,
        push_free: impl Fn(*mut Lease) -> bool,
    ) -> bool {
        let tenure = lease.tenure.load(Ordering::Relaxed);
        if length.is_none() && tenure & COMMITS == 0 {
            return false;
        }
        let item = std::ptr::from_ref(lease).cast_mut();
        if tenure & CONSUMES != 0 {
            // Who has it next writes there as well: so this comes before.
            lease.tenure.store(0, Ordering::Relaxed);
            let done = push_free(item);
            if !done {
                lease.tenure.store(tenure, Ordering::Relaxed);
            }
            return done;
        }
        let length = length.unwrap_or(self.size);
        if tenure & PRODUCES == 0 || length > self.size {
            return false;
        }
        let before = lease.length.load(Ordering::Relaxed);
        lease.length.store(length, Ordering::Relaxed);
        lease.tenure.store(0, Ordering::Relaxed);
        let done = push_ready(item);
        if !done {
            lease.length.store(before, Ordering::Relaxed);
            lease.tenure.store(tenure, Ordering::Relaxed);
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.lane().is_some_and(|lane| lane.has_some(0).is_ok())
    }

    /// Is it one with short chunks, for which it pays to look a little longer before going to
    /// sleep, of as long as there is to wait?
    pub(crate) fn is_brisk(&self, timeout_ns: u64) -> bool {
        self.lane().is_some() && is_long(timeout_ns)
    }

    /// Is there something in the lane for this side? A change there moves no word.
    pub(crate) fn is_offered(&self, side: usize) -> bool {
        self.lane().is_some_and(|lane| lane.has_some(side) == Ok(true))
    }

    /// Under the lock, when there are more envelopes: makes all that the lane needs, so that
    /// nothing has to be made when it is opened.
    pub(crate) fn prepare_lane(&self, state: &mut State) {
        let count = state.envelopes.len();
        if !state.is_warm() {
            return;
        }
        self.reserve_handles(state, count);
        state.reserve_terms(count);
        let held = state.plain.consumed.len();
        state.plain.consumed.reserve(count - held);
        if state.plain.lanes.last().is_none_or(|lane| lane.room() < count) {
            let lane = Box::new(Lane::new(count.next_power_of_two()));
            self.lane.store(std::ptr::from_ref(&*lane).cast_mut(), Ordering::Release);
            state.plain.lanes.push(lane);
        }
    }
}

/// Who waits for less than a long look takes is not to wait for more.
fn is_long(timeout_ns: u64) -> bool {
    timeout_ns >= 200_000
}

/// A producer has it.
#[inline(always)]
fn begin(lease: *mut Lease, tenure: u64) {
    // SAFETY: a handle of the hub's, which are there as long as it is.
    let lease = unsafe { &*lease };
    lease.length.store(UNSET, Ordering::Relaxed);
    lease.tenure.store(tenure, Ordering::Relaxed);
}

/// A consumer has it.
#[inline(always)]
fn take_over(lease: *mut Lease, tenure: u64, order: u64) {
    // SAFETY: as above.
    let lease = unsafe { &*lease };
    lease.taken.store(order, Ordering::Relaxed);
    lease.tenure.store(tenure, Ordering::Relaxed);
}

fn take(lane: &Lane<Lease>, tenure: u64) -> Result<*const Lease, Missing> {
    if tenure & PRODUCES != 0 {
        let lease = lane.take_free(|lease, _| begin(lease, tenure))?;
        // SAFETY: as above.
        unsafe { &*lease }.clear_metadata();
        return Ok(lease);
    }
    if tenure & CONSUMES != 0 {
        return Ok(lane.take_ready(|lease, order| take_over(lease, tenure, order))?);
    }
    Err(Missing::Closed)
}

impl State {
    /// One kind of memory that no GPU knows, and not too much of it.
    fn is_warm(&self) -> bool {
        let count = self.envelopes.len();
        (1..=MOST).contains(&count)
            && self.pools.len() == 1
            && !self.pools[0].kind.needs_cuda()
            && self.size.saturating_mul(count as u64) <= WARM
    }

    /// Is there nothing but producers and consumers that compete, none of whom waits, or is to be
    /// told?
    fn is_plain(&self) -> bool {
        let count = self.envelopes.len() as u64;
        let in_tables = self.copies == 0 && self.calls == 0;
        let waits =
            self.asleep != 0 || self.distant != 0 || self.watched != 0 || self.pools[0].demand != 0;
        let joined = self.sources != 0 || self.drains != 0 || self.lent != 0 || self.source_ended;
        let competes = self.units == COMPETING && self.broadcast == 0 && !self.flow;
        let bounded = count > self.max_chunks || count * self.size > self.max_bytes;
        let has_all = u64::from(self.pools[0].free_count) + self.queued + self.reserved == count;
        in_tables
            && !waits
            && !joined
            && competes
            && !bounded
            && has_all
            && !self.marked
            && !self.closed
    }

    /// Leases that are to end before it is worth it.
    fn needed(&self) -> u32 {
        self.plain.soon * (1 + self.envelopes.len() as u32 / 32)
    }

    /// Somebody goes to sleep, which is what the lane was closed for, if it was: that does not
    /// count against one that was used.
    pub(crate) fn interrupt(&mut self) {
        if self.plain.was_used {
            self.plain.patience = self.plain.patience.min(self.needed());
        }
    }

    /// After the end of a lease, when that has been long enough ago that something stood against
    /// it.
    #[cold]
    #[inline(never)]
    pub(crate) fn open_lane(&mut self) {
        self.plain.calm = 0;
        if self.plain.lanes.is_empty() || !self.is_warm() {
            return;
        }
        if !self.is_plain() {
            // Somebody may sleep just now.
            return self.plain.try_again_after(AGAIN);
        }
        let Some(taken) = self.count_taken() else {
            // Whatever is in the way takes a while longer, and so does the look at everything.
            return self.plain.try_again_after(self.needed());
        };
        for (number, envelope) in self.envelopes.iter().enumerate() {
            let handle = Hub::handle(self, number as u32);
            if envelope.leases == 0 {
                handle.point_to(envelope, self.pools[0].kind);
                handle.tenure.store(0, Ordering::Relaxed);
            } else if handle.tenure.load(Ordering::Relaxed) == IN_TABLES {
                handle.tenure.store(self.tenure_of(number as u32), Ordering::Relaxed);
            }
            // Else it has been in the lane before, and its holder, who may be trying to end it
            // there just now, is the only one to write that.
        }
        let state = &*self;
        let item = |number: u32| std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        let mut free = state.pools[0].free;
        let free = std::iter::from_fn(|| {
            let number = free;
            free = state.envelopes.get(number as usize)?.next;
            Some(item(number))
        });
        let chunks = || {
            let mut place = state.head;
            std::iter::from_fn(move || {
                let chunk = state.chunks.get(place as usize)?;
                place = chunk.next;
                Some(item(chunk.first))
            })
        };
        if let Some(lane) = state.plain.lanes.last() {
            lane.open(free, chunks().take(taken), chunks().skip(taken), |lease, order| {
                // SAFETY: as in `begin`.
                unsafe { &*lease }.taken.store(order, Ordering::Relaxed);
            });
        }
        self.plain.is_open = true;
        self.forget_leases();
    }

    /// How many chunks are consumed just now, by leases that can go on in the lane, as those of the
    /// producers; None where there is anything else with any chunk or envelope. Those that are
    /// consumed are the oldest: the lane does not know of any that were given back behind them.
    fn count_taken(&self) -> Option<usize> {
        let (mut place, mut taken, mut fresh) = (self.head, 0, false);
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            let envelope = &self.envelopes[chunk.first as usize];
            let apart = chunk.passed == 0
                && chunk.filling | chunk.failed == 0
                && !chunk.hidden
                && !chunk.changed;
            if !apart || chunk.replicas != 1 || envelope.next != NONE {
                return None;
            }
            if chunk.taken != 0 {
                let goes_on = chunk.leases == 1
                    && envelope.leases == 1
                    && self.tenure_of(chunk.first) & CONSUMES != 0;
                if fresh || !goes_on {
                    return None;
                }
                taken += 1;
            }
            fresh = chunk.taken == 0;
            place = chunk.next;
        }
        let produces = |number: &usize| {
            let envelope = &self.envelopes[*number];
            // What a swap has brought it has said how long it is, which the lane does not ask.
            let new = envelope.stage == Stage::Producing
                && envelope.leases == 1
                && envelope.length == UNSET;
            new && self.tenure_of(*number as u32) & PRODUCES != 0
        };
        // Most often it is enough to have looked at the chunks.
        let producing =
            if self.reserved == 0 { 0 } else { (0..self.envelopes.len()).filter(produces).count() };
        (producing as u64 == self.reserved && producing + taken == self.leases as usize)
            .then_some(taken)
    }

    /// Of the lease that has this envelope's number, if it is one of a link that the lane serves;
    /// else 0.
    fn tenure_of(&self, number: u32) -> u64 {
        let Some(terms) = self.terms.get(number as usize) else { return 0 };
        let Some(role) = terms.role else { return 0 };
        let serves = terms.envelope == number && terms.unit == COMPETING && !terms.settled;
        match self.links.get(terms.link as usize) {
            Some(link) if link.alive && serves => word(role, terms.link, terms.autocommit),
            _ => 0,
        }
    }

    /// The lane knows of them from here on. `relink_terms` follows when it is closed.
    fn forget_leases(&mut self) {
        for number in 0..self.envelopes.len() as u32 {
            let envelope = &mut self.envelopes[number as usize];
            if envelope.leases != 0 {
                envelope.leases = 0;
                let terms = &mut self.terms[number as usize];
                terms.role = None;
                self.links[terms.link as usize].leases -= 1;
            }
        }
        (self.leases, self.reserved) = (0, 0);
    }

    /// Enters in the tables what is in the lane, and with whom.
    #[cold]
    #[inline(never)]
    fn close_lane(&mut self) {
        self.plain.is_open = false;
        let lanes = std::mem::take(&mut self.plain.lanes);
        let Some(lane) = lanes.last() else { return };
        let closed = lane.close();
        let traffic = closed.traffic();
        let stats = self.stats;
        self.empty_tables();
        // SAFETY: handles of the hub's, which are there as long as it is.
        let number = |lease: *mut Lease| unsafe { &*lease }.number();
        // By a mistake of the caller's an envelope may be there twice: where it is found first
        // counts.
        for number in closed.free().map(number) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.put_back(number);
            }
        }
        for number in closed.ready().map(number) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.envelopes[number as usize].stage = Stage::Filling;
            }
        }
        self.enter_leases();
        for number in closed.ready().map(number) {
            if self.envelopes[number as usize].stage == Stage::Filling {
                let length = Hub::handle(self, number).length.load(Ordering::Relaxed);
                self.append(number, length);
            }
        }
        self.relink_terms();
        self.stats.chunks_produced = stats.chunks_produced + traffic.produced;
        self.stats.chunks_consumed = stats.chunks_consumed + traffic.consumed;
        self.stats.queue_high_water = stats.queue_high_water.max(traffic.most);
        self.changes += traffic.produced + traffic.consumed;
        self.plain.lanes = lanes;
        let (used, needed) = (traffic.produced + traffic.consumed, self.needed());
        let later = self.plain.patience.saturating_mul(2).clamp(needed, LATE.max(needed));
        self.plain.patience =
            if used >= u64::from(self.plain.patience) * 2 { needed } else { later };
        self.plain.was_used = used >= self.envelopes.len() as u64;
        self.plain.calm = 0;
    }

    /// As if there were neither chunks nor leases, and every envelope with somebody.
    fn empty_tables(&mut self) {
        (self.head, self.tail, self.queued, self.queued_bytes) = (NONE, NONE, 0, 0);
        self.cursors[0] = NONE;
        self.stats.leased_envelopes = 0;
        (self.pools[0].free, self.pools[0].free_count) = (NONE, 0);
        self.free_chunk = NONE;
        for (number, chunk) in self.chunks.iter_mut().enumerate().rev() {
            chunk.vanish(self.free_chunk);
            self.free_chunk = number as u32;
        }
        for envelope in &mut self.envelopes {
            envelope.stage = Stage::Producing;
        }
    }

    /// Of those envelopes that are in neither queue.
    fn enter_leases(&mut self) {
        let mut consumed = std::mem::take(&mut self.plain.consumed);
        for number in 0..self.envelopes.len() as u32 {
            if self.envelopes[number as usize].stage != Stage::Producing {
                continue;
            }
            let tenure = holder(Hub::handle(self, number));
            let lease = Hub::handle(self, number);
            let (length, taken) =
                (lease.length.load(Ordering::Relaxed), lease.taken.load(Ordering::Relaxed));
            if tenure & CONSUMES != 0 {
                self.envelopes[number as usize].length = length;
                // Not to be read once more: who gives it back just now has nothing there until it
                // finds the lane closed.
                consumed.push((taken, number, tenure));
                continue;
            }
            // Not what the handle says: the holder may be about to commit.
            self.envelopes[number as usize].length = UNSET;
            self.reserved += 1;
            self.enter_lease(number, tenure, Role::Produce, NONE);
        }
        consumed.sort_unstable();
        for (_, number, tenure) in consumed.drain(..) {
            let (length, place) = (self.envelopes[number as usize].length, self.free_chunk);
            self.append(number, length);
            // Nobody else is to have it, and it is not the next one for anybody.
            let chunk = &mut self.chunks[place as usize];
            chunk.taken = COMPETING;
            (chunk.consumers, chunk.leases, chunk.holder) = (1, 1, (tenure >> LINK) as u32);
            self.cursors[0] = NONE;
            self.enter_lease(number, tenure, Role::Consume, place);
        }
        self.plain.consumed = consumed;
    }

    fn enter_lease(&mut self, number: u32, tenure: u64, role: Role, place: u32) {
        let link = (tenure >> LINK) as u32;
        let order = if place == NONE { 0 } else { self.chunks[place as usize].order };
        self.occupy_terms(number, role, tenure & COMMITS != 0, (place, order), link);
        self.envelopes[number as usize].leases = 1;
        self.stats.leased_envelopes += 1;
        self.leases += 1;
        if let Some(link) = self.links.get_mut(link as usize) {
            link.leases += 1;
        }
    }
}

/// Who has an envelope that is in neither queue. Whoever has found the lane closed when giving it
/// back is about to say that it has it still.
fn holder(lease: &Lease) -> u64 {
    let mut patience = Patience::new();
    loop {
        let tenure = lease.tenure.load(Ordering::Relaxed);
        if tenure != 0 {
            return tenure;
        }
        patience.wait();
    }
}

pub(crate) fn no_lane() -> AtomicPtr<Lane<Lease>> {
    AtomicPtr::new(null_mut())
}
