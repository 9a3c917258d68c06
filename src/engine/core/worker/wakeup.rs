//! Sleeping until a worker has something to do.
//!
//! Threads inside the library sleep on an epoll descriptor over UCP's event descriptor and a timer,
//! and on an eventfd by which other threads wake them. Callers get a second epoll descriptor of the
//! same kind.

use crate::engine::base::backoff::Pause;
use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::progress_thread::has_thread;
use crate::engine::core::worker::worker::{attention, SharedWorker, Worker};
use crate::engine::os::event_fd::EventFd;
use crate::engine::os::readable::is_readable;
use crate::engine::ucx::context::feature;
use crate::sys;
use once_cell::sync::OnceCell;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
};
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What threads sleep on.
pub(crate) struct Wakeup {
    /// Over `ucp` and `timer`: for threads inside the library.
    epoll: OwnedFd,
    /// UCP's own. UCP closes it with its worker, which ends later than this.
    ucp: BorrowedFd<'static>,
    /// For deadlines, which UCP does not know.
    timer: OwnedFd,
    /// Wakes a thread that sleeps inside the library, such as a progress thread. Not part of
    /// `epoll`, whose events an `arm` on another thread consumes. Only the sleeping thread, of
    /// which there is one, reads it.
    kick: EventFd,
    /// UCP's descriptor is stuck: only new readiness counts. Changed inside the gate.
    edges: AtomicBool,
    handed_out: OnceCell<HandedOut>,
}

/// The descriptor for the caller's event loop. Kicks do not wake the loop, and `news` does not wake
/// threads inside the library: only the thread that sleeps knows when to reset it.
struct HandedOut {
    /// Over `ucp`, `timer` and `news`.
    epoll: OwnedFd,
    /// Something was completed that the event loop would not notice by itself.
    news: EventFd,
}

impl Wakeup {
    fn new(ucp: BorrowedFd<'static>, peers: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let wakeup = Wakeup {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            ucp,
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            kick: EventFd::new()?,
            edges: AtomicBool::new(false),
            handed_out: OnceCell::new(),
        };
        wakeup.fill(&wakeup.epoll, peers)?;
        Ok(wakeup)
    }

    fn fill(&self, set: &OwnedFd, peers: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
        epoll::add(set, self.ucp, data(self.ucp), self.ucp_events())?;
        add(set, self.timer.as_fd())?;
        peers.map_or(Ok(()), |peers| add(set, peers))
    }

    fn ucp_events(&self) -> EventFlags {
        let is_edge = self.edges.load(Ordering::Relaxed);
        EventFlags::IN | if is_edge { EventFlags::ET } else { EventFlags::empty() }
    }

    /// Whether only new readiness wakes from now on. What is ready at the change wakes once more.
    fn set_edges(&self, edges: bool) {
        if self.edges.swap(edges, Ordering::Relaxed) != edges {
            let handed_out = self.handed_out.get().map(|handed_out| &handed_out.epoll);
            for set in [Some(&self.epoll), handed_out].into_iter().flatten() {
                let _ = epoll::modify(set, self.ucp, data(self.ucp), self.ucp_events());
            }
        }
    }

    /// Consumes new readiness, which a pass must then handle. False if there is none.
    fn take_edges(&self, set: &OwnedFd) -> bool {
        if !self.edges.load(Ordering::Relaxed) {
            return false;
        }
        let mut events = [MaybeUninit::uninit(); 4];
        let ready = epoll::wait(set, &mut events, Some(&NO_TIME));
        let is_ucp = |event: &Event| event.data.u64() == data(self.ucp).u64();
        ready.is_ok_and(|(ready, _)| ready.iter().any(is_ucp))
    }

    /// The same for the event loop's descriptor.
    fn take_edges_of_loop(&self) -> bool {
        self.handed_out.get().is_some_and(|handed_out| self.take_edges(&handed_out.epoll))
    }

    /// The descriptor for the caller, created on first use.
    fn hand_out(&self, peers: Option<BorrowedFd<'_>>) -> io::Result<RawFd> {
        let made = self.handed_out.get_or_try_init(|| {
            let made =
                HandedOut { epoll: epoll::create(CreateFlags::CLOEXEC)?, news: EventFd::new()? };
            self.fill(&made.epoll, peers)?;
            add(&made.epoll, made.news.as_fd())?;
            io::Result::Ok(made)
        })?;
        Ok(made.epoll.as_raw_fd())
    }

    /// Adds a descriptor to be watched.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) {
        let handed_out = self.handed_out.get().map(|handed_out| &handed_out.epoll);
        for set in [Some(&self.epoll), handed_out].into_iter().flatten() {
            let _ = add(set, fd);
        }
    }

    /// Makes the caller's descriptor readable, until the event loop arms it again.
    pub(crate) fn tell(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            handed_out.news.ring();
        }
    }

    /// The opposite of `tell`.
    fn take_back(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            handed_out.news.silence();
        }
    }

    /// Makes the descriptor readable at `deadline`, and not before. None: the timer is off.
    fn set_timer(&self, deadline: Option<u64>) {
        let deadline = deadline.filter(|deadline| *deadline != u64::MAX);
        let left = deadline.and_then(clock::remaining).unwrap_or_default();
        // Zero would disarm it; a deadline that has just passed must fire at once.
        let left = if deadline.is_some() { left.max(Duration::from_nanos(1)) } else { left };
        let setting = Itimerspec { it_interval: NO_TIME, it_value: clock::timespec(left) };
        // Setting it also clears an expiry that was not read.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
    }

    /// Sleeps until the descriptor is readable, a thread kicks, or a signal handler has run on this
    /// thread. False if the time ran out first.
    pub(crate) fn sleep(&self, longest: Option<Duration>) -> bool {
        let longest = longest.map(clock::timespec);
        let mut fds = [&self.epoll as &dyn AsFd, &self.kick]
            .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let woken = poll(&mut fds, longest.as_ref()) != Ok(0);
        if !fds[0].revents().is_empty() {
            self.take_edges(&self.epoll);
        }
        if !fds[1].revents().is_empty() {
            self.kick.silence();
        }
        woken
    }

    /// For a thread that may not sleep. A kick ends it.
    pub(crate) fn pause(&self, pause: Pause) {
        let longest = match pause {
            Pause::Nothing => return,
            Pause::Yield => return std::thread::yield_now(),
            Pause::Nap(longest) => clock::timespec(longest),
        };
        let mut fd = [PollFd::new(&self.kick, PollFlags::IN)];
        if poll(&mut fd, Some(&longest)).is_ok_and(|ready| ready > 0) {
            self.kick.silence();
        }
    }

    /// Wakes the thread that sleeps, or the next one that would.
    pub(crate) fn kick(&self) {
        self.kick.ring();
    }
}

