//! Detects that a process on this host has ended, for any transport and any state of UCX.
//!
//! UCX finds a dead shared-memory peer by its keepalive. It was seen to miss a peer that was killed
//! during a large send, and one that was not reaped. Here each process that a worker's endpoints
//! lead to is watched through one pidfd, which the kernel makes readable when the process has
//! ended. The pidfds are in an epoll set behind the worker's own descriptor, so a sleeping thread
//! wakes at once. A busy worker checks ten times a second, by the clock that it reads anyway. If
//! the kernel, the namespaces or a limit do not allow pidfds, UCX's keepalive remains.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::worker::{attention, Worker};
use crate::engine::os::process_identity::{self, Identity};
use crate::engine::os::readable::is_readable;
use crate::sys;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use std::cell::{Cell, Ref, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Interval between two checks while the worker is busy.
const INTERVAL_NS: u64 = 100_000_000;
/// How long to read what an ended process has sent: others may keep sending. It is time on a
/// processor, so a thread that gets none loses no message.
const READING_NS: u64 = 20_000_000;
/// Descriptors handled by one check; the next one finds the others.
const MOST_AT_ONCE: usize = 32;

/// A watched process, with its descriptor.
struct Watched {
    pid: u32,
    start_time: u64,
    descriptor: OwnedFd,
    /// Number of endpoints that lead to it.
    endpoints: u32,
}

/// The processes that a worker's endpoints lead to.
pub(crate) struct PeerWatch {
    epoll: RefCell<Option<OwnedFd>>,
    processes: RefCell<Vec<Watched>>,
    /// When to check next; `u64::MAX` while nothing is watched.
    next_look: Cell<u64>,
}

impl Default for PeerWatch {
    fn default() -> Self {
        PeerWatch {
            epoll: RefCell::default(),
            processes: RefCell::default(),
            next_look: Cell::new(u64::MAX),
        }
    }
}

/// What is known of a process that is to be watched.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Alive,
    /// It has ended, or a later process has its number.
    Gone,
    /// It cannot be watched.
    Unknown,
}

impl PeerWatch {
    /// For an event loop, once something is watched.
    pub(crate) fn descriptor(&self) -> Option<Ref<'_, OwnedFd>> {
        Ref::filter_map(self.epoll.borrow(), Option::as_ref).ok()
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.next_look.get() != u64::MAX
    }

    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.next_look.get()
    }

    fn add(&self, process: &Identity) -> Found {
        let known = |watched: &&mut Watched| {
            watched.pid == process.pid && watched.start_time == process.start_time
        };
        if let Some(watched) = self.processes.borrow_mut().iter_mut().find(known) {
            watched.endpoints += 1;
            return Found::Alive;
        }
        let (found, descriptor) = open(process);
        let Some(descriptor) = descriptor else { return found };
        let mut epoll = self.epoll.borrow_mut();
        if epoll.is_none() {
            *epoll = epoll::create(CreateFlags::CLOEXEC).ok();
        }
        let Some(set) = epoll.as_ref() else { return Found::Unknown };
        let data = EventData::new_u64(process.pid.into());
        if epoll::add(set, &descriptor, data, EventFlags::IN).is_err() {
            return Found::Unknown;
        }
        let watched =
            Watched { pid: process.pid, start_time: process.start_time, descriptor, endpoints: 1 };
        self.processes.borrow_mut().push(watched);
        self.next_look.set(0);
        found
    }

    fn remove(&self, process: &Identity) {
        let mut processes = self.processes.borrow_mut();
        let known = |watched: &Watched| {
            watched.pid == process.pid && watched.start_time == process.start_time
        };
        let Some(index) = processes.iter().position(known) else { return };
        processes[index].endpoints -= 1;
        if processes[index].endpoints == 0 {
            // Closing it removes it from the set: no other process has a copy except a forked
            // child, which does not matter.
            let gone = processes.swap_remove(index);
            self.forget(&gone.descriptor);
        }
        if processes.is_empty() {
            self.next_look.set(u64::MAX);
        }
    }

    /// Releases all descriptors.
    pub(crate) fn clear(&self) {
        self.next_look.set(u64::MAX);
        self.processes.borrow_mut().clear();
        self.epoll.replace(None);
    }

    fn forget(&self, descriptor: &OwnedFd) {
        if let Some(set) = self.descriptor() {
            let _ = epoll::delete(&*set, descriptor);
        }
    }

    /// The processes that have ended. They are not reported again.
    fn ended(&self, now: u64) -> Vec<(u32, u64)> {
        self.next_look.set(now.saturating_add(INTERVAL_NS));
        let Some(set) = self.descriptor() else { return Vec::new() };
        let mut events = [MaybeUninit::uninit(); MOST_AT_ONCE];
        let Ok((events, _)) = epoll::wait(&*set, &mut events, Some(&Timespec::default())) else {
            return Vec::new();
        };
        let processes = self.processes.borrow();
        let mut ended = Vec::new();
        for event in events {
            let pid = event.data.u64() as u32;
            // At most one of several with the same number is alive: the descriptors of the others
            // are readable as well.
            for watched in processes
                .iter()
                .filter(|watched| watched.pid == pid && is_readable(&watched.descriptor))
            {
                self.forget(&watched.descriptor);
                ended.push((watched.pid, watched.start_time));
            }
        }
        ended
    }
}

