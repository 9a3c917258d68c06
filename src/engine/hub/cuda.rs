//! Hubs and GPUs: work of streams on envelopes that is not done yet, copies by GPUs, and the thread
//! that notices their end.
//!
//! **Marks.** A lease that ends with a stream leaves a mark on the envelope's memory: a point in
//! the stream's work. The next writer of the memory has to wait for it, and so has a reader of what
//! was written. On a GPU, streams wait: the lease shows the mark's event to its holder, and a
//! transfer's stream waits for it. The CPU and the network cannot wait for an event, so they get
//! the envelope only when the mark has been reached. No thread blocks for a GPU.
//!
//! **The thread.** A hub with CUDA memory has one thread. It starts the copies from and to GPUs, on
//! one stream for each direction, because a driver may block the caller if the memory is not
//! pinned. And it polls the marks and copies in progress. Driver callbacks are not used: the driver
//! does not call them for a stream that has failed.
//!
//! **Failures.** If a copy fails, its target becomes free and its source stays valid. The next
//! lease that would have used the copy returns the error, and the copy is tried again.

use crate::engine::base::lasting::lasting;
use crate::engine::base::lockdep::{Condvar, Mutex};
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred_end::hand_over_doomed;
use crate::engine::core::worker::gate::this_thread;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::{LeaseRecord, LeaseRequest, Refusal};
use crate::engine::hub::lease_end::End;
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::Role;
use crate::engine::hub::state::{State, NONE};
use crate::engine::hub::transfer::Transfer;
use crate::engine::hub::wait::{Retired, DATA, ROOM};
use crate::engine::os::fork::Generation;
use crate::engine::ucx::context::Context;
use crate::engine::ucx::cuda_driver::{self, Event, Fault, Gpu, Side, Stream};
use crate::engine::ucx::memory_type::CUDA;
use crate::engine::ucx::runtime;
use std::cell::Cell;
use std::ffi::c_void;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two polls of work in progress, shortest and longest.
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_micros(160);

const PENDING: u8 = 0;
const REACHED: u8 = 1;
const FAILED: u8 = 2;

/// A point in a stream's work.
pub(crate) struct Mark {
    event: Event,
    /// Result, written by the hub's thread.
    found: AtomicU8,
}

impl Mark {
    fn new(event: Event) -> Arc<Self> {
        Arc::new(Mark { event, found: AtomicU8::new(PENDING) })
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.found.load(Ordering::Acquire) == PENDING
    }

    fn has_failed(&self) -> bool {
        self.found.load(Ordering::Acquire) == FAILED
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        self.event.handle()
    }

    /// Polls; returns the result if the point has been reached.
    fn look(&self) -> Option<std::result::Result<(), Fault>> {
        let (found, answer) = match self.event.query() {
            Ok(false) => return None,
            Ok(true) => (REACHED, Ok(())),
            Err(fault) => (FAILED, Err(fault)),
        };
        self.found.store(found, Ordering::Release);
        Some(answer)
    }
}

/// The marks on an envelope's memory.
#[derive(Default)]
pub(crate) struct Fence {
    /// When this is reached, the contents have been written.
    pub(crate) written: Option<Arc<Mark>>,
    /// When this is reached, nobody uses the memory any more; includes the writing.
    used: Option<Arc<Mark>>,
}

impl Fence {
    fn pending(&self) -> [Option<Arc<Mark>>; 2] {
        [&self.written, &self.used].map(|mark| mark.clone().filter(|mark| mark.is_pending()))
    }

    /// The mark that a writer has to wait for.
    pub(crate) fn before_writing(&self) -> Option<&Arc<Mark>> {
        let pending = |mark: &&Arc<Mark>| mark.is_pending();
        self.used.as_ref().filter(pending).or_else(|| self.written.as_ref().filter(pending))
    }

    /// The contents are no longer needed: only the last use counts.
    #[cold]
    pub(crate) fn forget(&mut self) {
        let last = self.before_writing().cloned();
        *self = Fence { written: None, used: last };
    }

