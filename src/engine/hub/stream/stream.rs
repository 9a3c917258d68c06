//! Streams: a link that consumes here feeds one that produces in another process, or the other way
//! round.
//!
//! **Who does what.** The receiving end leases envelopes before anything comes, and tells how many:
//! that is the credit. The sending end leases a chunk for each, and sends it as an active message,
//! whose data UCX puts straight into the envelope where it is long enough to be pulled. What has
//! come becomes a chunk in the order in which it was sent, and is told; then it is consumed at its
//! sender. Until then it is not gone there: when the stream breaks, it is offered again.
//!
//! **How two ends find each other.** Each has a number, and says Open with the stream's. Whichever
//! is first waits: its Open is kept by the peer's worker. An end that the other one has left in
//! peace gets a new number, says Open again, and waits for the next. Messages name both ends by
//! their numbers, so that what is late is known as such. Opens cross, and either end may go at any
//! time, so one can have joined an end that is joined with another one, or gone. It has named that
//! end in its own Open then, which is answered by Close: it waits anew, and nobody is left alone
//! with what was.
//!
//! **Threads.** What a stream knows belongs to whoever has its turn, which is one thread at a time,
//! in a pass of the worker (`hub::stream::registry`). It calls the hub, and so the user's
//! callbacks, without a lock. Others only leave a mark: a place whose transfer has ended, mail, a
//! link that is gone, an endpoint that has ended.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::link::Link;
use crate::engine::hub::records::Role;
use crate::engine::hub::stream::slot::{Mail, Place};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// Chunks on their way at a time, at most.
const MOST: u32 = 1 << 16;

/// The other end, as it has told.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// Bytes of its envelopes.
    pub(crate) size: u64,
    /// They are on a device.
    pub(crate) device: bool,
    window: u32,
    /// It knows this side's number.
    knows: bool,
}

impl Peer {
    /// That says Open.
    pub(crate) fn of(header: &StreamHeader) -> Self {
        let StreamHeader { from: number, size, device, window, to, .. } = *header;
        Peer { number, size, device, window, knows: to != 0 }
    }
}

/// How far a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The other end is not known yet.
    Waiting,
    /// Chunks move.
    Joined,
    /// What was on its way is given back; then it is over, or waits for another end.
    Clearing {
        over: bool,
    },
    Over,
}

/// What a stream knows. Chunks are numbered from 0 on.
pub(crate) struct Work {
    pub(crate) stage: Stage,
    pub(crate) peer: Option<Peer>,
    /// One that has said Open while this side was clearing.
    next_peer: Option<Peer>,
    /// Open has been said.
    said: bool,
    /// The oldest that has a place.
    pub(crate) first: u64,
    /// The next one: to be sent, or to come.
    pub(crate) next: u64,
    /// Envelopes there have been for them at the receiver.
    pub(crate) granted: u64,
    /// Those that have become chunks at the receiver, or, there, that have been told: with what was
    /// granted then.
    pub(crate) taken: u64,
    pub(crate) told: (u64, u64),
    /// How many there are, and whether they are all of the hub.
    pub(crate) end: Option<(u64, bool)>,
    /// A chunk is there, and no credit.
    pub(crate) stalled: bool,
    /// It waits for no other end after this one.
    pub(crate) is_last: bool,
}

impl Work {
    fn reset(&mut self) {
        (self.first, self.next, self.granted, self.taken) = (0, 0, 0, 0);
        (self.told, self.end, self.stalled, self.said) = ((0, 0), None, false, false);
        self.peer = None;
    }
}

/// One end of a stream. See the top of this file.
pub(crate) struct HubStream {
    pub(crate) hub: Arc<Hub>,
    pub(crate) seeker: LeaseRequest,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) id: u64,
    /// The link's envelopes are on a device.
    device: bool,
    window: u32,
    places: Box<[Place]>,
    /// Its own. Written by who has the turn.
    number: AtomicU32,
    marked: AtomicBool,
    /// Its link is gone, or its hub.
    given_up: AtomicBool,
    /// Its endpoint has ended.
    lost: AtomicBool,
    mail: Mutex<VecDeque<Mail>>,
    /// How often a turn was asked for while one was under way, with that.
    turns: AtomicU32,
    work: UnsafeCell<Work>,
}

// SAFETY: cells belong to whoever has the turn.
unsafe impl Send for HubStream {}
// SAFETY: as above.
unsafe impl Sync for HubStream {}

