//! Listeners.

use crate::api::calling;
use crate::api::endpoint::Endpoint;
use crate::api::mailbox::Mailbox;
use crate::api::opaque;
use crate::api::worker::Worker;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::listener::{self, ConnRequest, OnConnect};
use futures_core::Stream;
use std::ffi::c_void;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An address and port where a worker accepts connections.
///
/// [`accept`](Self::accept) returns the next client as an endpoint, and [`next`](Self::next) as a
/// request that can be rejected. It is a [`Stream`] of requests, which never ends.
///
/// Dropping it ends it. Clients that wait are rejected; endpoints that were accepted stay.
///
/// ```
/// # use ucxx_rs::{Context, Worker};
/// # let context = Context::new()?;
/// # let (server, client) = (Worker::new(&context)?, Worker::new(&context)?);
/// let listener = server.listen("127.0.0.1", 0)?;
/// let there = client.connect("127.0.0.1", listener.port())?;
/// let here = listener.accept_wait()?; // in async code: listener.accept().await?
/// # drop((here, there));
/// # Ok::<(), ucxx_rs::Error>(())
/// ```
pub struct Listener {
    listener: Arc<listener::Listener>,
    waiting: Arc<Mailbox<Client>>,
    worker: Worker,
}

/// A request that is rejected if nobody answers it.
struct Client(Option<Arc<ConnRequest>>);

/// A client that wants to connect. Dropping it rejects the client.
pub struct ConnectionRequest {
    client: Client,
    worker: Worker,
}

impl Worker {
    /// Listens on an address of this host: `"0.0.0.0"` for clients of other hosts, `"127.0.0.1"`
    /// for this host alone. Port 0 picks a free one. Resolving a name may block.
    ///
    /// # Errors
    ///
    /// `BUSY` if the port is taken; `UNREACHABLE` for an address that is not this host's.
    pub fn listen(&self, host: &str, port: u16) -> Result<Listener> {
        let waiting = Arc::new(Mailbox::new());
        let arg = Arc::as_ptr(&waiting).cast_mut().cast();
        // Callbacks may still run after the listener was dropped.
        self.keep(waiting.clone());
        let on_connect = OnConnect::Callback(on_connect, arg);
        let listener = calling(|| listener::Listener::new(self.shared(), host, port, &on_connect))?;
        Ok(Listener { listener, waiting, worker: self.clone() })
    }
}

unsafe extern "C" fn on_connect(arg: *mut c_void, request: *const ConnRequest) {
    // SAFETY: the worker keeps the mailbox until it has ended.
    let waiting = unsafe { &*arg.cast::<Mailbox<Client>>() };
    // SAFETY: a reference that this callback takes over.
    let client = Client(Some(unsafe { Arc::from_raw(request) }));
    drop(waiting.push(client));
}

impl Listener {
    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// The next client, as an endpoint. If it is dropped while it waits, no client is lost.
    ///
    /// # Errors
    ///
    /// What UCX could not do for this client; the next one may be fine.
    pub async fn accept(&self) -> Result<Endpoint> {
        self.next().await.accept()
    }

    /// The next client, which can be accepted or rejected.
    pub async fn next(&self) -> ConnectionRequest {
        poll_fn(|context| self.poll(context)).await
    }

    /// As [`accept`](Self::accept), on this thread.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept); `BUSY` from a handler.
    pub fn accept_wait(&self) -> Result<Endpoint> {
        self.next_wait()?.accept()
    }

    /// As [`next`](Self::next), on this thread.
    ///
    /// # Errors
    ///
    /// `BUSY` from a handler.
    pub fn next_wait(&self) -> Result<ConnectionRequest> {
        Ok(self.request(self.waiting.wait(&self.worker)?))
    }

    fn request(&self, client: Client) -> ConnectionRequest {
        ConnectionRequest { client, worker: self.worker.clone() }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<ConnectionRequest> {
        self.waiting.poll(context).map(|client| self.request(client))
    }
}

#[cold]
fn ended() -> Error {
    Error::new(Status::CLOSED, "listener: has ended")
}

impl Stream for Listener {
    type Item = ConnectionRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context).map(Some)
    }
}

impl ConnectionRequest {
    /// The client's address, if UCX knows it.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.client.0.as_ref()?.peer()
    }

    /// Makes the endpoint.
    ///
    /// # Errors
    ///
    /// What UCX could not do; the client is gone then. `REJECTED` if the listener has ended.
    pub fn accept(self) -> Result<Endpoint> {
        let client = self.client.0.as_ref().ok_or_else(ended)?;
        Endpoint::make(&self.worker, |_, params| client.accept(params))
    }

    /// Rejects the client, whose endpoint fails with `REJECTED`.
    pub fn reject(self) {}
}

impl Drop for Client {
    fn drop(&mut self) {
        // Does nothing if it was accepted.
        if let Some(request) = self.0.take() {
            request.destroy();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listener.clone().destroy(false);
        drop(self.waiting.close());
    }
}

opaque! { Listener ConnectionRequest }
