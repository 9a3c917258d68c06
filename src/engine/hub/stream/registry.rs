//! The streams of a worker: which there are, who is to be told what has come for them, and when
//! they have their turn.
//!
//! A stream does something only inside a pass of its worker, after UCP's part. Whatever concerns
//! it, on whichever thread, marks it and the worker, and wakes who sleeps on the worker. So chunks
//! move when, and where, the worker is progressed, as all else that it does.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::channel::message::Message;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::{Slot, USER};
use crate::engine::core::worker::worker::Worker;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::stream::protocol::PROTOCOL;
use crate::engine::hub::stream::slot::Mail;
use crate::engine::hub::stream::stream::{HubStream, Peer};
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Who has so much waiting in its send queue is told no more of streams that it asks for in vain:
/// twice what the queue holds where nothing else was asked for.
const MOST_WAITING: u64 = 1 << 15;
/// Ends that peers have told of before there was one here, of one endpoint.
const MOST_UNMET: usize = 256;

/// What a worker knows of its streams. Any thread.
#[derive(Default)]
pub(crate) struct HubStreams {
    /// One of them wants its turn.
    stirred: AtomicBool,
    table: Mutex<Table>,
    /// Hubs that have the worker.
    hubs: Mutex<Vec<Weak<Hub>>>,
}

#[derive(Default)]
struct Table {
    streams: Vec<Arc<HubStream>>,
    /// Room for those whose turn it is: a turn may take its stream out of the list.
    round: Vec<Arc<HubStream>>,
    unmet: Vec<Unmet>,
    numbers: u32,
}

/// An end that a peer has told of, which none here has answered.
struct Unmet {
    endpoint: Arc<Endpoint>,
    id: u64,
    /// It takes chunks in.
    takes: bool,
    peer: Peer,
}

impl HubStreams {
    /// A number for an end: another one each time, never 0.
    pub(crate) fn next_number(&self) -> u32 {
        let mut table = self.table.lock();
        table.numbers = table.numbers.wrapping_add(1).max(1);
        table.numbers
    }

    /// Is a pass wanted?
    pub(crate) fn is_due(&self) -> bool {
        self.stirred.load(Ordering::SeqCst)
    }

    /// One of the streams wants its turn.
    pub(crate) fn stir(&self, worker: &Worker) {
        self.stirred.store(true, Ordering::SeqCst);
        worker.wake_hint.give(worker);
    }

    /// What a peer has told of the other end.
    pub(crate) fn meet(&self, stream: &HubStream) -> Option<Peer> {
        let mut table = self.table.lock();
        let wanted = |unmet: &Unmet| {
            unmet.id == stream.id
                && unmet.takes != stream.takes()
                && is_same_peer(&unmet.endpoint, &stream.endpoint)
        };
        let place = table.unmet.iter().position(wanted)?;
        Some(table.unmet.remove(place).peer)
    }

    #[cfg(test)]
    pub(crate) fn unmet(&self) -> usize {
        self.table.lock().unmet.len()
    }

    /// It is none of these any more.
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

    /// True if there is no stream any more.
    fn end_round(&self, mut round: Vec<Arc<HubStream>>) -> bool {
        round.clear();
        let mut table = self.table.lock();
        table.round = round;
        table.streams.is_empty()
    }
}

/// Both lead to the same worker.
fn is_same_peer(one: &Endpoint, other: &Endpoint) -> bool {
    let known = |endpoint: &Endpoint| endpoint.origin().map(|origin| origin.identity);
    std::ptr::eq(one, other) || known(one).is_some_and(|identity| known(other) == Some(identity))
}

impl Worker {
    /// A hub that has just been made.
    pub(crate) fn add_hub(&self, hub: &Arc<Hub>) {
        let mut hubs = self.hub_streams().hubs.lock();
        hubs.retain(|hub| hub.strong_count() > 0);
        hubs.push(Arc::downgrade(hub));
    }

    /// The progress thread has gone: who waits for a hub progresses from now on.
    pub(crate) fn change_over_hubs(&self) {
        let hubs: Vec<_> =
            self.hub_streams().hubs.lock().iter().filter_map(Weak::upgrade).collect();
        hubs.iter().for_each(|hub| hub.change_over());
    }

