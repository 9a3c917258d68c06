//! The progress thread: its loop, how it sleeps, and how it is started and stopped.
//!
//! While it runs, only this thread makes passes, except for assistants (see `takeover`). With
//! delayed submission it is also the only thread that calls UCP: other threads put transfers into
//! the ring and everything else onto the control list. Without delayed submission, other threads
//! enter the gate, which is then a lock.

use crate::engine::base::backoff::Pause;
use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::event_count::EventCount;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::{self, Component};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::trace;
use crate::engine::core::worker::control_list::Control;
use crate::engine::core::worker::deferred::{self, CallbackScope};
use crate::engine::core::worker::deferred_end;
use crate::engine::core::worker::gate::{this_thread, Gate, ThreadMode};
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::remote_call::Lists;
use crate::engine::core::worker::sleep_flag::SleepFlag;
use crate::engine::core::worker::submission_ring::{self, Queue};
use crate::engine::core::worker::takeover::Assistants;
use crate::engine::core::worker::thread_state::ThreadState;
use crate::engine::core::worker::wakeup::Armed;
use crate::engine::core::worker::worker::{Inside, SharedWorker, Worker};
use crate::engine::os::scheduling::{pin, prefer_short_slices};
use crate::engine::ucx::context::feature;
use crate::engine::ucx::runtime;
use rustix::thread::set_name;
use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rounds without work after which the thread yields: a peer may need this core to send something.
pub(crate) const ROUNDS_PER_YIELD: u32 = 8;
/// Rounds without work between two reads of the clock.
pub(crate) const ROUNDS_PER_LOOK: u32 = 16;
/// Longest sleep while an endpoint is being opened or closed: what UCP does then may not raise an
/// event.
const NAP: Duration = Duration::from_millis(5);
/// How often it runs its own work while another thread makes passes instead of it.
const ASSISTED_NAP: Duration = Duration::from_micros(200);
/// The kernel keeps 15 bytes of a thread's name.
const DEFAULT_NAME: &CStr = c"ucxx_progress";

/// What drives a worker. Numbers as in the C header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgressMode {
    /// Its callers.
    Manual = 0,
    /// A thread that polls for a while and then sleeps until there is an event.
    Adaptive = 1,
    /// A thread that never sleeps.
    Polling = 2,
    /// A thread that sleeps whenever there is nothing to do.
    Blocking = 3,
}

/// A user's function with its argument.
pub type Start = (unsafe extern "C" fn(*mut c_void), *mut c_void);

/// The parameters of a progress thread, checked.
#[derive(Clone, Copy)]
pub struct ThreadParams {
    /// Other threads submit through the ring. None: as the environment says, otherwise yes.
    pub delayed: Option<bool>,
    /// Places in the ring; 0 for the default.
    pub depth: u32,
    /// The CPU to run on; None for any.
    pub cpu: Option<usize>,
    /// Runs first on the thread.
    pub start: Option<Start>,
}

// SAFETY: the user hands the function and its argument over to the thread.
unsafe impl Send for ThreadParams {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for ThreadParams {}

/// The state of a worker's progress thread, whether it exists or not.
#[repr(C)]
pub(crate) struct ProgressThread {
    params: ThreadParams,
    state: ThreadState,
    mode: AtomicU8,
    /// `this_thread()` of the progress thread; 0 while there is none.
    owner: AtomicUsize,
    kernel_id: AtomicU64,
    stop: AtomicBool,
    sleep: SleepFlag,
    pub(crate) control: Control<Lists>,
    pub(crate) queue: OnceLock<Queue>,
    /// Threads that make passes instead of it.
    pub(crate) assistants: Assistants,
    /// Held while it is started or stopped.
    handle: Mutex<Option<JoinHandle<()>>>,

    _written: CacheLine,
    /// Where threads wait for jobs, and for the end of endpoints.
    pub(crate) room: EventCount,
}

impl ProgressThread {
    pub(crate) fn new(params: ThreadParams) -> Self {
        ProgressThread {
            params,
            _written: CacheLine,
            state: ThreadState::default(),
            mode: AtomicU8::new(0),
            owner: AtomicUsize::new(0),
            kernel_id: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            sleep: SleepFlag::new(),
            control: Control::default(),
            queue: OnceLock::new(),
            assistants: Assistants::default(),
            room: EventCount::new(),
            handle: Mutex::new(None),
        }
    }

