//! Links: a user's access to a hub. Any thread may use a link.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::lockfree::mode::owner;
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::ready::{Callback, LinkCallback, Watch};
use crate::engine::hub::records::{self, Role};
use crate::engine::hub::starvation::stuck;
use crate::engine::hub::state::{State, COMPETING, MOST_POOLS, NONE};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::os::event_fd::EventFd;
use crate::engine::ucx::context;
use crate::engine::ucx::context::{feature, forked};
use crate::engine::ucx::memory_type;
use once_cell::sync::OnceCell;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Parameters of a link.
pub struct LinkParams {
    /// A consumer that gets every chunk.
    pub broadcast: bool,
    /// A release commits.
    pub autocommit: bool,
    /// Called when a lease is available.
    pub on_ready: Option<LinkCallback>,
    /// Argument of `on_ready`.
    pub on_ready_arg: *mut c_void,
}

/// A producer, consumer, peeking or modifying link.
pub struct Link {
    pub(crate) hub: Arc<Hub>,
    pub(crate) request: LeaseRequest,
    /// Owner word of its leases: see `hub::lockfree::mode`.
    owner: u64,
    event: OnceCell<Arc<EventFd>>,
}

impl Link {
    /// Creates a link. Calls `place` with its handle before any callback can run.
    pub fn make(
        hub: &Arc<Hub>,
        role: Role,
        kind: MemoryKind,
        params: &LinkParams,
        place: impl FnOnce(*mut Link),
    ) -> Result<()> {
        hub.check_fork()?;
        kind.check()?;
        if params.broadcast && role != Role::Consume {
            return Err(Error::invalid("broadcast: is for links that consume"));
        }
        // These need the tables.
        let mut state = if params.broadcast || params.on_ready.is_some() {
            hub.state.lock()
        } else {
            hub.state.lock_either()
        };
        let too_many = |text| Err(Error::new(Status::EXCEEDS_LIMIT, text));
        let Some(pool) = state.pool(kind) else {
            drop(state);
            return too_many(too_many_kinds(kind));
        };
        let Some(unit) = new_unit(&mut state, role, params.broadcast) else {
            drop(state);
            let text = format!(
                "broadcast: the hub has {} broadcast consumers, and can have no more",
                u64::BITS - 1
            );
            return too_many(text);
        };
        let unused = |number: &usize| {
            let link = &state.links[*number];
            let ended = !link.alive && link.leases == 0 && link.watch.calling == 0;
            ended && !state.is_in_queues(*number as u32)
        };
        let number = (0..state.links.len()).find(unused).unwrap_or(state.links.len());
        let autocommit = params.autocommit && role != Role::Peek;
        let request =
            LeaseRequest { role, pool, unit, link: number as u32, autocommit, synced: false };
        let handle = Box::into_raw(Box::new(Link {
            hub: hub.clone(),
            request,
            owner: owner(&request),
            event: OnceCell::new(),
        }));
        let mut watch = Watch::default();
        if let Some(function) = params.on_ready {
            watch.callback =
                Some(Callback { function, arg: params.on_ready_arg, link: handle.cast() });
            state.watched += 1;
        }
        let (alive, in_flow, leases, handle_number) = (true, false, 0, handle as usize);
        let link = records::Link {
            alive,
            role,
            pool,
            unit,
            autocommit,
            in_flow,
            leases,
            watch,
            handle: handle_number,
        };
        if number == state.links.len() {
            state.links.push(link);
        } else {
            state.links[number] = link;
        }
        state.competing += u32::from(role == Role::Consume && unit == COMPETING);
        state.count_wants();
        place(handle);
        let _ = hub.leave(state);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.hub.generation.is_past() {
            return Err(forked("link"));
        }
        Ok(())
    }

    /// A lease in lock-free mode, if there is one at the first look. `None` says nothing: call
    /// `lease`.
    #[inline(always)]
    pub fn lease_at_once(&self, timeout_ns: u64) -> Option<*const Lease> {
        if self.hub.generation.is_past() {
            return None;
        }
        self.hub.try_lease_fast(self.owner, timeout_ns)
    }

    /// Leases an envelope, now or within the timeout. `None` if none became available.
    pub fn lease(&self, timeout_ns: u64) -> Result<Option<*const Lease>> {
        self.check()?;
        let side = usize::from(self.request.role == Role::Produce);
        self.hub.lease(&self.request, side, timeout_ns)
    }

