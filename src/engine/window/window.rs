//! Windows: memory that each process of a group offers to the others, for one-sided communication
//! after MPI's model (MPI-4.1, chapter 12).
//!
//! This file has the window's state and its end. Creation is in `window::create`, the rules about
//! which call is legal when in `epoch`, synchronisation in `window::sync`, and data operations in
//! `window::data::data`.
//!
//! Each process has a segment of control words, which the other processes of its host map (see
//! `window::control_words`). The window's memory is mapped as well, or the kernel copies it from
//! process to process (see `window::access`). Members of other hosts send messages (see
//! `window::remote::remote`). In no case does the target have to make a call.
//!
//! **Ownership.** `targets`, and what they map, live as long as the window. `epoch` has its own
//! rules. Data calls may come from any thread. The caller serialises synchronisation calls; what
//! only they use is behind `turns`, which is only tried and never waited for. Only the thread
//! inside such a call writes this process's control words.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::{self, Subject};
use crate::engine::base::open_metrics::Serial;
use crate::engine::base::spin_lock::SpinLock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::monitor::registry;
use crate::engine::core::monitor::wait_note::WaitNote;
use crate::engine::group::group::Group;
use crate::engine::os::process_identity::{self, Identity};
use crate::engine::window::access::Reach;
use crate::engine::window::control_words::{Control, Ended, MOST_REGIONS};
use crate::engine::window::counts::Counts;
use crate::engine::window::create::gather;
use crate::engine::window::delegation::delegation::Pause;
use crate::engine::window::epoch::{Call, Epoch, Held, SyncType};
use crate::engine::window::mapped_key::WindowKey;
use crate::engine::window::remote::blocked_queue::BlockedQueue;
use crate::engine::window::remote::remote::Remote;
use crate::engine::window::remote::target::FarHold;
use crate::engine::wire::sync_constants::LockType;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// `UCXX_WINDOW_FLAVOR_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Flavor {
    /// The caller's memory.
    Create = 0,
    /// The library's memory.
    Allocate = 1,
    /// The library's memory, which every member may access by loads and stores.
    Shared = 2,
    /// Memory that each member attaches.
    Dynamic = 3,
}

/// `UCXX_WINDOW_PATH_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Path {
    /// The caller itself.
    Own = 0,
    /// A process of this host.
    Local = 1,
    /// By messages that the target executes.
    Message = 2,
}

/// Checked parameters of a window.
#[derive(Clone, Copy, Default)]
pub struct WindowParams {
    /// Locks are not allowed.
    pub no_locks: bool,
    /// All members pass the same displacement unit.
    pub same_unit: bool,
    /// All members pass the same size.
    pub same_size: bool,
    /// The members' memory need not be contiguous.
    pub noncontiguous: bool,
    /// Accumulates need no order.
    pub unordered: bool,
    /// How many bytes an accumulate updates atomically: 0 for each element, `u64::MAX` for the
    /// whole operation.
    pub granularity: u64,
    /// Timeout of locks; 0 for none.
    pub lock_timeout_ns: u64,
}

impl WindowParams {
    /// Parameters that have to be equal at all members, encoded for comparison.
    pub(crate) fn in_common(&self) -> [u64; 2] {
        let bits = [self.no_locks, self.same_unit, self.same_size, self.unordered];
        [bits.iter().fold(0, |word, bit| word << 1 | u64::from(*bit)), self.granularity]
    }
}

/// A member, as this process sees it.
pub(crate) struct Target {
    /// `None` for members of other hosts, whose control words cannot be mapped.
    pub(crate) control: Option<Control>,
    pub(crate) reach: Reach,
    /// Keeps UCX's mapping alive, if the memory is mapped by UCX.
    pub(crate) _key: Option<WindowKey>,
    pub(crate) size: u64,
    pub(crate) unit: u32,
    /// The caller's memory, of which some parts may not be readable or writable: the kernel checks
    /// each access.
    pub(crate) is_guarded: bool,
    pub(crate) process: Identity,
    /// Taken by this process's threads before the update lock, which is shared with other
    /// processes.
    pub(crate) updates: Mutex<()>,
    /// When delegation to the target is tried again.
    pub(crate) pause: Pause,
}

impl Target {
    /// The control words of a member of this host.
    pub(crate) fn control(&self) -> &Control {
        self.control.as_ref().expect("of this host")
    }