impl Link {
    /// Joins the link with one of the other kind at the endpoint's other end.
    pub fn connect(&self, endpoint: &Arc<Endpoint>, id: u64, window: u32) -> Result<()> {
        self.hub.check_fork()?;
        if !matches!(self.seeker.role, Role::Consume | Role::Produce) {
            return Err(Error::invalid(
                "link: is one that looks; those that consume or produce can be connected",
            ));
        }
        let Some(worker) = self.hub.worker.as_ref() else {
            return Err(Error::invalid("link: its hub was made without a worker"));
        };
        if !Arc::ptr_eq(worker, &endpoint.worker) {
            return Err(Error::invalid("endpoint: is of another worker than the hub's"));
        }
        if window == 0 {
            return Err(Error::invalid("window: with 0 chunks on their way none would ever come"));
        }
        if window > MOST {
            return Err(Error::new(
                Status::EXCEEDS_LIMIT,
                format!("window: {window} chunks are more than {MOST}"),
            ));
        }
        worker.check_usable()?;
        worker.need(feature::AM)?;
        let kind = self.check_network()?;
        endpoint.check_open()?;
        let stream = Arc::new(HubStream {
            hub: self.hub.clone(),
            seeker: LeaseRequest { settled: true, ..self.seeker },
            endpoint: endpoint.clone(),
            id,
            device: memory_type::is_device(kind.memory_type),
            window,
            places: (0..window).map(|_| Place::new()).collect(),
            number: AtomicU32::new(worker.hub_streams().next_number()),
            marked: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            // The peer's credit is the bound of what is in it.
            mail: Mutex::new(VecDeque::with_capacity(32)),
            turns: AtomicU32::new(0),
            work: UnsafeCell::new(Work {
                stage: Stage::Waiting,
                peer: None,
                next_peer: None,
                said: false,
                first: 0,
                next: 0,
                granted: 0,
                taken: 0,
                told: (0, 0),
                end: None,
                stalled: false,
                is_last: false,
            }),
        });
        stream.places.iter().for_each(|place| place.belongs_to(&stream));
        let mut state = self.hub.state.lock();
        if state.links[self.seeker.link as usize].watch.stream.is_some() {
            drop(state);
            return Err(crate::engine::hub::link::joined());
        }
        if state.destroyed {
            drop(state);
            return Err(crate::engine::hub::link::closed());
        }
        state.join(self.seeker.link, stream.clone());
        match stream.takes() {
            true => state.sources += 1,
            false => state.drains += 1,
        }
        drop(state);
        if let Err(error) = worker.add_hub_stream(&stream) {
            stream.part_from_hub(None);
            return Err(error);
        }
        // Who sleeps in a lease through the link waits for what is not its own any more.
        let mut state = self.hub.state.lock();
        state.woken |= DATA | ROOM;
        drop(self.hub.leave(state));
        stream.stir();
        Ok(())
    }
}

impl HubStream {
    /// Takes chunks in.
    pub(crate) fn takes(&self) -> bool {
        self.seeker.role == Role::Produce
    }

    #[cfg(test)]
    pub(crate) fn own_number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn is_numbered(&self, number: u32) -> bool {
        self.number.load(Ordering::Relaxed) == number
    }

    /// Something has happened that concerns it. Any thread.
    pub(crate) fn stir(&self) {
        self.marked.store(true, Ordering::SeqCst);
        self.endpoint.worker.hub_streams().stir(&self.endpoint.worker);
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.marked.load(Ordering::SeqCst)
    }