    #[inline(always)]
    pub(crate) fn is_marked(&self) -> bool {
        self.written.is_some() || self.used.is_some()
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.pending().iter().all(Option::is_none)
    }
}

/// Work for the hub's thread.
enum Job {
    Copy(Transfer),
    /// A mark, and the envelope that is kept until it is reached, or NONE.
    Mark(Arc<Mark>, u32),
}

struct Inbox {
    jobs: Vec<Job>,
    over: bool,
    /// Polls that callers have requested and wait for, and how many have been made.
    asked: u64,
    answered: u64,
}

struct Shared {
    inbox: Mutex<Inbox>,
    bell: Condvar,
    answer: Condvar,
}

impl Shared {
    fn give(&self, job: Job) {
        self.inbox.lock().jobs.push(job);
        self.bell.notify_one();
    }
}

/// The thread of a hub with CUDA memory.
pub(crate) struct GpuThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    context: Arc<Context>,
    /// Locked by a thread that leaves a mark of a caller's stream, so that each mark comes after
    /// all earlier ones.
    marking: Mutex<()>,
}

impl GpuThread {
    fn start(context: &Arc<Context>, hub: Weak<Hub>) -> Result<Self> {
        THREADS_SINCE.get_or_init(|| {
            // SAFETY: a function that does not unwind. It is registered after UCX was loaded, so it
            // runs before UCX's own exit handlers.
            unsafe { libc::atexit(process_ends) };
            Generation::current()
        });
        let inbox = Inbox { jobs: Vec::new(), over: false, asked: 0, answered: 0 };
        let shared = Arc::new(Shared {
            inbox: Mutex::new(inbox),
            bell: Condvar::new(),
            answer: Condvar::new(),
        });
        let theirs = shared.clone();
        let run = move || {
            Work { hub, shared: theirs, copy_streams: Vec::new(), under_way: Vec::new() }.run()
        };
        let started = runtime::with_signals_blocked(|| {
            std::thread::Builder::new().name("ucxx_hub".into()).spawn(run)
        });
        let thread = started.map_err(|cause| {
            Error::new(
                Status::NO_RESOURCE,
                format!("hub: the thread for its GPU copies could not start: {cause}"),
            )
        })?;
        Ok(GpuThread {
            shared,
            thread: Some(thread),
            context: context.clone(),
            marking: Mutex::new(()),
        })
    }

    /// Makes the thread poll, and waits for that. The caller keeps the hub alive.
    pub(crate) fn settle(&self) {
        if self.thread.as_ref().is_none_or(is_current) {
            return;
        }
        let mut inbox = self.shared.inbox.lock();
        inbox.asked += 1;
        let mine = inbox.asked;
        self.shared.bell.notify_one();
        while inbox.answered < mine {
            self.shared.answer.wait(&mut inbox);
        }
    }

    /// The caller keeps the hub alive.
    pub(crate) fn copy(&self, transfer: Transfer) {
        self.shared.give(Job::Copy(transfer));
    }
}

fn is_current(thread: &JoinHandle<()>) -> bool {
    thread.as_pthread_t() as usize == this_thread()
}

impl Drop for GpuThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.context.generation.is_past() {
            // A forked child does not have the thread.
            return std::mem::forget(thread);
        }
        self.shared.inbox.lock().over = true;
        self.shared.bell.notify_one();
        // If the thread itself dropped the hub, it ends right after this.
        if !is_current(&thread) {
            let _ = thread.join();
        }
    }
}

/// A stream for the copies in one direction.
struct CopyStream {
    from: MemoryKind,
    to: MemoryKind,
    stream: Stream,
    source: Option<Arc<Gpu>>,
    target: Option<Arc<Gpu>>,
}

impl CopyStream {
    fn new(from: MemoryKind, to: MemoryKind) -> Result<Self> {
        let gpu = |kind: MemoryKind| {
            (kind.memory_type == CUDA).then(|| cuda_driver::gpu(kind.device_id)).transpose()
        };
        let (source, target) = (gpu(from)?, gpu(to)?);
        let Some(own) = source.as_ref().or(target.as_ref()) else {
            return Err(Error::invalid("neither side is a GPU"));
        };
        let failed = |fault: Fault| {
            fault.into_error(format_args!("a copy from {from} to {to} cannot begin"))
        };
        let stream = Stream::new(own).map_err(failed)?;
        Ok(CopyStream { from, to, stream, source, target })
    }
}

