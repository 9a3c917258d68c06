//! The cost of a chunk that passes through a hub, compared with an index that passes through two
//! queues.
//!
//! The simplest hub is two queues: free envelopes and ready chunks. A cycle is the lease and commit
//! of a producer and the lease and release of a consumer, through the C symbols. The reference is
//! two `ArrayQueue`s of the same length, with one push and one pop on each. With two threads one
//! produces and the other one consumes. The hub's threads wait in `ucxx_link_lease`, and those of
//! the queues poll.

mod common;

use common::{check, median, pin, ucx_version, worked};
use crossbeam_queue::ArrayQueue;
use std::ffi::c_void;
use std::hint::{black_box, spin_loop};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Barrier};
use std::time::Instant;
use ucxx_rs::ffi::constants::ucxx_link_type::{UCXX_LINK_CONSUME, UCXX_LINK_PRODUCE};
use ucxx_rs::ffi::handle::{ucxx_envelope_t, ucxx_hub_t, ucxx_link_t};
use ucxx_rs::ffi::hub_envelope::{ucxx_envelope_commit, ucxx_envelope_release};
use ucxx_rs::ffi::hub_link::{
    ucxx_link_create, ucxx_link_destroy, ucxx_link_lease, ucxx_link_params_t,
};
use ucxx_rs::internals::calls::{Context, ContextParams, Hub, HubParams, MemoryKind, Retain};

const LENGTH: usize = 64;

struct Options {
    iterations: u64,
    batches: usize,
    warmup: u64,
    threads: u64,
    size: u64,
    locked: bool,
    cpus: [Option<usize>; 2],
}

fn options() -> Options {
    let mut options = Options {
        iterations: 100_000,
        batches: 40,
        warmup: 100_000,
        threads: 1,
        size: 64,
        locked: false,
        cpus: [None; 2],
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number =
            || value.parse::<u64>().unwrap_or_else(|_| panic!("{name}: '{value}' is not a number"));
        match name.as_str() {
            "--iterations" => options.iterations = number(),
            "--batches" => options.batches = number() as usize,
            "--warmup" => options.warmup = number(),
            "--threads" => options.threads = number(),
            "--size" => options.size = number(),
            "--locked" => options.locked = number() != 0,
            "--cpus" => {
                let mut cpus = value.split(',').map(|cpu| cpu.parse().ok());
                options.cpus = [cpus.next().flatten(), cpus.next().flatten()];
            }
            // There is no endpoint here.
            "--error-handling" => {}
            _ => panic!("unknown option {name}"),
        }
    }
    assert!((1..=2).contains(&options.threads), "--threads: 1 or 2");
    options
}

/// The C symbols, called like from a separately compiled program.
struct Symbols {
    lease: unsafe extern "C" fn(*mut ucxx_link_t, u64, *mut *mut ucxx_envelope_t) -> i32,
    commit: unsafe extern "C" fn(*mut ucxx_envelope_t, usize, *mut c_void) -> i32,
    release: unsafe extern "C" fn(*mut ucxx_envelope_t, *mut c_void) -> i32,
}

struct HubSide {
    symbols: Symbols,
    hub: Arc<Hub>,
    producer: *mut ucxx_link_t,
    consumer: *mut ucxx_link_t,
}

// SAFETY: links may be used on any thread.
unsafe impl Sync for HubSide {}

impl HubSide {
    fn new(size: u64, locked: bool) -> HubSide {
        // UCXX_FEATURE_TAG. The program uses nothing of UCX but the context.
        let params =
            ContextParams { features: 1, config: Vec::new(), local_network: false, name: None };
        let context = worked("a context", Context::new(&params));
        let params = HubParams {
            envelope_size: size,
            // With a limit below the capacity of the envelopes a hub always uses its lock. The
            // limit itself costs nothing.
            max_queue_chunks: if locked { LENGTH as u64 - 1 } else { 0 },
            max_queue_bytes: 0,
            retain: Retain::Auto,
            transfers_in_flight: 0,
            worker: None,
        };
        let hub = worked("a hub", Hub::new(&context, &params));
        worked("envelopes", hub.add_envelopes(MemoryKind { memory_type: 1, device_id: 0 }, LENGTH));
        let link = |role: i32, params: *const ucxx_link_params_t| {
            let mut link = null_mut();
            let kind = ucxx_rs::ffi::hub::ucxx_memory_kind_t { memory_type: 1, device_id: 0 };
            // SAFETY: a live hub, whose handle is its address.
            check("a link", unsafe {
                ucxx_link_create(
                    Arc::as_ptr(&hub).cast_mut().cast::<ucxx_hub_t>(),
                    role,
                    kind,
                    params,
                    &mut link,
                )
            });
            link
        };
        // SAFETY: a plain struct, for which all-zero means the defaults.
        let mut commits = unsafe { std::mem::zeroed::<ucxx_link_params_t>() };
        (commits.struct_size, commits.autocommit) = (size_of::<ucxx_link_params_t>(), 1);
        let symbols = Symbols {
            lease: black_box(ucxx_link_lease),
            commit: black_box(ucxx_envelope_commit),
            release: black_box(ucxx_envelope_release),
        };
        HubSide {
            symbols,
            producer: link(UCXX_LINK_PRODUCE as i32, null()),
            consumer: link(UCXX_LINK_CONSUME as i32, &commits),
            hub,
        }
    }

