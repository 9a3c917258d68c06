//! Sleeping until a worker has something to do: an epoll descriptor over UCP's event descriptor, a
//! timer, and one by which others wake a thread that sleeps inside the library. A second one like
//! it is handed out to callers.

use crate::engine::base::backoff::Pause;
use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::progress_thread::has_thread;
use crate::engine::core::worker::worker::{attention, Worker};
use crate::engine::ucx::context::feature;
use crate::sys;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// What threads sleep on.
pub(crate) struct Wakeup {
    /// Over `ucp` and `timer`: for threads inside the library.
    epoll: libc::c_int,
    /// UCP's, which closes it.
    ucp: libc::c_int,
    /// For deadlines: UCP knows nothing of them.
    timer: libc::c_int,
    /// For a thread that sleeps inside the library, a progress thread among them. Not behind
    /// `epoll`, whose events an `arm` on another thread takes in; only the sleeper, of which there
    /// is one, reads it.
    kick: libc::c_int,
    /// UCP's descriptor is stuck: only what becomes ready anew counts. Changed inside the gate.
    edges: AtomicBool,
    handed_out: OnceLock<HandedOut>,
}

/// What is handed out to the caller's event loop. It is not woken by kicks, and threads inside the
/// library are not woken by what it is told: only the one that sleeps knows when to take that back.
struct HandedOut {
    /// Over `ucp`, `timer` and `news`.
    epoll: libc::c_int,
    /// Something has completed that the event loop would not notice by itself.
    news: libc::c_int,
}

impl Wakeup {
    fn new(ucp: libc::c_int, peers: Option<libc::c_int>) -> Result<Self> {
        // SAFETY: plain system calls, checked below; `Drop` closes what was opened.
        let wakeup = unsafe {
            Wakeup {
                epoll: libc::epoll_create1(libc::EPOLL_CLOEXEC),
                ucp,
                timer: libc::timerfd_create(
                    libc::CLOCK_MONOTONIC,
                    libc::TFD_CLOEXEC | libc::TFD_NONBLOCK,
                ),
                kick: libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
                edges: AtomicBool::new(false),
                handed_out: OnceLock::new(),
            }
        };
        let opened = wakeup.epoll >= 0 && wakeup.timer >= 0 && wakeup.kick >= 0;
        if !opened || !wakeup.fill(wakeup.epoll, peers) {
            return Err(no_descriptor());
        }
        Ok(wakeup)
    }

    fn fill(&self, epoll: libc::c_int, peers: Option<libc::c_int>) -> bool {
        self.watch_ucp(epoll, libc::EPOLL_CTL_ADD)
            && add(epoll, self.timer)
            && peers.is_none_or(|peers| add(epoll, peers))
    }

    fn watch_ucp(&self, epoll: libc::c_int, how: libc::c_int) -> bool {
        let edges = if self.edges.load(Ordering::Relaxed) { libc::EPOLLET } else { 0 };
        control(epoll, how, self.ucp, libc::EPOLLIN | edges)
    }

    fn has_ucp_ready(&self) -> bool {
        let mut fd = libc::pollfd { fd: self.ucp, events: libc::POLLIN, revents: 0 };
        // SAFETY: a live descriptor.
        unsafe { libc::poll(&raw mut fd, 1, 0) > 0 }
    }

    /// Whether only what becomes ready anew is to wake from now on. What is ready when that changes
    /// wakes once more.
    fn set_edges(&self, edges: bool) {
        if self.edges.swap(edges, Ordering::Relaxed) != edges {
            self.watch_ucp(self.epoll, libc::EPOLL_CTL_MOD);
            if let Some(handed_out) = self.handed_out.get() {
                self.watch_ucp(handed_out.epoll, libc::EPOLL_CTL_MOD);
            }
        }
    }