    /// Leases at once an envelope that no stream is still using.
    pub(crate) fn lease_synced(&self) -> Result<Option<*const Lease>> {
        self.check()?;
        self.hub.lease(&LeaseRequest { synced: true, ..self.request }, 0, 0)
    }

    /// The link's kind of memory. An error if UCX does not support it.
    pub(crate) fn check_network(&self) -> Result<MemoryKind> {
        // First: in a forked child another thread of the parent may hold the hub's lock.
        self.check()?;
        let kind = self.hub.state.lock_either().pools[self.request.pool as usize].kind;
        memory_type::to_ucx(&self.hub.context, kind.to_network()).map(|_| kind)
    }

    /// A descriptor for the caller's event loop. It belongs to the link.
    pub fn event_fd(&self) -> Result<libc::c_int> {
        Ok(self.event()?.as_raw_fd())
    }

    fn event(&self) -> Result<&Arc<EventFd>> {
        self.check()?;
        if !self.hub.context.has(feature::WAKEUP) {
            return Err(context::missing_feature(feature::WAKEUP));
        }
        self.event.get_or_try_init(|| {
            EventFd::new().map(Arc::new).map_err(|cause| {
                Error::new(Status::IO_ERROR, format!("link: no descriptor to wait on: {cause}"))
            })
        })
    }

    /// Makes the descriptor readable when a lease becomes available. Returns false if one is
    /// available now.
    pub fn arm(&self) -> Result<bool> {
        let event = self.event()?;
        event.silence();
        let mut state = self.hub.state.lock();
        let news = state.arm(self.request.link, event);
        drop(state);
        match news {
            None => Ok(true),
            Some(Status::CLOSED) => Err(closed()),
            Some(_) => Ok(false),
        }
    }

    /// Destroys a link; its leases continue. Does nothing in a forked child.
    ///
    /// # Safety
    /// `link` is from `make`, and is not used afterwards.
    pub unsafe fn destroy(link: *mut Link) {
        // SAFETY: `make` boxed it, and this function's contract ends its use.
        let link = unsafe { Box::from_raw(link) };
        if link.hub.generation.is_past() {
            std::mem::forget(link);
            return;
        }
        let number = link.request.link;
        let mut state = link.hub.state.lock_either();
        let stream = state.unwatch(number);
        state.links[number as usize].alive = false;
        if !state.destroyed {
            if link.request.role == Role::Consume {
                state.broadcast &= !link.request.unit;
                state.competing -= u32::from(link.request.unit == COMPETING);
                state.settle();
            }
            state.count_wants();
            // Even a peeking link may have been the reason why an envelope was kept.
            state.wake_mask |= DATA | ROOM;
        }
        state.end_with_sources();
        state.forget_link(number);
        let _ = link.hub.leave(state);
        if let Some(stream) = stream {
            stream.give_up();
        }
        link.hub.await_callbacks(Some(number));
    }
}

// SAFETY: what changes is behind the hub's lock, or set once.
unsafe impl Send for Link {}
// SAFETY: what changes is behind the hub's lock, or set once.
unsafe impl Sync for Link {}

#[cold]
pub(crate) fn too_many_kinds(kind: MemoryKind) -> String {
    format!(
        "kind: the hub has envelopes or links on {MOST_POOLS} kinds of memory, and can have no \
        more: {kind} is another"
    )
}

/// The bit of a new consumer, which begins with the oldest chunk; `None` if there are too many.
pub(crate) fn new_unit(state: &mut State, role: Role, broadcast: bool) -> Option<u64> {
    if role != Role::Consume || !broadcast {
        return Some(COMPETING);
    }
    let number = (!state.units).trailing_zeros();
    if number == u64::BITS {
        return None;
    }
    let unit = 1 << number;
    state.units |= unit;
    state.broadcast |= unit;
    state.cursors[number as usize] = state.head;
    for chunk in &mut state.chunks {
        chunk.passed &= !unit;
        chunk.taken &= !unit;
    }
    Some(unit)
}

impl Hub {
    /// Leases an envelope for a link, or for a call on the hub itself.
    #[inline(never)]
    pub(crate) fn lease(
        &self,
        request: &LeaseRequest,
        side: usize,
        timeout_ns: u64,
    ) -> Result<Option<*const Lease>> {
        if let Ok(answer) = self.lease_fast(owner(request), timeout_ns) {
            return Ok(answer);
        }
        if timeout_ns == 0 || !deferred::in_callback() {
            let mut state = self.state.lock_either();
            let answer = self.try_apart(&mut state, request);
            let _ = self.leave(state);
            match answer {
                Ok(lease) => return Ok(Some(lease)),
                // `try_apart` has cleared the failure that it reports.
                Err(refusal @ (Refusal::Failed { .. } | Refusal::Joined)) => {
                    return Err(self.refused(request, refusal))
                }
                Err(_) => {}
            }
        }
        self.lease_later(request, side, timeout_ns)
    }

