//! Malicious messages of a stream's other end: at most the stream ends, and neither chunks nor
//! envelopes are lost.

use crate::engine::base::seed::Random;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::worker::test_workers::{connect, new_worker};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::hub::hub::{Hub, HubParams};
use crate::engine::hub::lease::Refusal;
use crate::engine::hub::link::{Link, LinkParams};
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::{Retain, Role};
use crate::engine::ucx::context::{feature, Context, ContextParams};
use crate::engine::ucx::memory_type::HOST;
use crate::engine::wire::hub_stream::METADATA;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

const SIZE: usize = 100;
const ENVELOPES: u64 = 3;
pub(super) const WINDOW: u32 = 2;
pub(super) const STREAM: u64 = 9;
/// The attacker's number for its end.
pub(super) const THEIRS: u32 = 77;
/// Enough passes for messages to arrive and to be answered.
const PASSES: usize = 200;

/// Two workers: one that sends anything, and one with a hub.
pub(super) struct Pair {
    context: Arc<Context>,
    attacker: Arc<SharedWorker>,
    worker: Arc<SharedWorker>,
    to_worker: Arc<SharedEndpoint>,
    pub(super) to_attacker: Arc<SharedEndpoint>,
    pub(super) hub: Arc<Hub>,
    link: NonNull<Link>,
}

const HERE: MemoryKind = MemoryKind { memory_type: HOST, device_id: 0 };

pub(super) fn new_link(hub: &Arc<Hub>, role: Role) -> NonNull<Link> {
    let params = LinkParams {
        broadcast: false,
        autocommit: false,
        on_ready: None,
        on_ready_arg: null_mut(),
    };
    let mut link = null_mut();
    Link::make(hub, role, HERE, &params, |made| link = made).unwrap();
    NonNull::new(link).unwrap()
}

fn hub_params(worker: &Arc<SharedWorker>) -> HubParams {
    HubParams {
        envelope_size: SIZE as u64,
        max_queue_chunks: 0,
        max_queue_bytes: 0,
        retain: Retain::Auto,
        transfers_in_flight: 0,
        worker: Some(worker.clone()),
    }
}

/// Produces a chunk.
fn produce_in(hub: &Hub) {
    let lease = hub.push(HERE).unwrap().unwrap();
    // SAFETY: leased just now.
    drop(unsafe { &*lease }.commit(5, null_mut()).unwrap());
}

impl Pair {
    /// With a connected link of this role, which has met the attacker's end.
    pub(super) fn new(role: Role) -> Self {
        let features = feature::AM | feature::TAG;
        let context =
            ContextParams { features, config: Vec::new(), local_network: true, name: None };
        let context = Context::new(&context).unwrap();
        let (attacker, worker) = (new_worker(&context), new_worker(&context));
        let (to_worker, to_attacker) = (connect(&attacker, &worker), connect(&worker, &attacker));
        let hub = Hub::new(&context, &hub_params(&worker)).unwrap();
        hub.add_envelopes(HERE, ENVELOPES as usize).unwrap();
        let link = new_link(&hub, role);
        let pair = Pair { context, attacker, worker, to_worker, to_attacker, hub, link };
        if role == Role::Consume {
            produce_in(&pair.hub);
        }
        pair.link().connect(&pair.to_attacker, STREAM, WINDOW).unwrap();
        // The Open names this end's number, so nothing is looked up in the attacker's worker, which
        // does not know the attacker's end.
        pair.say(&StreamHeader { to: pair.number(), ..pair.open(role) }, &[]);
        pair.pass();
        pair
    }

    fn link(&self) -> &Link {
        // SAFETY: created by `make`, destroyed with the pair.
        unsafe { self.link.as_ref() }
    }

    pub(super) fn open(&self, role: Role) -> StreamHeader {
        let (mark, size) = (role == Role::Consume, SIZE as u64);
        StreamHeader {
            mark,
            window: WINDOW,
            count: STREAM,
            size,
            ..StreamHeader::new(Tells::Open, 0, THEIRS)
        }
    }

    /// Number of this side's end.
    fn number(&self) -> u32 {
        let state = self.hub.state.lock();
        let stream = state.links[0].watch.stream.clone();
        drop(state);
        stream.map_or(0, |stream| stream.own_number())
    }

