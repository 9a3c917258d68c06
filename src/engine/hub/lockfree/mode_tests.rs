//! A hub that runs in lock-free mode for a while and then on its tables, against a simple model,
//! and with threads that interfere.

use crate::engine::base::seed::{seed, Random};
use crate::engine::base::status::Status;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::{Hub, HubParams};
use crate::engine::hub::lease_many::lease_many;
use crate::engine::hub::link::{Link, LinkParams};
use crate::engine::hub::lockfree::mode::MOST;
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::{Retain, Role};
use crate::engine::hub::waiters::{DATA, ROOM};
use crate::engine::ucx::context::{feature, Context, ContextParams};
use crate::engine::ucx::memory_type::HOST;
use std::collections::VecDeque;
use std::ptr::{null, null_mut, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

const SIZE: u64 = 64;
const HERE: MemoryKind = MemoryKind { memory_type: HOST, device_id: 0 };

/// A link that any thread may use.
#[derive(Clone, Copy, PartialEq)]
struct Handle(NonNull<Link>);

// SAFETY: any thread may use links; they are destroyed when no thread uses them.
unsafe impl Send for Handle {}
// SAFETY: several threads may use a link at once.
unsafe impl Sync for Handle {}

impl Handle {
    fn new(hub: &Arc<Hub>, role: Role, autocommit: bool) -> Self {
        let params =
            LinkParams { broadcast: false, autocommit, on_ready: None, on_ready_arg: null_mut() };
        let mut link = null_mut();
        Link::make(hub, role, HERE, &params, |made| link = made).unwrap();
        Handle(NonNull::new(link).unwrap())
    }

    fn lease(&self, timeout_ns: u64) -> crate::engine::base::status::Result<Option<Held>> {
        // SAFETY: not destroyed yet.
        Ok(unsafe { self.0.as_ref() }.lease(timeout_ns)?.map(Held))
    }

    fn destroy(self) {
        // SAFETY: alive, and not used afterwards.
        unsafe { Link::destroy(self.0.as_ptr()) };
    }
}

#[derive(Clone, Copy)]
struct Held(*const Lease);

// SAFETY: any thread may end a lease.
unsafe impl Send for Held {}

impl Held {
    fn lease(&self) -> &Lease {
        // SAFETY: a lease that has not ended, and its hub lives.
        unsafe { &*self.0 }
    }

    /// Writes the same number to data and metadata.
    fn write(&self, word: u64) {
        let view = self.lease().view().unwrap();
        assert_eq!((view.length, view.capacity), (0, SIZE));
        // SAFETY: leased to us for writing.
        unsafe {
            assert_eq!(
                view.metadata.cast::<[u64; 8]>().read(),
                [0; 8],
                "metadata of another chunk"
            );
            view.data.cast::<u64>().write(word);
            view.metadata.cast::<u64>().write(word);
        }
    }

    fn read(&self) -> (u64, u64) {
        let view = self.lease().view().unwrap();
        // SAFETY: leased to us for reading.
        let words = unsafe { (view.data.cast::<u64>().read(), view.metadata.cast::<u64>().read()) };
        assert_eq!(words.0, words.1, "data of one chunk, metadata of another");
        (words.0, view.length)
    }

    fn end(&self, how: usize, length: u64) {
        let lease = self.lease();
        drop(match how {
            0 => lease.commit(length, null_mut()).unwrap(),
            1 => lease.release(null_mut()).unwrap(),
            _ => lease.abort(null_mut()).unwrap(),
        });
    }
}

fn new_hub(envelopes: usize) -> Arc<Hub> {
    new_hub_of(SIZE, envelopes)
}

fn new_hub_of(size: u64, envelopes: usize) -> Arc<Hub> {
    let params = ContextParams {
        features: feature::TAG,
        config: Vec::new(),
        local_network: true,
        name: None,
    };
    let context = Context::new(&params).unwrap();
    let (max_queue_chunks, max_queue_bytes, retain, transfers_in_flight) = (0, 0, Retain::Auto, 0);
    let hub = HubParams {
        envelope_size: size,
        max_queue_chunks,
        max_queue_bytes,
        retain,
        transfers_in_flight,
        worker: None,
    };
    let hub = Hub::new(&context, &hub).unwrap();
    hub.add_envelopes(HERE, envelopes).unwrap();
    hub
}

#[derive(Clone, Copy)]
struct Chunk {
    word: u64,
    length: u64,
    taken: bool,
}

/// Expected state of a hub, and random steps on both.
struct World {
    hub: Arc<Hub>,
    random: Random,
    envelopes: usize,
    producers: Vec<(Handle, bool)>,
    consumers: Vec<(Handle, bool)>,
    /// Of each link: whether a release commits, and what was written.
    producing: Vec<(Held, bool, u64)>,
    consuming: Vec<(Held, bool, u64)>,
    queue: VecDeque<Chunk>,
    produced: u64,
    consumed: u64,
    most: u64,
    word: u64,
    /// Number of steps without calls that need the tables.
    plain_for: u64,
    /// Number of steps in lock-free mode, and of steps that ended it while there were leases of
    /// producers, leases of consumers, or chunks.
    plainly: u64,
    entered_with: [u64; 3],
}

impl World {
    fn new(mut random: Random) -> Self {
        let envelopes = 1 + random.below(6);
        let hub = new_hub(envelopes);
        let plain_for = random.below(1400) as u64;
        let links = |role| {
            [false, true].map(|commits| (Handle::new(&hub, role, commits), commits)).to_vec()
        };
        let (producers, consumers) = (links(Role::Produce), links(Role::Consume));
        World {
            random,
            envelopes,
            producers,
            consumers,
            producing: Vec::new(),
            consuming: Vec::new(),
            queue: VecDeque::new(),
            produced: 0,
            consumed: 0,
            most: 0,
            word: 0,
            plain_for,
            plainly: 0,
            entered_with: [0; 3],
            hub,
        }
    }

    fn any<T: Copy>(&mut self, among: impl Fn(&mut Self) -> &mut Vec<T>) -> Option<(usize, T)> {
        let count = among(self).len();
        let at = self.random.below(count.max(1));
        among(self).get(at).map(|found| (at, *found))
    }

    fn free(&self) -> usize {
        self.envelopes - self.producing.len() - self.queue.len()
    }

    fn produce(&mut self) {
        let Some((_, (link, commits))) = self.any(|world| &mut world.producers) else { return };
        let held = link.lease(0).unwrap();
        assert_eq!(held.is_some(), self.free() > 0);
        let Some(held) = held else { return };
        self.word += 1;
        held.write(self.word);
        let word = self.word;
        self.producing.push((held, commits, word));
    }

    fn end_production(&mut self) {
        let Some((at, (held, commits, word))) = self.any(|world| &mut world.producing) else {
            return;
        };
        let how = self.random.below(4).saturating_sub(1);
        let length = 8 + self.random.below(SIZE as usize - 7) as u64;
        if self.random.below(16) == 0 {
            assert_eq!(
                held.lease().commit(SIZE + 1, null_mut()).err().unwrap().status(),
                Status::INVALID_PARAM
            );
        }
        held.end(how, length);
        self.producing.swap_remove(at);
        let length = if how == 0 { length } else { SIZE };
        if how == 0 || (how == 1 && commits) {
            self.queue.push_back(Chunk { word, length, taken: false });
            self.produced += 1;
            self.most = self.most.max(self.queue.len() as u64);
        }
    }

    fn consume(&mut self) {
        let Some((_, (link, commits))) = self.any(|world| &mut world.consumers) else { return };
        let held = link.lease(0).unwrap();
        let expected = self.queue.iter_mut().find(|chunk| !chunk.taken);
        assert_eq!(held.is_some(), expected.is_some());
        if let (Some(held), Some(chunk)) = (held, expected) {
            assert_eq!(held.read(), (chunk.word, chunk.length), "another chunk than the oldest");
            chunk.taken = true;
            self.consuming.push((held, commits, chunk.word));
        }
    }

    fn end_consumption(&mut self) {
        let Some((at, (held, commits, word))) = self.any(|world| &mut world.consuming) else {
            return;
        };
        let how = self.random.below(4).saturating_sub(1);
        held.end(how, 0);
        self.consuming.swap_remove(at);
        let place = self.queue.iter().position(|chunk| chunk.word == word).unwrap();
        if how == 0 || (how == 1 && commits) {
            self.queue.remove(place);
            self.consumed += 1;
        } else {
            self.queue[place].taken = false;
        }
    }

    fn check(&mut self) {
        let stats = self.hub.stats().unwrap();
        assert_eq!((stats.chunks_produced, stats.chunks_consumed), (self.produced, self.consumed));
        assert_eq!(
            (stats.queued_chunks, stats.free_envelopes),
            (self.queue.len() as u64, self.free() as u64)
        );
        assert_eq!(stats.leased_envelopes, (self.producing.len() + self.consuming.len()) as u64);
        assert_eq!((stats.queue_high_water, stats.trashed_envelopes), (self.most, 0));
    }

    fn look_around(&mut self) {
        let any = [0, 1, 5, 2, 3, 4];
        match any[self.random.below(if self.plain_for > 0 { 3 } else { 6 })] {
            0 => self.check(),
            1 => assert_eq!(self.hub.length(), self.queue.len()),
            2 => {
                let held = self.hub.peek(HERE, 0).unwrap().map(Held);
                assert_eq!(
                    held.map(|held| held.read().0),
                    self.queue.front().map(|chunk| chunk.word)
                );
                if let Some(held) = held {
                    held.end(self.random.below(3), 0);
                }
            }
            3 => {
                let found = self.hub.pop();
                let can = self.queue.front().is_some_and(|chunk| !chunk.taken);
                assert_eq!(found.is_ok(), can);
                if can {
                    self.queue.pop_front();
                    self.consumed += 1;
                }
            }
            4 if self.producing.len() > 1 => {
                let ((a, ..), (b, ..)) = (self.producing[0], self.producing[1]);
                a.lease().swap(b.lease()).unwrap();
                let word = self.producing[0].2;
                self.producing[0].2 = std::mem::replace(&mut self.producing[1].2, word);
            }
            5 => match self.random.below(4) {
                0 if self.envelopes < 20 && self.plain_for == 0 => {
                    self.hub.add_envelopes(HERE, 1).unwrap();
                    self.envelopes += 1;
                }
                1 if self.consumers.len() > 1 => {
                    let at = self.random.below(self.consumers.len());
                    self.consumers.swap_remove(at).0.destroy();
                }
                2 if self.consumers.len() < 4 => {
                    let commits = self.random.below(2) == 1;
                    self.consumers.push((Handle::new(&self.hub, Role::Consume, commits), commits));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn step(&mut self) {
        let plainly = self.hub.is_plain_now();
        self.plainly += u64::from(plainly);
        match self.random.below(40) {
            0..=9 => self.produce(),
            10..=18 => self.end_production(),
            19..=28 => self.consume(),
            29..=38 => self.end_consumption(),
            _ => self.look_around(),
        }
        if plainly && !self.hub.is_plain_now() {
            assert_eq!(self.plain_for, 0, "at its tables without need");
            let [producing, consuming, chunks] = &mut self.entered_with;
            *producing += u64::from(!self.producing.is_empty());
            *consuming += u64::from(!self.consuming.is_empty());
            *chunks += u64::from(!self.queue.is_empty());
        }
        self.plain_for = self.plain_for.saturating_sub(1);
    }

    /// Everything that is left comes out, in order.
    fn wind_up(mut self) -> u64 {
        self.plain_for = 0;
        while !self.producing.is_empty() {
            self.end_production();
        }
        self.hub.close().unwrap();
        while !self.queue.is_empty() {
            // A link that holds everything that is left gets CLOSED.
            while !self.consuming.is_empty() {
                self.end_consumption();
            }
            if !self.queue.is_empty() {
                self.consume();
            }
        }
        self.check();
        for (link, _) in self.producers.iter().chain(&self.consumers) {
            assert_eq!(link.lease(0).err().unwrap().status(), Status::CLOSED);
            link.destroy();
        }
        self.hub.destroy();
        self.plainly
    }
}

#[test]
fn nobody_can_tell_whether_it_goes_without_the_lock() {
    let first = seed();
    println!("UCXX_TEST_SEED={first:#x}");
    let (mut plainly, mut entered_with) = (0, [0; 3]);
    for round in 0..150 {
        let mut world = World::new(Random::new(first.wrapping_add(round)));
        for _ in 0..1500 {
            world.step();
        }
        entered_with = [0, 1, 2].map(|what| entered_with[what] + world.entered_with[what]);
        plainly += world.wind_up();
    }
    assert!(plainly > 10_000, "it was at its queues before {plainly} steps only");
    assert!(entered_with.iter().all(|times| *times > 30), "{entered_with:?} were there to enter");
}

/// Two producers, two consumers, and a thread that reads statistics and after `plain_for` times
/// uses the tables.
fn with_threads(random: &mut Random, aborts: bool, plain_for: u32) -> u64 {
    const EACH: u32 = 8_000;
    let hub = new_hub(2 + random.below(8));
    let links = |role| [false, true].map(|commits| Handle::new(&hub, role, commits));
    let (producers, consumers) = (links(Role::Produce), links(Role::Consume));
    let seen: Vec<AtomicU32> = (0..2 * EACH).map(|_| AtomicU32::new(0)).collect();
    let (over, plainly) = (AtomicBool::new(false), AtomicU64::new(0));
    let (seeds, pauses) = ([random.next(), random.next()], random.below(300) as u32);
    std::thread::scope(|scope| {
        let producing: Vec<_> = (0..2u32)
            .map(|number| {
                let link = producers[number as usize];
                scope.spawn(move || {
                    for place in 0..EACH {
                        let held = link.lease(u64::MAX).unwrap().unwrap();
                        held.write(u64::from(number * EACH + place) + 1);
                        held.end((place % 2 * number) as usize, 8 + u64::from(place % 8));
                    }
                })
            })
            .collect();
        let seen = &seen;
        let consuming: Vec<_> = (0..2)
            .map(|number| {
                let (link, mut random) = (consumers[number], Random::new(seeds[number]));
                scope.spawn(move || {
                    let mut last = [0; 2];
                    loop {
                        let held = match link.lease(u64::MAX) {
                            Ok(held) => held.unwrap(),
                            Err(error) => return assert_eq!(error.status(), Status::CLOSED),
                        };
                        let (word, length) = held.read();
                        assert!(length == SIZE || (8..16).contains(&length));
                        if aborts && random.below(16) == 0 {
                            held.end(2, 0);
                            continue;
                        }
                        let producer = (word - 1) as usize / EACH as usize;
                        assert!(aborts || word > last[producer], "out of order");
                        last[producer] = word;
                        seen[word as usize - 1].fetch_add(1, Ordering::Relaxed);
                        held.end(number, 0);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for turn in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                if turn == plain_for {
                    drop(hub.state.lock());
                }
                plainly.fetch_add(u64::from(hub.is_plain_now()), Ordering::Relaxed);
                let stats = hub.stats().unwrap();
                assert!(stats.chunks_produced - stats.chunks_consumed == stats.queued_chunks);
                (0..pauses).for_each(|_| std::hint::spin_loop());
                std::thread::yield_now();
            }
        });
        producing.into_iter().for_each(|thread| thread.join().unwrap());
        hub.close().unwrap();
        consuming.into_iter().for_each(|thread| thread.join().unwrap());
        over.store(true, Ordering::Relaxed);
    });
    let wrong: Vec<_> = seen
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .enumerate()
        .filter(|(_, count)| *count != 1)
        .collect();
    assert!(
        wrong.is_empty(),
        "lost, or twice, of {EACH} each: {wrong:?}; aborts {aborts}, plain for {plain_for}"
    );
    producers.iter().chain(&consumers).for_each(|link| link.destroy());
    hub.destroy();
    plainly.load(Ordering::Relaxed)
}

#[test]
fn threads_lose_nothing_when_it_goes_over() {
    let mut random = Random::announced();
    let mut plainly = 0;
    for round in 0..12 {
        let plain_for = [1, 20, 100, 400, 2000, u32::MAX][round / 2];
        plainly += with_threads(&mut random, round % 2 == 1, plain_for);
    }
    assert!(plainly > 0, "it was never at its queues");
}

fn two_links(hub: &Arc<Hub>) -> (Handle, Handle) {
    (Handle::new(hub, Role::Produce, true), Handle::new(hub, Role::Consume, true))
}

/// The first lease chooses the mode, whatever the size of the envelopes is.
#[test]
fn the_first_lease_chooses_the_form() {
    let cases = [(SIZE, 4, true), (64 << 10, 64, true), (8, MOST, true), (8, MOST + 1, false)];
    for (size, envelopes, plain) in cases {
        let hub = new_hub_of(size, envelopes);
        let (producer, consumer) = two_links(&hub);
        assert!(!hub.is_plain_now());
        for _ in 0..3 {
            producer.lease(0).unwrap().unwrap().end(1, 0);
            consumer.lease(0).unwrap().unwrap().end(1, 0);
            assert_eq!(hub.is_plain_now(), plain, "{envelopes} envelopes of {size}");
        }
        let params = LinkParams {
            broadcast: true,
            autocommit: false,
            on_ready: None,
            on_ready_arg: null_mut(),
        };
        let mut broadcast = null_mut();
        Link::make(&hub, Role::Consume, HERE, &params, |made| broadcast = made).unwrap();
        assert!(!hub.is_plain_now());
        let broadcast = Handle(NonNull::new(broadcast).unwrap());
        [producer, consumer, broadcast].iter().for_each(|link| link.destroy());
        hub.destroy();
    }
}

/// Sleepers of both sides, and of drain, are served by the queues.
#[test]
fn who_waits_leaves_it_at_its_queues() {
    let hub = new_hub(1);
    let (producer, consumer) = two_links(&hub);
    let asleep = |side: u8| {
        while hub.state.lock_either().asleep & side == 0 {
            std::thread::yield_now();
        }
    };
    for word in 1..100 {
        std::thread::scope(|scope| {
            let chunk = producer.lease(0).unwrap().unwrap();
            chunk.write(word);
            let reads = scope.spawn(|| consumer.lease(u64::MAX).unwrap().unwrap());
            asleep(DATA);
            chunk.end(1, 0);
            let chunk = reads.join().unwrap();
            assert_eq!(chunk.read(), (word, SIZE));
            let drains = scope.spawn(|| assert!(hub.drain(u64::MAX).unwrap()));
            let produces = scope.spawn(|| producer.lease(u64::MAX).unwrap().unwrap());
            asleep(ROOM);
            chunk.end(1, 0);
            produces.join().unwrap().end(1, 0);
            consumer.lease(0).unwrap().unwrap().end(1, 0);
            drains.join().unwrap();
        });
    }
    assert!(hub.is_plain_now());
    [producer, consumer].iter().for_each(|link| link.destroy());
    hub.destroy();
}

/// Regression: numbers of undone leases have no handles yet, and equal numbers of envelopes.
#[test]
fn what_a_refused_call_has_taken_may_be_leased() {
    let hub = new_hub(100);
    // In lock-free mode all leases have handles.
    drop(hub.state.lock());
    let (producer, consumer) = two_links(&hub);
    let held: Vec<_> = (0..32).map(|_| producer.lease(0).unwrap().unwrap()).collect();
    // SAFETY: not destroyed yet.
    let links: Vec<_> =
        [producer; 36].iter().chain([&consumer]).map(|link| unsafe { link.0.as_ref() }).collect();
    assert!(!lease_many(&links, 0, &mut [null(); 37]).unwrap());
    let more: Vec<_> = (0..68).map(|_| producer.lease(0).unwrap().unwrap()).collect();
    assert!(producer.lease(0).unwrap().is_none());
    held.iter().chain(&more).for_each(|held| held.end(0, 8));
    assert_eq!(hub.length(), 100);
    [producer, consumer].iter().for_each(|link| link.destroy());
    hub.destroy();
}
