//! Streams: a consumer link of this hub feeds a producer link of a hub in another process, or the
//! other way round.
//!
//! **Transfer.** The receiving end leases envelopes in advance and sends their number as credit.
//! For each credit the sending end leases a chunk and sends it as an active message. If the chunk
//! is long enough to be pulled, UCX writes its data directly into the envelope. The receiver
//! commits chunks in sending order and acknowledges them; then the sender consumes them. Until then
//! the sender keeps them: if the stream breaks, they are available again.
//!
//! **Pairing.** Each end has a number, and sends Open with the stream's id. The peer's worker
//! stores the Open of the end that is first. An end whose partner has left regularly takes a new
//! number, sends Open again, and waits for the next partner. Messages name both ends by number, so
//! late ones are recognised. Opens may cross, and ends may leave at any time, so an end can join
//! one that is already joined or gone. Then its own Open names that end, and is answered by Close.
//! It starts again, so no end stays alone with an outdated partner.
//!
//! **Threads.** `Work` belongs to the thread that runs the stream, one at a time, in a pass of the
//! worker (`hub::stream::registry`). That thread calls the hub, and so the user's callbacks,
//! without holding a lock. Other threads only mark the stream: a transfer has ended, a message has
//! arrived, the link or the endpoint is gone.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
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

/// Most chunks in flight.
const MOST: u32 = 1 << 16;

/// The other end, as its Open describes it.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    /// Size of its envelopes.
    pub(crate) size: u64,
    /// They are on a device.
    pub(crate) device: bool,
    window: u32,
    /// It knows this end's number.
    knows: bool,
}

impl Peer {
    /// From the header of its Open.
    pub(crate) fn of(header: &StreamHeader) -> Self {
        let StreamHeader { from: number, size, device, window, to, .. } = *header;
        Peer { number, size, device, window, knows: to != 0 }
    }
}

/// State of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The other end is not known yet.
    Waiting,
    /// Chunks are transferred.
    Joined,
    /// Leases and transfers are ending. After that the stream is over, or waits for another end.
    Clearing {
        over: bool,
    },
    Over,
}

/// State of the running stream. Chunks are numbered from 0.
pub(crate) struct Work {
    pub(crate) stage: Stage,
    pub(crate) peer: Option<Peer>,
    /// An end whose Open arrived during `Clearing`.
    next_peer: Option<Peer>,
    /// Open has been sent.
    sent_open: bool,
    /// The oldest chunk that has a place.
    pub(crate) first: u64,
    /// The next chunk to send or to receive.
    pub(crate) next: u64,
    /// Number of chunks that the receiver has had envelopes for.
    pub(crate) granted: u64,
    /// Sender: chunks that the receiver has acknowledged. `reported`: what the receiver has last
    /// reported, chunks committed and envelopes granted.
    pub(crate) taken: u64,
    pub(crate) reported: (u64, u64),
    /// Number of chunks in all, and whether the sender's whole hub has ended.
    pub(crate) end: Option<(u64, bool)>,
    /// A chunk is ready, but there is no credit.
    pub(crate) stalled: bool,
    /// The stream ends after this partner.
    pub(crate) is_last: bool,
}

impl Work {
    fn reset(&mut self) {
        (self.first, self.next, self.granted, self.taken) = (0, 0, 0, 0);
        (self.reported, self.end, self.stalled, self.sent_open) = ((0, 0), None, false, false);
        self.peer = None;
    }
}

/// One end of a stream. See the head of this file.
pub(crate) struct HubStream {
    pub(crate) hub: Arc<Hub>,
    pub(crate) request: LeaseRequest,
    pub(crate) endpoint: Arc<SharedEndpoint>,
    pub(crate) id: u64,
    /// The link's envelopes are on a device.
    device: bool,
    window: u32,
    places: Box<[Place]>,
    /// This end's number. Written by the thread that runs the stream.
    number: AtomicU32,
    marked: AtomicBool,
    /// The link or the hub is gone.
    given_up: AtomicBool,
    /// The endpoint has ended.
    lost: AtomicBool,
    mail: Mutex<VecDeque<Mail>>,
    /// Requests to run, the current run included.
    turns: AtomicU32,
    work: UnsafeCell<Work>,
}