    fn header(&self, tells: Tells) -> StreamHeader {
        StreamHeader::new(tells, self.number(), THEIRS)
    }

    fn chunk(&self, place: u64) -> StreamHeader {
        StreamHeader { count: place, ..self.header(Tells::Chunk) }
    }

    fn credit(&self, taken: u64, granted: u64) -> StreamHeader {
        StreamHeader { count: taken, size: granted, ..self.header(Tells::Credit) }
    }

    pub(super) fn say(&self, header: &StreamHeader, data: &[u8]) {
        let behind = if header.tells == Tells::Chunk { METADATA } else { 0 };
        self.say_bytes(&[&header.encode()[..], &vec![0x5a; behind]].concat(), data);
    }

    fn say_bytes(&self, header: &[u8], data: &[u8]) {
        let part =
            [Part { data: data.as_ptr().cast_mut().cast(), length: data.len(), memory_type: HOST }];
        let parts: &[Part] = if data.is_empty() { &[] } else { &part };
        // SAFETY: so short that it is copied during the call.
        unsafe { self.to_worker.send_hub_message(header, parts, &OpParams::DEFAULT) }.unwrap();
    }

    pub(super) fn pass(&self) {
        for _ in 0..PASSES {
            self.attacker.progress().unwrap();
            self.worker.progress().unwrap();
        }
    }

    fn is_over(&self) -> bool {
        self.hub.state.lock().links[0].watch.stream.is_none()
    }

    /// Checks that this many chunks are in the queue, and everything else is free.
    fn check(&self, queued: u64) {
        let stats = self.hub.stats().unwrap();
        assert_eq!(
            (stats.queued_chunks, stats.free_envelopes),
            (queued, ENVELOPES - queued),
            "{stats:?}"
        );
        assert_eq!((stats.leased_envelopes, stats.trashed_envelopes), (0, 0), "{stats:?}");
        assert_eq!(self.hub.state.lock().lent, 0);
    }

    /// The message ends the stream.
    fn ends_by(&self, header: &StreamHeader, data: &[u8], queued: u64) {
        assert!(!self.is_over());
        self.say(header, data);
        self.pass();
        assert!(self.is_over(), "{header:?}");
        self.check(queued);
    }

    /// The message is ignored.
    fn is_let_pass(&self, header: &[u8]) {
        self.say_bytes(header, &[]);
        self.pass();
        assert!(!self.is_over(), "{header:?}");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: created by `make`, destroyed once.
        unsafe { Link::destroy(self.link.as_ptr()) };
        self.hub.clone().destroy();
        self.worker.clone().destroy();
        self.attacker.clone().destroy();
    }
}

#[test]
fn a_receiver_takes_what_is_next_and_what_there_is_credit_for() {
    let receiver = || Pair::new(Role::Produce);
    let data = [7; SIZE + 1];
    let pair = receiver();
    pair.ends_by(&pair.chunk(1), &data[..5], 0);
    let pair = receiver();
    pair.ends_by(&pair.chunk(0), &data, 0);
    let pair = receiver();
    pair.say(&pair.chunk(0), &data[..SIZE]);
    pair.pass();
    pair.ends_by(&pair.chunk(0), &data[..5], 1);
    let pair = receiver();
    for place in 0..ENVELOPES {
        pair.say(&pair.chunk(place), &data[..5]);
        pair.pass();
    }
    // There is no envelope left.
    pair.ends_by(&pair.chunk(ENVELOPES), &data[..5], ENVELOPES);
}

#[test]
fn a_receiver_hears_of_an_end_that_is_one() {
    let end = |pair: &Pair, count| StreamHeader { count, ..pair.header(Tells::End) };
    let pair = Pair::new(Role::Produce);
    pair.ends_by(&end(&pair, 1), &[], 0);
    assert!(!pair.hub.state.lock().closed);
    let pair = Pair::new(Role::Produce);
    pair.ends_by(&pair.credit(0, 1), &[], 0);
    let pair = Pair::new(Role::Produce);
    pair.say(&pair.chunk(0), &[1; 5]);
    let all = StreamHeader { mark: true, ..end(&pair, 1) };
    pair.ends_by(&all, &[], 1);
    assert!(pair.hub.state.lock().closed);
}