/// Opens a descriptor that becomes readable when the process has ended.
pub(crate) fn open(process: &Identity) -> (Found, Option<OwnedFd>) {
    let Some(pid) = Pid::from_raw(process.pid as i32) else { return (Found::Unknown, None) };
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::SRCH) => return (Found::Gone, None),
        Err(_) => return (Found::Unknown, None),
    };
    // Opened first, then compared: from here on the number belongs to this process.
    match process_identity::start_time_of(process.pid) {
        Some(start_time) if start_time == process.start_time => (Found::Alive, Some(descriptor)),
        Some(_) => (Found::Gone, None),
        None if is_readable(&descriptor) => (Found::Gone, None),
        None => (Found::Unknown, None),
    }
}

impl Endpoint {
    /// Watches the peer's process if it is another process of this host. Without error handling,
    /// this is done only for ends that the user does not know of and so cannot destroy.
    pub(super) fn watch_process(&self) -> Result<()> {
        let here = &self.worker.identity;
        let wanted = self.peer_failure || self.peering.unclaimed.get();
        let Some(origin) = self.origin().filter(|_| wanted && !self.watched.get()) else {
            return Ok(());
        };
        if !origin.identity.shares_host_with(here) || origin.identity.same_process(here) {
            return Ok(());
        }
        match self.worker.watch_process(&origin.identity) {
            Found::Alive => self.watched.set(true),
            Found::Gone => {
                let text =
                    format!("address: no endpoint to {}: its process has ended", self.peer_text());
                return Err(Error::new(Status::UNREACHABLE, text));
            }
            // UCX's keepalive remains.
            Found::Unknown => {}
        }
        Ok(())
    }

    pub(crate) fn unwatch_process(&self) {
        if let (true, Some(origin)) = (self.watched.replace(false), self.origin()) {
            self.worker.unwatch_process(&origin.identity);
        }
    }

    /// The peer's process, if it is watched.
    pub(crate) fn watched_process(&self) -> Option<&Identity> {
        self.origin().filter(|_| self.watched.get()).map(|origin| &origin.identity)
    }
}

impl Worker {
    /// Watches the process for one more endpoint.
    pub(crate) fn watch_process(&self, process: &Identity) -> Found {
        let had_none = self.peers.descriptor().is_none();
        let found = self.peers.add(process);
        if let (true, Some(set), Some(wakeup)) =
            (had_none, self.peers.descriptor(), self.wakeup.get())
        {
            wakeup.add(set.as_fd());
        }
        found
    }

    /// An endpoint that led there has ended.
    pub(crate) fn unwatch_process(&self, process: &Identity) {
        self.peers.remove(process);
    }

    /// Reads what a process sent before it ended: it has arrived, possibly behind messages of
    /// others.
    fn read_what_is_left(&self) {
        let end = clock::worked_ns() + READING_NS;
        // SAFETY: a live worker, inside its gate.
        while unsafe { sys::ucp_worker_progress(self.ucp()) } != 0 && clock::worked_ns() < end {}
    }

    /// Fails the endpoints whose processes have ended. True if there were any.
    pub(crate) fn look_at_peers(&self, now: u64) -> bool {
        self.attention.set(self.attention.get() & !attention::PEERS);
        let ended = self.peers.ended(now);
        if ended.is_empty() {
            return false;
        }
        self.read_what_is_left();
        let endpoints = self.endpoints.borrow();
        let lost = |endpoint: &&Inward<SharedEndpoint>| {
            endpoint
                .watched_process()
                .is_some_and(|process| ended.contains(&(process.pid, process.start_time)))
        };
        for endpoint in endpoints.iter().flatten().filter(lost) {
            endpoint.process_ended(now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{poll, PollFd, PollFlags};

    #[test]
    fn a_process_that_ends_is_reported_once() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut process = Identity::of_this_process(1);
        process.pid = child.id();
        process.start_time = process_identity::start_time_of(child.id()).unwrap();
        let watch = PeerWatch::default();
        assert!(!watch.is_due(1));
        assert_eq!(watch.add(&process), Found::Alive);
        assert_eq!(watch.add(&process), Found::Alive);
        assert!(watch.is_due(1));
        assert!(watch.ended(1).is_empty());
        assert!(!watch.is_due(1) && watch.is_due(1 + INTERVAL_NS));
        let another = Identity { start_time: process.start_time + 1, ..process };
        assert_eq!(watch.add(&another), Found::Gone);
        child.kill().unwrap();
        // Not reaped yet: it counts as ended.
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let set = watch.descriptor().unwrap();
        assert_eq!(poll(&mut [PollFd::new(&*set, PollFlags::IN)], Some(&limit)), Ok(1));
        drop(set);
        assert_eq!(watch.ended(2), [(process.pid, process.start_time)]);
        assert!(watch.ended(3).is_empty());
        child.wait().unwrap();
        assert_eq!(
            watch.add(&Identity { start_time: process.start_time + 1, ..process }),
            Found::Gone
        );
        watch.remove(&process);
        watch.remove(&process);
        assert!(!watch.is_due(u64::MAX - 1));
    }
}