/// State of the thread.
struct Work {
    hub: Weak<Hub>,
    shared: Arc<Shared>,
    copy_streams: Vec<CopyStream>,
    under_way: Vec<(Job, Arc<Mark>)>,
}

impl Work {
    fn run(mut self) {
        let (mut nap, mut answered) = (SHORTEST, 0);
        loop {
            let mut inbox = self.shared.inbox.lock();
            while inbox.jobs.is_empty()
                && self.under_way.is_empty()
                && inbox.asked == inbox.answered
                && !inbox.over
            {
                self.shared.bell.wait(&mut inbox);
            }
            if inbox.jobs.is_empty() && !self.under_way.is_empty() && inbox.asked == inbox.answered
            {
                self.shared.bell.wait_for(&mut inbox, nap);
            }
            // The hub outlives work in progress, so nothing is left to do.
            if inbox.over {
                return;
            }
            let (jobs, asked) = (std::mem::take(&mut inbox.jobs), inbox.asked);
            drop(inbox);
            let mut busy = !jobs.is_empty();
            jobs.into_iter().for_each(|job| self.begin(job));
            busy |= self.look();
            nap = if busy { SHORTEST } else { (nap * 2).min(LONGEST) };
            if answered < asked {
                answered = asked;
                self.shared.inbox.lock().answered = asked;
                self.shared.answer.notify_all();
            }
        }
    }

    fn begin(&mut self, job: Job) {
        match &job {
            Job::Mark(mark, _) => {
                let mark = mark.clone();
                self.under_way.push((job, mark));
            }
            Job::Copy(transfer) => match self.copy(transfer) {
                Ok(mark) => self.under_way.push((job, mark)),
                Err(error) => self.end(job, Some(error)),
            },
        }
    }

    fn copy(&mut self, transfer: &Transfer) -> Result<Arc<Mark>> {
        let (from, to) = (transfer.from_kind, transfer.to_kind);
        let copy_stream = match self
            .copy_streams
            .iter()
            .position(|copy_stream| (copy_stream.from, copy_stream.to) == (from, to))
        {
            Some(found) => found,
            None => {
                self.copy_streams.push(CopyStream::new(from, to)?);
                self.copy_streams.len() - 1
            }
        };
        let copy_stream = &self.copy_streams[copy_stream];
        let after = transfer.after.iter().flatten().map(|mark| &mark.event);
        transfer.from.copy_metadata(transfer.to);
        // SAFETY: the transfer holds both envelopes until the event is reached, and the length does
        // not exceed them.
        let copied = unsafe {
            copy_stream.stream.copy(
                (
                    transfer.from.data,
                    copy_stream.source.as_deref().map_or(Side::Host, Side::Device),
                ),
                (transfer.to.data, copy_stream.target.as_deref().map_or(Side::Host, Side::Device)),
                transfer.length as usize,
                after,
            )
        };
        copied.map(Mark::new).map_err(|fault| failed_copy(transfer, fault))
    }

    /// Polls work in progress. Returns true if some of it has ended.
    fn look(&mut self) -> bool {
        let mut ended = Vec::new();
        let mut at = 0;
        while at < self.under_way.len() {
            match self.under_way[at].1.look() {
                None => at += 1,
                // In order: the first to start is reported first.
                Some(answer) => ended.push((self.under_way.remove(at).0, answer)),
            }
        }
        let any = !ended.is_empty();
        for (job, answer) in ended {
            let error = match (&job, answer) {
                (_, Ok(())) => None,
                (Job::Copy(transfer), Err(fault)) => Some(failed_copy(transfer, fault)),
                (Job::Mark(..), Err(fault)) => {
                    Some(fault.into_error("a CUDA stream of the caller has failed"))
                }
            };
            self.end(job, error);
        }
        any
    }