#[test]
fn a_sender_believes_what_can_be_so() {
    let close = |pair: &Pair, count| StreamHeader { count, ..pair.header(Tells::Close) };
    let sender = || Pair::new(Role::Consume);
    let window = u64::from(WINDOW);
    let pair = sender();
    pair.ends_by(&pair.credit(0, window + 1), &[], 1);
    let pair = sender();
    pair.ends_by(&pair.credit(1, 1), &[], 1);
    let pair = sender();
    pair.say(&pair.credit(0, 1), &[]);
    pair.pass();
    assert_eq!(pair.hub.stats().unwrap().leased_envelopes, 1);
    pair.ends_by(&pair.credit(2, 3), &[], 1);
    let pair = sender();
    pair.say(&pair.credit(0, 2), &[]);
    pair.pass();
    pair.ends_by(&pair.credit(0, 1), &[], 1);
    let pair = sender();
    pair.say(&pair.credit(0, 1), &[]);
    pair.pass();
    pair.say(&pair.credit(1, 2), &[]);
    pair.pass();
    pair.check(0);
    pair.ends_by(&pair.credit(0, 2), &[], 0);
    let pair = sender();
    pair.ends_by(&close(&pair, 1), &[], 1);
    let pair = sender();
    pair.ends_by(&pair.chunk(0), &[1; 5], 1);
}

/// The link is destroyed after all chunks have arrived. The End that arrives then is not taken as
/// that of its hub: the next link receives it.
#[test]
fn an_end_is_told_to_who_takes_the_place() {
    for chunks in [1, 0] {
        let pair = Pair::new(Role::Consume);
        let source = Hub::new(&pair.context, &hub_params(&pair.attacker)).unwrap();
        source.add_envelopes(HERE, ENVELOPES as usize).unwrap();
        let (out, number) = (new_link(&source, Role::Consume), STREAM + 1);
        let first = new_link(&pair.hub, Role::Produce);
        // SAFETY: all of them live until they are destroyed here.
        let (sends, takes) = unsafe { (out.as_ref(), first.as_ref()) };
        sends.connect(&pair.to_worker, number, WINDOW).unwrap();
        takes.connect(&pair.to_attacker, number, WINDOW).unwrap();
        for _ in 0..chunks {
            produce_in(&source);
        }
        pair.pass();
        assert_eq!(source.stats().unwrap().chunks_consumed, chunks);
        // The End is in flight when the link is destroyed.
        source.close().unwrap();
        pair.attacker.progress().unwrap();
        // SAFETY: destroyed once, and not used afterwards.
        unsafe { Link::destroy(first.as_ptr()) };
        pair.pass();
        assert!(!pair.hub.state.lock().closed);
        assert!(!source.drain(0).unwrap());
        let second = new_link(&pair.hub, Role::Produce);
        // SAFETY: not destroyed yet.
        unsafe { second.as_ref() }.connect(&pair.to_attacker, number, WINDOW).unwrap();
        pair.pass();
        assert!(pair.hub.state.lock().closed && source.drain(0).unwrap());
        for link in [second, out] {
            // SAFETY: destroyed once, and not used afterwards.
            unsafe { Link::destroy(link.as_ptr()) };
        }
        source.destroy();
    }
}

