//! Telling who was refused a send when there is room again: `on_writable`.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::split_counter::look_again;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{
    Callback, Endpoint, EndpointPointer, Phase, SharedEndpoint,
};
use crate::engine::core::worker::inward::{Gated, Inward};
use crate::engine::core::worker::worker::Worker;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to call, once.
struct Waits(Callback, *mut c_void);

// SAFETY: the user hands function and argument over to the thread that makes a pass.
unsafe impl Send for Waits {}

/// Who waits for room on an endpoint.
#[derive(Default)]
pub(crate) struct Writable {
    /// Any thread arms and disarms; a pass takes it out.
    callback: Mutex<Option<Waits>>,
    /// There is one, for those who only look.
    armed: AtomicBool,
    /// It is running.
    running: Gated<Cell<bool>>,
}

impl Writable {
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Takes the callback out: it is called once.
    pub(crate) fn disarm(&self) -> Option<(Callback, *mut c_void)> {
        let mut callback = self.callback.lock();
        self.armed.store(false, Ordering::Relaxed);
        callback.take().map(|Waits(function, arg)| (function, arg))
    }
}

impl SharedEndpoint {
    /// A send would go straight to UCP now, or, from a thread that has to leave that to the
    /// progress thread, as soon as it is taken over there. Any thread.
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

    /// Has `callback` called once when there is room for a send, or, with the endpoint's error,
    /// when it ends first. None: not any more. Any thread.
    pub fn on_writable(&self, callback: Option<Callback>, arg: *mut c_void) -> Result<()> {
        self.worker().check_usable()?;
        let Some(callback) = callback else {
            self.writable().disarm();
            return Ok(());
        };
        {
            let mut armed = self.writable().callback.lock();
            // Under the lock: the end of the endpoint, which comes after its status, takes out
            // whatever is here.
            self.check_open_outside()?;
            if armed.is_some() {
                let text = "endpoint: a callback waits for it to become writable already";
                return Err(Error::new(Status::ALREADY_EXISTS, text));
            }
            *armed = Some(Waits(callback, arg));
            self.writable().armed.store(true, Ordering::Relaxed);
        }
        let endpoint = EndpointPointer(self);
        let posted = self.worker().post(move |_inside| {
            let endpoint = endpoint;
            // SAFETY: the end of an endpoint comes after what was handed over before it.
            unsafe { (*endpoint.0).inside() }.tend_later();
        });
        match posted {
            // Nobody will call it, unless somebody has.
            Err(error) if self.writable().disarm().is_some() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Endpoint {
    /// What to call the callback with, if it is due.
    fn writable_status(&self) -> Option<Status> {
        if self.phase() == Phase::Open {
            return self.goes_straight().then_some(Status::OK);
        }
        Some(self.ended_status())
    }

    /// Why it takes nothing more.
    fn ended_status(&self) -> Status {
        match self.status() {
            error if error.is_error() => error,
            _ => Status::CLOSED,
        }
    }
}

impl Worker {
    /// Calls the callback that waits for room, if there is one and it is due. After UCP's pass. How
    /// many calls that were.
    pub(crate) fn tell_if_writable(&self, endpoint: &Inward<SharedEndpoint>) -> u32 {
        let writable = &endpoint.writable;
        // While it runs, on another thread, it comes to nobody else.
        if !writable.is_armed() || writable.running.get(self).get() {
            return 0;
        }
        // Who gives room back from outside looks whether somebody waits for it: after that, as this
        // is before looking for room.
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

    /// The endpoint has ended: the last occasion.
    pub(crate) fn tell_never_writable(&self, endpoint: &Inward<SharedEndpoint>) {
        let callback = endpoint.writable.disarm();
        self.call_endpoint(endpoint, callback, endpoint.ended_status());
    }
}
