//! Where the peer of an endpoint is, and how error messages name it.

use crate::engine::core::endpoint::connect::Connection;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;

impl SharedEndpoint {
    /// Describes the peer for error messages.
    pub(crate) fn peer_text(&self) -> String {
        if let Some(connection) = self.connection() {
            return connection.peer_text();
        }
        match self.origin() {
            None => "a worker of plain UCX".to_owned(),
            Some(_) if self.to_self => "this worker itself".to_owned(),
            Some(origin) => {
                let place = if self.same_host() { "this host" } else { "another host" };
                // The other half tells copies of the library apart.
                let worker = origin.identity.worker & 0xffff_ffff;
                format!("process {} on {place} (worker {worker})", origin.identity.pid)
            }
        }
    }

    /// The peer is on this host, as far as is known.
    pub fn same_host(&self) -> bool {
        self.origin().is_some_and(|origin| origin.identity.same_host(&self.worker().identity))
            || self.connection().is_some_and(Connection::same_host)
    }

    /// Messages from the peer do not go through shared memory.
    pub(crate) fn is_remote(&self) -> bool {
        !(self.to_self || self.same_host() && self.worker().context.shares_memory)
    }

    /// An identifier of the peer's worker, the same on every worker; 0 for a foreign one.
    pub fn peer_id(&self) -> u64 {
        self.origin().map_or(0, |origin| origin.identity.peer_id())
    }
}
