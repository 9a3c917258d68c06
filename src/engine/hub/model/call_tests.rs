//! Random calls on hubs. Each has to return what `hub::model::rules` says: served with this chunk,
//! not now, never, closed, or invalid. One thread, and no GPU memory, so everything that a call has
//! made possible is done when it returns.

use crate::engine::base::seed::{given_seed, seed, Random};
use crate::engine::base::status::{Result, Status};
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::{Hub, HubParams};
use crate::engine::hub::lease_many::lease_many;
use crate::engine::hub::link::{Link, LinkParams};
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::model::rules::{self as rules, Ask, Model, Step, COMPETE};
use crate::engine::hub::records::{HubStats, Retain, Role};
use crate::engine::ucx::context::{feature, Context, ContextParams};
use crate::engine::ucx::memory_type::{DUMMY, HOST};
use std::ptr::{null, null_mut};
use std::sync::Arc;

const SIZE: u64 = 24;
const MOST_THERE: usize = 5;

pub(super) struct World {
    pub(super) random: Random,
    context: Arc<Context>,
    pub(super) hub: Arc<Hub>,
    pub(super) model: Model,
    /// By the model's numbers; null for destroyed ones.
    handles: Vec<*mut Link>,
    /// All kinds, and those that the hub knows, by its pool numbers.
    kinds: Vec<MemoryKind>,
    pub(super) pools: Vec<MemoryKind>,
    pub(super) before: HubStats,
    next_word: u64,
    /// Number of steps without calls that need the tables.
    pub(super) plain_for: usize,
    pub(super) step: Step,
    /// The top chunk, and the pool for which STARVED was returned, until a link is created or
    /// destroyed, the chunk is popped, or there are more envelopes.
    pub(super) stuck: Option<(u64, usize)>,
    /// How often each result was required.
    outcomes: Outcomes,
    trace: Vec<String>,
}

/// Served, not now, never, closed, invalid; and the same for calls for several links.
type Outcomes = [[u64; 5]; 2];

fn place_of(status: Option<Status>) -> usize {
    match status {
        None => 0,
        Some(Status::NO_RESOURCE) => 1,
        Some(Status::STARVED) => 2,
        Some(Status::CLOSED) => 3,
        _ => 4,
    }
}

/// Without waiting: there is none now.
fn answer<T>(answer: Result<Option<T>>) -> std::result::Result<T, Status> {
    answer.map_err(|error| error.status())?.ok_or(Status::NO_RESOURCE)
}

fn lease_of<'a>(handle: usize) -> &'a Lease {
    // SAFETY: a lease that has not ended; it keeps its hub.
    unsafe { &*(handle as *const Lease) }
}

impl World {
    fn new(context: &Arc<Context>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut limit = || if random.below(2) == 0 { 0 } else { 1 + random.below(4) as u64 };
        let (max_queue_chunks, max_queue_bytes) = (limit(), SIZE * limit());
        let retain =
            [Retain::Auto, Retain::Auto, Retain::Always, Retain::UntilCopied][random.below(4)];
        let transfers_in_flight = random.below(3) as u32;
        let params = HubParams {
            envelope_size: SIZE,
            max_queue_chunks,
            max_queue_bytes,
            retain,
            transfers_in_flight,
            worker: None,
        };
        let hub = Hub::new(context, &params).unwrap();
        let plain_for = random.below(300);
        let kinds = [(HOST, 0), (DUMMY, 0), (DUMMY, 1)]
            .map(|(memory_type, device_id)| MemoryKind { memory_type, device_id });
        let kinds = kinds[..[1, 2, 2, 3, 3][random.below(5)]].to_vec();
        let unless = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let model = Model {
            size: SIZE,
            max_chunks: unless(max_queue_chunks),
            max_bytes: unless(max_queue_bytes),
            retain,
            totals: Vec::new(),
            links: Vec::new(),
            queue: Vec::new(),
            held: Vec::new(),
            copying: Vec::new(),
            flow: false,
            closed: false,
            next_id: 0,
            produced: 0,
            consumed: 0,
            most: 0,
        };
        let mut world = World {
            random,
            context: context.clone(),
            hub,
            model,
            handles: Vec::new(),
            kinds,
            pools: Vec::new(),
            before: HubStats::default(),
            next_word: 0,
            plain_for,
            step: Step::default(),
            stuck: None,
            outcomes: [[0; 5]; 2],
            trace: vec![format!("limits {max_queue_chunks} {max_queue_bytes} {retain:?}")],
        };
        for kind in world.kinds.clone() {
            // Some kinds get no envelopes, or are unknown to the hub.
            let count = world.random.below(8).min(4);
            world.add_envelopes(kind, count);
        }
        for _ in 0..2 + world.random.below(6) {
            world.add_link();
        }
        world
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.push(what.to_string());
    }

