//! The caller's handle of a lease: the envelope's memory, and the calls that end the lease.

use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::hub::cuda::Mark;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease_end::End;
use crate::engine::hub::lockfree::mode::{IN_TABLES, PRODUCES};
use crate::engine::hub::memory::{self, MemoryKind};
use crate::engine::hub::records::{Envelope, Role};
use crate::engine::hub::state::{State, UNSET};
use crate::engine::hub::tag_io::Message;
use crate::engine::hub::wait::Retired;
use crate::engine::ucx::context::forked;
use crate::engine::wire::hub_stream::METADATA;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::Arc;

/// Number of handles that are allocated at a time.
const PIECE: usize = 32;

/// Handle of a lease: a slot of the hub, which is reused after the lease has ended. One thread at a
/// time uses it. Its fields are atomic, so that a misuse by the caller results in an error and
/// nothing worse. Each call touches one cache line.
#[repr(C, align(64))]
pub struct Lease {
    hub: *const Hub,
    number: u32,
    /// 0: no lease. `IN_TABLES`: the tables have the lease. Otherwise the holder, and `taken` is
    /// the chunk's position in the queue: see `hub::lockfree::mode`.
    pub(crate) owner: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) length: AtomicU64,
    data: AtomicPtr<u8>,
    metadata: AtomicPtr<u8>,
    memory_type: AtomicU64,
    /// A mark that the holder may wait for, kept alive for it; null if there is none.
    ready: AtomicPtr<Mark>,
    /// State of the operation that owns the lease, if there is one; only that operation uses it.
    pub(crate) message: UnsafeCell<Message>,
}

// SAFETY: any thread may use the hub, which outlives its leases.
unsafe impl Send for Lease {}
// SAFETY: all fields that change are atomic, except `message`, which belongs to one operation.
unsafe impl Sync for Lease {}

/// What a caller can see of a lease.
pub struct LeaseView {
    /// The memory.
    pub data: *mut u8,
    /// Bytes of the chunk; 0 during production.
    pub length: u64,
    /// Size of the envelope.
    pub capacity: u64,
    /// Kind of memory.
    pub kind: MemoryKind,
    /// `METADATA` bytes.
    pub metadata: *mut u8,
    /// A CUDA event, or null.
    pub ready_event: *mut c_void,
}

impl Lease {
    fn new(hub: *const Hub, number: u32) -> Self {
        Lease {
            hub,
            number,
            owner: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            length: AtomicU64::new(0),
            data: AtomicPtr::new(null_mut()),
            metadata: AtomicPtr::new(null_mut()),
            memory_type: AtomicU64::new(0),
            ready: AtomicPtr::new(null_mut()),
            message: UnsafeCell::new(Message::NONE),
        }
    }

    #[inline(always)]
    fn hub(&self) -> Result<&Hub> {
        if self.owner.load(Ordering::Relaxed) == 0 {
            return Err(ended());
        }
        // SAFETY: a hub outlives its leases, and this one has not ended.
        let hub = unsafe { &*self.hub };
        if hub.generation.is_past() {
            return Err(forked("envelope"));
        }
        Ok(hub)
    }

    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The lease's memory and length.
    pub fn view(&self) -> Result<LeaseView> {
        let hub = self.hub()?;
        let length = self.length.load(Ordering::Relaxed);
        let kind = self.memory_type.load(Ordering::Relaxed);
        // SAFETY: null, or a mark that this lease keeps alive.
        let ready = unsafe { self.ready.load(Ordering::Relaxed).as_ref() };
        Ok(LeaseView {
            data: self.data.load(Ordering::Relaxed),
            length: if length == UNSET { 0 } else { length },
            capacity: hub.size,
            kind: MemoryKind { memory_type: (kind >> 32) as i32, device_id: kind as i32 },
            metadata: self.metadata.load(Ordering::Relaxed),
            ready_event: ready.map_or(null_mut(), Mark::handle),
        })
    }