    /// Its link is gone, or its hub.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.stir();
    }

    /// Its endpoint has ended. A turn has to follow.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.marked.store(true, Ordering::SeqCst);
    }

    /// A turn has to follow.
    pub(crate) fn post(&self, mail: Mail) {
        self.mail.lock().push_back(mail);
    }

    /// Does what there is to do, unless somebody is about it, who will then.
    pub(crate) fn take_turn(&self) {
        if !self.marked.swap(false, Ordering::SeqCst)
            || self.turns.fetch_add(1, Ordering::AcqRel) != 0
        {
            return;
        }
        loop {
            let seen = self.turns.load(Ordering::Acquire);
            // SAFETY: who counted the first turn has it, until it has taken the count back.
            self.work(unsafe { &mut *self.work.get() });
            if self.turns.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
        }
    }

    fn work(&self, work: &mut Work) {
        loop {
            let Some(mail) = self.mail.lock().pop_front() else { break };
            if let Err(why) = self.read(work, &mail) {
                self.broken(work, why, Status::INVALID_PARAM);
            }
        }
        if self.lost.load(Ordering::Acquire) {
            self.lost(work);
        }
        if work.stage == Stage::Waiting {
            self.wait(work);
        }
        if work.stage == Stage::Joined {
            if self.takes() {
                self.receive(work);
            } else {
                self.send(work);
            }
        }
        if let Stage::Clearing { over } = work.stage {
            self.clear(work, over);
        }
    }

    fn read(&self, work: &mut Work, mail: &Mail) -> std::result::Result<(), &'static str> {
        let header = &mail.header;
        if header.tells == Tells::Open {
            return self.meet(work, header);
        }
        // Of an end that has been left, or for one.
        let current =
            work.stage == Stage::Joined && work.peer.is_some_and(|peer| peer.number == header.from);
        if !current || !(header.to == 0 || self.is_numbered(header.to)) {
            return Ok(());
        }
        if self.takes() {
            self.hear_sender(work, mail)
        } else {
            self.hear_receiver(work, header)
        }
    }

    /// The other end has told of itself.
    fn meet(
        &self,
        work: &mut Work,
        header: &StreamHeader,
    ) -> std::result::Result<(), &'static str> {
        let names = header.to != 0;
        if names && !self.is_numbered(header.to) {
            // It was this end's when the message came.
            self.turn_away(work, header);
            return Ok(());
        }
        if header.count != self.id || header.mark == self.takes() {
            return Err("an end of another stream");
        }
        let peer = Peer::of(header);
        match work.stage {
            Stage::Waiting => self.join(work, peer),
            Stage::Joined if work.peer.is_some_and(|known| known.number == peer.number) => {}
            _ => {
                if work.stage == Stage::Joined {
                    // It has begun anew, and knows nothing of what was before.
                    work.stage = Stage::Clearing { over: false };
                }
                work.next_peer = (!names).then_some(peer);
                if names {
                    self.turn_away(work, header);
                }
            }
        }
        Ok(())
    }

    /// Who has joined a number of this end's at which it waits for nobody, or not any more, begins
    /// anew.
    fn turn_away(&self, work: &mut Work, header: &StreamHeader) {
        self.say(work, header.turned_away());
    }

    fn join(&self, work: &mut Work, peer: Peer) {
        work.peer = Some(peer);
        work.stage = Stage::Joined;
        if !peer.knows {
            self.say_open(work, peer.number);
        }
    }

    /// Chunks on their way at a time: as many as both have a place for.
    pub(crate) fn window(&self, work: &Work) -> u64 {
        work.peer.map_or(self.window, |peer| peer.window.min(self.window)).into()
    }

    /// The place of a chunk.
    pub(crate) fn place(&self, chunk: u64) -> &Place {
        &self.places[(chunk % u64::from(self.window)) as usize]
    }

    fn wait(&self, work: &mut Work) {
        if self.given_up.load(Ordering::Acquire) {
            if work.said {
                let number = self.number.load(Ordering::Relaxed);
                let close = StreamHeader::new(Tells::Close, 0, number);
                self.say(work, StreamHeader { status: Status::CANCELED.0, ..close });
            }
            return self.finish(work, false);
        }
        if let Some(peer) =
            work.next_peer.take().or_else(|| self.endpoint.worker.hub_streams().meet(self))
        {
            return self.join(work, peer);
        }
        if !work.said {
            self.say_open(work, 0);
        }
    }

    fn say_open(&self, work: &mut Work, to: u32) {
        work.said = true;
        let header = StreamHeader {
            mark: self.takes(),
            device: self.takes() && self.device,
            window: self.window,
            count: self.id,
            size: self.hub.size,
            ..StreamHeader::new(Tells::Open, to, self.number.load(Ordering::Relaxed))
        };
        self.say(work, header);
    }

    /// One that is to be sent to the other end.
    pub(crate) fn header(&self, work: &Work, tells: Tells) -> StreamHeader {
        let to = work.peer.map_or(0, |peer| peer.number);
        StreamHeader::new(tells, to, self.number.load(Ordering::Relaxed))
    }

    /// Sends what has no chunk with it.
    pub(crate) fn say(&self, work: &mut Work, header: StreamHeader) {
        if let Err(error) = self.endpoint.say_for_hub(&header) {
            self.cannot(work, &error);
        }
    }

    /// The endpoint takes nothing: it is about to end.
    pub(crate) fn cannot(&self, work: &mut Work, error: &Error) {
        log::write(log::INFO, c"hub", &format!("stream {}: {}", self.id, error.status()));
        self.lost(work);
    }

    fn lost(&self, work: &mut Work) {
        work.stage = match work.stage {
            Stage::Waiting | Stage::Joined | Stage::Clearing { .. } => {
                Stage::Clearing { over: true }
            }
            Stage::Over => Stage::Over,
        };
    }

    /// The other end does not keep to the rules, or this one cannot go on.
    pub(crate) fn broken(&self, work: &mut Work, why: &str, status: Status) {
        if work.stage == Stage::Over {
            return;
        }
        self.complain(why);
        self.close(work, status, true);
    }

    pub(crate) fn complain(&self, why: &str) {
        let text =
            format!("stream {} with {}: {why}: given up", self.id, self.endpoint.peer_text());
        log::write(log::ERROR, c"hub", &text);
    }

    /// Tells the other end that nothing more is taken, or sent.
    pub(crate) fn close(&self, work: &mut Work, status: Status, over: bool) {
        let count = if self.takes() { work.first } else { work.taken };
        let header = StreamHeader { count, status: status.0, ..self.header(work, Tells::Close) };
        work.stage = Stage::Clearing { over };
        self.say(work, header);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// A lease through the link.
    pub(crate) fn lease(&self, credit: bool) -> std::result::Result<*const Lease, Refusal> {
        let mut state = self.hub.state.lock();
        if !state.is_joined_by(self.seeker.link, self) {
            // The link went a moment ago, and what is known of it may be another one's by now: its
            // turn comes again.
            return Err(Refusal::NotNow);
        }
        let lease = self.hub.try_lease(&mut state, &self.seeker);
        state.lent += u64::from(credit && lease.is_ok());
        drop(self.hub.leave(state));
        lease
    }

    /// Gives back what UCX has done with: all that are acknowledged are consumed, the others
    /// offered again.
    fn clear(&self, work: &mut Work, over: bool) {
        let end = if self.takes() { work.granted } else { work.next };
        let mut left = false;
        for chunk in work.first..end {
            let place = self.place(chunk);
            if place.lease.get().is_null() {
                continue;
            }
            if self.takes() && chunk >= work.next {
                self.unlend();
            } else if place.outcome().is_none() {
                left = true;
                continue;
            }
            place.end(!self.takes() && chunk < work.taken);
        }
        if left {
            return;
        }
        if over || work.is_last || self.is_given_up() {
            return self.finish(work, false);
        }
        work.reset();
        work.stage = Stage::Waiting;
        self.number.store(self.endpoint.worker.hub_streams().next_number(), Ordering::Relaxed);
        self.wait(work);
        if work.stage == Stage::Joined {
            self.stir();
        }
    }

    /// What was leased for a chunk to come is not any more, or is for one that has come.
    pub(crate) fn unlend(&self) {
        self.hub.state.lock().lent -= 1;
    }

    /// It is over. `all`: the other end has told that its hub has no more.
    pub(crate) fn finish(&self, work: &mut Work, all: bool) {
        work.stage = Stage::Over;
        self.endpoint.worker.hub_streams().leave(self);
        self.part_from_hub(Some(all));
        let rest = std::mem::take(&mut *self.mail.lock());
        for mail in
            rest.iter().filter(|mail| mail.header.tells == Tells::Open && mail.header.to != 0)
        {
            self.turn_away(work, &mail.header);
        }
    }

    /// `all`: as for `finish`; none of a stream that has not begun.
    fn part_from_hub(&self, all: Option<bool>) {
        let mut state = self.hub.state.lock();
        let stream = state.part(self.seeker.link, self);
        if self.takes() {
            state.sources -= 1;
            if let (Some(all), true) = (all, stream.is_some()) {
                state.links[self.seeker.link as usize].watch.cut = !all;
            }
            state.source_ended |= all == Some(true);
            state.end_with_sources();
        } else {
            state.drains -= 1;
        }
        state.woken |= DATA | ROOM;
        drop(self.hub.leave(state));
        drop(stream);
    }
}