    fn some_kind(&mut self) -> MemoryKind {
        self.kinds[self.random.below(self.kinds.len())]
    }

    fn pool(&mut self, kind: MemoryKind) -> usize {
        self.pools.iter().position(|known| *known == kind).unwrap_or_else(|| {
            self.pools.push(kind);
            self.model.totals.push(0);
            self.pools.len() - 1
        })
    }

    fn add_envelopes(&mut self, kind: MemoryKind, count: usize) {
        self.hub.add_envelopes(kind, count).unwrap();
        if count > 0 {
            let pool = self.pool(kind);
            self.model.totals[pool] += count;
            self.say(format_args!("{count} envelopes on {kind}, pool {pool}"));
        }
    }

    fn add_link(&mut self) {
        let roles = [
            Role::Produce,
            Role::Produce,
            Role::Consume,
            Role::Consume,
            Role::Consume,
            Role::Peek,
            Role::Modify,
        ];
        let role = roles[self.random.below(roles.len())];
        let kind = self.some_kind();
        let broadcast = role == Role::Consume && self.random.below(2) == 0;
        let autocommit = self.random.below(2) == 0;
        let params = LinkParams { broadcast, autocommit, on_ready: None, on_ready_arg: null_mut() };
        let mut handle = null_mut();
        Link::make(&self.hub, role, kind, &params, |made| handle = made).unwrap();
        let pool = self.pool(kind);
        let number = self.model.links.len();
        let group =
            // SAFETY: just created. The bit of a broadcast consumer does not matter, except that
            // chunks have to forget a reused one.
            if broadcast { unsafe { &*handle }.request.unit.trailing_zeros() } else { COMPETE };
        if broadcast {
            self.model.queue.iter_mut().for_each(|chunk| chunk.had &= !(1 << group));
        }
        let ask = Ask { role, pool, group, link: Some(number) };
        self.model.links.push(rules::Link { alive: true, ask, autocommit, in_flow: false });
        self.handles.push(handle);
        self.step.flowed = true;
        self.say(format_args!("link {number}: {role:?} pool {pool} group {group}"));
    }

    fn remove_link(&mut self) {
        let Some(number) = self.any_link() else { return };
        self.say(format_args!("link {number} goes"));
        self.model.links[number].alive = false;
        if self.model.links[number].ask.role == Role::Consume {
            self.model.settle();
        }
        self.step.flowed = true;
        // SAFETY: alive, and not used afterwards.
        unsafe { Link::destroy(std::mem::replace(&mut self.handles[number], null_mut())) };
    }

    fn any_link(&mut self) -> Option<usize> {
        let alive: Vec<_> =
            (0..self.handles.len()).filter(|number| self.model.links[*number].alive).collect();
        (!alive.is_empty()).then(|| alive[self.random.below(alive.len())])
    }

    fn link(&self, number: usize) -> &Link {
        // SAFETY: the callers have checked that it is alive.
        unsafe { &*self.handles[number] }
    }