    /// There has been a progress thread.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.state.is_used()
    }

    /// There is one, and it makes progress.
    pub(crate) fn is_running(&self) -> bool {
        self.state.is_running()
    }

    /// Other threads leave UCP to it.
    pub(crate) fn delays(&self) -> bool {
        self.state.delays()
    }

    /// Number of progress threads so far.
    pub(crate) fn count(&self) -> u32 {
        self.state.count()
    }

    pub(crate) fn is_current(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// The calling thread must leave UCP to the progress thread.
    #[inline(always)]
    pub(crate) fn is_remote(&self) -> bool {
        self.delays() && !self.is_current()
    }

    pub(crate) fn mode(&self) -> ProgressMode {
        match self.mode.load(Ordering::Relaxed) {
            1 => ProgressMode::Adaptive,
            2 => ProgressMode::Polling,
            3 => ProgressMode::Blocking,
            _ => ProgressMode::Manual,
        }
    }

    pub(crate) fn kernel_id(&self) -> u64 {
        self.kernel_id.load(Ordering::Relaxed)
    }

    fn wanted_delay(&self) -> bool {
        self.params.delayed.unwrap_or_else(|| {
            std::env::var_os("UCXX_RS_DELAYED_SUBMISSION").is_none_or(|set| set != "0")
        })
    }
}

#[cold]
pub(crate) fn has_thread() -> Error {
    Error::new(Status::BUSY, "worker: has a progress thread; this call is for manual progress")
}

impl SharedWorker {
    /// Starts a progress thread.
    pub fn start_progress_thread(self: &Arc<Self>, mode: ProgressMode) -> Result<()> {
        self.check_usable()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        if mode == ProgressMode::Manual {
            return Err(Error::invalid(
                "progress_mode: UCXX_PROGRESS_MANUAL means no progress thread; give another mode",
            ));
        }
        self.need(feature::WAKEUP)?;
        if self.gate().declared() == ThreadMode::Single {
            return Err(Error::invalid(
                "thread_mode: UCXX_THREAD_SINGLE allows no progress thread; use UCXX_THREAD_MULTI",
            ));
        }
        let thread = &self.thread;
        let mut handle = thread.handle.lock();
        if handle.is_some() {
            return Err(Error::new(
                Status::ALREADY_EXISTS,
                "worker: has a progress thread already",
            ));
        }
        self.gate().become_lock();
        {
            let inside = self.enter()?;
            inside.wakeup()?;
            // Read now, so that no thread must wait for the progress thread to get it.
            inside.address_inside()?;
            thread.state.announce();
            self.special.store(true, Ordering::SeqCst);
        }
        let depth = if thread.params.depth == 0 {
            submission_ring::DEFAULT_DEPTH
        } else {
            thread.params.depth
        };
        thread.queue.get_or_init(|| Queue::new(depth as usize, self.context.request_size));
        thread.stop.store(false, Ordering::SeqCst);
        thread.mode.store(mode as u8, Ordering::Relaxed);
        thread.control.open();
        thread.state.come(thread.wanted_delay());
        // Threads that sleep on the descriptor must wait for the progress thread from now on.
        while self.waiting().anyone_asleep() {
            self.kick();
            std::thread::yield_now();
        }
        match self.spawn(mode) {
            Ok(spawned) => *handle = Some(spawned),
            Err(error) => {
                // Work that other threads have left to it in the meantime.
                self.last_round(&mut Lists::default());
                drop(handle);
                self.tell_thread_changed();
                return Err(error);
            }
        }
        Ok(())
    }

    fn spawn(self: &Arc<Self>, mode: ProgressMode) -> Result<JoinHandle<()>> {
        let worker = self.clone();
        let (report, reported) = sync_channel(1);
        let builder = std::thread::Builder::new();
        let spawned = runtime::with_signals_blocked(|| {
            builder.spawn(move || worker.thread_main(mode, report))
        });
        let handle = spawned.map_err(|cause| {
            Error::new(
                Status::NO_RESOURCE,
                format!("worker: its progress thread could not be made: {cause}"),
            )
        })?;
        match reported.recv() {
            Ok(Ok(())) => Ok(handle),
            failed => {
                let _ = handle.join();
                Err(failed.ok().and_then(Result::err).unwrap_or_else(|| {
                    let text =
                        "a bug in ucxx_rs, please report it: the progress thread ended while it \
                        started";
                    Error::new(Status::PANIC, text)
                }))
            }
        }
    }