fn no_descriptor(cause: io::Error) -> Error {
    Error::new(Status::IO_ERROR, format!("worker: no descriptor to wait on: {cause}"))
}

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The number that identifies a descriptor in an epoll set.
fn data(fd: BorrowedFd<'_>) -> EventData {
    EventData::new_u64(fd.as_raw_fd() as u64)
}

/// Makes `set` readable when `fd` is.
fn add(set: &OwnedFd, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    epoll::add(set, fd, data(fd), EventFlags::IN)
}

/// UCX polls only interfaces that have endpoints. When the last endpoint is released, the kernel
/// must report what arrives there. UCX requests that in a later pass, retries in the next one if it
/// fails, and no call tells whether it has succeeded. So a sleeping thread checks for a while, each
/// time after twice the time since the release.
#[derive(Default)]
pub(crate) struct Resting {
    /// When UCX released an endpoint; 0 for long ago.
    since: Cell<u64>,
}

impl Resting {
    const FIRST_LOOK_NS: u64 = 250_000;
    const LOOKS_NS: u64 = 1_000_000_000;

    /// An interface may have no endpoints any more.
    pub(crate) fn begin(&self) {
        self.since.set(clock::now_ns());
    }

    /// When a sleeping thread must check.
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

/// The result of `arm`.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Armed {
    /// The descriptor will become readable with the next event.
    Ready,
    /// There is something to progress first.
    Busy,
}

impl Worker {
    /// The descriptors, created on first use.
    pub(crate) fn wakeup(&self) -> Result<&Wakeup> {
        self.need(feature::WAKEUP)?;
        self.wakeup.get_or_try_init(|| self.make_wakeup())
    }

    fn make_wakeup(&self) -> Result<Wakeup> {
        let mut fd = -1;
        // SAFETY: a live worker and a valid out-pointer.
        let status = unsafe { sys::ucp_worker_get_efd(self.ucp(), &mut fd) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "worker: UCX could not create its event descriptor",
            ));
        }
        // SAFETY: UCP's own, valid as long as its worker, and not used after that.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let peers = self.peers.descriptor();
        Wakeup::new(fd, peers.as_deref().map(AsFd::as_fd)).map_err(no_descriptor)
    }
}

impl SharedWorker {
    /// The descriptor for the caller's own event loop. It stays the library's.
    pub fn event_fd(&self) -> Result<RawFd> {
        let inside = self.enter()?;
        let peers = inside.peers.descriptor();
        inside.wakeup()?.hand_out(peers.as_deref().map(AsFd::as_fd)).map_err(no_descriptor)
    }

    /// Makes the descriptor readable at the next event.
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
        // The event loop decides what it does in between: this call does not sleep.
        if pause != Pause::Nothing {
            std::thread::yield_now();
        }
        Ok(Armed::Busy)
    }
}

impl Worker {
    pub(crate) fn arm_inside(&self) -> Result<Armed> {
        let wakeup = self.wakeup()?;
        self.drain_foreign();
        self.wake_hint.about_to_sleep();
        self.answer_inquiry();
        if self.advance_before_sleep(clock::now_ns()) {
            return Ok(Armed::Busy);
        }
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
                let look = self.stuck.next_look(|| is_readable(&wakeup.ucp));
                wakeup.set_edges(self.stuck.is_it());
                wakeup.set_timer([deadline, look].into_iter().flatten().min());
                self.armed.set(true);
                Ok(Armed::Ready)
            }
            sys::UCS_ERR_BUSY => {
                // UCP has consumed events, and another thread may sleep for them.
                self.tell_event_loop();
                Ok(Armed::Busy)
            }
            status => {
                Err(Error::new(Status(status.into()), "worker: UCX could not arm its events"))
            }
        }
    }
}

impl SharedWorker {
    /// Makes the descriptor readable and wakes a thread that sleeps on this worker. Any thread.
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
        // SAFETY: a write to an eventfd, which UCP allows from any thread in any thread mode.
        match unsafe { sys::ucp_worker_signal(self.ucp_to_signal()) } {
            sys::UCS_OK => Ok(()),
            status => Err(Error::new(Status(status.into()), "worker: UCX could not signal it")),
        }
    }
}