    fn set_flow(&mut self) {
        let adds = self.random.below(4) == 0;
        let mut links = Vec::new();
        for _ in 0..if adds { 1 } else { self.random.below(4) } {
            links.extend(self.any_link());
        }
        if adds && links.is_empty() {
            return;
        }
        self.say(format_args!("flow to {links:?}, added: {adds}"));
        let all: Vec<_> = links.iter().map(|number| self.link(*number)).collect();
        let done = if adds { self.hub.add_flow(all[0]) } else { self.hub.set_flow(&all) };
        if links.iter().any(|number| self.model.links[*number].ask.role == Role::Produce) {
            assert_eq!(done.unwrap_err().status(), Status::INVALID_PARAM);
            return;
        }
        done.unwrap();
        if !adds {
            self.model.links.iter_mut().for_each(|link| link.in_flow = false);
        }
        links.iter().for_each(|number| self.model.links[*number].in_flow = true);
        self.model.flow = !links.is_empty();
        self.step.flowed = true;
    }

    /// Checks what a lease shows, and writes something new if it may.
    fn begin(&mut self, ask: Ask, handle: *const Lease, chunk: Option<u64>) {
        let view = lease_of(handle as usize).view().unwrap();
        assert_eq!((view.kind, view.capacity), (self.pools[ask.pool], SIZE));
        let data = view.data as usize;
        let shared = self
            .model
            .held
            .iter()
            .find(|held| held.data == data)
            .map(|held| (held.ask.role, held.word, held.length));
        assert!(
            shared.is_none_or(|(role, ..)| role != Role::Produce && ask.role != Role::Produce),
            "one envelope for two"
        );
        let held = self.model.take(ask, chunk, data);
        held.handle = handle as usize;
        match ask.role {
            Role::Produce => assert_eq!(view.length, 0),
            Role::Modify if shared.is_some() => (_, held.word, held.length) = shared.unwrap(),
            _ => {}
        }
        let expected = held.word;
        let length = held.length.unwrap_or(SIZE);
        if ask.role != Role::Produce {
            assert_eq!(view.length, length, "the length of another one");
        }
        self.check_words(
            data,
            view.metadata,
            expected,
            if ask.role == Role::Produce { 0 } else { length },
        );
        if matches!(ask.role, Role::Produce | Role::Modify) {
            self.next_word += 1;
            let word = self.next_word;
            // SAFETY: leased to us for writing.
            unsafe {
                view.data.write_bytes(word as u8, SIZE as usize);
                view.metadata.cast::<u64>().write(word);
            }
            self.model
                .held
                .iter_mut()
                .filter(|held| held.data == data)
                .for_each(|held| held.word = word);
        }
    }

    fn lease(&mut self) {
        let Some(number) = self.any_link() else { return };
        let ask = self.model.links[number].ask;
        let due = self.model.lease(&ask);
        self.say(format_args!("{:?} {number}: {due:?}", ask.role));
        let found = answer(self.link(number).lease(0));
        self.served(ask, due, found);
    }

    fn served(
        &mut self,
        ask: Ask,
        due: rules::Answer,
        found: std::result::Result<*const Lease, Status>,
    ) {
        self.outcomes[0][place_of(due.err())] += 1;
        if due == Err(Status::STARVED)
            && self.model.totals.get(ask.pool).is_some_and(|total| *total > 0)
        {
            self.stuck = Some((self.model.queue[0].id, ask.pool));
        }
        match (due, found) {
            (Ok(chunk), Ok(handle)) => self.begin(ask, handle, chunk),
            (due, found) => assert_eq!(found.err(), due.err(), "{ask:?}: {due:?} was due"),
        }
    }

    /// `ucxx_hub_push` and `_peek`.
    fn by_hand(&mut self, role: Role) {
        let kind = self.some_kind();
        let pool = self.pools.iter().position(|known| *known == kind);
        let ask = Ask { role, pool: pool.unwrap_or(usize::MAX), group: COMPETE, link: None };
        let due = if pool.is_some() { self.model.lease(&ask) } else { Err(Status::STARVED) };
        self.say(format_args!("{role:?} by hand, pool {pool:?}: {due:?}"));
        self.step.asked = pool.filter(|_| role == Role::Peek);
        let found = answer(if role == Role::Produce {
            self.hub.push(kind)
        } else {
            self.hub.peek(kind, 0)
        });
        self.served(ask, due, found);
    }