/// If the receiver's envelopes are on a device, a chunk waits at its sender until it is pulled,
/// however short it is, unless it has no data.
#[test]
fn what_goes_to_a_device_is_pulled() {
    for (device, length, waits) in [(true, 5, true), (false, 5, false), (true, 0, false)] {
        let (pair, number) = (Pair::new(Role::Consume), STREAM + 1);
        let hub = Hub::new(&pair.context, &hub_params(&pair.worker)).unwrap();
        hub.add_envelopes(HERE, 1).unwrap();
        let link = new_link(&hub, Role::Consume);
        let lease = hub.push(HERE).unwrap().unwrap();
        // SAFETY: leased just now, and the link lives until it is destroyed here.
        unsafe {
            drop((*lease).commit(length, null_mut()).unwrap());
            link.as_ref().connect(&pair.to_attacker, number, WINDOW).unwrap();
        }
        let stream = hub.state.lock().links[0].watch.stream.clone().unwrap();
        let from = THEIRS + 1;
        let to = stream.own_number();
        pair.say(
            &StreamHeader { device, count: number, from, to, ..pair.open(Role::Consume) },
            &[],
        );
        pair.pass();
        pair.say(&StreamHeader { size: 1, ..StreamHeader::new(Tells::Credit, to, from) }, &[]);
        for _ in 0..PASSES {
            pair.attacker.progress().unwrap();
        }
        for _ in 0..PASSES {
            pair.worker.progress().unwrap();
        }
        assert_eq!(hub.stats().unwrap().leased_envelopes, 1, "it has been sent");
        assert_eq!(
            stream.place(0).outcome().is_none(),
            waits,
            "{length} bytes, to a device: {device}"
        );
        // SAFETY: destroyed once, and not used afterwards.
        unsafe { Link::destroy(link.as_ptr()) };
        pair.pass();
        hub.destroy();
    }
}

/// The receiving hub is destroyed after a chunk has arrived and before it was committed: the chunk
/// is not acknowledged.
#[test]
fn what_a_hub_that_goes_has_not_got_is_offered_again() {
    let pair = Pair::new(Role::Consume);
    let (source, target) = (
        Hub::new(&pair.context, &hub_params(&pair.attacker)),
        Hub::new(&pair.context, &hub_params(&pair.worker)),
    );
    let (source, target) = (source.unwrap(), target.unwrap());
    for hub in [&source, &target] {
        hub.add_envelopes(HERE, ENVELOPES as usize).unwrap();
    }
    let (out, into) = (new_link(&source, Role::Consume), new_link(&target, Role::Produce));
    // SAFETY: both live until they are destroyed here.
    unsafe {
        out.as_ref().connect(&pair.to_worker, STREAM + 1, WINDOW).unwrap();
        into.as_ref().connect(&pair.to_attacker, STREAM + 1, WINDOW).unwrap();
    }
    produce_in(&source);
    pair.pass();
    assert_eq!(source.stats().unwrap().chunks_consumed, 1);
    produce_in(&source);
    for _ in 0..PASSES {
        pair.attacker.progress().unwrap();
    }
    assert_eq!(source.stats().unwrap().leased_envelopes, 1, "it is on its way");
    target.destroy();
    pair.pass();
    let stats = source.stats().unwrap();
    assert_eq!(
        (stats.chunks_consumed, stats.queued_chunks, stats.leased_envelopes),
        (1, 1, 0),
        "{stats:?}"
    );
    for link in [out, into] {
        // SAFETY: destroyed once, and not used afterwards.
        unsafe { Link::destroy(link.as_ptr()) };
    }
    source.destroy();
}

/// A stream that is running when its link is destroyed leases nothing for the link that reuses its
/// record.
#[test]
fn a_link_that_is_gone_takes_nothing() {
    let pair = Pair::new(Role::Consume);
    let params =
        LinkParams { broadcast: true, autocommit: false, on_ready: None, on_ready_arg: null_mut() };
    let broadcast = || {
        let mut link = null_mut();
        Link::make(&pair.hub, Role::Consume, HERE, &params, |made| link = made).unwrap();
        NonNull::new(link).unwrap()
    };
    let gone = broadcast();
    // SAFETY: just created.
    unsafe { gone.as_ref() }.connect(&pair.to_attacker, STREAM + 1, WINDOW).unwrap();
    let stream = pair.hub.state.lock().links[1].watch.stream.clone().unwrap();
    // SAFETY: destroyed once, and not used afterwards.
    unsafe { Link::destroy(gone.as_ptr()) };
    let next = broadcast();
    assert!(matches!(stream.lease(false), Err(Refusal::NotNow)));
    // SAFETY: lives until it is destroyed here.
    let lease = unsafe { next.as_ref() }.lease(0).unwrap().unwrap();
    // SAFETY: leased just now, and the link is destroyed once.
    unsafe {
        drop((*lease).abort(null_mut()).unwrap());
        Link::destroy(next.as_ptr());
    }
}

