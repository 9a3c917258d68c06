//! `on_writable`: notifies a caller whose send was refused when there is room again.
//!
//! Any thread arms and disarms the callback, under its lock. `armed` is a hint for threads that
//! only look. The worker's thread takes the callback out in a pass and calls it once.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::split_counter::look_again;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Callback, Endpoint, Phase, SharedEndpoint};
use crate::engine::core::worker::inward::{Gated, Inward};
use crate::engine::core::worker::worker::Worker;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// The callback to call, once.
struct Waits(Callback, *mut c_void);

// SAFETY: the user hands function and argument over to the thread that makes a pass.
unsafe impl Send for Waits {}

/// The callback that waits for room on an endpoint.
#[derive(Default)]
pub(crate) struct Writable {
    /// Any thread arms and disarms; a pass takes it out.
    callback: Mutex<Option<Waits>>,
    /// There is a callback, for threads that only look.
    armed: AtomicBool,
    /// The callback is running.
    running: Gated<Cell<bool>>,
}

impl Writable {
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Takes the callback out, so that it is called once.
    pub(crate) fn disarm(&self) -> Option<(Callback, *mut c_void)> {
        let mut callback = self.callback.lock();
        self.armed.store(false, Ordering::Relaxed);
        callback.take().map(|Waits(function, arg)| (function, arg))
    }
}

impl SharedEndpoint {
    /// A send would go straight to UCP now, or, from a thread that uses the submission ring, as
    /// soon as it is taken over. Any thread.
    pub fn is_writable(&self) -> bool {
        let worker = self.worker();
        if worker.check_usable().is_err() || !self.goes_straight() {
            return false;
        }
        let ring = worker.thread.queue.get().filter(|_| worker.thread.is_remote());
        ring.is_none_or(|queue| queue.has_room())
    }

    fn goes_straight(&self) -> bool {
        (self.is_open() || self.has_status(Self::SILENT))
            && !self.is_short_of_credit(u16::MAX)
            && self.has_place()
    }

    /// Calls `callback` once when there is room for a send, or with the endpoint's error if it ends
    /// first. None removes it. Any thread.
    pub fn on_writable(&self, callback: Option<Callback>, arg: *mut c_void) -> Result<()> {
        self.worker().check_usable()?;
        let Some(callback) = callback else {
            self.writable().disarm();
            return Ok(());
        };
        // The callback may run, and destroy the last handle, before this call returns.
        let endpoint = self.shared();
        {
            let mut armed = self.writable().callback.lock();
            // Under the lock: the end of the endpoint, which follows its status, takes out any
            // callback that is here.
            self.check_open_outside()?;
            if armed.is_some() {
                let text =
                    "callback: ucxx_endpoint_on_writable has set one already; NULL removes it";
                return Err(Error::new(Status::ALREADY_EXISTS, text));
            }
            *armed = Some(Waits(callback, arg));
            self.writable().armed.store(true, Ordering::Relaxed);
        }
        match endpoint.post(|endpoint| endpoint.tend_later()) {
            // The job was refused, so the callback will not be called, unless it was called
            // already.
            Err(error) if endpoint.writable().disarm().is_some() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Endpoint {
    /// The status for the callback, if it is due.
    fn writable_status(&self) -> Option<Status> {
        if self.phase() == Phase::Open {
            return self.goes_straight().then_some(Status::OK);
        }
        Some(self.ended_status())
    }

    /// Why the endpoint takes no more operations.
    fn ended_status(&self) -> Status {
        match self.status() {
            error if error.is_error() => error,
            _ => Status::CLOSED,
        }
    }
}

impl Worker {
    /// Calls the callback that waits for room, if it is due. After UCP's pass. Returns the number
    /// of calls.
    pub(crate) fn tell_if_writable(&self, endpoint: &Inward<SharedEndpoint>) -> u32 {
        let writable = &endpoint.writable;
        // While it runs, on another thread, no other one is called.
        if !writable.is_armed() || writable.running.get(self).get() {
            return 0;
        }
        // A thread outside the gate that gives room back then checks whether a callback waits; this
        // thread checks the callback first and then the room. The fence makes one of them see the
        // other.
        look_again();
        let Some(status) = endpoint.writable_status() else { return 0 };
        let Some(callback) = writable.disarm() else { return 0 };
        writable.running.get(self).set(true);
        self.call_endpoint(endpoint, Some(callback), status);
        writable.running.get(self).set(false);
        if writable.is_armed() {
            endpoint.tend_later();
        }
        1
    }

    /// The endpoint has ended: calls the callback for the last time.
    pub(crate) fn tell_never_writable(&self, endpoint: &Inward<SharedEndpoint>) {
        let callback = endpoint.writable.disarm();
        self.call_endpoint(endpoint, callback, endpoint.ended_status());
    }
}