    fn pop(&mut self) {
        let top = self.model.queue.first().map(|chunk| chunk.id);
        let due = match top {
            None => Err(Status::NO_ELEM),
            Some(_) if self.model.held.iter().any(|held| held.chunk == top) => Err(Status::BUSY),
            Some(_) => Ok(()),
        };
        self.say(format_args!("pop: {due:?}"));
        assert_eq!(self.hub.pop().map_err(|error| error.status()), due);
        if due.is_ok() {
            self.model.queue.remove(0);
            self.model.consumed += 1;
        }
    }

    fn end(&mut self) {
        if self.model.held.is_empty() {
            return;
        }
        let at = self.random.below(self.model.held.len());
        let held = self.model.held[at].clone();
        let lease = lease_of(held.handle);
        let view = lease.view().unwrap();
        self.check_words(held.data, view.metadata, held.word, 0);
        let how = self.random.below(8);
        let length = self.random.next() % (SIZE + 3);
        self.say(format_args!(
            "end {how} of {:?} {:?}, link {:?}: {length}",
            held.ask.role, held.chunk, held.ask.link
        ));
        let commit = match how {
            0..=3 => {
                if matches!(held.ask.role, Role::Produce | Role::Modify) {
                    // The contents that a swap brought may be shorter.
                    // SAFETY: leased to us for writing.
                    unsafe { view.data.write_bytes(held.word as u8, SIZE as usize) };
                }
                let done = lease.commit(length, null_mut()).map(drop);
                if length > SIZE && matches!(held.ask.role, Role::Produce | Role::Modify) {
                    return assert_eq!(done.unwrap_err().status(), Status::INVALID_PARAM);
                }
                done.unwrap();
                Some(length)
            }
            4 | 5 => {
                drop(lease.release(null_mut()).unwrap());
                held.autocommit.then(|| held.length.unwrap_or(SIZE))
            }
            _ => {
                drop(lease.abort(null_mut()).unwrap());
                None
            }
        };
        self.model.end(at, commit);
    }

    fn swap(&mut self) {
        if self.model.held.len() < 2 {
            return;
        }
        let one = self.random.below(self.model.held.len());
        let other =
            (one + 1 + self.random.below(self.model.held.len() - 1)) % self.model.held.len();
        let refusals = self.model.swap_refusals(one, other);
        let [a, b] = [one, other].map(|at| lease_of(self.model.held[at].handle));
        let what = [one, other].map(|at| (self.model.held[at].ask.role, self.model.held[at].chunk));
        self.say(format_args!("swap of {what:?}: {refusals:?}"));
        match a.swap(b) {
            Ok(()) => assert!(refusals.is_empty(), "{refusals:?} was due"),
            Err(error) => {
                return assert!(
                    refusals.contains(&error.status()),
                    "{}: {refusals:?}",
                    error.message()
                )
            }
        }
        self.model.swap(one, other);
        for at in [one, other] {
            let held = &self.model.held[at];
            let view = lease_of(held.handle).view().unwrap();
            assert_eq!((view.data as usize, view.length), (held.data, held.length.unwrap_or(0)));
            self.check_words(held.data, view.metadata, held.word, 0);
        }
    }