// SAFETY: `work` and the cells of places belong to the one thread that runs the stream.
unsafe impl Send for HubStream {}
// SAFETY: `run_turn` lets one thread at a time run the stream; the rest is atomic or locked.
unsafe impl Sync for HubStream {}

impl Link {
    /// Connects the link with a link of the other direction at the endpoint's peer.
    pub fn connect(&self, endpoint: &Arc<SharedEndpoint>, id: u64, window: u32) -> Result<()> {
        self.hub.check_fork()?;
        if !matches!(self.request.role, Role::Consume | Role::Produce) {
            return Err(Error::invalid(
                "link: only peeks; links that consume or produce can be connected",
            ));
        }
        let Some(worker) = self.hub.worker.as_ref() else {
            return Err(Error::invalid("link: its hub was made without a worker"));
        };
        if !Arc::ptr_eq(worker, endpoint.worker()) {
            return Err(Error::invalid("endpoint: is of another worker than the hub's"));
        }
        if window == 0 {
            return Err(Error::invalid("window: must be at least 1 chunk"));
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
            request: LeaseRequest { synced: true, ..self.request },
            endpoint: endpoint.clone(),
            id,
            device: memory_type::is_device(kind.memory_type),
            window,
            places: (0..window).map(|_| Place::new()).collect(),
            number: AtomicU32::new(worker.hub_streams().next_number()),
            marked: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            // The peer's credit limits the number of messages in it.
            mail: Mutex::new(VecDeque::with_capacity(32)),
            turns: AtomicU32::new(0),
            work: UnsafeCell::new(Work {
                stage: Stage::Waiting,
                peer: None,
                next_peer: None,
                sent_open: false,
                first: 0,
                next: 0,
                granted: 0,
                taken: 0,
                reported: (0, 0),
                end: None,
                stalled: false,
                is_last: false,
            }),
        });
        stream.places.iter().for_each(|place| place.belongs_to(&stream));
        let mut state = self.hub.state.lock();
        if state.links[self.request.link as usize].watch.stream.is_some() {
            drop(state);
            return Err(crate::engine::hub::link::joined());
        }
        if state.destroyed {
            drop(state);
            return Err(crate::engine::hub::link::closed());
        }
        state.join(self.request.link, stream.clone());
        match stream.is_receiver() {
            true => state.sources += 1,
            false => state.drains += 1,
        }
        drop(state);
        if let Err(error) = worker.add_hub_stream(&stream) {
            stream.part_from_hub(None);
            return Err(error);
        }
        // Threads that sleep in a lease through the link have to notice that it is connected now.
        let mut state = self.hub.state.lock();
        state.wake_mask |= DATA | ROOM;
        drop(self.hub.leave(state));
        stream.schedule();
        Ok(())
    }
}

impl HubStream {
    /// Does this end receive chunks?
    pub(crate) fn is_receiver(&self) -> bool {
        self.request.role == Role::Produce
    }

    #[cfg(test)]
    pub(crate) fn own_number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn is_numbered(&self, number: u32) -> bool {
        self.number.load(Ordering::Relaxed) == number
    }

    /// Marks the stream to run. Any thread.
    pub(crate) fn schedule(&self) {
        self.marked.store(true, Ordering::SeqCst);
        self.endpoint.worker().hub_streams().schedule(self.endpoint.worker());
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.marked.load(Ordering::SeqCst)
    }

