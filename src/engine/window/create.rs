//! Creation of a window: three exchanges among all members. If one fails at one member, the
//! creation fails everywhere.
//!
//! 1. The parameters of each member, which have to match.
//! 2. The name of the segment that each member has created. If some memory was allocated by UCX,
//!    also the keys to it (see `window::mapped_key`).
//! 3. Whether each member could open the segments of the others.
//!
//! A member that was called with invalid arguments takes part as well, so that the others do not
//! wait for it.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::membarrier;
use crate::engine::base::open_metrics::Serial;
use crate::engine::base::spin_lock::SpinLock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::monitor::registry::{self, Pulse};
use crate::engine::core::monitor::wait_note::WaitNote;
use crate::engine::group::group::Group;
use crate::engine::os::own_memory;
use crate::engine::os::process_identity::{self, Identity};
use crate::engine::os::shared_segment::{Segment, SegmentName};
use crate::engine::ucx::registered_memory::Memory;
use crate::engine::window::access::{Process, Reach};
use crate::engine::window::control_words::Control;
use crate::engine::window::counts::Counts;
use crate::engine::window::delegation::delegation::Pause;
use crate::engine::window::epoch::Epoch;
use crate::engine::window::lock::rw_lock::WindowLock;
use crate::engine::window::mapped_key::{WindowKey, MOST_OF_KEY};
use crate::engine::window::remote::blocked_queue::BlockedQueue;
use crate::engine::window::remote::remote::Remote;
use crate::engine::window::window::{Flavor, Target, Turns, Window, WindowParams};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};

/// One member's parameters.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Kind of memory.
    pub flavor: Flavor,
    /// Address of the caller's memory; 0 for the library's.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
    /// Displacement unit in bytes.
    pub unit: u32,
}

/// One member's parameters, as they are sent.
pub struct Call {
    status: Status,
    wanted: Wanted,
    noncontiguous: bool,
    /// It supports the barriers of `window::data::exclusive_bulk`.
    takes_part: bool,
    /// Some of its memory may not be readable or writable: the kernel has to check each access.
    is_guarded: bool,
    in_common: [u64; 2],
    /// Its proposal for the window's number; the greatest is used.
    number: u64,
    /// Length of the key to its memory; 0 without a key.
    key: u64,
}

const CALL: usize = 72;

impl Call {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; CALL] {
        let Wanted { flavor, base, size, unit } = self.wanted;
        let bits = u64::from(flavor as u8)
            | u64::from(self.noncontiguous) << 8
            | u64::from(self.takes_part) << 9
            | u64::from(self.is_guarded) << 10
            | u64::from(unit) << 32;
        let [first, second] = self.in_common;
        encode([self.status.0 as u64, bits, base, size, first, second, self.number, self.key])
    }

    /// Decodes received bytes. `None` if they are from another version of the library.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [status, bits, base, size, first, second, number, key] = decode(bytes)?;
        let flavor = [Flavor::Create, Flavor::Allocate, Flavor::Shared, Flavor::Dynamic]
            .get((bits & 0xff) as usize)?;
        let wanted = Wanted { flavor: *flavor, base, size, unit: (bits >> 32) as u32 };
        let [noncontiguous, takes_part, is_guarded] = [8, 9, 10].map(|bit| bits >> bit & 1 != 0);
        let (status, in_common) = (Status(status as i32), [first, second]);
        Some(Call { status, wanted, noncontiguous, takes_part, is_guarded, in_common, number, key })
    }
}

/// Version of these messages; the first word of each.
const VERSION: u64 = 3;

fn encode<const N: usize, const BYTES: usize>(words: [u64; N]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    debug_assert_eq!(BYTES, 8 * (N + 1));
    bytes[..8].copy_from_slice(&VERSION.to_le_bytes());
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn decode<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let word =
        |at: usize| Some(u64::from_le_bytes(bytes.get(8 * at..8 * at + 8)?.try_into().ok()?));
    if word(0)? != VERSION {
        return None;
    }
    let mut words = [0; N];
    for (at, place) in words.iter_mut().enumerate() {
        *place = word(at + 1)?;
    }
    Some(words)
}

/// Length of the second exchange: status and place, and the segment's name.
const MADE: usize = 24;
const MADE_AND_NAME: usize = MADE + SegmentName::LENGTH;