    fn together(&mut self) {
        let mut numbers = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            numbers.extend(self.any_link());
        }
        let asks: Vec<_> = numbers.iter().map(|number| self.model.links[*number].ask).collect();
        let due = self.model.lease_many(&asks);
        self.say(format_args!("together {numbers:?}: {due:?}"));
        let links: Vec<_> = numbers.iter().map(|number| self.link(*number)).collect();
        let mut handles = vec![null(); links.len()];
        let found = lease_many(&links, 0, &mut handles).map_err(|error| error.status());
        let refusal = match found {
            Ok(true) => None,
            Ok(false) => Some(Status::NO_RESOURCE),
            Err(status) => Some(status),
        };
        assert!(due.refusals.contains(&refusal), "{refusal:?}, and {due:?} was due");
        self.outcomes[1][place_of(refusal)] += 1;
        self.step.given = due.given;
        if refusal.is_none() {
            for ((ask, handle), chunk) in asks.into_iter().zip(handles).zip(due.chunks) {
                self.begin(ask, handle, chunk);
            }
        }
    }

    fn close(&mut self) {
        self.say(format_args!("close"));
        self.hub.close().unwrap();
        self.model.closed = true;
    }

    fn step(&mut self) {
        self.step = Step::default();
        let mut turn = self.random.below(80);
        if self.plain_for > 0 {
            self.plain_for -= 1;
            if matches!(turn, 2..=6 | 11..=23) {
                turn = 79;
            }
        }
        if matches!(turn, 0 | 1 | 4 | 6) {
            self.stuck = None;
        }
        match turn {
            0 => self.add_link(),
            1 if self.random.below(2) == 0 => self.remove_link(),
            2 | 3 => self.set_flow(),
            4 => self.pop(),
            5 if self.random.below(40) == 0 => self.close(),
            6 => {
                let kind = self.some_kind();
                let there = self
                    .pools
                    .iter()
                    .position(|known| *known == kind)
                    .map_or(0, |pool| self.model.totals[pool]);
                let count = usize::from(there < MOST_THERE);
                self.add_envelopes(kind, count);
            }
            7..=10 => self.by_hand(Role::Produce),
            11..=14 => self.by_hand(Role::Peek),
            15..=19 => self.together(),
            20..=23 => self.swap(),
            24..=27 => self.ask_about(),
            28..=49 => self.end(),
            _ => self.lease(),
        }
        self.see();
    }

    /// Ends the hub, by close or at once by destroy.
    fn wind_up(mut self) -> Outcomes {
        self.close();
        for _ in 0..80 {
            self.step = Step::default();
            match self.random.below(3) {
                0 => self.end(),
                1 => self.lease(),
                _ => self.together(),
            }
            self.see();
        }
        let (hub, held) = (self.hub, self.model.held);
        hub.destroy();
        for handle in self.handles.into_iter().filter(|handle| !handle.is_null()) {
            // SAFETY: alive, and not used afterwards.
            unsafe {
                assert_eq!(answer((*handle).lease(0)).err(), Some(Status::CLOSED));
                Link::destroy(handle);
            }
        }
        for (number, held) in held.iter().enumerate() {
            let lease = lease_of(held.handle);
            assert_eq!(lease.commit(0, null_mut()).map(drop).unwrap_err().status(), Status::CLOSED);
            drop(
                if number % 2 == 0 { lease.abort(null_mut()) } else { lease.release(null_mut()) }
                    .unwrap(),
            );
        }
        drop(self.context);
        self.outcomes
    }
}

#[test]
fn each_call_answers_what_it_must() {
    let params = ContextParams {
        features: feature::TAG,
        config: Vec::new(),
        local_network: true,
        name: None,
    };
    let context = Context::new(&params).unwrap();
    let (first, rounds) = (seed(), if given_seed().is_some() { 1 } else { 2000 });
    let mut outcomes: Outcomes = [[0; 5]; 2];
    for round in 0..rounds {
        let seed = first.wrapping_add(round);
        let mut world = World::new(&context, seed);
        let run = std::panic::AssertUnwindSafe(|| (0..400).for_each(|_| world.step()));
        let ended = std::panic::catch_unwind(run);
        let trace = std::mem::take(&mut world.trace);
        let ended = ended.and_then(|()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.wind_up()))
        });
        match ended {
            Ok(counted) => {
                let sums = outcomes.iter_mut().flatten();
                sums.zip(counted.into_iter().flatten()).for_each(|(sum, count)| *sum += count);
            }
            Err(panic) => {
                let last = trace.len().saturating_sub(80);
                eprintln!(
                    "UCXX_TEST_SEED=0x{seed:x}; {}\nthe last steps:\n{}",
                    trace[0],
                    trace[last..].join("\n")
                );
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("served, not now, never, no more, not so: {outcomes:?}");
    let each = outcomes[0][..4].iter().chain(&outcomes[1]);
    assert!(
        rounds == 1 || each.into_iter().all(|count| *count > 0),
        "an answer that was never due: {outcomes:?}"
    );
}
