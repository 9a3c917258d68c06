//! Sleeping until a worker has something to do: an epoll descriptor over UCP's event descriptor, a
//! timer, and one by which others wake a thread that sleeps inside the library. A second one like
//! it is handed out to callers.

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
    /// UCP's, which closes it with its worker. That ends later than this.
    ucp: BorrowedFd<'static>,
    /// For deadlines: UCP knows nothing of them.
    timer: OwnedFd,
    /// For a thread that sleeps inside the library, a progress thread among them. Not behind
    /// `epoll`, whose events an `arm` on another thread takes in; only the sleeper, of which there
    /// is one, reads it.
    kick: EventFd,
    /// UCP's descriptor is stuck: only what becomes ready anew counts. Changed inside the gate.
    edges: AtomicBool,
    handed_out: OnceCell<HandedOut>,
}

/// What is handed out to the caller's event loop. It is not woken by kicks, and threads inside the
/// library are not woken by what it is told: only the one that sleeps knows when to take that back.
struct HandedOut {
    /// Over `ucp`, `timer` and `news`.
    epoll: OwnedFd,
    /// Something has completed that the event loop would not notice by itself.
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

    /// Whether only what becomes ready anew is to wake from now on. What is ready when that changes
    /// wakes once more.
    fn set_edges(&self, edges: bool) {
        if self.edges.swap(edges, Ordering::Relaxed) != edges {
            let handed_out = self.handed_out.get().map(|handed_out| &handed_out.epoll);
            for set in [Some(&self.epoll), handed_out].into_iter().flatten() {
                let _ = epoll::modify(set, self.ucp, data(self.ucp), self.ucp_events());
            }
        }
    }

    /// Takes in what has become ready anew, after which a pass has to look at it. False if there is
    /// nothing.
    fn take_edges(&self, set: &OwnedFd) -> bool {
        if !self.edges.load(Ordering::Relaxed) {
            return false;
        }
        let mut events = [MaybeUninit::uninit(); 4];
        let ready = epoll::wait(set, &mut events, Some(&NO_TIME));
        let is_ucp = |event: &Event| event.data.u64() == data(self.ucp).u64();
        ready.is_ok_and(|(ready, _)| ready.iter().any(is_ucp))
    }

    /// The same of what the event loop sleeps on.
    fn take_edges_of_loop(&self) -> bool {
        self.handed_out.get().is_some_and(|handed_out| self.take_edges(&handed_out.epoll))
    }

    /// The descriptor for the caller, made on first use.
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

    /// A descriptor that has come to be watched.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) {
        let handed_out = self.handed_out.get().map(|handed_out| &handed_out.epoll);
        for set in [Some(&self.epoll), handed_out].into_iter().flatten() {
            let _ = add(set, fd);
        }
    }

    /// Makes the descriptor that was handed out readable, until the event loop arms it again.
    pub(crate) fn tell(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            handed_out.news.ring();
        }
    }

    /// And takes that back.
    fn take_back(&self) {
        if let Some(handed_out) = self.handed_out.get() {
            handed_out.news.silence();
        }
    }

    /// Makes the descriptor readable at `deadline`, and not before; none: not by the timer at all.
    fn set_timer(&self, deadline: Option<u64>) {
        let deadline = deadline.filter(|deadline| *deadline != u64::MAX);
        let left = deadline.and_then(clock::remaining).unwrap_or_default();
        // Zero would disarm it; a deadline that has just passed is to ring at once.
        let left = if deadline.is_some() { left.max(Duration::from_nanos(1)) } else { left };
        let setting = Itimerspec { it_interval: NO_TIME, it_value: clock::timespec(left) };
        // Setting it also clears an expiry that nobody has read.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
    }

    /// Sleeps until the descriptor is readable, somebody kicks, or a signal handler has run on this
    /// thread; false when the time ran out first.
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

/// By which a set tells of a descriptor.
fn data(fd: BorrowedFd<'_>) -> EventData {
    EventData::new_u64(fd.as_raw_fd() as u64)
}

/// Has the one become readable with the other.
fn add(set: &OwnedFd, fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    epoll::add(set, fd, data(fd), EventFlags::IN)
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
    /// The descriptor, made on first use.
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
                "worker: UCX has no event descriptor for it",
            ));
        }
        // SAFETY: UCP's own, as long as its worker is there, and nobody uses this after that.
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
}

impl Worker {
    pub(crate) fn arm_inside(&self) -> Result<Armed> {
        let wakeup = self.wakeup()?;
        self.drain_foreign();
        self.wake_hint.about_to_sleep();
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
                // Which it has taken in, and there may be another thread that sleeps for them.
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
        match unsafe { sys::ucp_worker_signal(self.ucp_to_signal()) } {
            sys::UCS_OK => Ok(()),
            status => Err(Error::new(Status(status.into()), "worker: UCX could not signal it")),
        }
    }
}