impl Window {
    /// Creates a window together with the other members of the group. `wanted` is an error if this
    /// member was called with invalid arguments. `memory` is the registered memory to offer, if
    /// there is any.
    pub fn new(
        group: &Arc<Group>,
        wanted: Result<Wanted>,
        memory: Option<&Memory>,
        params: &WindowParams,
    ) -> Result<Arc<Self>> {
        group.check_caller()?;
        // Without a key it is treated like other memory.
        let key =
            memory.and_then(|memory| memory.packed().ok()).filter(|key| key.len() <= MOST_OF_KEY);
        let calls = agree(group, wanted, key, params)?;
        let rank = group.rank();
        let flavor = calls[rank as usize].wanted.flavor;
        let in_one_piece = flavor == Flavor::Shared && !params.noncontiguous;
        let members = if flavor == Flavor::Shared { group.check_one_host() } else { Ok(()) };
        let made = members.and_then(|()| make(&calls, rank, in_one_piece));
        let names = gather_names(group, &made)?;
        let made = made?;
        let keys = gather_keys(group, &calls, key)?;
        let mut targets = Vec::with_capacity(calls.len());
        let mut made = Some(made);
        let opening = Opening { group, calls: &calls, names: &names, keys: &keys, in_one_piece };
        let opened = opening.open_all(&mut made, &mut targets);
        // Before anything is executed for others, who know the result as soon as they leave this
        // exchange.
        let is_mapped = match keys.is_empty() {
            true => {
                matches!(flavor, Flavor::Allocate | Flavor::Shared)
                    || (calls.len() == 1 && !calls[0].is_guarded)
            }
            false => all_say(group, opened.is_ok() && targets.iter().all(Target::is_mapped))?,
        };
        let window = Arc::new_cyclic(|me| {
            Self::assemble(group, &calls, params, targets.into(), is_mapped, me)
        });
        // A member that leaves the last exchange may send operations at once.
        let entered = opened.is_ok();
        if entered {
            group.service.windows().enter(&window);
        }
        // Shares the outcome even after an error: this member's segment has to exist until the
        // others have opened it.
        let outcome = share_outcome(group, "could not reach the others", opened);
        let outcome = outcome.and_then(|()| window.check_promises(params));
        if outcome.is_err() && entered {
            window.leave();
        }
        if outcome.is_ok() {
            group.service.user.add_window(&window);
        }
        outcome.map(|()| {
            let watched: Weak<Window> = Arc::downgrade(&window);
            registry::watch(watched, Pulse::default());
            let how = if window.is_mapped { "all memory is mapped" } else { "not all is mapped" };
            log::at!(DEBUG, Window, &*window, "created, {how}");
            window
        })
    }

    fn assemble(
        group: &Arc<Group>,
        calls: &[Call],
        params: &WindowParams,
        targets: Box<[Target]>,
        is_mapped: bool,
        me: &Weak<Window>,
    ) -> Self {
        let ranks = calls.len() as u32;
        let number = calls.iter().map(|call| call.number).max().unwrap_or_default();
        group.service.windows().take_number(number);
        let zeros = || vec![0; ranks as usize].into();
        let rank = group.rank();
        Window {
            group: group.clone(),
            flavor: calls[rank as usize].wanted.flavor,
            rank,
            epoch: Epoch::new(ranks, params.no_locks),
            has_remotes: targets.iter().any(|target| target.remote().is_some()),
            has_far: targets.iter().any(|target| target.control.is_none()),
            targets,
            turns: SpinLock::new(Turns {
                posts: zeros(),
                completions: zeros(),
                barriers: 0,
                looked: 0,
            }),
            lock_timeout_ns: AtomicU64::new(params.lock_timeout_ns),
            granularity: AtomicU64::new(params.granularity),
            is_mapped,
            has_bulk: calls.iter().all(|call| call.takes_part),
            closed: AtomicBool::new(false),
            attached: Mutex::default(),
            number,
            visitors: AtomicU32::new(0),
            complaints: (0..ranks).map(|_| AtomicI32::new(0)).collect(),
            far_holds: Mutex::default(),
            aside: BlockedQueue::default(),
            wait_note: WaitNote::default(),
            counts: Counts::default(),
            serial: Serial::new(),
            me: me.clone(),
        }
    }
}