    fn end(&mut self, job: Job, error: Option<Error>) {
        // Work in progress keeps the hub, so it is there.
        let Some(hub) = self.hub.upgrade() else { return };
        let mut state = hub.state.lock();
        match job {
            Job::Copy(transfer) => state.end_transfer(&transfer, error),
            Job::Mark(_, envelope) => state.end_mark(envelope, error),
        }
        let retired = hub.leave(state);
        drop_last((retired, hub));
    }
}

/// Coordinates hub threads that drop what may be the last reference to a hub, and with it to UCX,
/// with the end of the process: UCX's own destructors must not run meanwhile.
struct Leaving {
    threads: usize,
    process_ends: bool,
}

static LEAVING: Mutex<Leaving> = Mutex::new(Leaving { threads: 0, process_ends: false });
static THREADS_SINCE: OnceLock<Generation> = OnceLock::new();
static LEFT: Condvar = Condvar::new();

lasting! {
    /// This thread is one of them. What it frees may call the user's code, which may end the
    /// process.
    static LEAVES: Cell<bool> = const { Cell::new(false) };
}

/// Drops what may be the last reference to a hub, unless the process is ending.
fn drop_last<T>(last: T) {
    let mut leaving = LEAVING.lock();
    if leaving.process_ends {
        return std::mem::forget(last);
    }
    leaving.threads += 1;
    drop(leaving);
    LEAVES.with(|leaves| leaves.set(true));
    drop(last);
    LEAVES.with(|leaves| leaves.set(false));
    LEAVING.lock().threads -= 1;
    LEFT.notify_all();
    hand_over_doomed();
}

extern "C" fn process_ends() {
    // A forked child does not have these threads.
    if THREADS_SINCE.get().is_none_or(|since| since.is_past()) {
        return;
    }
    let mut leaving = LEAVING.lock();
    leaving.process_ends = true;
    while leaving.threads > usize::from(LEAVES.with(Cell::get)) {
        LEFT.wait(&mut leaving);
    }
}

fn failed_copy(transfer: &Transfer, fault: Fault) -> Error {
    fault.into_error(format_args!(
        "a copy from {} to {} has failed",
        transfer.from_kind, transfer.to_kind
    ))
}

impl State {
    /// A mark has been reached or has failed.
    fn end_mark(&mut self, envelope: u32, error: Option<Error>) {
        self.copies -= 1;
        if envelope != NONE {
            self.envelopes[envelope as usize].copies -= 1;
            self.free_if_unused(envelope);
        }
        if let Some(error) = error {
            self.stream_fault = Some(error);
        }
        self.wake_mask |= DATA | ROOM;
    }

    /// Records a lease's mark: as `written` if the lease wrote, otherwise as `used`. Returns the
    /// envelope that is kept until then.
    fn mark(&mut self, record: &LeaseRecord, end: End, mark: &Arc<Mark>) -> u32 {
        let envelope = &mut self.envelopes[record.envelope as usize];
        let fence = &mut envelope.block.fence;
        let writes = match record.role {
            Some(Role::Produce) => matches!(end, End::Commit(_)),
            Some(Role::Modify) => true,
            _ => false,
        };
        if writes {
            *fence = Fence { written: Some(mark.clone()), used: None };
        } else {
            fence.used = Some(mark.clone());
        }
        self.marked = true;
        self.copies += 1;
        if self.pools[envelope.pool as usize].kind.memory_type == CUDA {
            return NONE;
        }
        // The CPU and the network use it, which cannot wait for events: keep it until then.
        envelope.copies += 1;
        record.envelope
    }

    /// May this request read the envelope, in view of the marks?
    #[cold]
    pub(crate) fn check_written(
        &self,
        request: &LeaseRequest,
        chunk: u32,
        envelope: u32,
    ) -> std::result::Result<(), Refusal> {
        let waits = !request.synced && self.pools[request.pool as usize].kind.memory_type == CUDA;
        match &self.envelopes[envelope as usize].block.fence.written {
            Some(mark) if !waits && mark.is_pending() => Err(Refusal::NotNow),
            Some(mark) if !waits && mark.has_failed() => Err(Refusal::Failed { pool: NONE, chunk }),
            _ => Ok(()),
        }
    }

