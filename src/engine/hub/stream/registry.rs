//! The streams of a worker, the messages for them, and when they run.
//!
//! A stream works only inside a pass of its worker, after UCP's part. Each event for a stream, on
//! any thread, marks the stream and the worker, and wakes the thread that sleeps on the worker. So
//! chunks move when the worker is progressed, on the thread that progresses it, like everything
//! else.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::Component;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::channel::message::Message;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::request::{Slot, USER};
use crate::engine::core::worker::stats::Arrival;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::hub::hub::Hub;
use crate::engine::hub::stream::protocol::PROTOCOL;
use crate::engine::hub::stream::slot::Mail;
use crate::engine::hub::stream::stream::{HubStream, Peer};
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A peer with this many queued operations gets no more replies to its Opens for streams that do
/// not exist here: twice the queue's limit for other operations.
const MOST_WAITING: u64 = 1 << 15;
/// Most ends of one peer that are remembered before there is a matching end here.
const MOST_UNMET: usize = 256;

/// Streams of a worker. Any thread may use it.
#[derive(Default)]
pub(crate) struct HubStreams {
    /// A stream has to run.
    scheduled: AtomicBool,
    table: Mutex<Table>,
    /// Hubs that use this worker.
    hubs: Mutex<Vec<Weak<Hub>>>,
}

#[derive(Default)]
struct Table {
    streams: Vec<Arc<HubStream>>,
    /// Reused buffer for the streams that run in a pass: running may remove a stream from the list.
    round: Vec<Arc<HubStream>>,
    unmet: Vec<Unmet>,
    numbers: u32,
}

/// An end that a peer has opened, and that has no match here yet.
struct Unmet {
    endpoint: Arc<SharedEndpoint>,
    id: u64,
    /// It receives chunks.
    is_receiver: bool,
    peer: Peer,
}

impl HubStreams {
    /// A new number for an end, never 0.
    pub(crate) fn next_number(&self) -> u32 {
        let mut table = self.table.lock();
        table.numbers = table.numbers.wrapping_add(1).max(1);
        table.numbers
    }

    /// Is a pass needed?
    pub(crate) fn is_due(&self) -> bool {
        self.scheduled.load(Ordering::SeqCst)
    }

    /// Requests a pass.
    pub(crate) fn schedule(&self, worker: &SharedWorker) {
        self.scheduled.store(true, Ordering::SeqCst);
        worker.wake_hint().give(worker);
    }

    /// Takes the matching end that a peer has opened.
    pub(crate) fn meet(&self, stream: &HubStream) -> Option<Peer> {
        let mut table = self.table.lock();
        let wanted = |unmet: &Unmet| {
            unmet.id == stream.id
                && unmet.is_receiver != stream.is_receiver()
                && is_same_peer(&unmet.endpoint, &stream.endpoint)
        };
        let place = table.unmet.iter().position(wanted)?;
        Some(table.unmet.remove(place).peer)
    }

    #[cfg(test)]
    pub(crate) fn unmet(&self) -> usize {
        self.table.lock().unmet.len()
    }

    /// Removes the stream.
    pub(crate) fn leave(&self, stream: &HubStream) {
        let left = {
            let mut table = self.table.lock();
            let place =
                table.streams.iter().position(|other| std::ptr::eq(Arc::as_ptr(other), stream));
            place.map(|place| table.streams.swap_remove(place))
        };
        drop(left);
    }

    fn begin_round(&self) -> Vec<Arc<HubStream>> {
        let mut table = self.table.lock();
        let mut round = std::mem::take(&mut table.round);
        round.extend(table.streams.iter().filter(|stream| stream.is_marked()).cloned());
        round
    }

    /// Returns true if there is no stream any more.
    fn end_round(&self, mut round: Vec<Arc<HubStream>>) -> bool {
        round.clear();
        let mut table = self.table.lock();
        table.round = round;
        table.streams.is_empty()
    }
}

/// Do both endpoints lead to the same worker?
fn is_same_peer(one: &SharedEndpoint, other: &SharedEndpoint) -> bool {
    let known = |endpoint: &SharedEndpoint| endpoint.origin().map(|origin| origin.identity);
    std::ptr::eq(one, other) || known(one).is_some_and(|identity| known(other) == Some(identity))
}

impl SharedWorker {
    /// Registers a new hub.
    pub(crate) fn add_hub(&self, hub: &Arc<Hub>) {
        let mut hubs = self.hub_streams().hubs.lock();
        hubs.retain(|hub| hub.strong_count() > 0);
        hubs.push(Arc::downgrade(hub));
    }

    /// The progress thread has ended: threads that wait for a hub have to progress from now on.
    pub(crate) fn wake_hub_waiters(&self) {
        let hubs: Vec<_> =
            self.hub_streams().hubs.lock().iter().filter_map(Weak::upgrade).collect();
        hubs.iter().for_each(|hub| hub.wake_all_waiters());
    }

    /// Describes the hubs that use this worker.
    pub(super) fn describe_hubs(&self, lines: &mut Vec<String>) {
        let hubs: Vec<_> =
            self.hub_streams().hubs.lock().iter().filter_map(Weak::upgrade).collect();
        hubs.iter().for_each(|hub| lines.extend(hub.lines()));
    }