/// State of opening the members' segments.
struct Opening<'a> {
    group: &'a Group,
    calls: &'a [Call],
    names: &'a [Named],
    /// UCX's keys to the callers' memory.
    keys: &'a [Vec<u8>],
    in_one_piece: bool,
}

impl Opening<'_> {
    /// Opens the segment of each member; of this process it is `made`.
    fn open_all(&self, made: &mut Option<Segment>, targets: &mut Vec<Target>) -> Result<()> {
        for rank in 0..self.calls.len() as u32 {
            let process = self.group.identity(rank);
            let process = process.ok_or_else(|| {
                Error::new(Status::UNSUPPORTED, format!("rank {rank}: is unknown"))
            })?;
            let target = self.open(rank, process, made, targets).map_err(|error| {
                // A dying process's descriptors close a little before the process ends, so check
                // whether it still lives.
                match rank == self.group.rank() || process_identity::goes_on(&process) {
                    true => Error::new(error.status(), format!("rank {rank}: {}", error.message())),
                    false => self.group.lost(rank),
                }
            })?;
            if target.remote().is_some() {
                // Connect, so that its end is noticed.
                self.group.service.watch(self.group.ranks[rank as usize]);
            }
            targets.push(target);
        }
        Ok(())
    }

    fn open(
        &self,
        rank: u32,
        process: Identity,
        made: &mut Option<Segment>,
        before: &[Target],
    ) -> Result<Target> {
        let call = &self.calls[rank as usize];
        let segment = match made.take_if(|_| rank == self.group.rank()) {
            Some(segment) => Some(segment),
            None if !self.group.shares_host(rank) => None,
            None => Some(Segment::open(&self.names[rank as usize].name)?),
        };
        let length = segment.as_ref().map(|segment| segment.data_length() as u64);
        if length.is_some_and(|length| length != data_of(self.calls, rank, self.in_one_piece)) {
            return Err(Error::new(
                Status::INVALID_ADDR,
                "its memory does not have the size that it announced",
            ));
        }
        let (reach, key) = self.reach(rank, &process, segment.as_ref(), before)?;
        let (ranks, flavor) = (self.calls.len() as u32, call.wanted.flavor);
        let control = segment.map(|segment| Control::new(segment, ranks, flavor)).transpose()?;
        Ok(Target {
            control,
            reach,
            _key: key,
            size: call.wanted.size,
            unit: call.wanted.unit,
            is_guarded: call.is_guarded,
            process,
            updates: Mutex::default(),
            pause: Pause::default(),
        })
    }

    /// Chooses how this process reaches a member's memory; the only place that does. `segment` is
    /// the member's, if it is on this host. Returns a key if that keeps a mapping.
    fn reach(
        &self,
        rank: u32,
        process: &Identity,
        segment: Option<&Segment>,
        before: &[Target],
    ) -> Result<(Reach, Option<WindowKey>)> {
        let Wanted { flavor, size, base, .. } = self.calls[rank as usize].wanted;
        let by_messages = || {
            let job_rank = self.group.ranks[rank as usize];
            Reach::Messages(Box::new(Remote::new(job_rank, base)))
        };
        let Some(segment) = segment else { return Ok((by_messages(), None)) };
        let by_kernel = |reach: fn(Process, u64) -> Reach| {
            match Process::meet(rank, process, segment, self.names[rank as usize].proof_at) {
                Ok(process) => Ok(reach(process, base)),
                // The kernel forbids it, so send messages.
                Err(error) if error.status() == Status::UNSUPPORTED => Ok(by_messages()),
                Err(error) => Err(error),
            }
        };
        let own = rank == self.group.rank();
        let reach = match flavor {
            Flavor::Shared if self.in_one_piece => {
                let whole = before.first().map_or(segment, |first| first.control().segment());
                let earlier = &self.calls[..rank as usize];
                let begin: u64 = earlier.iter().map(|call| call.wanted.size).sum();
                // SAFETY: rank 0's segment has the memory of all members, so this is inside it or
                // at its end.
                Reach::Mapped(unsafe { whole.data().add(begin as usize) })
            }
            Flavor::Allocate | Flavor::Shared => Reach::Mapped(segment.data()),
            Flavor::Create if own && self.calls[rank as usize].is_guarded => {
                Reach::Process(Process::own(rank), base)
            }
            Flavor::Create if own => Reach::Mapped(base as usize as *mut u8),
            Flavor::Create => {
                let key = self.keys.get(rank as usize);
                match key.and_then(|key| WindowKey::open(self.group, rank, key, base, size)) {
                    Some(key) => return Ok((Reach::Mapped(key.place()), Some(key))),
                    None => by_kernel(Reach::Process)?,
                }
            }
            Flavor::Dynamic if own => Reach::AttachedHere,
            Flavor::Dynamic => by_kernel(|process, _| Reach::Attached(process))?,
        };
        Ok((reach, None))
    }
}

