//! What the monitor looks at, and when its thread starts and ends.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::open_metrics::Report;
use crate::engine::base::status::Result;
use crate::engine::core::monitor::metrics;
use crate::engine::core::monitor::service::{self, Service};
use crate::engine::core::worker::gate::this_thread;
use crate::engine::os::event_fd::EventFd;
use crate::engine::os::fork::Generation;
use crate::engine::ucx::context::Context;
use crate::engine::ucx::runtime;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How far an object has come. Any thread reads it, at any time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pulse {
    /// Changes when the program calls, or makes a pass.
    pub(crate) calls: u64,
    /// Operations that have begun and not ended.
    pub(crate) in_flight: u64,
    /// Changes when an operation ends.
    pub(crate) ended: u64,
}

/// Something that the monitor looks at: a worker, a hub, a group or a window.
///
/// Its owner calls `watch` when it is complete, and `forget` before it begins to end.
pub(crate) trait Watched: Send + Sync {
    /// Describes it in lines. May wait for a thread of the program, as long as `look` allows.
    fn describe(&self, _look: &Look<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Names it. Without waiting.
    fn title(&self) -> String;

    /// How far it has come.
    fn pulse(&self) -> Pulse {
        Pulse::default()
    }

    /// The context that it was made with.
    fn context(&self) -> &Context;

    /// Adds its metrics. Waits for nothing.
    fn measure(&self, report: &mut Report);
}

/// An object, and what was seen of it.
struct Listed {
    object: Weak<dyn Watched>,
    pulse: Pulse,
    /// When the pulse's `calls` changed for the last time.
    called: u64,
    /// When its `ended` changed, or when it last had nothing in flight.
    moved: u64,
    stall: Stall,
}

/// Whether the watchdog has reported that the object stands still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stall {
    No,
    /// To be reported now.
    New,
    /// Reported; with the time since when it stood still.
    Known(u64),
}

/// What was seen of an object.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Since when the program has not called, in nanoseconds.
    pub(crate) silent_ns: u64,
    /// Since when operations are in flight and none has ended.
    pub(crate) still_ns: u64,
}

/// How long an object may wait for a thread of the program.
pub(crate) struct Look<'a> {
    registry: &'a Registry,
    until: u64,
    pub(crate) seen: Seen,
    is_new_stall: bool,
}

impl Look<'_> {
    /// A thread waits for its end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.registry.hurry.load(Ordering::Relaxed) > 0
    }

    /// The watchdog has just found that the object stands still.
    pub(crate) fn is_new_stall(&self) -> bool {
        self.is_new_stall
    }

    /// Time that is left.
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_nanos(self.until.saturating_sub(clock::now_ns()))
    }
}

/// Bytes of metrics of ended objects, after which no more are kept.
const MOST_KEPT: usize = 1 << 20;

struct Running {
    thread: JoinHandle<()>,
    bell: Arc<EventFd>,
}

/// The objects of a process up to its next fork, and the thread that looks at them.
pub(crate) struct Registry {
    generation: Generation,
    objects: Mutex<Vec<Listed>>,
    /// Held for reading while a thread has strong references to objects.
    looking: RwLock<()>,
    /// What objects had counted when they ended, if that is wanted.
    ended: Mutex<Report>,
    /// Threads that wait for `looking`.
    hurry: AtomicU32,
    running: Mutex<Option<Running>>,
    stops: AtomicBool,
    stopped: AtomicBool,
    /// `this_thread()` of the thread.
    number: AtomicUsize,
    /// The process exits.
    over: AtomicBool,
    /// That of a child that was forked from this process.
    child: OnceLock<Box<Registry>>,
}

static FIRST: OnceLock<Registry> = OnceLock::new();

impl Registry {
    fn new() -> Self {
        Registry {
            generation: Generation::current(),
            objects: Mutex::new(Vec::new()),
            looking: RwLock::new(()),
            ended: Mutex::new(Report::default()),
            hurry: AtomicU32::new(0),
            running: Mutex::new(None),
            stops: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            number: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            child: OnceLock::new(),
        }
    }

