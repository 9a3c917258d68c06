//! The additional cost of a call of the C interface, compared with the same call of the engine.
//!
//! Two workers of one process exchange messages on one thread, as in `../c/pairloop.c`: in turn
//! through the C symbols and through the engine's functions, on the same objects. The C symbols are
//! called through opaque pointers, so that the compiler does not inline them. Link-time
//! optimisation may inline the engine's functions, as in any Rust program that uses them.

mod common;

use common::{check, median, pin, ucx_version, worked};
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use ucxx_rs::ffi::handle::{ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use ucxx_rs::ffi::operation::ucxx_op_params_t;
use ucxx_rs::ffi::request::{ucxx_request_destroy, ucxx_request_status};
use ucxx_rs::ffi::tag::{ucxx_tag_recv, ucxx_tag_send};
use ucxx_rs::ffi::worker_progress::ucxx_worker_progress;
use ucxx_rs::internals::calls::{
    request, Address, Context, ContextParams, EndpointParams, Mode, OpParams, Out, ProgressMode,
    SharedEndpoint, SharedWorker, Slot, Submitted, ThreadMode, ThreadParams, WindowLimits,
    WorkerParams, PROTOCOLS,
};
use ucxx_rs::internals::Status;

/// UCXX_FEATURE_TAG, UCXX_MEMORY_HOST.
const TAG: u64 = 1;
const HOST: i32 = 1;
const IN_PROGRESS: i32 = 1;

struct Options {
    size: usize,
    iterations: u64,
    batches: usize,
    warmup: u64,
    peer_errors: bool,
    only: Option<String>,
}

fn options() -> Options {
    let mut options = Options {
        size: 8,
        iterations: 2000,
        batches: 400,
        warmup: 20000,
        peer_errors: true,
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number = || {
            value.parse::<u64>().unwrap_or_else(|_| {
                panic!(
                    "{name}: '{value}' is not a \
            number"
                )
            })
        };
        match name.as_str() {
            "--size" => options.size = number() as usize,
            "--iterations" => options.iterations = number(),
            "--batches" => options.batches = number() as usize,
            "--warmup" => options.warmup = number(),
            "--error-handling" => options.peer_errors = value == "peer",
            "--cpus" => pin(value.split(',').next().and_then(|first| first.parse().ok())),
            "--only" => options.only = Some(value),
            _ => panic!("unknown option {name}"),
        }
    }
    options
}

/// What the loops use, for both interfaces. The handle of a worker or endpoint is the address of
/// the engine's object.
struct Pair {
    sender: Arc<SharedEndpoint>,
    workers: [Arc<SharedWorker>; 2],
    out: Vec<u8>,
    into: Vec<u8>,
    size: usize,
    _back: Arc<SharedEndpoint>,
}

fn worker(context: &Arc<Context>) -> Arc<SharedWorker> {
    let thread = ThreadParams { delayed: None, depth: 0, cpu: None, start: None };
    let params = WorkerParams {
        thread_mode: ThreadMode::Single,
        spin_ns: 0,
        name: None,
        describe_requests: false,
        progress_mode: ProgressMode::Manual,
        thread,
    };
    worked("a worker", SharedWorker::new(context, params, PROTOCOLS))
}

fn endpoint(from: &Arc<SharedWorker>, address: &Address, peer_errors: bool) -> Arc<SharedEndpoint> {
    let params = EndpointParams {
        window: WindowLimits::DEFAULT,
        peer_failure: peer_errors,
        connect_timeout_ns: 0,
        liveness_ns: 0,
        local_address: None,
        on_open: None,
        on_open_arg: std::ptr::null_mut(),
        on_close: None,
        on_close_arg: std::ptr::null_mut(),
        notifier: std::ptr::null(),
    };
    worked("an endpoint", SharedEndpoint::new(from, address, &params))
}

impl Pair {
    fn new(options: &Options) -> Pair {
        let params =
            ContextParams { features: TAG, config: Vec::new(), local_network: false, name: None };
        let contexts = [(); 2].map(|()| worked("a context", Context::new(&params)));
        let workers = [worker(&contexts[0]), worker(&contexts[1])];
        let addresses = [0, 1].map(|side: usize| worked("an address", workers[side].address()));
        let mut pair = Pair {
            sender: endpoint(&workers[0], &addresses[1], options.peer_errors),
            _back: endpoint(&workers[1], &addresses[0], options.peer_errors),
            workers,
            out: vec![0x5a; options.size],
            into: vec![0; options.size],
            size: options.size,
        };
        pair.wire_up();
        pair
    }

    /// Sends one message, for which both sides make progress. After that the loops make progress
    /// only where it is needed.
    fn wire_up(&mut self) {
        let params = OpParams { memory_type: HOST, ..OpParams::default() };
        let [sender, receiver] = &self.workers;
        let mut requests: [*mut Slot; 2] = [std::ptr::null_mut(); 2];
        let (into, out) =
            (self.into.as_mut_ptr().cast::<c_void>(), self.out.as_ptr().cast::<c_void>());
        // SAFETY: the buffers and the places outlive the operations, which end here.
        let submitted = unsafe {
            [
                receiver.tag_recv(
                    into,
                    self.size,
                    1,
                    u64::MAX,
                    &params,
                    Out::new(&mut requests[0]),
                ),
                self.sender.tag_send(
                    out,
                    self.size,
                    1,
                    Mode::Local,
                    &params,
                    Out::new(&mut requests[1]),
                ),
            ]
        };
        for (submitted, request) in submitted.into_iter().zip(requests) {
            if worked("the first message", submitted) == Submitted::Done {
                continue;
            }
            // SAFETY: a request of one of the two operations, released once.
            unsafe {
                while (*request).status() == Status::INPROGRESS {
                    worked("progress", sender.progress_and_tell());
                    worked("progress", receiver.progress_and_tell());
                }
                request::destroy(request);
            }
        }
    }
}

/// Calls of the library in these loops, to compute the time of one call.
type Calls = u64;

#[inline(never)]
fn measured_loop_engine(pair: &mut Pair, count: u64) -> Calls {
    let params = OpParams { memory_type: HOST, ..OpParams::default() };
    let [sender, receiver] = &pair.workers;
    let mut calls = 0;
    for _ in 0..count {
        let (mut receive, mut send): (*mut Slot, *mut Slot) =
            (std::ptr::null_mut(), std::ptr::null_mut());
        let (into, out) =
            (pair.into.as_mut_ptr().cast::<c_void>(), pair.out.as_ptr().cast::<c_void>());
        // SAFETY: the buffers and the places outlive the operations, which end in this round.
        let (received, sent) = unsafe {
            (
                receiver.tag_recv(into, pair.size, 1, u64::MAX, &params, Out::new(&mut receive)),
                pair.sender.tag_send(out, pair.size, 1, Mode::Local, &params, Out::new(&mut send)),
            )
        };
        let received = worked("a receive", received) == Submitted::Done;
        let sent = worked("a send", sent) == Submitted::Done;
        calls += 2;
        // SAFETY: the requests of the two operations, each released once.
        unsafe {
            while !received && (*receive).status() == Status::INPROGRESS {
                worked("progress", receiver.progress_and_tell());
                calls += 2;
            }
            while !sent && (*send).status() == Status::INPROGRESS {
                worked("progress", sender.progress_and_tell());
                worked("progress", receiver.progress_and_tell());
                calls += 3;
            }
            for (done, slot) in [(received, receive), (sent, send)] {
                if !done {
                    request::destroy(slot);
                    calls += 2;
                }
            }
        }
    }
    calls
}

/// The C symbols, called like from a separately compiled program.
struct Symbols {
    send: unsafe extern "C" fn(
        *mut ucxx_endpoint_t,
        *const c_void,
        usize,
        u64,
        *const ucxx_op_params_t,
        *mut *mut ucxx_request_t,
    ) -> i32,
    recv: unsafe extern "C" fn(
        *mut ucxx_worker_t,
        *mut c_void,
        usize,
        u64,
        u64,
        *const ucxx_op_params_t,
        *mut *mut ucxx_request_t,
    ) -> i32,
    progress: unsafe extern "C" fn(*mut ucxx_worker_t, *mut u32) -> i32,
    status: unsafe extern "C" fn(*const ucxx_request_t) -> i32,
    destroy: unsafe extern "C" fn(*mut ucxx_request_t),
}

impl Symbols {
    fn new() -> Symbols {
        Symbols {
            send: black_box(ucxx_tag_send),
            recv: black_box(ucxx_tag_recv),
            progress: black_box(ucxx_worker_progress),
            status: black_box(ucxx_request_status),
            destroy: black_box(ucxx_request_destroy),
        }
    }
}

fn handle<T, H>(object: &Arc<T>) -> *mut H {
    Arc::as_ptr(object).cast_mut().cast()
}

#[inline(never)]
fn measured_loop_c(pair: &mut Pair, symbols: &Symbols, count: u64) -> Calls {
    let [sender, receiver] =
        [0, 1].map(|side: usize| handle::<SharedWorker, ucxx_worker_t>(&pair.workers[side]));
    let endpoint: *mut ucxx_endpoint_t = handle(&pair.sender);
    // SAFETY: a plain struct, for which all-zero means the defaults.
    let mut params = unsafe { std::mem::zeroed::<ucxx_op_params_t>() };
    params.struct_size = size_of::<ucxx_op_params_t>();
    params.memory_type = HOST;
    let mut calls = 0;
    for _ in 0..count {
        let (mut receive, mut send): (*mut ucxx_request_t, *mut ucxx_request_t) =
            (std::ptr::null_mut(), std::ptr::null_mut());
        let (into, out) =
            (pair.into.as_mut_ptr().cast::<c_void>(), pair.out.as_ptr().cast::<c_void>());
        // SAFETY: all handles are alive; the buffers and the places outlive the operations, which
        // end in this round.
        unsafe {
            let received =
                (symbols.recv)(receiver, into, pair.size, 1, u64::MAX, &params, &mut receive);
            check("a receive", received);
            let sent = (symbols.send)(endpoint, out, pair.size, 1, &params, &mut send);
            check("a send", sent);
            calls += 2;
            while received == IN_PROGRESS && (symbols.status)(receive) == IN_PROGRESS {
                check("progress", (symbols.progress)(receiver, std::ptr::null_mut()));
                calls += 2;
            }
            while sent == IN_PROGRESS && (symbols.status)(send) == IN_PROGRESS {
                check("progress", (symbols.progress)(sender, std::ptr::null_mut()));
                check("progress", (symbols.progress)(receiver, std::ptr::null_mut()));
                calls += 3;
            }
            for (status, request) in [(received, receive), (sent, send)] {
                if status == IN_PROGRESS {
                    (symbols.destroy)(request);
                    calls += 2;
                }
            }
        }
    }
    calls
}

#[inline(never)]
fn idle_loop_engine(pair: &mut Pair, count: u64) -> Calls {
    for _ in 0..count {
        worked("progress", pair.workers[0].progress_and_tell());
    }
    count
}

#[inline(never)]
fn idle_loop_c(pair: &mut Pair, symbols: &Symbols, count: u64) -> Calls {
    let worker = handle::<SharedWorker, ucxx_worker_t>(&pair.workers[0]);
    for _ in 0..count {
        // SAFETY: the worker is alive, and the number of events is not requested.
        check("progress", unsafe { (symbols.progress)(worker, std::ptr::null_mut()) });
    }
    count
}

/// Nanoseconds of one call.
fn timed(work: impl FnOnce() -> Calls) -> f64 {
    let start = Instant::now();
    let calls = work();
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn main() {
    let options = options();
    let mut pair = Pair::new(&options);
    let symbols = Symbols::new();
    measured_loop_engine(&mut pair, options.warmup.max(1));
    if options.only.as_deref() != Some("engine") {
        measured_loop_c(&mut pair, &symbols, options.warmup.max(1));
    }
    println!("implementation=engine_call\nucx={}", ucx_version());
    match options.only.as_deref() {
        // For a counting tool.
        Some("engine") => println!("calls={}", measured_loop_engine(&mut pair, options.iterations)),
        Some("c") => println!("calls={}", measured_loop_c(&mut pair, &symbols, options.iterations)),
        Some(other) => panic!("--only: c or engine, not {other}"),
        None => {
            let mut samples: [Vec<f64>; 4] = Default::default();
            for _ in 0..options.batches {
                samples[0].push(timed(|| measured_loop_engine(&mut pair, options.iterations)));
                samples[1].push(timed(|| measured_loop_c(&mut pair, &symbols, options.iterations)));
                samples[2].push(timed(|| idle_loop_engine(&mut pair, options.iterations)));
                samples[3].push(timed(|| idle_loop_c(&mut pair, &symbols, options.iterations)));
            }
            let names = ["engine_ns", "c_ns", "engine_idle_ns", "c_idle_ns"];
            for (name, samples) in names.into_iter().zip(samples) {
                println!("{name}={:.4}", median(samples));
            }
        }
    }
    pair.workers.into_iter().for_each(SharedWorker::destroy);
}
