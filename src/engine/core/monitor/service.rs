//! Services of the monitor, and the loop of its thread. To add one: its file, and a line in
//! `SERVICES`.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::core::monitor::registry::Registry;
use crate::engine::core::monitor::{debug_socket, metrics, watchdog};
use crate::engine::core::worker::progress_thread::guarded;
use crate::engine::os::event_fd::EventFd;
use rustix::event::{poll, PollFd, PollFlags};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// What a service does is done on the monitor's thread, which owns it.
pub(crate) trait Service: Send {
    /// Adds the descriptors that the thread has to wait for. Returns when it wants a turn at the
    /// latest.
    fn waits_for<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) -> Option<u64>;

    /// Does what there is to do, without waiting: descriptors may be ready, or not.
    fn turn(&mut self, registry: &Registry, now: u64);
}

/// How a service is asked for, and made.
pub(crate) struct Offer {
    /// The environment variable whose value `make` gets. An empty one asks for nothing.
    pub(crate) variable: &'static str,
    /// The error says what is wrong with the value.
    pub(crate) make: fn(&str) -> Result<Box<dyn Service>, String>,
}

/// All services.
const SERVICES: &[Offer] = &[debug_socket::OFFER, metrics::OFFER, watchdog::OFFER];

/// How often the thread looks how far its objects have come.
const TICK_NS: u64 = 250_000_000;

fn value(offer: &Offer) -> Option<String> {
    let value = std::env::var_os(offer.variable).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// The environment asks for a service. It is read once.
pub(crate) fn are_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| SERVICES.iter().any(|offer| value(offer).is_some()))
}

/// The services that the environment asks for, and why others could not be made.
pub(crate) fn make() -> (Vec<Box<dyn Service>>, Vec<String>) {
    let (mut made, mut complaints) = (Vec::new(), Vec::new());
    for offer in SERVICES {
        let Some(value) = value(offer) else { continue };
        match (offer.make)(&value) {
            Ok(service) => made.push(service),
            Err(cause) => complaints.push(format!("{}={value}: {cause}", offer.variable)),
        }
    }
    (made, complaints)
}

/// The thread: until `registry.stops()`, which `bell` announces.
pub(crate) fn run(registry: &Registry, mut services: Vec<Box<dyn Service>>, bell: &EventFd) {
    let mut next_tick = 0;
    while !registry.stops() {
        wait(&services, bell, next_tick);
        let now = clock::now_ns();
        if now >= next_tick {
            next_tick = now + TICK_NS;
            registry.take_pulses(now);
        }
        for service in &mut services {
            guarded(|| service.turn(registry, now));
        }
    }
    // The last one: a service sees that the thread stops.
    for service in &mut services {
        guarded(|| service.turn(registry, clock::now_ns()));
    }
}

fn wait(services: &[Box<dyn Service>], bell: &EventFd, mut until: u64) {
    let mut polled = vec![PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN)];
    for service in services {
        until = until.min(service.waits_for(&mut polled).unwrap_or(u64::MAX));
    }
    let rest = clock::remaining(until).map(clock::timespec);
    // An error is an interruption: the loop comes back.
    let _ = poll(&mut polled, rest.as_ref());
}