    /// Takes in what has become ready anew, after which a pass has to look at it. False if there is
    /// nothing.
    fn take_edges(&self, epoll: libc::c_int) -> bool {
        if !self.edges.load(Ordering::Relaxed) {
            return false;
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: a live descriptor, and room for as many events.
        let count =
            unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as libc::c_int, 0) };
        events.iter().take(count.max(0) as usize).any(|event| event.u64 == self.ucp as u64)
    }

    /// The same of what the event loop sleeps on.
    fn take_edges_of_loop(&self) -> bool {
        self.handed_out.get().is_some_and(|handed_out| self.take_edges(handed_out.epoll))
    }

    /// The descriptor for the caller, made on first use.
    fn hand_out(&self, peers: Option<libc::c_int>) -> Result<libc::c_int> {
        if let Some(handed_out) = self.handed_out.get() {
            return Ok(handed_out.epoll);
        }
        // SAFETY: plain system calls, checked below; `Drop` closes what was opened.
        let made = unsafe {
            HandedOut {
                epoll: libc::epoll_create1(libc::EPOLL_CLOEXEC),
                news: libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
            }
        };
        let opened = made.epoll >= 0 && made.news >= 0;
        if !opened || !self.fill(made.epoll, peers) || !add(made.epoll, made.news) {
            return Err(no_descriptor());
        }
        Ok(self.handed_out.get_or_init(|| made).epoll)
    }

    /// A descriptor that has come to be watched.
    pub(crate) fn add(&self, fd: libc::c_int) {
        add(self.epoll, fd);
        if let Some(handed_out) = self.handed_out.get() {
            add(handed_out.epoll, fd);
        }
    }

    /// Makes the descriptor that was handed out readable, until the event loop arms it again.
    pub(crate) fn tell(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            write(handed_out.news);
        }
    }

    /// And takes that back.
    fn take_back(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            read(handed_out.news);
        }
    }

    /// Makes the descriptor readable at `deadline`, and not before; none: not by the timer at all.
    fn set_timer(&self, deadline: Option<u64>) {
        let deadline = deadline.filter(|deadline| *deadline != u64::MAX);
        let left = deadline.and_then(clock::remaining).unwrap_or_default();
        // Zero would disarm it; a deadline that has just passed is to ring at once.
        let left = if deadline.is_some() { left.max(Duration::from_nanos(1)) } else { left };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: left.as_secs() as libc::time_t,
            tv_nsec: left.subsec_nanos().into(),
        };
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: a live timer and a valid setting. Setting it also clears an expiry that nobody
        // has read.
        unsafe { libc::timerfd_settime(self.timer, 0, &setting, std::ptr::null_mut()) };
    }

    /// Sleeps until the descriptor is readable, somebody kicks, or a signal handler has run on this
    /// thread; false when the time ran out first.
    pub(crate) fn sleep(&self, longest: Option<Duration>) -> bool {
        // Rounded up to whole milliseconds: waking before a deadline would spin through what is
        // left of it.
        let timeout = longest.map_or(-1, |longest| {
            libc::c_int::try_from(longest.as_nanos().div_ceil(1_000_000))
                .unwrap_or(libc::c_int::MAX)
        });
        let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [watch(self.epoll), watch(self.kick)];
        // SAFETY: two live descriptors, and their number.
        let woken = unsafe { libc::poll(fds.as_mut_ptr(), 2, timeout) } != 0;
        if fds[0].revents != 0 {
            self.take_edges(self.epoll);
        }
        if fds[1].revents != 0 {
            read(self.kick);
        }
        woken
    }

    /// For a thread that may not sleep. A kick ends it.
    pub(crate) fn pause(&self, pause: Pause) {
        let longest = match pause {
            Pause::Nothing => return,
            Pause::Yield => return std::thread::yield_now(),
            Pause::Nap(longest) => longest,
        };
        let mut fd = libc::pollfd { fd: self.kick, events: libc::POLLIN, revents: 0 };
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        // SAFETY: a live descriptor, and a timeout that outlives the call.
        if unsafe { libc::ppoll(&raw mut fd, 1, &raw const timeout, std::ptr::null()) } > 0 {
            read(self.kick);
        }
    }

    /// Wakes the thread that sleeps, or the next one that would.
    pub(crate) fn kick(&self) {
        write(self.kick);
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        close(&[self.epoll, self.timer, self.kick]);
    }
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        close(&[self.epoll, self.news]);
    }
}

fn no_descriptor() -> Error {
    let cause = std::io::Error::last_os_error();
    Error::new(Status::IO_ERROR, format!("worker: no descriptor to wait on: {cause}"))
}

/// Has the one become readable with the other.
fn add(epoll: libc::c_int, fd: libc::c_int) -> bool {
    control(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN)
}

fn control(epoll: libc::c_int, how: libc::c_int, fd: libc::c_int, events: libc::c_int) -> bool {
    let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
    // SAFETY: two descriptors and a valid event.
    unsafe { libc::epoll_ctl(epoll, how, fd, &mut event) == 0 }
}

/// Makes an eventfd readable. A full counter, the one way to fail, is readable.
fn write(eventfd: libc::c_int) {
    let one = 1u64;
    // SAFETY: eight bytes.
    unsafe { libc::write(eventfd, (&raw const one).cast(), 8) };
}

/// And takes that back.
fn read(eventfd: libc::c_int) {
    let mut count = 0u64;
    // SAFETY: room for the counter; it does not block.
    unsafe { libc::read(eventfd, (&raw mut count).cast(), 8) };
}

/// Closes those that have been opened.
fn close(opened: &[libc::c_int]) {
    for fd in opened.iter().filter(|fd| **fd >= 0) {
        // SAFETY: the caller's own, closed once.
        unsafe { libc::close(*fd) };
    }
}

/// UCX polls only interfaces that have endpoints. When the last one goes, the kernel is to tell of
/// what comes there: UCX asks for that in a later pass, again in the next one where it cannot be
/// had yet, and no call tells whether it has been. So a sleeper looks again for a while, each time
/// twice as far from that moment as before.
#[derive(Default)]
pub(crate) struct Resting {
    /// UCX has let go of an endpoint then; 0 for long ago.
    since: Cell<u64>,
}

impl Resting {
    const FIRST_LOOK_NS: u64 = 250_000;
    const LOOKS_NS: u64 = 1_000_000_000;

    /// An interface may have no endpoints any more.
    pub(crate) fn begin(&self) {
        self.since.set(clock::now_ns());
    }