    /// That of this process. Locks of its parent's may be held by threads that do not exist here.
    fn of_this_process() -> &'static Registry {
        let mut found = FIRST.get_or_init(Registry::new);
        while found.generation.is_past() {
            found = found.child.get_or_init(|| Box::new(Registry::new()));
        }
        found
    }

    /// The same, unless it was never needed.
    fn existing() -> Option<&'static Registry> {
        let mut found = FIRST.get()?;
        while found.generation.is_past() {
            found = found.child.get()?;
        }
        Some(found)
    }
}

pub(crate) use service::are_wanted as is_wanted;

/// Lets the monitor look at a new object. Its thread runs if `is_wanted`.
pub(crate) fn watch(object: Weak<dyn Watched>, pulse: Pulse) {
    let registry = Registry::of_this_process();
    let now = clock::now_ns();
    let listed = Listed { object, pulse, called: now, moved: now, stall: Stall::No };
    registry.objects.lock().push(listed);
    if !is_wanted() {
        return;
    }
    // Logged without a lock.
    for complaint in registry.start() {
        log::at!(WARN, Monitor, &(), "{complaint}");
    }
}

/// Ends that, and waits until the monitor has no reference to the object. The thread ends with the
/// last one. Not for a thread that is inside a worker's gate.
pub(crate) fn forget<T: Watched>(object: &T) {
    let Some(registry) = Registry::existing() else { return };
    let address = std::ptr::from_ref(object).cast::<()>();
    let is_it = |listed: &Listed| std::ptr::addr_eq(listed.object.as_ptr(), address);
    if !registry.objects.lock().iter().any(is_it) {
        return;
    }
    if metrics::are_kept() {
        registry.keep_metrics(object);
    }
    registry.objects.lock().retain(|listed| !is_it(listed) && listed.object.strong_count() > 0);
    registry.hurry.fetch_add(1, Ordering::Relaxed);
    drop(registry.looking.write());
    registry.hurry.fetch_sub(1, Ordering::Relaxed);
    registry.stop_if_idle();
}

impl Registry {
    /// Starts the thread if there is none. Returns what could not be done.
    fn start(&'static self) -> Vec<String> {
        let mut running = self.running.lock();
        if running.is_some() || self.over.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let (services, mut complaints) = service::make();
        if services.is_empty() {
            return complaints;
        }
        match self.spawn(services) {
            Ok(started) => *running = Some(started),
            Err(cause) => complaints.push(format!("no monitor: its thread: {cause}")),
        }
        complaints
    }