/// The parameters of all members, if they match.
fn agree(
    group: &Group,
    wanted: Result<Wanted>,
    key: Option<&[u8]>,
    params: &WindowParams,
) -> Result<Vec<Call>> {
    let nothing = Wanted { flavor: Flavor::Create, base: 0, size: 0, unit: 1 };
    let (status, mut call) = match &wanted {
        Ok(wanted) => (Status::OK, *wanted),
        Err(error) => (error.status(), nothing),
    };
    if call.flavor == Flavor::Dynamic {
        call = Wanted { size: 0, unit: 1, base: 0, ..call };
    }
    let (noncontiguous, in_common) = (params.noncontiguous, params.in_common());
    let number = group.service.windows().next_number(group.service.rank());
    let (takes_part, key) = (membarrier::take_part(), key.map_or(0, |key| key.len() as u64));
    let is_guarded = call.flavor == Flavor::Create
        && call.size > 0
        && !own_memory::is_open(call.base, call.size);
    let call = Call {
        status,
        wanted: call,
        noncontiguous,
        takes_part,
        is_guarded,
        in_common,
        number,
        key,
    };
    let cards = gather(group, &call.encode())?;
    // This member's own error is more specific.
    wanted?;
    let mut calls: Vec<Call> = Vec::with_capacity(cards.len() / CALL);
    for (rank, card) in cards.chunks_exact(CALL).enumerate() {
        let of_rank =
            |status, what: &str| Error::new(status, format!("window: rank {rank} {what}"));
        let other = || of_rank(Status::UNSUPPORTED, "has another version of this library");
        let call = Call::decode(card).ok_or_else(other)?;
        if call.status.is_error() {
            return Err(of_rank(call.status, "called with an argument that is not valid"));
        }
        if let Some(first) = calls.first() {
            if call.wanted.flavor != first.wanted.flavor
                || call.noncontiguous != first.noncontiguous
            {
                return Err(of_rank(
                    Status::INVALID_PARAM,
                    "makes another kind of window than rank 0",
                ));
            }
            if call.in_common != first.in_common {
                return Err(of_rank(Status::INVALID_PARAM, "gave other hints than rank 0"));
            }
        }
        if call.key > MOST_OF_KEY as u64 {
            return Err(other());
        }
        calls.push(call);
    }
    if calls
        .iter()
        .try_fold(0_u64, |sum, call| sum.checked_add(call.wanted.size))
        .is_none_or(|sum| sum > 1 << 46)
    {
        return Err(Error::new(
            Status::NO_MEMORY,
            "window: the sizes of all members together are too large",
        ));
    }
    Ok(calls)
}

/// Creates this process's segment: its control words, and its memory if the library allocates it.
fn make(calls: &[Call], rank: u32, in_one_piece: bool) -> Result<Segment> {
    let wanted = &calls[rank as usize].wanted;
    let ranks = calls.len() as u32;
    if ranks > WindowLock::MAX_RANKS {
        return Err(Error::new(
            Status::EXCEEDS_LIMIT,
            format!("window: {ranks} members are too many"),
        ));
    }
    let data = data_of(calls, rank, in_one_piece);
    Segment::create(Control::bytes(ranks, wanted.flavor), data as usize)
}

/// Bytes of memory in a member's segment.
fn data_of(calls: &[Call], rank: u32, in_one_piece: bool) -> u64 {
    let wanted = &calls[rank as usize].wanted;
    match wanted.flavor {
        Flavor::Shared if in_one_piece && rank > 0 => 0,
        Flavor::Shared if in_one_piece => calls.iter().map(|call| call.wanted.size).sum(),
        Flavor::Allocate | Flavor::Shared => wanted.size,
        Flavor::Create | Flavor::Dynamic => 0,
    }
}

