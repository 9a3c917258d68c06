//! Notification of links: by callback, by armed descriptor, or to a stream.
//!
//! A callback is level-triggered. It is called when a lease is available, and again after each
//! lease attempt if one is available then. It is called once for the end.
//!
//! Three rules keep callbacks finite and fair:
//! - A link that has given back a chunk is not notified about that chunk until something else
//!   changes in the hub, even if others have had it meanwhile. So links that decline what they get
//!   do not call each other without end.
//! - Links take turns: the search starts after the link that was called last.
//! - Links that change the same chunk always have news for each other. `Calls` limits how many
//!   callbacks one call of the library makes then.

use crate::engine::base::status::Status;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::records::{Link, Role};
use crate::engine::hub::state::{State, NONE};
use crate::engine::hub::stream::stream::HubStream;
use crate::engine::hub::transfer::Transfer;
use crate::engine::hub::waiters::{DATA, ROOM};
use crate::engine::os::event_fd::EventFd;
use std::ffi::c_void;
use std::sync::Arc;

/// `ucxx_link_callback_t`: argument, link, status.
pub type LinkCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, i32);

/// A link's callback.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(crate) function: LinkCallback,
    pub(crate) arg: *mut c_void,
    /// The caller's handle. Valid while the link lives and while a call is in progress.
    pub(crate) link: *mut c_void,
}

// SAFETY: the caller has agreed that any thread may call it.
unsafe impl Send for Callback {}

/// How a link is notified.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) callback: Option<Callback>,
    /// Status of the last call, while it is still current.
    last_status: Option<Status>,
    /// The chunk that the link has given back, until it tries again: it need not be notified about
    /// it.
    declined: Option<Snapshot>,
    /// Calls in progress.
    pub(crate) calling: u32,
    armed: bool,
    event: Option<Arc<EventFd>>,
    /// The stream that the link is connected to. It is notified instead of the callback.
    pub(crate) stream: Option<Arc<HubStream>>,
    /// The last stream that brought chunks was interrupted before its end.
    pub(crate) cut: bool,
}

/// A chunk by its order, or 0 for room to produce, and `State::changes` at that time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) order: u64,
    pub(crate) changes: u64,
}

/// Number of callbacks in one call of the library since a chunk was added or removed.
pub(crate) struct Calls {
    made: u32,
    moves: u64,
}

impl Calls {
    /// Limit for each link.
    const MOST: u32 = 64;

    pub(crate) fn new(state: &State) -> Self {
        Calls { made: 0, moves: state.stats.chunks_produced + state.stats.chunks_consumed }
    }

    /// May there be another callback?
    pub(crate) fn are_due(&mut self, state: &State) -> bool {
        let now = Calls::new(state);
        if now.moves != self.moves {
            *self = now;
        }
        self.made < Self::MOST * state.links.len() as u32
    }

    pub(crate) fn count(&mut self) {
        self.made += 1;
    }
}

/// An action to perform outside the lock.
pub(crate) enum Effect {
    Nothing,
    Copy(Transfer),
    Call(u32, Callback, Status),
    Ring(Arc<EventFd>),
    Schedule(Arc<HubStream>),
}

impl Link {
    #[inline(always)]
    pub(crate) fn request(&self, number: u32) -> LeaseRequest {
        LeaseRequest {
            role: self.role,
            pool: self.pool,
            unit: self.unit,
            link: number,
            autocommit: self.autocommit,
            synced: self.watch.stream.is_some(),
        }
    }
}

impl State {
    /// The next action that has become possible, marked as in progress.
    pub(crate) fn next_effect(&mut self, may_call: bool) -> Effect {
        if let Some(transfer) = self.begin_transfer() {
            return Effect::Copy(transfer);
        }
        if self.watched == 0 {
            return Effect::Nothing;
        }
        let count = self.links.len() as u32;
        for number in (self.turn..count).chain(0..self.turn.min(count)) {
            let watch = &self.links[number as usize].watch;
            let watched = watch.callback.is_some() || watch.armed || watch.stream.is_some();
            if !self.links[number as usize].alive || !watched {
                continue;
            }
            let (news, order) = self.news(number);
            let link = &mut self.links[number as usize];
            let holds = link.role == Role::Consume && link.leases > 0 && !self.destroyed;
            let watch = &mut link.watch;
            if watch.armed && news.is_some() {
                watch.armed = false;
                self.watched -= 1;
                if let Some(event) = &watch.event {
                    self.calls += 1;
                    return Effect::Ring(event.clone());
                }
            }
            if let Some(stream) = &watch.stream {
                if std::mem::replace(&mut watch.last_status, news) != news && news.is_some() {
                    self.calls += 1;
                    return Effect::Schedule(stream.clone());
                }
                continue;
            }
            let Some(callback) = watch.callback else { continue };
            if watch.calling > 0 || watch.last_status == Some(Status::CLOSED) {
                continue;
            }
            // The link may give back what it holds itself, so it is notified of the end only after
            // that.
            let news = news.filter(|news| *news != Status::CLOSED || !holds);
            if news.is_none() {
                watch.last_status = None;
                continue;
            }
            let snapshot = Snapshot { order, changes: self.changes };
            let known = news == watch.last_status
                || (news == Some(Status::OK) && watch.declined == Some(snapshot));
            if !known && may_call {
                (watch.last_status, watch.declined) = (news, None);
                watch.calling += 1;
                self.calls += 1;
                self.turn = number + 1;
                return Effect::Call(number, callback, news.unwrap_or(Status::OK));
            }
        }
        Effect::Nothing
    }