    /// The link or the hub is gone.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.schedule();
    }

    /// The endpoint has ended. The caller has to run the stream.
    pub(crate) fn endpoint_ended(&self) {
        self.lost.store(true, Ordering::Release);
        self.marked.store(true, Ordering::SeqCst);
    }

    /// Stores a message. The caller has to mark the stream.
    pub(crate) fn post(&self, mail: Mail) {
        self.mail.lock().push_back(mail);
    }

    /// Runs the stream. If another thread is running it, that thread will run it again.
    pub(crate) fn run_turn(&self) {
        if !self.marked.swap(false, Ordering::SeqCst)
            || self.turns.fetch_add(1, Ordering::AcqRel) != 0
        {
            return;
        }
        loop {
            let seen = self.turns.load(Ordering::Acquire);
            // SAFETY: the thread that counted the first turn has exclusive access until it resets
            // the count.
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
            if self.is_receiver() {
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
        // Ignore messages of or for an earlier end.
        let current =
            work.stage == Stage::Joined && work.peer.is_some_and(|peer| peer.number == header.from);
        if !current || !(header.to == 0 || self.is_numbered(header.to)) {
            return Ok(());
        }
        if self.is_receiver() {
            self.on_sender_message(work, mail)
        } else {
            self.on_receiver_message(work, header)
        }
    }

    /// Handles an Open.
    fn meet(
        &self,
        work: &mut Work,
        header: &StreamHeader,
    ) -> std::result::Result<(), &'static str> {
        let names = header.to != 0;
        if names && !self.is_numbered(header.to) {
            // It names a number that this end had earlier.
            self.turn_away(work, header);
            return Ok(());
        }
        if header.count != self.id || header.mark == self.is_receiver() {
            return Err("a message for another stream");
        }
        let peer = Peer::of(header);
        match work.stage {
            Stage::Waiting => self.join(work, peer),
            Stage::Joined if work.peer.is_some_and(|known| known.number == peer.number) => {}
            _ => {
                if work.stage == Stage::Joined {
                    // The peer has started again, and knows nothing of the previous connection.
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

    /// Rejects an end that has joined an outdated number of this end: it starts again.
    fn turn_away(&self, work: &mut Work, header: &StreamHeader) {
        self.send_header(work, header.turned_away());
    }

    fn join(&self, work: &mut Work, peer: Peer) {
        work.peer = Some(peer);
        work.stage = Stage::Joined;
        if !peer.knows {
            self.send_open(work, peer.number);
        }
    }

    /// Most chunks in flight: as many as both ends have places for.
    pub(crate) fn window(&self, work: &Work) -> u64 {
        work.peer.map_or(self.window, |peer| peer.window.min(self.window)).into()
    }

    pub(crate) fn place(&self, chunk: u64) -> &Place {
        &self.places[(chunk % u64::from(self.window)) as usize]
    }

    fn wait(&self, work: &mut Work) {
        if self.given_up.load(Ordering::Acquire) {
            if work.sent_open {
                let number = self.number.load(Ordering::Relaxed);
                let close = StreamHeader::new(Tells::Close, 0, number);
                self.send_header(work, StreamHeader { status: Status::CANCELED.0, ..close });
            }
            return self.finish(work, false);
        }
        if let Some(peer) =
            work.next_peer.take().or_else(|| self.endpoint.worker().hub_streams().meet(self))
        {
            return self.join(work, peer);
        }
        if !work.sent_open {
            self.send_open(work, 0);
        }
    }

    fn send_open(&self, work: &mut Work, to: u32) {
        work.sent_open = true;
        let header = StreamHeader {
            mark: self.is_receiver(),
            device: self.is_receiver() && self.device,
            window: self.window,
            count: self.id,
            size: self.hub.size,
            ..StreamHeader::new(Tells::Open, to, self.number.load(Ordering::Relaxed))
        };
        self.send_header(work, header);
    }

    /// A header for the other end.
    pub(crate) fn header(&self, work: &Work, tells: Tells) -> StreamHeader {
        let to = work.peer.map_or(0, |peer| peer.number);
        StreamHeader::new(tells, to, self.number.load(Ordering::Relaxed))
    }

    /// Sends a message without a chunk.
    pub(crate) fn send_header(&self, work: &mut Work, header: StreamHeader) {
        if let Err(error) = self.endpoint.send_hub_header(&header) {
            self.endpoint_failed(work, &error);
        }
    }

    /// The endpoint accepts nothing: it is about to end.
    pub(crate) fn endpoint_failed(&self, work: &mut Work, error: &Error) {
        log::at!(INFO, Hub, &*self.endpoint, "stream {}: {}", self.id, error.status());
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

    /// The other end has violated the protocol, or this end cannot continue.
    pub(crate) fn broken(&self, work: &mut Work, why: &str, status: Status) {
        if work.stage == Stage::Over {
            return;
        }
        self.complain(why);
        self.close(work, status, true);
    }

    pub(crate) fn complain(&self, why: &str) {
        log::at!(ERROR, Hub, &*self.endpoint, "stream {}: {why}; the stream has ended", self.id);
    }

    /// Notifies the other end that this end no longer sends or receives.
    pub(crate) fn close(&self, work: &mut Work, status: Status, over: bool) {
        let count = if self.is_receiver() { work.first } else { work.taken };
        let header = StreamHeader { count, status: status.0, ..self.header(work, Tells::Close) };
        work.stage = Stage::Clearing { over };
        self.send_header(work, header);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Leases through the link.
    pub(crate) fn lease(&self, credit: bool) -> std::result::Result<*const Lease, Refusal> {
        let mut state = self.hub.state.lock();
        if !state.is_joined_by(self.request.link, self) {
            // The link was destroyed a moment ago, and its record may be reused: the stream will
            // run again.
            return Err(Refusal::NotNow);
        }
        let lease = self.hub.try_lease(&mut state, &self.request);
        state.lent += u64::from(credit && lease.is_ok());
        drop(self.hub.leave(state));
        lease
    }

    /// Ends the leases that UCX no longer uses: acknowledged chunks are consumed, the others become
    /// available again.
    fn clear(&self, work: &mut Work, over: bool) {
        let end = if self.is_receiver() { work.granted } else { work.next };
        let mut left = false;
        for chunk in work.first..end {
            let place = self.place(chunk);
            if place.lease.get().is_null() {
                continue;
            }
            if self.is_receiver() && chunk >= work.next {
                self.return_lent();
            } else if place.outcome().is_none() {
                left = true;
                continue;
            }
            place.end(!self.is_receiver() && chunk < work.taken);
        }
        if left {
            return;
        }
        if over || work.is_last || self.is_given_up() {
            return self.finish(work, false);
        }
        work.reset();
        work.stage = Stage::Waiting;
        self.number.store(self.endpoint.worker().hub_streams().next_number(), Ordering::Relaxed);
        self.wait(work);
        if work.stage == Stage::Joined {
            self.schedule();
        }
    }

    /// A lease for a coming chunk is given back, or its chunk has arrived.
    pub(crate) fn return_lent(&self) {
        self.hub.state.lock().lent -= 1;
    }

    /// Ends the stream. `all`: the sender has reported the end of its hub.
    pub(crate) fn finish(&self, work: &mut Work, all: bool) {
        work.stage = Stage::Over;
        self.endpoint.worker().hub_streams().leave(self);
        self.part_from_hub(Some(all));
        let rest = std::mem::take(&mut *self.mail.lock());
        for mail in
            rest.iter().filter(|mail| mail.header.tells == Tells::Open && mail.header.to != 0)
        {
            self.turn_away(work, &mail.header);
        }
    }

    /// `all` as for `finish`; `None` for a stream that has not begun.
    fn part_from_hub(&self, all: Option<bool>) {
        let mut state = self.hub.state.lock();
        let stream = state.part(self.request.link, self);
        if self.is_receiver() {
            state.sources -= 1;
            if let (Some(all), true) = (all, stream.is_some()) {
                state.links[self.request.link as usize].watch.cut = !all;
            }
            state.source_ended |= all == Some(true);
            state.end_with_sources();
        } else {
            state.drains -= 1;
        }
        state.wake_mask |= DATA | ROOM;
        drop(self.hub.leave(state));
        drop(stream);
    }
}