    /// Ends the lease in lock-free mode, by a commit of `length` bytes or a release, if that works
    /// at the first look. False says nothing.
    #[inline(always)]
    pub fn end_at_once(&self, length: Option<u64>) -> bool {
        self.owner.load(Ordering::Relaxed) != 0 && {
            // SAFETY: a hub outlives its leases, and this one has not ended.
            let hub = unsafe { &*self.hub };
            !hub.generation.is_past() && hub.end_fast::<true>(self, length)
        }
    }

    /// Commits: the chunk is appended, consumed or changed.
    pub fn commit(&self, length: u64, stream: *mut c_void) -> Result<Retired> {
        let hub = self.hub()?;
        if !stream.is_null() {
            return self.end_after(hub, stream, |_| Ok(End::Commit(length)));
        }
        if length > hub.size && self.owner.load(Ordering::Relaxed) & PRODUCES != 0 {
            return Err(too_long(hub, length));
        }
        match self.lock_to_end(hub, (Some(length), false)) {
            Some(state) => self.commit_locked(hub, state, length),
            None => Ok(Retired::NOTHING),
        }
    }

    /// Ends the lease in lock-free mode and returns `None`; or returns the lock, under which the
    /// caller has to end it in the tables.
    #[inline(always)]
    fn lock_to_end<'h>(
        &self,
        hub: &'h Hub,
        (length, aborts): (Option<u64>, bool),
    ) -> Option<SpinLockGuard<'h, State>> {
        if !aborts && hub.end_fast::<false>(self, length) {
            return None;
        }
        let state = hub.state.lock_either();
        if state.is_in_tables() {
            return Some(state);
        }
        hub.end_in_queues(state, self, (length, aborts))
    }

    #[inline(always)]
    fn commit_locked(
        &self,
        hub: &Hub,
        state: SpinLockGuard<'_, State>,
        length: u64,
    ) -> Result<Retired> {
        let role = state.lease_records[self.number as usize].role;
        let checked = match role {
            Some(role) => check_commit(hub, state.destroyed, role, length),
            None => Err(ended()),
        };
        match checked {
            Ok(()) => Ok(self.end(hub, state, End::Commit(length))),
            Err(error) => {
                drop(state);
                Err(error)
            }
        }
    }

    /// Aborts: nothing was produced, consumed or changed.
    pub fn abort(&self, stream: *mut c_void) -> Result<Retired> {
        let hub = self.hub()?;
        if !stream.is_null() {
            return self.end_after(hub, stream, |_| Ok(End::Abort));
        }
        let Some(state) = self.lock_to_end(hub, (None, true)) else { return Ok(Retired::NOTHING) };
        if state.lease_records[self.number as usize].role.is_none() {
            drop(state);
            return Err(ended());
        }
        Ok(self.end(hub, state, End::Abort))
    }

    /// Commits if the link has autocommit, and aborts otherwise.
    pub fn release(&self, stream: *mut c_void) -> Result<Retired> {
        let hub = self.hub()?;
        let how = |state: &State| {
            let record = &state.lease_records[self.number as usize];
            if !record.autocommit || state.destroyed {
                return End::Abort;
            }
            let said = state.envelopes[record.envelope as usize].length;
            End::Commit(if said == UNSET { hub.size } else { said })
        };
        if !stream.is_null() {
            return self.end_after(hub, stream, |state| Ok(how(state)));
        }
        let Some(state) = self.lock_to_end(hub, (None, false)) else { return Ok(Retired::NOTHING) };
        if let End::Commit(length) = how(&state) {
            return self.commit_locked(hub, state, length);
        }
        drop(state);
        self.abort(stream)
    }

    /// Ends the lease when the stream has done its work so far.
    #[cold]
    fn end_after(
        &self,
        hub: &Hub,
        stream: *mut c_void,
        how: impl Fn(&State) -> Result<End>,
    ) -> Result<Retired> {
        let check = |state: &State| {
            let Some(role) = state.lease_records[self.number as usize].role else {
                return Err(ended());
            };
            let end = how(state)?;
            if let End::Commit(length) = end {
                check_commit(hub, state.destroyed, role, length)?;
            }
            Ok(end)
        };
        hub.end_with_stream(stream, self.number, check, |state, end| self.end(hub, state, end))
    }

    #[inline(always)]
    fn end(&self, hub: &Hub, mut state: SpinLockGuard<'_, State>, end: End) -> Retired {
        self.owner.store(0, Ordering::Relaxed);
        if !self.ready.load(Ordering::Relaxed).is_null() {
            self.wait_for(None);
        }
        state.end(self.number, end);
        hub.leave(state)
    }

    /// Swaps the memory, length and metadata of two leases.
    pub fn swap(&self, other: &Lease) -> Result<()> {
        let (here, there) = (self.hub()?, other.hub()?);
        if std::ptr::eq(self, other) {
            return Ok(());
        }
        if here.size != there.size {
            return Err(Error::invalid(format!(
                "b: is of a hub whose envelopes have {} bytes, those of a have {}",
                there.size, here.size
            )));
        }
        if std::ptr::eq(here, there) {
            let mut state = here.state.lock();
            let (a, b) = (self.exchanged(&state, "a")?, other.exchanged(&state, "b")?);
            check_same(kind_of(&state, a), kind_of(&state, b))?;
            state.exchange(self.number, other.number);
            self.swapped(&state, a);
            other.swapped(&state, b);
            let _ = here.leave(state);
            return Ok(());
        }
        // Sorted by address, like all code that locks several hubs.
        let self_first = std::ptr::from_ref(here) < std::ptr::from_ref(there);
        let (mut first, mut second) = if self_first {
            (here.state.lock(), there.state.lock())
        } else {
            (there.state.lock(), here.state.lock())
        };
        let (mine, theirs) =
            if self_first { (&mut *first, &mut *second) } else { (&mut *second, &mut *first) };
        let (a, b) = (self.exchanged(mine, "a")?, other.exchanged(theirs, "b")?);
        check_same(kind_of(mine, a), kind_of(theirs, b))?;
        let (one, two) = (&mut mine.envelopes[a as usize], &mut theirs.envelopes[b as usize]);
        std::mem::swap(&mut one.block, &mut two.block);
        std::mem::swap(&mut one.length, &mut two.length);
        here.adopt_marks(mine, a);
        there.adopt_marks(theirs, b);
        mine.hide(self.number);
        theirs.hide(other.number);
        self.swapped(mine, a);
        other.swapped(theirs, b);
        let changed = first.wake_mask | second.wake_mask != 0;
        let hubs = if self_first { [here, there] } else { [there, here] };
        hubs[0].unlock(first);
        hubs[1].unlock(second);
        if changed {
            hubs.iter().for_each(|hub| hub.perform_pending());
        }
        Ok(())
    }

    /// The lease's envelope, if it may be swapped.
    fn exchanged(&self, state: &State, argument: &str) -> Result<u32> {
        let refused = |(status, why)| Error::new(status, format!("{argument}: {why}"));
        let number = state.exchanged(self.number).map_err(refused)?;
        if state.envelopes[number as usize].block.is_wrapped() {
            return Err(Error::new(
                Status::UNSUPPORTED,
                format!("{argument}: is a buffer of the caller's"),
            ));
        }
        Ok(number)
    }

    fn swapped(&self, state: &State, envelope: u32) {
        let envelope = &state.envelopes[envelope as usize];
        self.show(envelope.block.span().data, envelope.block.span().metadata, envelope.length);
        self.show_marks(state);
    }

    /// Shows the mark that the holder has to wait for.
    #[cold]
    fn show_marks(&self, state: &State) {
        let record = &state.lease_records[self.number as usize];
        let fence = &state.envelopes[record.envelope as usize].block.fence;
        let mark = match record.role {
            Some(Role::Produce | Role::Modify) => fence.before_writing(),
            _ => fence.written.as_ref().filter(|mark| mark.is_pending()),
        };
        self.wait_for(mark.cloned());
    }

    #[cold]
    fn wait_for(&self, mark: Option<Arc<Mark>>) {
        let mark = mark.map_or(null_mut(), |mark| Arc::into_raw(mark).cast_mut());
        let before = self.ready.swap(mark, Ordering::Relaxed);
        if !before.is_null() {
            // SAFETY: from `into_raw`, and the swap made this thread its only owner.
            drop(unsafe { Arc::from_raw(before) });
        }
    }

    /// Sets the handle to this envelope.
    #[inline(always)]
    pub(crate) fn point_to(&self, envelope: &Envelope, kind: MemoryKind) {
        let span = envelope.block.span();
        self.show(span.data, span.metadata, envelope.length);
        let kind = u64::from(kind.memory_type as u32) << 32 | u64::from(kind.device_id as u32);
        self.memory_type.store(kind, Ordering::Relaxed);
    }

    /// For a new chunk. The caller holds the lease.
    #[inline(always)]
    pub(crate) fn clear_metadata(&self) {
        memory::clear_metadata(self.metadata.load(Ordering::Relaxed));
    }

    #[inline(always)]
    fn show(&self, data: *mut u8, metadata: *mut u8, length: u64) {
        self.data.store(data, Ordering::Relaxed);
        self.metadata.store(metadata, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.wait_for(None);
    }
}