    /// OK if a lease is available, with the order of its chunk; CLOSED if there will be none.
    fn news(&mut self, number: u32) -> (Option<Status>, u64) {
        let request = self.links[number as usize].request(number);
        match self.look(&request) {
            Ok((NONE, _)) => (Some(Status::OK), 0),
            Ok((chunk, _)) => (Some(Status::OK), self.chunks[chunk as usize].order),
            Err(Refusal::Closed) => (Some(Status::CLOSED), 0),
            Err(Refusal::Failed { .. }) => (Some(Status::IO_ERROR), 0),
            Err(_) => (None, 0),
        }
    }

    /// The link has given back its lease, so this chunk is available again.
    #[inline(always)]
    pub(crate) fn note_declined(&mut self, number: u32, snapshot: Snapshot) {
        if self.watched > 0 {
            self.links[number as usize].watch.declined = Some(snapshot);
        }
    }

    /// A lease was tried through the link: the last notification is no longer current.
    #[inline(always)]
    pub(crate) fn note_attempt(&mut self, number: u32) {
        if self.watched > 0 {
            let watch = &mut self.links[number as usize].watch;
            watch.declined = None;
            if watch.last_status == Some(Status::OK) {
                watch.last_status = None;
            }
        }
    }

    /// Arms the link's descriptor. If there is news already, returns it instead.
    pub(crate) fn arm(&mut self, number: u32, event: &Arc<EventFd>) -> Option<Status> {
        let (news, _) = self.news(number);
        let watch = &mut self.links[number as usize].watch;
        if news.is_none() && !watch.armed {
            watch.armed = true;
            watch.event = Some(event.clone());
            self.watched += 1;
        }
        news
    }

    /// Ends all notification of the link. Returns its stream.
    pub(crate) fn unwatch(&mut self, number: u32) -> Option<Arc<HubStream>> {
        let watch = &mut self.links[number as usize].watch;
        self.watched -= u32::from(watch.callback.take().is_some())
            + u32::from(std::mem::take(&mut watch.armed));
        watch.event = None;
        self.watched -= u32::from(watch.stream.is_some());
        watch.stream.take()
    }

    /// Removes all callbacks.
    pub(crate) fn forget_callbacks(&mut self) {
        for link in &mut self.links {
            self.watched -= u32::from(link.watch.callback.take().is_some());
        }
    }

    /// Is the link connected to a stream?
    #[inline(always)]
    pub(crate) fn has_stream(&self, number: u32) -> bool {
        self.watched > 0 && number != NONE && self.links[number as usize].watch.stream.is_some()
    }

    /// Connects the link to a stream, which is notified from now on.
    pub(crate) fn join(&mut self, number: u32, stream: Arc<HubStream>) {
        self.links[number as usize].watch.stream = Some(stream);
        self.watched += 1;
    }

    /// Is this still the link's stream? Not after the link has been destroyed.
    pub(crate) fn is_joined_by(&self, number: u32, stream: &HubStream) -> bool {
        let joined = &self.links[number as usize].watch.stream;
        joined.as_ref().is_some_and(|joined| std::ptr::eq(Arc::as_ptr(joined), stream))
    }

    /// Disconnects the stream; the link's callback is active again.
    pub(crate) fn part(&mut self, number: u32, stream: &HubStream) -> Option<Arc<HubStream>> {
        if !self.is_joined_by(number, stream) {
            return None;
        }
        let watch = &mut self.links[number as usize].watch;
        (watch.last_status, watch.declined) = (None, None);
        self.watched -= 1;
        watch.stream.take()
    }

    /// Closes the hub if a stream has reported the end and no other source is left: neither another
    /// stream, nor a link whose stream was interrupted and that may be connected again.
    pub(crate) fn end_with_sources(&mut self) {
        let is_cut = |link: &Link| link.alive && link.watch.cut;
        if self.source_ended && self.sources == 0 && !self.links.iter().any(is_cut) {
            self.closed = true;
            self.wake_mask |= DATA | ROOM;
        }
    }
}