    /// The connection for messages, if the member is reached by messages.
    #[inline]
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match &self.reach {
            Reach::Messages(remote) => Some(remote),
            _ => None,
        }
    }

    /// Has the member announced that it no longer takes part?
    pub(crate) fn ended(&self) -> Option<Ended> {
        match &self.control {
            Some(control) => control.ended(),
            None => self.remote().and_then(Remote::ended),
        }
    }

    /// Is all its memory mapped here? True for members of other hosts.
    pub(crate) fn is_mapped(&self) -> bool {
        match self.reach {
            Reach::Mapped(_) => true,
            Reach::Process(..) => self.size == 0,
            Reach::Messages(_) => self.control.is_none(),
            Reach::Attached(_) | Reach::AttachedHere => false,
        }
    }

    /// Address of its memory in this process; null if it is not mapped.
    fn base(&self) -> *mut u8 {
        match self.reach {
            Reach::Mapped(base) => base,
            Reach::Process(ref process, base) if process.is_own() => {
                std::ptr::with_exposed_provenance_mut(base as usize)
            }
            _ => std::ptr::null_mut(),
        }
    }
}

/// Counters of the synchronisation calls.
pub(crate) struct Turns {
    /// By rank: posts that start has consumed.
    pub(crate) posts: Box<[u64]>,
    /// By rank: completions that wait has consumed or given up.
    pub(crate) completions: Box<[u64]>,
    pub(crate) barriers: u64,
    /// When `test` last checked whether the awaited members live.
    pub(crate) looked: u64,
}

/// See the head of this file.
pub struct Window {
    pub(crate) group: Arc<Group>,
    pub(crate) flavor: Flavor,
    pub(crate) rank: u32,
    pub(crate) epoch: Epoch,
    pub(crate) targets: Box<[Target]>,
    pub(crate) turns: SpinLock<Turns>,
    pub(crate) lock_timeout_ns: AtomicU64,
    pub(crate) granularity: AtomicU64,
    /// Members of a host reach each other's memory by mappings. The same at all members.
    pub(crate) is_mapped: bool,
    /// Accumulates of very many elements run exclusively.
    pub(crate) has_bulk: bool,
    pub(crate) closed: AtomicBool,
    /// Attached regions, sorted, without empty ones.
    pub(crate) attached: Mutex<Vec<(u64, u64)>>,
    /// Number of the window: equal at all members, and different from other windows of any of them.
    pub(crate) number: u64,
    /// Some members are reached by messages.
    pub(crate) has_remotes: bool,
    /// Some members are on other hosts.
    pub(crate) has_far: bool,
    /// Threads of the service that are using the window now.
    pub(crate) visitors: AtomicU32,
    /// By rank: the first error of an operation there since its last flush.
    pub(crate) complaints: Box<[AtomicI32]>,
    /// Members of other hosts that hold this member's lock.
    pub(crate) far_holds: Mutex<HashMap<u32, FarHold>>,
    /// Messages that wait for the update lock.
    pub(crate) aside: BlockedQueue,
    pub(crate) wait_note: WaitNote,
    pub(crate) counts: Counts,
    pub(crate) serial: Serial,
    pub(crate) me: Weak<Window>,
}

// SAFETY: the pointers are to mappings that live as long as the window, or to memory that the
// caller promised to keep. Epochs define which process may access it when.
unsafe impl Send for Window {}
// SAFETY: what changes is atomic or locked; concurrent access to the memory follows MPI's rules.
unsafe impl Sync for Window {}

/// Result of `ucxx_window_query`.
pub struct Attributes {
    /// Kind of the window.
    pub flavor: Flavor,
    /// Memory of this process; null for dynamic windows.
    pub base: *mut c_void,
    /// Size in bytes.
    pub size: u64,
    /// Displacement unit in bytes.
    pub unit: u32,
    /// State of the whole window.
    pub sync_type: SyncType,
}

/// Such as `worker 1 "rx", group 8d3f5a1c, rank 0 of 4, window 2`.
impl Subject for Window {
    fn subject(&self) -> String {
        format!("{}, window {}", self.group.subject(), self.number)
    }
}

impl Window {
    /// Does this member live?
    pub(crate) fn lives(&self, rank: u32) -> bool {
        let Some(target) = self.targets.get(rank as usize) else { return false };
        match target.remote() {
            Some(remote) => self.group.service.gone(remote.job_rank).is_none(),
            None => process_identity::lives(&target.process),
        }
    }