    fn spawn(&'static self, services: Vec<Box<dyn Service>>) -> std::io::Result<Running> {
        end_at_exit();
        let bell = Arc::new(EventFd::new()?);
        let heard = bell.clone();
        self.stops.store(false, Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
        let run = move || {
            self.number.store(this_thread(), Ordering::Relaxed);
            service::run(self, services, &heard);
            self.stopped.store(true, Ordering::Release);
        };
        let thread = runtime::with_signals_blocked(|| {
            std::thread::Builder::new().name("ucxx_monitor".into()).spawn(run)
        })?;
        Ok(Running { thread, bell })
    }

    fn stop_if_idle(&self) {
        let mut running = self.running.lock();
        // Whoever adds an object then waits for the lock, and finds no thread.
        if self.objects.lock().iter().any(|listed| listed.object.strong_count() > 0) {
            return;
        }
        if let Some(Running { thread, bell }) = running.take() {
            self.stops.store(true, Ordering::Relaxed);
            bell.ring();
            let _ = thread.join();
        }
    }

    /// The thread is to end.
    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Looks how far all objects have come.
    pub(crate) fn take_pulses(&self, now: u64) {
        for listed in self.objects.lock().iter_mut() {
            let Some(object) = listed.object.upgrade() else { continue };
            listed.note(object.pulse(), now);
        }
    }

    /// Marks what has stood still for so long. Returns whether there is something to report.
    pub(crate) fn note_stalls(&self, now: u64, limit_ns: u64) -> bool {
        let mut any = false;
        for listed in self.objects.lock().iter_mut() {
            if listed.stall == Stall::No && listed.seen(now).still_ns >= limit_ns {
                listed.stall = Stall::New;
                any = true;
            }
        }
        any
    }

    /// A line for the log for each reported object that goes on.
    pub(crate) fn ended_stalls(&self) -> Vec<String> {
        let mut objects = self.objects.lock();
        let gone_on = objects.iter_mut().filter_map(|listed| {
            let Stall::Known(since) = listed.stall else { return None };
            let stood = listed.moved.checked_sub(since).filter(|stood| *stood > 0)?;
            listed.stall = Stall::No;
            let object = listed.object.upgrade()?;
            Some(format!("{} goes on after {} ms", object.title(), stood / 1_000_000))
        });
        gone_on.collect()
    }

    fn keep_metrics(&self, object: &dyn Watched) {
        let mut ended = self.ended.lock();
        if ended.length() < MOST_KEPT {
            object.measure(&mut ended);
        }
    }

    /// The metrics of all objects of which `wanted` is true.
    pub(crate) fn measure(&self, wanted: impl Fn(&dyn Watched) -> bool) -> Report {
        let mut report = Report::default();
        let looking = self.looking.read();
        let objects: Vec<_> =
            self.objects.lock().iter().filter_map(|listed| listed.object.upgrade()).collect();
        objects
            .iter()
            .filter(|object| wanted(&***object))
            .for_each(|object| object.measure(&mut report));
        drop(objects);
        drop(looking);
        report
    }

    /// The metrics of the whole process, with those of objects that have ended.
    pub(crate) fn measure_all(&self) -> Report {
        // First: an object that ends meanwhile is missing once, and not there twice.
        let mut report = Report::default();
        report.merge(&self.ended.lock());
        report.merge(&self.measure(|_| true));
        report
    }

    /// Calls `visit` for each object. All of them together may wait for threads of the program as
    /// long as `patience`.
    pub(crate) fn look(&self, patience: Duration, mut visit: impl FnMut(&dyn Watched, &Look<'_>)) {
        let looking = self.looking.read();
        let now = clock::now_ns();
        let until = now + patience.as_nanos() as u64;
        let objects: Vec<_> = {
            let mut listed = self.objects.lock();
            let found = listed.iter_mut().filter_map(|listed| {
                let object = listed.object.upgrade()?;
                listed.note(object.pulse(), now);
                let is_new = listed.stall == Stall::New;
                if is_new {
                    listed.stall = Stall::Known(listed.moved);
                }
                Some((object, listed.seen(now), is_new))
            });
            found.collect()
        };
        for (object, seen, is_new_stall) in &objects {
            let look = Look { registry: self, until, seen: *seen, is_new_stall: *is_new_stall };
            visit(&**object, &look);
        }
        drop(objects);
        drop(looking);
    }
}

/// The metrics of everything that was made with this context, as OpenMetrics text.
pub fn metrics_of(context: &Context) -> Result<String> {
    context.check_fork()?;
    let of_context = |object: &dyn Watched| std::ptr::eq(object.context(), context);
    Ok(Registry::of_this_process().measure(of_context).text())
}

impl Listed {
    fn note(&mut self, pulse: Pulse, now: u64) {
        if pulse.calls != self.pulse.calls {
            self.called = now;
        }
        if pulse.ended != self.pulse.ended || pulse.in_flight == 0 {
            self.moved = now;
        }
        self.pulse = pulse;
    }

    fn seen(&self, now: u64) -> Seen {
        Seen {
            silent_ns: now.saturating_sub(self.called),
            still_ns: now.saturating_sub(self.moved),
        }
    }
}

/// How long the process's exit waits for the thread. On a busy machine the thread may have to wait
/// for a processor.
const EXIT_PATIENCE_NS: u64 = 2_000_000_000;

/// The thread must not call UCX once UCX's own exit handlers run, and leaves no socket file behind.
#[allow(unsafe_code)]
fn end_at_exit() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: a function that does not unwind. It is registered after UCX was loaded, so it
        // runs before UCX's own exit handlers.
        unsafe { libc::atexit(process_ends) };
    });
}

extern "C" fn process_ends() {
    let Some(registry) = Registry::existing() else { return };
    registry.over.store(true, Ordering::Relaxed);
    // A thread that is just starting or ending it does not return from there.
    let Some(running) = registry.running.try_lock() else { return };
    let Some(Running { bell, .. }) = &*running else { return };
    registry.stops.store(true, Ordering::Relaxed);
    bell.ring();
    let deadline = clock::deadline_after(EXIT_PATIENCE_NS);
    // The thread itself exits from a log callback, or waits in one.
    while registry.number.load(Ordering::Relaxed) != this_thread()
        && !registry.stopped.load(Ordering::Acquire)
        && clock::now_ns() < deadline
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}
