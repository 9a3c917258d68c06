//! Windows: memory that each process of a group offers to the others, for one-sided communication
//! after MPI's model (MPI-4.1, chapter 12).
//!
//! Here is what a window is, and how it ends. How one is made is in `window::create`, what its
//! calls may do when in `epoch`, synchronisation in `window::sync`, and data in
//! `window::data::data`.
//!
//! Each has a segment of control words that the others of its host map (see
//! `window::control_words`); the memory itself is mapped too, or copied by the kernel from process
//! to process (see `window::access`). Members on other hosts send messages (see
//! `window::remote::remote`). No member has to make a call for what another one does here.
//!
//! Who owns what. `targets` and what they map live as long as the window. `epoch` has rules of its
//! own. Data calls come from any threads; the calls that synchronise are serialised by the caller,
//! and what only they need is behind `turns`, which is never waited for. What stands in the control
//! words of this process is written by the thread that is in such a call.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::spin_lock::SpinLock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::group::Group;
use crate::engine::os::process_identity::{self, Identity};
use crate::engine::window::access::Reach;
use crate::engine::window::control_words::{Control, Ended, MOST_REGIONS};
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
    /// Of the caller's memory.
    Create = 0,
    /// Of the library's.
    Allocate = 1,
    /// The same, which every member may read and write directly.
    Shared = 2,
    /// Of what each member attaches.
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
    /// Messages, which the target executes.
    Message = 2,
}

/// What a window is made with, checked.
#[derive(Clone, Copy, Default)]
pub struct WindowParams {
    /// Locks are refused.
    pub no_locks: bool,
    /// All members say the same unit.
    pub same_unit: bool,
    /// All members say the same size.
    pub same_size: bool,
    /// The memory of each member begins where it likes.
    pub noncontiguous: bool,
    /// Accumulates need no order.
    pub unordered: bool,
    /// Bytes that accumulates update as one: 0 for each element, `u64::MAX` for the whole
    /// operation.
    pub granularity: u64,
    /// For locks; 0 for none.
    pub lock_timeout_ns: u64,
}

impl WindowParams {
    /// What all members have to say alike, for comparison.
    pub(crate) fn in_common(&self) -> [u64; 2] {
        let bits = [self.no_locks, self.same_unit, self.same_size, self.unordered];
        [bits.iter().fold(0, |word, bit| word << 1 | u64::from(*bit)), self.granularity]
    }
}

/// One member, as this process sees it.
pub(crate) struct Target {
    /// None where it is not to be read: on another host.
    pub(crate) control: Option<Control>,
    pub(crate) reach: Reach,
    /// What keeps the mapping, where that is UCX's.
    pub(crate) _key: Option<WindowKey>,
    pub(crate) size: u64,
    pub(crate) unit: u32,
    /// Of the caller's memory, some of which may not be read or written: the kernel looks each
    /// time.
    pub(crate) is_guarded: bool,
    pub(crate) process: Identity,
    /// Of this process's threads, before they take the lock that they share with other processes.
    pub(crate) updates: Mutex<()>,
    /// Until it is tried again to hand something over.
    pub(crate) pause: Pause,
}

impl Target {
    /// Of a member of this host.
    pub(crate) fn control(&self) -> &Control {
        self.control.as_ref().expect("of this host")
    }

    /// Where messages go there, if it is reached by messages.
    #[inline]
    pub(crate) fn remote(&self) -> Option<&Remote> {
        match &self.reach {
            Reach::Messages(remote) => Some(remote),
            _ => None,
        }
    }

    /// Has it said that it takes part in nothing any more?
    pub(crate) fn ended(&self) -> Option<Ended> {
        match &self.control {
            Some(control) => control.ended(),
            None => self.remote().and_then(Remote::ended),
        }
    }

    /// Does this process reach all its memory by a mapping, as far as it is on this host?
    pub(crate) fn is_mapped(&self) -> bool {
        match self.reach {
            Reach::Mapped(_) => true,
            Reach::Process(..) => self.size == 0,
            Reach::Messages(_) => self.control.is_none(),
            Reach::Attached(_) | Reach::AttachedHere => false,
        }
    }

    /// The memory, where it is mapped.
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

/// What the calls that synchronise have seen so far.
pub(crate) struct Turns {
    /// By rank: posts that start has used.
    pub(crate) posts: Box<[u64]>,
    /// By rank: completions that wait has used, or given up.
    pub(crate) completions: Box<[u64]>,
    pub(crate) barriers: u64,
    /// When a test last looked whether those are there that it waits for.
    pub(crate) looked: u64,
}

/// See the module.
pub struct Window {
    pub(crate) group: Arc<Group>,
    pub(crate) flavor: Flavor,
    pub(crate) rank: u32,
    pub(crate) epoch: Epoch,
    pub(crate) targets: Box<[Target]>,
    pub(crate) turns: SpinLock<Turns>,
    pub(crate) lock_timeout_ns: AtomicU64,
    pub(crate) granularity: AtomicU64,
    /// All members of a host reach each other's memory by mappings: the same for all members.
    pub(crate) is_mapped: bool,
    /// Accumulates of very many elements are done alone.
    pub(crate) has_bulk: bool,
    pub(crate) closed: AtomicBool,
    /// Sorted, without empty ones.
    pub(crate) attached: Mutex<Vec<(u64, u64)>>,
    /// The same for all members, and different from other windows of any of them.
    pub(crate) number: u64,
    /// Some members are reached by messages.
    pub(crate) has_remotes: bool,
    /// And some of those are on other hosts.
    pub(crate) has_far: bool,
    /// The service's thread is in the midst of something with it.
    pub(crate) visitors: AtomicU32,
    /// By rank: the first that has gone wrong here since its last flush.
    pub(crate) complaints: Box<[AtomicI32]>,
    /// Members on other hosts that hold the lock of this one.
    pub(crate) far_holds: Mutex<HashMap<u32, FarHold>>,
    /// Messages that wait for the update lock.
    pub(crate) aside: BlockedQueue,
    pub(crate) me: Weak<Window>,
}

// SAFETY: the pointers in it are to mappings that live as long as it does, or to memory that the
// caller has promised to keep; who may use them when is what epochs are about.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

/// What `ucxx_window_query` tells.
pub struct Attributes {
    /// How it was made.
    pub flavor: Flavor,
    /// Of this process; null for dynamic ones.
    pub base: *mut c_void,
    /// Bytes.
    pub size: u64,
    /// Bytes of a displacement.
    pub unit: u32,
    /// As a whole.
    pub sync_type: SyncType,
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