    /// Can this member release a lock of `target`? It has to live. If it is on another host,
    /// `target` has to live as well, as it releases the lock for it.
    pub(crate) fn can_let_go(&self, rank: u32, target: u32) -> bool {
        let far = self.targets.get(rank as usize).is_some_and(|holder| holder.control.is_none());
        self.lives(rank) && (!far || self.lives(target))
    }

    #[inline]
    pub(crate) fn own(&self) -> &Target {
        &self.targets[self.rank as usize]
    }

    /// Returns an error if the window is closed, and in a forked child.
    #[inline]
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.group.service.user.check_fork()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        Ok(())
    }

    /// The window's group. It belongs to the window.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Attributes, also of a closed window.
    pub fn attributes(&self) -> Result<Attributes> {
        self.group.service.user.check_fork()?;
        let own = self.own();
        let sync_type = self.epoch.window_sync_type();
        Ok(Attributes {
            flavor: self.flavor,
            base: own.base().cast(),
            size: own.size,
            unit: own.unit,
            sync_type,
        })
    }

    /// State of the window for one target.
    pub fn sync_type(&self, target: u32) -> Result<SyncType> {
        self.group.service.user.check_fork()?;
        self.epoch.check_rank(target)?;
        Ok(self.epoch.sync_type(target))
    }

    /// Path to a target.
    pub fn path(&self, target: u32) -> Result<Path> {
        self.group.service.user.check_fork()?;
        self.epoch.check_rank(target)?;
        Ok(match &self.targets[target as usize] {
            _ if target == self.rank => Path::Own,
            target if target.remote().is_some() => Path::Message,
            _ => Path::Local,
        })
    }

    /// Size and displacement unit of a member, and the address of its memory here: null if it is
    /// not mapped or empty.
    pub fn shared_query(&self, rank: u32) -> Result<(u64, u32, *mut c_void)> {
        self.check_usable()?;
        self.epoch.check_rank(rank)?;
        let target = &self.targets[rank as usize];
        let base = if target.size > 0 { target.base() } else { std::ptr::null_mut() };
        Ok((target.size, target.unit, base.cast()))
    }

    /// Changes the hints. Collective.
    pub fn set_hints(&self, params: &WindowParams) -> Result<()> {
        self.check_usable()?;
        // Checked first, so that no member changes anything if this one may not.
        self.epoch.check(Call::Close)?;
        let other = self.find_other_hints(params.in_common())?;
        let changed = match other {
            Some(rank) => Err(Error::invalid(format!(
                "params: rank {rank} has given other hints than rank {}",
                self.rank
            ))),
            None => {
                self.check_promises(params).and_then(|()| self.epoch.set_no_locks(params.no_locks))
            }
        };
        if changed.is_ok() {
            self.lock_timeout_ns.store(params.lock_timeout_ns, Ordering::Relaxed);
            self.granularity.store(params.granularity, Ordering::Relaxed);
        }
        // So that no member continues to a target with the old hints, or overwrites hints that
        // others are still comparing.
        self.barrier()?;
        changed
    }

    /// A member that has passed other values.
    fn find_other_hints(&self, in_common: [u64; 2]) -> Result<Option<usize>> {
        if self.has_far {
            let mine = in_common.map(u64::to_le_bytes).concat();
            let all = gather(&self.group, &mine).inspect_err(|error| {
                // Members that have received all values wait for this one in the barrier that
                // follows. A call that was not allowed to wait has done nothing.
                if error.status() != Status::BUSY {
                    let missed =
                        (0..self.targets.len() as u32).find_map(|rank| self.what_ended(rank));
                    self.announce(
                        missed.unwrap_or(Ended { status: error.status(), blamed: self.rank }),
                    );
                }
            })?;
            return Ok(all.chunks_exact(mine.len()).position(|theirs| theirs != mine));
        }
        self.own().control().set_hints(in_common);
        self.barrier()?;
        Ok(self.targets.iter().position(|target| target.control().hints() != in_common))
    }

    /// Checks that the parameters which are promises about all members hold.
    pub(crate) fn check_promises(&self, params: &WindowParams) -> Result<()> {
        let differs = |of: fn(&Target) -> u64| {
            self.targets.iter().position(|target| of(target) != of(&self.targets[0]))
        };
        if let Some(rank) = differs(|target| target.unit.into()).filter(|_| params.same_unit) {
            return Err(Error::invalid(format!(
                "same_disp_unit: rank {rank} has another unit than rank 0"
            )));
        }
        if let Some(rank) = differs(|target| target.size).filter(|_| params.same_size) {
            return Err(Error::invalid(format!(
                "same_size: rank {rank} has another size than rank 0"
            )));
        }
        Ok(())
    }

    /// Offers this memory in a dynamic window. Local, effective at once.
    pub fn attach(&self, base: *mut c_void, size: usize) -> Result<()> {
        self.check_usable()?;
        self.check_dynamic("attach")?;
        let (begin, size) = (base as u64, size as u64);
        if begin.checked_add(size).is_none() || (base.is_null() && size > 0) {
            return Err(Error::invalid(format!(
                "base: {size} bytes at {base:p} are not a valid range"
            )));
        }
        let mut attached = self.attached.lock();
        let next = attached.partition_point(|(base, _)| *base < begin);
        let overlaps = attached.get(next).is_some_and(|(base, _)| *base < begin + size.max(1))
            || (next > 0 && attached[next - 1].0 + attached[next - 1].1 > begin);
        if overlaps {
            let text = format!("base: some of the {size} bytes at {base:p} are attached already");
            return Err(Error::new(Status::RMA_ATTACH, text));
        }
        if attached.len() >= MOST_REGIONS {
            let text = format!(
                "attach: {MOST_REGIONS} regions are attached, which is as many as there can be"
            );
            return Err(Error::new(Status::NO_RESOURCE, text));
        }
        attached.insert(next, (begin, size));
        self.own().control().set_regions(&attached);
        Ok(())
    }

    /// Withdraws attached memory.
    pub fn detach(&self, base: *mut c_void) -> Result<()> {
        self.check_usable()?;
        self.check_dynamic("detach")?;
        if base.is_null() {
            return Err(Error::invalid("base: is NULL"));
        }
        let mut attached = self.attached.lock();
        let Ok(at) = attached.binary_search_by_key(&(base as u64), |(base, _)| *base) else {
            return Err(Error::new(
                Status::RMA_ATTACH,
                format!("base: no region that is attached begins at {base:p}"),
            ));
        };
        attached.remove(at);
        self.own().control().set_regions(&attached);
        Ok(())
    }

    fn check_dynamic(&self, call: &str) -> Result<()> {
        if self.flavor == Flavor::Dynamic {
            return Ok(());
        }
        Err(Error::new(
            Status::RMA_FLAVOR,
            format!("{call}: is for windows that ucxx_window_create_dynamic has made"),
        ))
    }

    /// Closes the window, collectively: after this no member accesses the memory of another.
    pub fn close(&self) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::Close)?;
        let result = self.barrier();
        // Also after a failure, as the window cannot be used any more. A call that was not allowed
        // to wait has done nothing.
        if !matches!(&result, Err(error) if error.status() == Status::BUSY) {
            self.closed.store(true, Ordering::Release);
        }
        result
    }

    /// Releases everything that others may wait for, without waiting for them.
    pub fn leave(&self) {
        if self.group.service.user.check_fork().is_err() {
            return;
        }
        log::at!(DEBUG, Window, self, "freed");
        registry::forget(self);
        self.closed.store(true, Ordering::Release);
        let windows = self.group.service.windows();
        // First: members that ask for a lock now are told that the window does not exist.
        windows.leave(self);
        let ranks = 0..self.targets.len() as u32;
        let held: Vec<_> =
            ranks.filter_map(|rank| Some((rank, self.held_at_the_end(rank)?))).collect();
        for (rank, _) in &held {
            // As in unlock: operations must be done before another process gets the lock.
            self.await_long_at(*rank);
        }
        self.drop_what_is_awaited();
        windows.await_visitors(self);
        self.drop_lock_requests();
        // Again: visitors that were granted a lock, or the update lock.
        windows.await_visitors(self);
        self.drop_what_is_aside();
        self.release_for_all();
        for (rank, how) in held {
            // An error is ignored: a process that treats this one as dead has the lock already.
            let _ = self.release(rank, how);
        }
        self.announce(Ended { status: Status::CLOSED, blamed: self.rank });
    }

    fn held_at_the_end(&self, rank: u32) -> Option<LockType> {
        match self.epoch.held(rank) {
            Some(Held::Locked(how)) => Some(how),
            None if self.epoch.window_sync_type() == SyncType::LockAll => Some(LockType::Shared),
            _ => None,
        }
    }
}

#[cold]
fn closed() -> Error {
    Error::new(Status::CLOSED, "window: it has been closed")
}