impl Hub {
    /// Sets up the handle of a new lease.
    #[inline(always)]
    pub(crate) fn hand_out(&self, state: &mut State, number: u32) -> *const Lease {
        let (piece, place) = (number as usize / PIECE, number as usize % PIECE);
        // A call that was undone may have used numbers without handles.
        if piece >= state.handles.len() {
            self.reserve_handles(state, number as usize + 1);
        }
        let envelope = &state.envelopes[state.lease_records[number as usize].envelope as usize];
        let lease = &state.handles[piece][place];
        lease.point_to(envelope, state.pools[envelope.pool as usize].kind);
        if envelope.block.fence.is_marked() {
            lease.show_marks(state);
        }
        lease.owner.store(IN_TABLES, Ordering::Relaxed);
        lease
    }

    pub(crate) fn handle(state: &State, number: u32) -> &Lease {
        &state.handles[number as usize / PIECE][number as usize % PIECE]
    }

    /// Makes sure that there are at least `count` handles.
    #[cold]
    pub(crate) fn reserve_handles(&self, state: &mut State, count: usize) {
        while state.handles.len() * PIECE < count {
            self.make_handles(state);
        }
    }

    fn make_handles(&self, state: &mut State) {
        let first = state.handles.len() * PIECE;
        state
            .handles
            .push((first..first + PIECE).map(|number| Lease::new(self, number as u32)).collect());
    }
}

fn kind_of(state: &State, envelope: u32) -> MemoryKind {
    state.pools[state.envelopes[envelope as usize].pool as usize].kind
}

fn check_same(a: MemoryKind, b: MemoryKind) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::invalid(format!("b: is on {b}, and a on {a}")))
}

/// May a lease of this role be committed with this length?
#[inline(always)]
fn check_commit(hub: &Hub, destroyed: bool, role: Role, length: u64) -> Result<()> {
    if matches!(role, Role::Produce | Role::Modify) && length > hub.size {
        return Err(too_long(hub, length));
    }
    if destroyed {
        return Err(over());
    }
    Ok(())
}

#[cold]
fn too_long(hub: &Hub, length: u64) -> Error {
    Error::invalid(format!("length: {length} is more than an envelope's {} bytes", hub.size))
}

#[cold]
fn over() -> Error {
    Error::new(Status::CLOSED, "envelope: its hub has been destroyed")
}

#[cold]
fn ended() -> Error {
    Error::invalid("envelope: its lease has ended")
}

const _: () = assert!(METADATA == 64);