    /// Is this member there, and able to give back a lock of that target's? One on another host
    /// does so by way of the target.
    pub(crate) fn can_let_go(&self, rank: u32, target: u32) -> bool {
        let far = self.targets.get(rank as usize).is_some_and(|holder| holder.control.is_none());
        self.lives(rank) && (!far || self.lives(target))
    }

    #[inline]
    pub(crate) fn own(&self) -> &Target {
        &self.targets[self.rank as usize]
    }

    /// Refuses a window that was closed, or a forked child.
    #[inline]
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.group.service.user.check_fork()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        Ok(())
    }

    /// Of which group. The window's.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// What it is. Also of a closed one.
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

    /// What its calls may do at a target.
    pub fn sync_type(&self, target: u32) -> Result<SyncType> {
        self.group.service.user.check_fork()?;
        self.epoch.check_rank(target)?;
        Ok(self.epoch.sync_type(target))
    }

    /// How a target is reached.
    pub fn path(&self, target: u32) -> Result<Path> {
        self.group.service.user.check_fork()?;
        self.epoch.check_rank(target)?;
        Ok(match &self.targets[target as usize] {
            _ if target == self.rank => Path::Own,
            target if target.remote().is_some() => Path::Message,
            _ => Path::Local,
        })
    }

    /// Size and unit of a member, and its memory as it is mapped here: null where it is not, or
    /// where there is none of it.
    pub fn shared_query(&self, rank: u32) -> Result<(u64, u32, *mut c_void)> {
        self.check_usable()?;
        self.epoch.check_rank(rank)?;
        let target = &self.targets[rank as usize];
        let base = if target.size > 0 { target.base() } else { std::ptr::null_mut() };
        Ok((target.size, target.unit, base.cast()))
    }

    /// Other hints, by all members.
    pub fn set_hints(&self, params: &WindowParams) -> Result<()> {
        self.check_usable()?;
        // Looked at first: what one member may not, none does.
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
        // Nobody goes on to a target that keeps to the former ones, or overwrites what others still
        // compare.
        self.barrier()?;
        changed
    }

    /// A member that says something else.
    fn find_other_hints(&self, in_common: [u64; 2]) -> Result<Option<usize>> {
        if self.has_far {
            let mine = in_common.map(u64::to_le_bytes).concat();
            let all = gather(&self.group, &mine).inspect_err(|error| {
                // Those who have it all wait for this one in the barrier behind it. Who could not
                // wait has done nothing.
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

    /// What the params say of all members holds.
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

    /// Offers this memory of a dynamic window. At once, and without the others.
    pub fn attach(&self, base: *mut c_void, size: usize) -> Result<()> {
        self.check_usable()?;
        self.check_dynamic("attach")?;
        let (begin, size) = (base as u64, size as u64);
        if begin.checked_add(size).is_none() || (base.is_null() && size > 0) {
            return Err(Error::invalid(format!("base: there are no {size} bytes at {base:p}")));
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

    /// Takes it back.
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

    /// Ends it, together with the others: none of them will touch the memory of this one.
    pub fn close(&self) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::Close)?;
        let result = self.barrier();
        // Also after a failure: there is nothing that it could still be used for. A call that could
        // not wait has done nothing.
        if !matches!(&result, Err(error) if error.status() == Status::BUSY) {
            self.closed.store(true, Ordering::Release);
        }
        result
    }

    /// Lets go of everything that others wait for, without them.
    pub fn leave(&self) {
        if self.group.service.user.check_fork().is_err() {
            return;
        }
        self.closed.store(true, Ordering::Release);
        let windows = self.group.service.windows();
        // First: who asks for a lock now is told that there is no window.
        windows.leave(self);
        let ranks = 0..self.targets.len() as u32;
        let held: Vec<_> =
            ranks.filter_map(|rank| Some((rank, self.held_at_the_end(rank)?))).collect();
        for (rank, _) in &held {
            // As unlock does it: who gets the lock next is not to be overtaken.
            self.await_long_at(*rank);
        }
        self.drop_what_is_awaited();
        windows.await_visitors(self);
        self.drop_lock_requests();
        // Who was told of a lock that it has got, or of the update lock.
        windows.await_visitors(self);
        self.drop_what_is_aside();
        self.release_for_all();
        for (rank, how) in held {
            // Whoever takes this process for dead has the lock already.
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
