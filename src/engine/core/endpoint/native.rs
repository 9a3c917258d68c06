//! UCP's handles of connections, for calls that this library does not have.

use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::endpoint::listener::ConnRequest;
use std::ffi::c_void;
use std::ptr::null_mut;

impl SharedEndpoint {
    /// UCP's endpoint, for the thread that may call UCP. Null on other threads, before the peer has
    /// answered, and from the endpoint's end on.
    ///
    /// The endpoint counts as used from now on: otherwise it could be parked, and UCP's end of it
    /// given to another endpoint.
    pub fn native(&self) -> *mut c_void {
        let worker = self.worker();
        if worker.thread.is_remote() {
            return null_mut();
        }
        let Ok(inside) = worker.enter() else { return null_mut() };
        let endpoint = self.of(&inside);
        if endpoint.check_open().is_err() {
            return null_mut();
        }
        endpoint.break_silence();
        // The first answer may replace UCP's endpoint.
        if endpoint.waits_for_peer() {
            return null_mut();
        }
        endpoint.ucp.get().cast()
    }
}

impl ConnRequest {
    /// UCP's connection request, for the thread that may call UCP. Null on other threads, and once
    /// the request was answered.
    pub fn native(&self) -> *mut c_void {
        let worker = self.worker();
        if worker.thread.is_remote() {
            return null_mut();
        }
        worker.enter().map_or(null_mut(), |inside| self.ucp(&inside).cast())
    }
}