    /// Are the contents complete, for a reader that cannot wait for events?
    pub(crate) fn is_written(&self, envelope: u32) -> bool {
        let written = &self.envelopes[envelope as usize].block.fence.written;
        written.as_ref().is_none_or(|mark| !mark.is_pending() && !mark.has_failed())
    }

    /// Is the first free envelope one that no stream is still using?
    #[cold]
    pub(crate) fn is_front_synced(&self, pool: u32) -> bool {
        let first = self.pools[pool as usize].free;
        first != NONE && self.envelopes[first as usize].block.fence.is_synced()
    }

    /// Moves an envelope that no stream is still using to the front of the free ones. False if
    /// there is none.
    #[cold]
    pub(crate) fn find_synced(&mut self, pool: u32) -> bool {
        let first = self.pools[pool as usize].free;
        let (mut before, mut number) = (NONE, first);
        while number != NONE {
            let envelope = &self.envelopes[number as usize];
            if envelope.block.fence.is_synced() {
                if before != NONE {
                    self.envelopes[before as usize].next = envelope.next;
                    self.envelopes[number as usize].next = first;
                    self.pools[pool as usize].free = number;
                }
                return true;
            }
            (before, number) = (number, envelope.next);
        }
        false
    }
}

impl Hub {
    /// Starts the thread with the first CUDA memory.
    pub(crate) fn start_gpu_thread(&self, kind: MemoryKind) -> Result<()> {
        if kind.needs_cuda() {
            self.gpu_thread.get_or_try_init(|| GpuThread::start(&self.context, self.me.clone()))?;
        }
        Ok(())
    }

    /// Leaves a mark at the stream's current point, and ends the lease of this number. Calls
    /// `check` before and after recording, as the lock is released between.
    #[cold]
    pub(crate) fn end_with_stream(
        &self,
        stream: *mut c_void,
        number: u32,
        check: impl Fn(&State) -> Result<End>,
        finish: impl FnOnce(SpinLockGuard<'_, State>, End) -> Retired,
    ) -> Result<Retired> {
        let Some(gpu_thread) = self.gpu_thread.get() else {
            return Err(Error::new(
                Status::NO_DEVICE,
                "stream: must be NULL, as the hub has no CUDA memory",
            ));
        };
        let gpu = cuda_driver::gpu_of(stream)?;
        let one_by_one = gpu_thread.marking.lock();
        let before = {
            let state = self.state.lock();
            check(&state)?;
            state.envelopes[state.lease_records[number as usize].envelope as usize]
                .block
                .fence
                .pending()
        };
        let after = before.iter().flatten().map(|mark| &mark.event);
        // SAFETY: the caller's stream, and its own GPU.
        let recorded = unsafe { Event::record(&gpu, stream, after) };
        let mark = Mark::new(recorded.map_err(|fault| fault.into_error("stream"))?);
        let mut state = self.state.lock();
        let end = check(&state)?;
        let record = state.lease_records[number as usize];
        let kept = state.mark(&record, end, &mark);
        gpu_thread.shared.give(Job::Mark(mark, kept));
        // Before the lease ends: that may call the user, who may end another lease with a stream.
        drop(one_by_one);
        // The thread may handle the mark, and drop its reference to the hub, before this thread has
        // left it.
        let inside = self.me.upgrade();
        let mut retired = finish(state, end);
        retired.keep(inside);
        Ok(retired)
    }

    /// After a swap with another hub: waits for the marks on the received memory as well. Under the
    /// lock.
    pub(crate) fn adopt_marks(&self, state: &mut State, envelope: u32) {
        let Some(gpu_thread) = self.gpu_thread.get() else { return };
        for mark in state.envelopes[envelope as usize].block.fence.pending().into_iter().flatten() {
            state.marked = true;
            state.copies += 1;
            gpu_thread.shared.give(Job::Mark(mark, NONE));
        }
    }
}