    /// A stream that has just been made. One of its kind is enough for a peer.
    pub(crate) fn add_hub_stream(&self, stream: &Arc<HubStream>) -> Result<()> {
        self.on_owner(|inside| {
            let streams = inside.hub_streams();
            let same = |other: &HubStream| {
                other.id == stream.id
                    && other.takes() == stream.takes()
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

    /// Gives those their turn that want it. After UCP's pass.
    pub(crate) fn tend_hub_streams(&self) -> u32 {
        if !self.hub_streams().stirred.swap(false, Ordering::SeqCst) {
            return 0;
        }
        let round = self.hub_streams().begin_round();
        let mut none_left = false;
        self.outside(|| {
            round.iter().for_each(|stream| stream.take_turn());
            none_left = self.hub_streams().end_round(round);
        });
        if none_left && self.hub_streams().table.lock().streams.is_empty() {
            self.attention.set(self.attention.get() & !PROTOCOL.bit());
        }
        1
    }

    /// Endpoints have ended, and so have the streams on them.
    pub(crate) fn end_hub_streams(&self, ended: impl Fn(*const Endpoint) -> bool) {
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
                stream.lose();
                stream.take_turn();
            }
        });
    }

    /// A message of the other end of a stream. Inside the gate.
    pub(crate) fn dispatch_to_hub(&self, slot: &Slot, endpoint: Arc<Endpoint>) {
        self.stats.bytes_received.add(slot.length.get());
        slot.hold.set(USER);
        let mail = Mail::new(Message::of(slot));
        self.outside(|| {
            if let Err(why) = self.receive_for_hub(mail, endpoint) {
                complain(why);
            }
        });
        self.drain_foreign();
    }

    fn receive_for_hub(
        &self,
        mail: Mail,
        endpoint: Arc<Endpoint>,
    ) -> std::result::Result<(), &'static str> {
        let (header, _) = StreamHeader::decode(mail.message().header())?;
        let is_of_peer = |other: &Endpoint| is_same_peer(other, &endpoint);
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
                    && stream.takes() != header.mark
                    && is_of_peer(&stream.endpoint)
            }
            to => stream.is_numbered(to) && is_of_peer(&stream.endpoint),
        };
        if let Some(stream) = table.streams.iter().find(is_for).cloned() {
            // While it is in the table: what leaves that looks at its mail once more.
            stream.post(mail.with(header));
            drop(table);
            stream.stir();
            return Ok(());
        }
        match (header.tells, header.to) {
            (Tells::Open, 0) => table.keep_unmet(endpoint, &header),
            (Tells::Open, _) => {
                drop(table);
                if endpoint.window.queued_ops.get() >= MOST_WAITING {
                    return Err("it asks for streams that are not here, and takes no answers");
                }
                // An endpoint that takes nothing is about to end, and all that was joined over it
                // with it.
                let _ = endpoint.say_for_hub(&header.turned_away());
                Ok(())
            }
            // What is for an end that has gone is out of date.
            _ => Ok(()),
        }
    }
}

impl Table {
    fn keep_unmet(
        &mut self,
        endpoint: Arc<Endpoint>,
        header: &StreamHeader,
    ) -> std::result::Result<(), &'static str> {
        let (id, takes, peer) = (header.count, header.mark, Peer::of(header));
        let same = |unmet: &Unmet| {
            unmet.id == id && unmet.takes == takes && is_same_peer(&unmet.endpoint, &endpoint)
        };
        if let Some(known) = self.unmet.iter_mut().find(|unmet| same(unmet)) {
            // It has begun anew.
            known.peer = peer;
            return Ok(());
        }
        if self.unmet.iter().filter(|unmet| is_same_peer(&unmet.endpoint, &endpoint)).count()
            >= MOST_UNMET
        {
            return Err("more ends of streams than anybody has that none here has answered");
        }
        self.unmet.push(Unmet { endpoint, id, takes, peer });
        Ok(())
    }
}