/// A member's segment, and the address of its header there.
struct Named {
    proof_at: u64,
    name: SegmentName,
}

fn gather_names(group: &Group, made: &Result<Segment>) -> Result<Vec<Named>> {
    let mut card = [0; MADE_AND_NAME];
    let (status, proof_at) = match made {
        Ok(segment) => (Status::OK, segment.proof_at()),
        Err(error) => (error.status(), 0),
    };
    card[..MADE].copy_from_slice(&encode::<2, MADE>([status.0 as u64, proof_at]));
    if let Ok(segment) = made {
        card[MADE..].copy_from_slice(&segment.name().encode());
    }
    let cards = gather(group, &card)?;
    if let Err(error) = made {
        return Err(Error::new(error.status(), error.message().to_owned()));
    }
    let mut names = Vec::with_capacity(cards.len() / MADE_AND_NAME);
    for (rank, card) in cards.chunks_exact(MADE_AND_NAME).enumerate() {
        let [status, proof_at] = decode(card).unwrap_or([Status::UNSUPPORTED.0 as u64, 0]);
        failed_at(rank, Status(status as i32), "could not create its part")?;
        let name = card.last_chunk().expect("of that length");
        names.push(Named { proof_at, name: SegmentName::decode(name) });
    }
    Ok(names)
}

/// The keys of all members, some of them empty; no keys if nobody has one.
fn gather_keys(group: &Group, calls: &[Call], key: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
    let longest = calls.iter().map(|call| call.key as usize).max().unwrap_or_default();
    if longest == 0 {
        return Ok(Vec::new());
    }
    let mut card = key.unwrap_or_default().to_vec();
    card.resize(longest, 0);
    let cards = gather(group, &card)?;
    let of_call = |(call, card): (&Call, &[u8])| card[..call.key as usize].to_vec();
    Ok(calls.iter().zip(cards.chunks_exact(longest)).map(of_call).collect())
}

/// Is it true at every member?
fn all_say(group: &Group, say: bool) -> Result<bool> {
    let cards = gather(group, &encode::<1, 16>([say.into()]))?;
    Ok(cards.chunks_exact(16).all(|card| decode(card) == Some([1])))
}

/// Succeeds if it has succeeded at every member.
fn share_outcome(group: &Group, what: &str, outcome: Result<()>) -> Result<()> {
    let status = outcome.as_ref().err().map_or(Status::OK, Error::status);
    let cards = gather(group, &encode::<1, 16>([status.0 as u64]))?;
    outcome?;
    for (rank, card) in cards.chunks_exact(16).enumerate() {
        let [status] = decode(card).unwrap_or([Status::UNSUPPORTED.0 as u64]);
        failed_at(rank, Status(status as i32), what)?;
    }
    Ok(())
}

fn failed_at(rank: usize, status: Status, what: &str) -> Result<()> {
    if !status.is_error() {
        return Ok(());
    }
    Err(Error::new(
        status,
        format!("window: rank {rank} {what}: {}", status.sentence().to_string_lossy()),
    ))
}

pub(crate) fn gather(group: &Group, card: &[u8]) -> Result<Vec<u8>> {
    let mut cards = vec![0; card.len() * group.size() as usize];
    // SAFETY: `card` has this length, and `cards` has as much for each member.
    unsafe { group.allgather(card.as_ptr().cast(), card.len(), cards.as_mut_ptr().cast()) }?;
    Ok(cards)
}

impl Group {
    /// Can this process share memory with the member?
    fn shares_host(&self, rank: u32) -> bool {
        let both = self.identity(self.rank()).zip(self.identity(rank));
        both.is_some_and(|(mine, theirs)| mine.shares_host_with(&theirs))
    }

    /// Returns an error unless all members can share memory.
    fn check_one_host(&self) -> Result<()> {
        for rank in 0..self.size() {
            if !self.shares_host(rank) {
                return Err(Error::new(
                    Status::UNSUPPORTED,
                    format!(
                        "window: rank {rank} is on another host, or in another pid namespace, \
                        than rank {}; make a group of those on one host with ucxx_group_subset",
                        self.rank()
                    ),
                ));
            }
        }
        Ok(())
    }
}
