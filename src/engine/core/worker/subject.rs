//! How lines of the log name workers and endpoints.
#![deny(unsafe_code)]

use crate::engine::base::log::Subject;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::endpoint::listener::{ConnRequest, Listener};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use std::ops::Deref;

impl SharedWorker {
    /// Its number in this process. Peers print the same one.
    pub(crate) fn number(&self) -> u64 {
        // The other half tells copies of the library apart.
        self.identity.worker & 0xffff_ffff
    }
}

/// Such as `worker 1 "rx"`.
impl Subject for SharedWorker {
    fn subject(&self) -> String {
        match &*self.given_name() {
            "" => format!("worker {}", self.number()),
            name => format!("worker {} {name:?}", self.number()),
        }
    }
}

impl Subject for Worker {
    fn subject(&self) -> String {
        self.deref().subject()
    }
}

/// Such as `worker 1 "rx", endpoint 3, peer process 4711 on this host (worker 1)`.
impl Subject for SharedEndpoint {
    fn subject(&self) -> String {
        let worker = self.worker().subject();
        format!("{worker}, endpoint {}, peer {}", self.serial, self.peer_text())
    }
}

impl Subject for Endpoint {
    fn subject(&self) -> String {
        self.deref().subject()
    }
}

/// Such as `worker 1 "rx", listener 127.0.0.1:7000`.
impl Subject for Listener {
    fn subject(&self) -> String {
        let worker = self.worker.subject();
        format!("{worker}, listener {}", self.address().unwrap_or_default())
    }
}

/// Such as `worker 1 "rx", listener 127.0.0.1:7000, peer 127.0.0.1:52044`.
impl Subject for ConnRequest {
    fn subject(&self) -> String {
        let listener = self.listener.subject();
        match self.peer() {
            Some(peer) => format!("{listener}, peer {peer}"),
            None => listener,
        }
    }
}