    #[inline(always)]
    fn produce(&self) {
        let mut envelope = null_mut();
        // SAFETY: the links are alive, and the envelope has just been leased.
        unsafe {
            check("a lease", (self.symbols.lease)(self.producer, u64::MAX, &mut envelope));
            check("a commit", (self.symbols.commit)(envelope, 8, null_mut()));
        }
    }

    #[inline(always)]
    fn consume(&self) {
        let mut envelope = null_mut();
        // SAFETY: as above.
        unsafe {
            check("a lease", (self.symbols.lease)(self.consumer, u64::MAX, &mut envelope));
            check("a release", (self.symbols.release)(envelope, null_mut()));
        }
    }
}

struct Queues {
    free: ArrayQueue<u32>,
    ready: ArrayQueue<u32>,
}

/// Waits until there is one.
#[inline(always)]
fn pop(queue: &ArrayQueue<u32>) -> u32 {
    loop {
        if let Some(found) = queue.pop() {
            return found;
        }
        spin_loop();
    }
}

/// Queues have room for all envelopes.
#[inline(always)]
fn push(queue: &ArrayQueue<u32>, number: u32) {
    assert!(queue.push(number).is_ok(), "a queue overflowed");
}

impl Queues {
    fn new() -> Queues {
        let queues = Queues { free: ArrayQueue::new(LENGTH), ready: ArrayQueue::new(LENGTH) };
        (0..LENGTH as u32).for_each(|number| push(&queues.free, number));
        queues
    }

    #[inline(always)]
    fn produce(&self) {
        push(&self.ready, pop(&self.free));
    }

    #[inline(always)]
    fn consume(&self) {
        push(&self.free, pop(&self.ready));
    }
}

#[inline(never)]
fn on_one_thread(count: u64, produce: impl Fn(), consume: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        produce();
        consume();
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

#[inline(never)]
fn on_two_threads(
    count: u64,
    cpus: [Option<usize>; 2],
    produce: impl Fn() + Sync,
    consume: impl Fn(),
) -> f64 {
    let begin = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(cpus[1]);
            begin.wait();
            (0..count).for_each(|_| produce());
        });
        begin.wait();
        let start = Instant::now();
        (0..count).for_each(|_| consume());
        start.elapsed().as_nanos() as f64 / count as f64
    })
}

fn main() {
    let options = options();
    pin(options.cpus[0]);
    let (hub, queues) = (HubSide::new(options.size, options.locked), black_box(Queues::new()));
    let queues = black_box(&queues);
    let measure = |count: u64| match options.threads {
        1 => [
            on_one_thread(count, || hub.produce(), || hub.consume()),
            on_one_thread(count, || queues.produce(), || queues.consume()),
        ],
        _ => [
            on_two_threads(count, options.cpus, || hub.produce(), || hub.consume()),
            on_two_threads(count, options.cpus, || queues.produce(), || queues.consume()),
        ],
    };
    measure(options.warmup.max(1));
    let mut samples: [Vec<f64>; 2] = Default::default();
    for _ in 0..options.batches {
        let batch = measure(options.iterations);
        samples.iter_mut().zip(batch).for_each(|(all, one)| all.push(one));
    }
    println!("implementation=hub_cycle\nucx={}", ucx_version());
    for (name, samples) in ["hub", "queues"].into_iter().zip(samples) {
        let cycle_ns = median(samples);
        println!("{name}_ns={cycle_ns:.4}\n{name}_per_second={:.0}", 1e9 / cycle_ns);
    }
    for link in [hub.producer, hub.consumer] {
        // SAFETY: not used any more.
        unsafe { ucxx_link_destroy(link) };
    }
    hub.hub.destroy();
}