    /// Stops the progress thread after a last round. Afterwards progress is manual.
    pub fn stop_progress_thread(&self) -> Result<()> {
        self.check_usable()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        if self.join_thread() {
            Ok(())
        } else {
            Err(Error::new(Status::NO_ELEM, "worker: has no progress thread"))
        }
    }

    /// Stops the thread if there is one. Not called on it, nor inside the gate.
    pub(crate) fn join_thread(&self) -> bool {
        let mut handle = self.thread.handle.lock();
        let Some(running) = handle.take() else { return false };
        self.thread.stop.store(true, Ordering::SeqCst);
        self.thread.sleep.awake();
        self.kick();
        let _ = running.join();
        drop(handle);
        self.tell_thread_changed();
        true
    }

    /// Wakes the thread if it sleeps.
    #[inline]
    pub(crate) fn wake_thread(&self) {
        if self.thread.sleep.must_wake() {
            self.kick();
        }
    }

    /// What drives the worker now.
    pub fn progress_mode(&self) -> ProgressMode {
        self.thread.mode()
    }

    /// There is a progress thread.
    pub fn has_progress_thread(&self) -> bool {
        self.thread.is_running()
    }

    /// Other threads submit through the ring.
    pub fn delays_submission(&self) -> bool {
        self.thread.delays()
    }

    /// The kernel's number for the progress thread; 0 without one.
    pub fn progress_thread_id(&self) -> u64 {
        self.thread.kernel_id()
    }

    /// The ring: greatest length so far, number of times that it was full, current length.
    pub fn queue_stats(&self) -> (u64, u64, u64) {
        self.thread.queue.get().map_or((0, 0, 0), |queue| {
            (queue.high_water.get(), queue.times_full.load(Ordering::Relaxed), queue.len() as u64)
        })
    }

    fn thread_main(self: Arc<Self>, mode: ProgressMode, report: SyncSender<Result<()>>) {
        let thread = &self.thread;
        let name = self.name.as_deref().unwrap_or(DEFAULT_NAME);
        // The kernel takes the first 15 bytes.
        let _ = set_name(name);
        let pinned = thread.params.cpu.map_or(Ok(()), pin);
        if mode != ProgressMode::Polling {
            prefer_short_slices();
        }
        let failed = pinned.is_err();
        if !failed {
            thread.owner.store(this_thread(), Ordering::Relaxed);
            // Not through rustix, which looks the function up: that takes the loader's lock, which
            // a thread may hold while it waits for this thread in a constructor.
            // SAFETY: no precondition.
            thread.kernel_id.store(unsafe { libc::gettid() } as u64, Ordering::Relaxed);
        }
        let _ = report.send(pinned);
        if failed {
            return;
        }
        if let Some((function, arg)) = thread.params.start {
            let _scope = CallbackScope::new();
            // SAFETY: the user's function and argument.
            unsafe { function.call_out((arg,)) };
        }
        log::at!(DEBUG, Worker, &*self, "{mode:?} progress thread {} runs", thread.kernel_id());
        let mut lists = Lists::default();
        let mut idle = Idle { mode, spin_ns: self.spin_ns, rounds: 0, since: 0 };
        while !thread.stop.load(Ordering::Acquire) {
            if thread.assistants.are_there() {
                // Passes on both threads would be in each other's way. The descriptor is not armed
                // meanwhile, so peers need not wake this thread.
                std::thread::sleep(ASSISTED_NAP);
                continue;
            }
            let worked = guarded(|| self.round(&mut lists)).unwrap_or(0);
            deferred_end::hand_over_doomed();
            match idle.after(worked) {
                Next::Go => {}
                Next::Yield => std::thread::yield_now(),
                Next::Sleep => {
                    if !self.doze() {
                        idle.stay_idle();
                    }
                }
            }
        }
        guarded(|| self.last_round(&mut lists));
        deferred_end::hand_over_doomed();
        log::at!(DEBUG, Worker, &*self, "progress thread ended");
    }