    #[inline(never)]
    fn lease_later(
        &self,
        request: &LeaseRequest,
        side: usize,
        timeout_ns: u64,
    ) -> Result<Option<*const Lease>> {
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(from_callback());
        }
        let attempt = |state: &mut State| match self.try_apart(state, request) {
            Err(Refusal::NotNow) => None,
            answer => Some(answer),
        };
        match self.wait_for(side, timeout_ns, attempt) {
            Some(Ok(lease)) => Ok(Some(lease)),
            Some(Err(refusal)) => Err(self.refused(request, refusal)),
            None => Ok(None),
        }
    }

    /// Tries to lease for a link without a stream: a link with a stream leases only for the stream.
    #[inline(always)]
    fn try_apart(
        &self,
        state: &mut State,
        request: &LeaseRequest,
    ) -> std::result::Result<*const Lease, Refusal> {
        if !state.is_in_tables() {
            if let Some(answer) = self.lease_from_queues(state, request) {
                return answer;
            }
        }
        if state.has_stream(request.link) {
            return Err(Refusal::Joined);
        }
        self.try_lease(state, request)
    }

    #[inline(always)]
    pub(crate) fn try_lease(
        &self,
        state: &mut State,
        request: &LeaseRequest,
    ) -> std::result::Result<*const Lease, Refusal> {
        if request.link != NONE {
            state.note_attempt(request.link);
        }
        let found = state.look(request).inspect_err(|refusal| state.clear_failure(*refusal))?;
        let number = state.take(request, found);
        Ok(self.hand_out(state, number))
    }

    #[cold]
    pub(crate) fn refused(&self, request: &LeaseRequest, refusal: Refusal) -> Error {
        let (pool, missing) = match refusal {
            Refusal::Starved { pool, missing } => (pool, Some(missing)),
            Refusal::Stuck { pool } => (pool, None),
            Refusal::Failed { pool, .. } => {
                let state = self.state.lock_either();
                let fault =
                    state.pools.get(pool as usize).map_or(&state.stream_fault, |pool| &pool.fault);
                // That a stream has failed is known a moment before its error is.
                let unknown =
                    || Error::new(Status::IO_ERROR, "hub: a CUDA stream of the caller has failed");
                return fault.clone().unwrap_or_else(unknown);
            }
            Refusal::Joined => return joined(),
            Refusal::Closed | Refusal::NotNow => return closed(),
        };
        let state = self.state.lock_either();
        let (kind, handle) = (state.pools[pool as usize].kind, state.handle_of(request));
        drop(state);
        let text = match missing {
            Some(missing) => starved(request.role, handle, kind, missing),
            None => stuck(request.role, handle, kind),
        };
        Error::new(Status::STARVED, text)
    }
}

impl State {
    /// The link's handle; `None` for a call on the hub itself.
    pub(crate) fn handle_of(&self, request: &LeaseRequest) -> Option<usize> {
        self.links.get(request.link as usize).map(|link| link.handle)
    }
}

/// A link by its handle, or a call on the hub itself, in words.
pub(crate) fn named(role: Role, handle: Option<usize>, kind: MemoryKind) -> String {
    let does = match role {
        Role::Produce => "produces",
        Role::Consume => "consumes",
        Role::Peek => "peeks",
        Role::Modify => "modifies",
    };
    match handle {
        None => format!("a call that {does} on {kind}"),
        Some(handle) => format!("the link {handle:#x}, which {does} on {kind},"),
    }
}

/// Error text for a link that needs more envelopes.
pub(crate) fn starved(role: Role, handle: Option<usize>, kind: MemoryKind, missing: u32) -> String {
    let who = named(role, handle, kind);
    let plural = if missing == 1 { "" } else { "s" };
    format!(
        "hub: {who} can never be served: {missing} more envelope{plural} needed there \
        (ucxx_hub_add_envelopes)"
    )
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::new(Status::CLOSED, "hub: is closed, and there is nothing left for this link")
}

#[cold]
pub(crate) fn joined() -> Error {
    Error::new(Status::BUSY, "link: is connected to another one")
}

const _: () = assert!(DATA == 1, "sides are numbered as their bits");
