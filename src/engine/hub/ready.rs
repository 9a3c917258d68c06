//! Links that want to be told: by a callback, or by a descriptor that has been armed.
//!
//! A callback is level-triggered: it is called when a lease can be had, and again if that is still
//! so, or so again, after a lease has been tried. It is called once for the end of the stream.
//!
//! How calls come to an end, and reach everybody:
//! - A link that has given back a chunk is not told of that chunk again, whoever has had it since,
//!   until something else changes in the hub. So links that decline what they get do not call each
//!   other for ever.
//! - The links take turns: whose turn it is stands behind the one that was called last.
//! - Links that change the same chunk have news for each other without end. `Calls` bounds what one
//!   call of the library does there.

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

/// Whom to call, and with what.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(crate) function: LinkCallback,
    pub(crate) arg: *mut c_void,
    /// The caller's handle. Alive as long as the link is, and as long as a call is under way.
    pub(crate) link: *mut c_void,
}

// SAFETY: what the caller has given, to be called on any thread.
unsafe impl Send for Callback {}

/// How a link is watched.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) callback: Option<Callback>,
    /// What it was called with, until that is news again.
    told: Option<Status>,
    /// What the link has given back, until it tries again: it knows that it could have that.
    gave_back: Option<Sight>,
    /// Calls under way.
    pub(crate) calling: u32,
    armed: bool,
    event: Option<Arc<EventFd>>,
    /// What the link is joined by with one elsewhere. As long as it is, that is told in place of
    /// the callback.
    pub(crate) stream: Option<Arc<HubStream>>,
    /// The last one that brought chunks was cut off before its end.
    pub(crate) cut: bool,
}

/// A chunk by its order, or 0 for room for one, and how the hub was then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) order: u64,
    pub(crate) changes: u64,
}

/// How often one call of the library has called back since a chunk has come or gone.
pub(crate) struct Calls {
    made: u32,
    moves: u64,
}

impl Calls {
    /// The most for each link.
    const MOST: u32 = 64;

    pub(crate) fn new(state: &State) -> Self {
        Calls { made: 0, moves: state.stats.chunks_produced + state.stats.chunks_consumed }
    }

    /// May there be another one?
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

/// What is to be done outside the lock.
pub(crate) enum Effect {
    Nothing,
    Copy(Transfer),
    Call(u32, Callback, Status),
    Ring(Arc<EventFd>),
    Stir(Arc<HubStream>),
}

impl Link {
    #[inline(always)]
    pub(crate) fn seeker(&self, number: u32) -> LeaseRequest {
        LeaseRequest {
            role: self.role,
            pool: self.pool,
            unit: self.unit,
            link: number,
            autocommit: self.autocommit,
            settled: self.watch.stream.is_some(),
        }
    }
}

impl State {
    /// One of the things that have become possible, marked as under way.
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
                if std::mem::replace(&mut watch.told, news) != news && news.is_some() {
                    self.calls += 1;
                    return Effect::Stir(stream.clone());
                }
                continue;
            }
            let Some(callback) = watch.callback else { continue };
            if watch.calling > 0 || watch.told == Some(Status::CLOSED) {
                continue;
            }
            // It may give back what it holds itself: the end, which is told once, comes after that.
            let news = news.filter(|news| *news != Status::CLOSED || !holds);
            if news.is_none() {
                watch.told = None;
                continue;
            }
            let sight = Sight { order, changes: self.changes };
            let known =
                news == watch.told || (news == Some(Status::OK) && watch.gave_back == Some(sight));
            if !known && may_call {
                (watch.told, watch.gave_back) = (news, None);
                watch.calling += 1;
                self.calls += 1;
                self.turn = number + 1;
                return Effect::Call(number, callback, news.unwrap_or(Status::OK));
            }
        }
        Effect::Nothing
    }

    /// OK when a lease can be had, and the order of its chunk; CLOSED when none ever will.
    fn news(&mut self, number: u32) -> (Option<Status>, u64) {
        let seeker = self.links[number as usize].seeker(number);
        match self.look(&seeker) {
            Ok((NONE, _)) => (Some(Status::OK), 0),
            Ok((chunk, _)) => (Some(Status::OK), self.chunks[chunk as usize].order),
            Err(Refusal::Closed) => (Some(Status::CLOSED), 0),
            Err(Refusal::Failed { .. }) => (Some(Status::IO_ERROR), 0),
            Err(_) => (None, 0),
        }
    }

    /// What a lease through the link was about is there again, by its own doing.
    #[inline(always)]
    pub(crate) fn given_back(&mut self, number: u32, sight: Sight) {
        if self.watched > 0 {
            self.links[number as usize].watch.gave_back = Some(sight);
        }
    }

    /// A lease has been tried through the link: what it was told is out of date.
    #[inline(always)]
    pub(crate) fn tried(&mut self, number: u32) {
        if self.watched > 0 {
            let watch = &mut self.links[number as usize].watch;
            watch.gave_back = None;
            if watch.told == Some(Status::OK) {
                watch.told = None;
            }
        }
    }

    /// Has the link's descriptor ring with the next news; the news there is already, if any.
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

    /// It is not to be told any more. What it was joined by.
    pub(crate) fn unwatch(&mut self, number: u32) -> Option<Arc<HubStream>> {
        let watch = &mut self.links[number as usize].watch;
        self.watched -= u32::from(watch.callback.take().is_some())
            + u32::from(std::mem::take(&mut watch.armed));
        watch.event = None;
        self.watched -= u32::from(watch.stream.is_some());
        watch.stream.take()
    }

    /// Nobody is called back any more.
    pub(crate) fn forget_callbacks(&mut self) {
        for link in &mut self.links {
            self.watched -= u32::from(link.watch.callback.take().is_some());
        }
    }

    /// Is the link one that has a stream?
    #[inline(always)]
    pub(crate) fn has_stream(&self, number: u32) -> bool {
        self.watched > 0 && number != NONE && self.links[number as usize].watch.stream.is_some()
    }

    /// The stream is told from now on.
    pub(crate) fn join(&mut self, number: u32, stream: Arc<HubStream>) {
        self.links[number as usize].watch.stream = Some(stream);
        self.watched += 1;
    }

    /// Is it the link's stream? It is not any more once the link has gone.
    pub(crate) fn is_joined_by(&self, number: u32, stream: &HubStream) -> bool {
        let joined = &self.links[number as usize].watch.stream;
        joined.as_ref().is_some_and(|joined| std::ptr::eq(Arc::as_ptr(joined), stream))
    }

    /// And not any more; but the callback is, if there is one.
    pub(crate) fn part(&mut self, number: u32, stream: &HubStream) -> Option<Arc<HubStream>> {
        if !self.is_joined_by(number, stream) {
            return None;
        }
        let watch = &mut self.links[number as usize].watch;
        (watch.told, watch.gave_back) = (None, None);
        self.watched -= 1;
        watch.stream.take()
    }

    /// Nothing more is produced when a stream has told so, and there is no other one that might
    /// still bring something: nor a link whose stream was cut off, which may be connected again.
    pub(crate) fn end_with_sources(&mut self) {
        let is_cut = |link: &Link| link.alive && link.watch.cut;
        if self.source_ended && self.sources == 0 && !self.links.iter().any(is_cut) {
            self.closed = true;
            self.woken |= DATA | ROOM;
        }
    }
}