#[test]
fn what_is_not_for_it_passes_it_by() {
    for role in [Role::Produce, Role::Consume] {
        let pair = Pair::new(role);
        let number = pair.number();
        let (to, from) = (number + 1, THEIRS + 1);
        for header in [pair.header(Tells::Close), pair.header(Tells::End), pair.credit(5, 9)] {
            pair.is_let_pass(&StreamHeader { to, ..header }.encode());
            pair.is_let_pass(&StreamHeader { from, ..header }.encode());
        }
        pair.is_let_pass(&[]);
        pair.is_let_pass(&[0xff; StreamHeader::LENGTH]);
        pair.is_let_pass(&pair.header(Tells::Chunk).encode());
        // The same Open again; one of another stream; one of the wrong direction.
        pair.is_let_pass(&pair.open(role).encode());
        pair.is_let_pass(&StreamHeader { count: STREAM + 1, ..pair.open(role) }.encode());
        pair.is_let_pass(&StreamHeader { mark: role != Role::Consume, ..pair.open(role) }.encode());
        assert_eq!(pair.number(), number);
        // The number of remembered unknown ends is limited.
        for stream in 0..1000 {
            pair.say(&StreamHeader { count: 1000 + stream, ..pair.open(role) }, &[]);
        }
        pair.pass();
        assert!(pair.worker.hub_streams().unmet() <= 256);
        assert!(!pair.is_over());
    }
}

#[test]
fn whatever_comes_nothing_is_lost() {
    let mut random = Random::announced();
    let mut chance = |below: u64| random.below(below as usize) as u64;
    for round in 0..60 {
        let role = if round % 2 == 0 { Role::Produce } else { Role::Consume };
        let pair = Pair::new(role);
        for _ in 0..40 {
            let tells = [Tells::Open, Tells::Chunk, Tells::Credit, Tells::End, Tells::Close]
                [chance(5) as usize];
            let number = pair.number();
            let (count, size) = (chance(4), chance(5));
            let header = StreamHeader {
                mark: chance(2) == 0,
                device: tells == Tells::Open && chance(2) == 0,
                window: if tells == Tells::Open { chance(4) as u32 } else { 0 },
                to: if chance(6) == 0 { 0 } else { number },
                from: THEIRS + (chance(4) == 0) as u32,
                count: if tells == Tells::Open && chance(3) > 0 { STREAM } else { count },
                size: if matches!(tells, Tells::Open | Tells::Credit) { size } else { 0 },
                status: -(chance(2) as i32),
                tells,
            };
            let length = if tells == Tells::Chunk { chance(SIZE as u64 + 2) as usize } else { 0 };
            pair.say(&header, &[3; SIZE + 1][..length]);
            if chance(3) == 0 {
                pair.pass();
            }
        }
        pair.pass();
        // SAFETY: destroyed once: what follows does not use it, and `forget` skips the drop.
        unsafe { Link::destroy(pair.link.as_ptr()) };
        // The attacker does not answer, so the stream ends with its endpoint.
        pair.worker.clone().destroy();
        let stats = pair.hub.stats().unwrap();
        assert_eq!((stats.leased_envelopes, stats.trashed_envelopes), (0, 0), "{stats:?}");
        assert_eq!(stats.queued_chunks + stats.free_envelopes, ENVELOPES, "{stats:?}");
        assert_eq!(stats.chunks_produced - stats.chunks_consumed, stats.queued_chunks);
        pair.hub.clone().destroy();
        pair.attacker.clone().destroy();
        std::mem::forget(pair);
    }
}

#[test]
fn a_refused_link_is_as_it_was() {
    let pair = Pair::new(Role::Produce);
    let other = new_link(&pair.hub, Role::Consume);
    // SAFETY: just created.
    let refused = unsafe { other.as_ref() }.connect(&pair.to_worker, STREAM, 1).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_PARAM);
    assert!(refused.message().contains("endpoint"), "an endpoint of another worker");
    // SAFETY: destroyed once, and not used afterwards.
    unsafe { Link::destroy(other.as_ptr()) };
}