    /// When a sleeper is to look.
    fn next_look(&self) -> Option<u64> {
        let since = self.since.get();
        if since == 0 {
            return None;
        }
        let now = clock::now_ns();
        let gone = now.saturating_sub(since);
        if gone < Self::LOOKS_NS {
            return Some(now + gone.max(Self::FIRST_LOOK_NS));
        }
        self.since.set(0);
        None
    }
}

/// What `arm` found.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Armed {
    /// The descriptor will become readable with the next event.
    Ready,
    /// There is something to progress first.
    Busy,
}

impl Worker {
    /// The descriptor, made on first use. Inside the gate.
    pub(crate) fn wakeup(&self) -> Result<&Wakeup> {
        self.need(feature::WAKEUP)?;
        if let Some(wakeup) = self.wakeup.get() {
            return Ok(wakeup);
        }
        let mut fd = -1;
        // SAFETY: a live worker and a valid out-pointer.
        let status = unsafe { sys::ucp_worker_get_efd(self.ucp(), &mut fd) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "worker: UCX has no event descriptor for it",
            ));
        }
        let wakeup = Wakeup::new(fd, self.peers.descriptor())?;
        Ok(self.wakeup.get_or_init(|| wakeup))
    }

    /// The descriptor for the caller's own event loop. It stays the library's.
    pub fn event_fd(&self) -> Result<libc::c_int> {
        let inside = self.enter()?;
        inside.wakeup()?.hand_out(inside.peers.descriptor())
    }

    /// Asks that the descriptor become readable with the next event.
    pub fn arm(&self) -> Result<Armed> {
        if self.thread.is_running() {
            return Err(has_thread());
        }
        let inside = self.enter()?;
        let wakeup = inside.wakeup()?;
        if inside.event_loop.is_behind() {
            wakeup.take_back();
            return Ok(Armed::Busy);
        }
        if wakeup.take_edges_of_loop() {
            return Ok(Armed::Busy);
        }
        let armed = inside.arm_inside()?;
        if armed == Armed::Ready {
            inside.event_loop.fall_asleep();
            return Ok(Armed::Ready);
        }
        let pause = inside.back_off.pause();
        drop(inside);
        // What the loop does in between is its own affair: it does not sleep here.
        if pause != Pause::Nothing {
            std::thread::yield_now();
        }
        Ok(Armed::Busy)
    }

    pub(crate) fn arm_inside(&self) -> Result<Armed> {
        let wakeup = self.wakeup()?;
        self.drain_foreign();
        self.nudge.about_to_sleep();
        let due = attention::READY | attention::EVENTS | attention::WINDOWS | attention::INBOX;
        if self.attention.get() & due != 0 || self.can_advance() || self.is_protocol_due() {
            return Ok(Armed::Busy);
        }
        if self.peers.is_watching() && self.look_at_peers(clock::now_ns()) {
            return Ok(Armed::Busy);
        }
        if self.liveness.is_used() && self.look_for_silence(clock::now_ns()) {
            return Ok(Armed::Busy);
        }
        let deadline = [
            self.timers.borrow().next(),
            self.next_change(),
            self.liveness.awaited(),
            self.next_look_of_protocols(),
            self.resting.next_look(),
        ];
        let deadline = deadline.into_iter().flatten().min();
        if deadline.is_some_and(|deadline| deadline <= clock::now_ns()) {
            return Ok(Armed::Busy);
        }
        if self.close_fast_boxes() {
            return Ok(Armed::Busy);
        }
        // SAFETY: a live worker inside its gate.
        match unsafe { sys::ucp_worker_arm(self.ucp()) } {
            sys::UCS_OK => {
                self.back_off.end();
                let look = self.stuck.next_look(|| wakeup.has_ucp_ready());
                wakeup.set_edges(self.stuck.is_it());
                wakeup.set_timer([deadline, look].into_iter().flatten().min());
                self.armed.set(true);
                Ok(Armed::Ready)
            }
            sys::UCS_ERR_BUSY => {
                // Which it has taken in, and there may be another thread that sleeps for them.
                self.tell_event_loop();
                Ok(Armed::Busy)
            }
            status => {
                Err(Error::new(Status(status.into()), "worker: UCX could not arm its events"))
            }
        }
    }

    /// Makes the descriptor readable and wakes whoever sleeps on this worker. Any thread.
    pub fn signal(&self) -> Result<()> {
        self.check_usable()?;
        self.need(feature::WAKEUP)?;
        self.kick();
        self.signal_ucp()
    }

    /// Wakes a thread that sleeps inside the library, if there is one.
    pub(crate) fn kick(&self) {
        if let Some(wakeup) = self.wakeup.get() {
            wakeup.kick();
        }
    }

    pub(crate) fn signal_ucp(&self) -> Result<()> {
        // SAFETY: a write to an eventfd, allowed from any thread in any thread mode.
        match unsafe { sys::ucp_worker_signal(self.ucp()) } {
            sys::UCS_OK => Ok(()),
            status => Err(Error::new(Status(status.into()), "worker: UCX could not signal it")),
        }
    }
}