    /// Does all available work once. Returns how much there was.
    fn round(&self, lists: &mut Lists) -> u32 {
        let inside = ManuallyLeft(std::mem::ManuallyDrop::new(self.enter_any()));
        let inside = &*inside.0;
        // Only this thread sleeps on the descriptor while it runs.
        inside.armed.set(false);
        let graves = inside.graves.take();
        if self.thread.control.is_pending() {
            self.thread.control.take(lists, false);
        }
        let mut worked = inside.drain_ring();
        worked += inside.run_jobs(&mut lists.jobs);
        worked += inside.run_errands(&mut lists.before);
        inside.drain_foreign();
        worked += inside.pass();
        worked += inside.run_errands(&mut lists.after);
        // Ring entries that refer to them were submitted by the code above.
        drop(graves);
        worked
    }

    fn last_round(&self, lists: &mut Lists) {
        let thread = &self.thread;
        let inside = self.enter_any();
        thread.mode.store(0, Ordering::Relaxed);
        thread.kernel_id.store(0, Ordering::Relaxed);
        thread.state.go();
        thread.control.take(lists, true);
        inside.drain_ring();
        inside.run_jobs(&mut lists.jobs);
        inside.run_errands(&mut lists.before);
        inside.run_errands(&mut lists.after);
        inside.graves.borrow_mut().clear();
        thread.owner.store(0, Ordering::Relaxed);
        inside.disturb_waiters();
    }
}

impl Worker {
    /// Makes threads that waited for the progress thread check again: they make progress themselves
    /// from now on.
    fn disturb_waiters(&self) {
        self.for_each_slot(|slot| slot.done.disturb());
        self.thread.room.notify();
        crate::engine::core::worker::request_wait::ANY_REQUEST.notify();
    }
}

impl SharedWorker {
    /// Sleeps until there is something to do. False if it may not sleep.
    fn doze(&self) -> bool {
        let thread = &self.thread;
        thread.sleep.announce();
        let queued = thread.queue.get().is_some_and(|queue| !queue.is_empty());
        if queued || thread.control.is_pending() || thread.stop.load(Ordering::SeqCst) {
            thread.sleep.awake();
            return false;
        }
        let inside = self.enter_any();
        let sleeps = matches!(inside.arm_inside(), Ok(Armed::Ready));
        let pause = if sleeps { Pause::Nothing } else { inside.back_off.pause() };
        let longest = (!inside.changing.borrow().is_empty()).then_some(NAP);
        self.stats().sleeps.add(sleeps.into());
        self.stats().wakeups.add(sleeps.into());
        drop(inside);
        if let Some(wakeup) = self.wakeup.get() {
            if sleeps {
                trace::sleeps(self, || wakeup.sleep(longest));
            } else {
                wakeup.pause(pause);
            }
        }
        thread.sleep.awake();
        sleeps
    }
}

/// Leaves the gate fairly, for threads that wait at it.
struct ManuallyLeft<'a>(std::mem::ManuallyDrop<Inside<'a>>);

impl Drop for ManuallyLeft<'_> {
    fn drop(&mut self) {
        self.0.leave_by(Gate::leave_fairly);
    }
}

/// A panic is a bug, but it must not end the thread that others depend on.
pub(crate) fn guarded<T>(f: impl FnOnce() -> T) -> Option<T> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    if result.is_err() {
        let text =
            format_args!("a bug in ucxx_rs, please report it: a panic on the progress thread");
        log::write(log::ERROR, Component::Worker, &(), text);
    }
    result.ok()
}

/// What the thread does after a round.
struct Idle {
    mode: ProgressMode,
    spin_ns: u64,
    /// Rounds without work so far.
    rounds: u32,
    since: u64,
}

enum Next {
    Go,
    Yield,
    Sleep,
}

impl Idle {
    fn after(&mut self, worked: u32) -> Next {
        if worked > 0 {
            self.rounds = 0;
            return Next::Go;
        }
        if self.mode == ProgressMode::Blocking {
            return Next::Sleep;
        }
        self.rounds = self.rounds.wrapping_add(1);
        if self.mode == ProgressMode::Adaptive && self.rounds % ROUNDS_PER_LOOK == 1 {
            let now = clock::now_ns();
            if self.rounds == 1 {
                self.since = now;
            } else if now - self.since >= self.spin_ns {
                self.rounds = 0;
                return Next::Sleep;
            }
        }
        if self.rounds % ROUNDS_PER_YIELD == 0 {
            return Next::Yield;
        }
        Next::Go
    }

    /// It could not sleep: it tries again after the next round.
    fn stay_idle(&mut self) {
        self.rounds = ROUNDS_PER_LOOK;
    }
}