    /// Registers a new stream. A peer can have one stream of each id and direction.
    pub(crate) fn add_hub_stream(&self, stream: &Arc<HubStream>) -> Result<()> {
        self.on_owner(|inside| {
            let streams = inside.hub_streams();
            let same = |other: &HubStream| {
                other.id == stream.id
                    && other.is_receiver() == stream.is_receiver()
                    && is_same_peer(&other.endpoint, &stream.endpoint)
            };
            let mut table = streams.table.lock();
            if table.streams.iter().any(|other| same(other)) {
                let text = format!(
                    "stream_id: {} is the number of another stream to this peer",
                    stream.id
                );
                return Err(Error::new(Status::ALREADY_EXISTS, text));
            }
            table.streams.push(stream.clone());
            drop(table);
            inside.attend(PROTOCOL.bit());
            Ok(())
        })
    }
}

impl Worker {
    /// Runs the marked streams, after UCP's part of a pass.
    pub(crate) fn run_hub_streams(&self) -> u32 {
        if !self.hub_streams().scheduled.swap(false, Ordering::SeqCst) {
            return 0;
        }
        let round = self.hub_streams().begin_round();
        let mut none_left = false;
        self.outside(|| {
            round.iter().for_each(|stream| stream.run_turn());
            none_left = self.hub_streams().end_round(round);
        });
        if none_left && self.hub_streams().table.lock().streams.is_empty() {
            self.attention.set(self.attention.get() & !PROTOCOL.bit());
        }
        1
    }

    /// Ends the streams of endpoints that have ended.
    pub(crate) fn end_hub_streams(&self, ended: impl Fn(*const SharedEndpoint) -> bool) {
        let (streams, unmet) = {
            let mut table = self.hub_streams().table.lock();
            if table.streams.is_empty() && table.unmet.is_empty() {
                return;
            }
            let of_these = |stream: &&Arc<HubStream>| ended(Arc::as_ptr(&stream.endpoint));
            let streams: Vec<_> = table.streams.iter().filter(of_these).cloned().collect();
            let (gone, unmet) =
                table.unmet.drain(..).partition(|unmet| ended(Arc::as_ptr(&unmet.endpoint)));
            table.unmet = unmet;
            let gone: Vec<Unmet> = gone;
            (streams, gone)
        };
        drop(unmet);
        self.outside(|| {
            for stream in streams {
                stream.endpoint_ended();
                stream.run_turn();
            }
        });
    }

    /// Receives a message of a stream. Inside the gate.
    pub(crate) fn dispatch_to_hub(&self, slot: &Slot, endpoint: Arc<SharedEndpoint>) {
        self.stats.arrived(Arrival::HubMessage, slot.length.get());
        slot.hold.set(USER);
        let mail = Mail::new(Message::of(slot));
        self.outside(|| {
            if let Err(why) = self.receive_for_hub(mail, endpoint) {
                complain(Component::Hub, self, why);
            }
        });
        self.drain_foreign();
    }
}

impl SharedWorker {
    fn receive_for_hub(
        &self,
        mail: Mail,
        endpoint: Arc<SharedEndpoint>,
    ) -> std::result::Result<(), &'static str> {
        let (header, _) = StreamHeader::decode(mail.message().header())?;
        let is_of_peer = |other: &SharedEndpoint| is_same_peer(other, &endpoint);
        let mut table = self.hub_streams().table.lock();
        if (header.tells, header.to) == (Tells::Close, 0) {
            table
                .unmet
                .retain(|unmet| unmet.peer.number != header.from || !is_of_peer(&unmet.endpoint));
            return Ok(());
        }
        let is_for = |stream: &&Arc<HubStream>| match header.to {
            0 => {
                stream.id == header.count
                    && stream.is_receiver() != header.mark
                    && is_of_peer(&stream.endpoint)
            }
            to => stream.is_numbered(to) && is_of_peer(&stream.endpoint),
        };
        if let Some(stream) = table.streams.iter().find(is_for).cloned() {
            // Under the lock: `finish` removes the stream from the table first, and then reads its
            // mail for the last time.
            stream.post(mail.with(header));
            drop(table);
            stream.schedule();
            return Ok(());
        }
        match (header.tells, header.to) {
            (Tells::Open, 0) => table.keep_unmet(endpoint, &header),
            (Tells::Open, _) => {
                drop(table);
                if endpoint.queued_now() >= MOST_WAITING {
                    return Err(
                        "it opens streams that do not exist here, and does not read the answers",
                    );
                }
                // If this fails, the endpoint is about to end, and all its streams with it.
                let _ = endpoint.send_hub_header(&header.turned_away());
                Ok(())
            }
            // Messages for ends that no longer exist are ignored.
            _ => Ok(()),
        }
    }
}

impl Table {
    fn keep_unmet(
        &mut self,
        endpoint: Arc<SharedEndpoint>,
        header: &StreamHeader,
    ) -> std::result::Result<(), &'static str> {
        let (id, is_receiver, peer) = (header.count, header.mark, Peer::of(header));
        let same = |unmet: &Unmet| {
            unmet.id == id
                && unmet.is_receiver == is_receiver
                && is_same_peer(&unmet.endpoint, &endpoint)
        };
        if let Some(known) = self.unmet.iter_mut().find(|unmet| same(unmet)) {
            // The peer has opened its end again.
            known.peer = peer;
            return Ok(());
        }
        if self.unmet.iter().filter(|unmet| is_same_peer(&unmet.endpoint, &endpoint)).count()
            >= MOST_UNMET
        {
            return Err("it has opened too many streams that this side has not opened");
        }
        self.unmet.push(Unmet { endpoint, id, is_receiver, peer });
        Ok(())
    }
}
