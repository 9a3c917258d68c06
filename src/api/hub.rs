//! Hubs: bounded queues of chunks in place.

use crate::api::context::Context;
use crate::api::endpoint::Endpoint;
use crate::api::mailbox::Wakers;
use crate::api::opaque;
use crate::api::request::{Keep, Operation, Received};
use crate::api::worker::Worker;
use crate::api::{calling, nanoseconds};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub;
use crate::engine::hub::hub::HubParams;
use crate::engine::hub::link::{Link, LinkParams};
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::{Retain, Role};
use crate::engine::ucx::memory_type;
use futures_core::Stream;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A queue of chunks that lie in a fixed number of envelopes.
///
/// A producer leases a free envelope, fills it in place, and commits it. A consumer leases the
/// oldest chunk and reads it in place; when it drops it, the envelope is free again. A link of one
/// process can be connected to a link of another: see [`Consumer::connect`].
///
/// Clones are the same hub. It ends with the last of them and of its links.
///
/// ```
/// # use ucxx_rs::{Context, Hub};
/// let hub = Hub::new(&Context::new()?, 1 << 16, 8)?;
/// let (producer, consumer) = (hub.produce()?, hub.consume()?);
/// let mut envelope = producer.lease_wait()?; // in async code: producer.lease().await?
/// envelope[..5].copy_from_slice(b"hello");
/// envelope.commit(5)?;
/// assert_eq!(&consumer.lease_wait()?[..], b"hello");
/// # Ok::<(), ucxx_rs::Error>(())
/// ```
#[derive(Clone)]
pub struct Hub(Arc<HubInner>);

struct HubInner {
    hub: Arc<hub::Hub>,
    _worker: Option<Worker>,
}

/// Makes a [`Hub`].
#[derive(Debug)]
pub struct HubBuilder {
    context: Context,
    size: usize,
    count: usize,
    most_chunks: usize,
    worker: Option<Worker>,
}

/// A link that produces chunks. Clones are the same link.
#[derive(Clone)]
pub struct Producer(Arc<LinkInner>);

/// A link that consumes chunks, as a [`Stream`] of them. It ends when the hub has ended and is
/// empty. Clones are the same link.
#[derive(Clone)]
pub struct Consumer(Arc<LinkInner>);

/// A link of a hub, with what its callback uses.
pub(crate) struct LinkInner {
    link: NonNull<Link>,
    ready: Arc<Ready>,
    _hub: Hub,
    /// The endpoints that it is connected by.
    connected: Mutex<Vec<Endpoint>>,
}

// SAFETY: the engine's links may be used on any thread.
unsafe impl Send for LinkInner {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for LinkInner {}

/// Tasks that wait for a lease.
#[derive(Default)]
struct Ready(Mutex<Wakers>);

/// An empty envelope, to be filled and committed. Dropping it gives it back unused.
pub struct Envelope(Leased);

/// A chunk, to be read. Dropping it consumes it.
pub struct Chunk(Leased);

struct Leased {
    lease: *const Lease,
    data: *mut u8,
    /// Of the chunk, or of the whole envelope.
    length: usize,
    ended: bool,
    _link: Arc<LinkInner>,
}

// SAFETY: a lease may be used and ended on any thread, and its bytes are its holder's.
unsafe impl Send for Leased {}
// SAFETY: with a shared reference the bytes are only read.
unsafe impl Sync for Leased {}

/// Chunks of a connection that may be in transit.
const WINDOW: u32 = 4;

const HOST: MemoryKind = MemoryKind { memory_type: memory_type::HOST, device_id: 0 };

impl Hub {
    /// A hub with `count` envelopes of `size` bytes.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` for a size of 0; `NO_MEMORY`.
    pub fn new(context: &Context, size: usize, count: usize) -> Result<Self> {
        Self::builder(context, size, count).build()
    }

    /// A hub with other properties.
    pub fn builder(context: &Context, size: usize, count: usize) -> HubBuilder {
        HubBuilder { context: context.clone(), size, count, most_chunks: 0, worker: None }
    }

    /// A link that produces.
    ///
    /// # Errors
    ///
    /// `FORKED` in a forked child.
    pub fn produce(&self) -> Result<Producer> {
        Ok(Producer(self.link(Role::Produce, false)?))
    }

    /// A link that consumes. Such links compete: each chunk goes to one of them.
    ///
    /// # Errors
    ///
    /// As [`produce`](Self::produce).
    pub fn consume(&self) -> Result<Consumer> {
        Ok(Consumer(self.link(Role::Consume, false)?))
    }

    /// A link that consumes every chunk which is in the queue or comes later, whoever else does.
    ///
    /// # Errors
    ///
    /// `EXCEEDS_LIMIT` if there are 63 of them.
    pub fn broadcast(&self) -> Result<Consumer> {
        Ok(Consumer(self.link(Role::Consume, true)?))
    }

    fn link(&self, role: Role, broadcast: bool) -> Result<Arc<LinkInner>> {
        let ready = Arc::new(Ready::default());
        let params = LinkParams {
            broadcast,
            autocommit: false,
            on_ready: Some(on_ready),
            on_ready_arg: Arc::as_ptr(&ready).cast_mut().cast(),
        };
        let mut link = std::ptr::null_mut();
        calling(|| Link::make(&self.0.hub, role, HOST, &params, |made| link = made))?;
        let link = NonNull::new(link).expect("made above");
        let (_hub, connected) = (self.clone(), Mutex::default());
        Ok(Arc::new(LinkInner { link, ready, _hub, connected }))
    }

    /// Ends production. Producers fail with `CLOSED`; consumers get what is left, and then end.
    ///
    /// # Errors
    ///
    /// `FORKED` in a forked child.
    pub fn end(&self) -> Result<()> {
        calling(|| self.0.hub.close())
    }

    /// Chunks in the queue.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.hub.length()
    }
}

impl HubBuilder {
    /// Most chunks in the queue. Without it as many as there are envelopes.
    pub fn max_chunks(mut self, most: usize) -> Self {
        self.most_chunks = most;
        self
    }

    /// The worker for transfers to other hubs.
    pub fn worker(mut self, worker: &Worker) -> Self {
        self.worker = Some(worker.clone());
        self
    }

    /// Makes the hub.
    ///
    /// # Errors
    ///
    /// As [`Hub::new`].
    pub fn build(self) -> Result<Hub> {
        let params = HubParams {
            envelope_size: self.size as u64,
            max_queue_chunks: self.most_chunks as u64,
            max_queue_bytes: 0,
            retain: Retain::Auto,
            transfers_in_flight: 0,
            worker: self.worker.as_ref().map(|worker| worker.shared().clone()),
        };
        let hub = hub::Hub::new(&self.context.0, &params)?;
        let hub = Hub(Arc::new(HubInner { hub, _worker: self.worker }));
        calling(|| hub.0.hub.add_envelopes(HOST, self.count))?;
        Ok(hub)
    }
}

/// `on_ready`: a lease is available, or never will be.
unsafe extern "C" fn on_ready(arg: *mut c_void, _link: *mut c_void, _status: i32) {
    let ready = arg.cast::<Ready>().cast_const();
    // SAFETY: the link's own reference. The link waits for this callback before it drops it, unless
    // this callback drops the link: so it takes another one first.
    let ready = unsafe {
        Arc::increment_strong_count(ready);
        Arc::from_raw(ready)
    };
    let wakers = ready.0.lock().take();
    wakers.wake();
}

impl LinkInner {
    fn link(&self) -> &Link {
        // SAFETY: made with this, and destroyed when this is dropped.
        unsafe { self.link.as_ref() }
    }

    fn lease(self: &Arc<Self>, timeout_ns: u64) -> Result<Option<Leased>> {
        let lease = calling(|| self.link().lease(timeout_ns))?;
        lease.map(|lease| Leased::new(self, lease)).transpose()
    }

    fn wait(self: &Arc<Self>, timeout_ns: u64) -> Result<Leased> {
        let timed_out = || Error::new(Status::TIMED_OUT, "link: nothing to lease in time");
        self.lease(timeout_ns)?.ok_or_else(timed_out)
    }

    fn poll(self: &Arc<Self>, context: &std::task::Context<'_>) -> Poll<Result<Leased>> {
        // Before the attempt: the callback comes after it.
        self.ready.0.lock().add(context);
        match self.lease(0) {
            Ok(None) => Poll::Pending,
            Ok(Some(leased)) => Poll::Ready(Ok(leased)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn connect(&self, endpoint: &Endpoint, id: u64) -> Result<()> {
        calling(|| self.link().connect(endpoint.shared(), id, WINDOW))?;
        self.connected.lock().push(endpoint.clone());
        Ok(())
    }
}

impl Drop for LinkInner {
    fn drop(&mut self) {
        // SAFETY: this was its only owner.
        calling(|| unsafe { Link::destroy(self.link.as_ptr()) });
    }
}

impl Drop for HubInner {
    fn drop(&mut self) {
        calling(|| self.hub.clone().destroy());
    }
}

impl Leased {
    fn new(link: &Arc<LinkInner>, lease: *const Lease) -> Result<Self> {
        // SAFETY: a lease that was just given out; a hub outlives its leases.
        let view = unsafe { (*lease).view() }?;
        let produces = link.link().request.role == Role::Produce;
        let length = if produces { view.capacity } else { view.length } as usize;
        Ok(Leased { lease, data: view.data, length, ended: false, _link: link.clone() })
    }

    /// Ends it, once. What was retired meanwhile is dropped outside the hub's lock.
    fn end(&mut self, commit: Option<usize>) -> Result<()> {
        // SAFETY: its lease has not ended, and a hub outlives its leases.
        let lease = unsafe { &*self.lease };
        let no_stream = std::ptr::null_mut();
        calling(|| match commit {
            Some(length) => lease.commit(length as u64, no_stream).map(drop),
            None => lease.abort(no_stream).map(drop),
        })?;
        self.ended = true;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the lease's memory, which was written or zeroed. Nobody writes to a chunk, and
        // an envelope is its holder's alone.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

impl Producer {
    /// Leases an envelope, as soon as one is free and the queue has room.
    ///
    /// # Errors
    ///
    /// `CLOSED` if the hub has ended; `STARVED` if there can never be one; `BUSY` if the link is
    /// connected.
    pub async fn lease(&self) -> Result<Envelope> {
        poll_fn(|context| self.0.poll(context)).await.map(Envelope)
    }

    /// The same, on this thread.
    ///
    /// # Errors
    ///
    /// As [`lease`](Self::lease); `BUSY` from a handler.
    pub fn lease_wait(&self) -> Result<Envelope> {
        self.0.wait(u64::MAX).map(Envelope)
    }

    /// The same, within a time.
    ///
    /// # Errors
    ///
    /// As [`lease_wait`](Self::lease_wait); `TIMED_OUT`.
    pub fn lease_timeout(&self, timeout: Duration) -> Result<Envelope> {
        self.0.wait(nanoseconds(timeout)).map(Envelope)
    }

    /// Copies bytes into an envelope, and commits it. If it is dropped while it waits, nothing was
    /// added.
    ///
    /// # Errors
    ///
    /// As [`lease`](Self::lease); `INVALID_PARAM` for more bytes than an envelope has.
    pub async fn push(&self, bytes: &[u8]) -> Result<()> {
        let mut envelope = self.lease().await?;
        let room = envelope.len();
        let Some(place) = envelope.get_mut(..bytes.len()) else {
            let text = format!("bytes: {} are more than an envelope's {room}", bytes.len());
            return Err(Error::invalid(text));
        };
        place.copy_from_slice(bytes);
        envelope.commit(bytes.len())
    }

    /// Fills this hub from a consumer at the endpoint's peer that is connected with the same id.
    /// The link is used up by it: its leases fail with `BUSY`.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` if the hub was made without the endpoint's worker.
    pub fn connect(&self, endpoint: &Endpoint, id: u64) -> Result<()> {
        self.0.connect(endpoint, id)
    }

    /// Receives a tag message right into an envelope, and commits it. For hubs with a worker.
    ///
    /// # Errors
    ///
    /// As [`Worker::tag_recv`]; `NO_RESOURCE` if no envelope is free.
    pub fn recv(&self, tag: u64) -> Operation<Received> {
        Operation::submit(Keep::Link(self.0.clone(), None), |params, out, _| {
            // SAFETY: `recv_info` stays there until the operation has completed: see `request.rs`.
            unsafe { self.0.link().recv(tag, u64::MAX, params, out) }
        })
    }
}

impl Consumer {
    /// Leases the oldest chunk, as soon as there is one.
    ///
    /// # Errors
    ///
    /// `CLOSED` if the hub has ended and is empty; `BUSY` if the link is connected.
    pub async fn lease(&self) -> Result<Chunk> {
        poll_fn(|context| self.0.poll(context)).await.map(Chunk)
    }

    /// The same, on this thread.
    ///
    /// # Errors
    ///
    /// As [`lease`](Self::lease); `BUSY` from a handler.
    pub fn lease_wait(&self) -> Result<Chunk> {
        self.0.wait(u64::MAX).map(Chunk)
    }

    /// The same, within a time.
    ///
    /// # Errors
    ///
    /// As [`lease_wait`](Self::lease_wait); `TIMED_OUT`.
    pub fn lease_timeout(&self, timeout: Duration) -> Result<Chunk> {
        self.0.wait(nanoseconds(timeout)).map(Chunk)
    }

    /// Copies the oldest chunk out, and consumes it.
    ///
    /// # Errors
    ///
    /// As [`lease`](Self::lease).
    pub async fn pop(&self) -> Result<Vec<u8>> {
        Ok(self.lease().await?.to_vec())
    }

    /// Sends the chunks of this hub to a producer at the endpoint's peer that is connected with the
    /// same id. The link is used up by it: its leases fail with `BUSY`.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` if the hub was made without the endpoint's worker.
    pub fn connect(&self, endpoint: &Endpoint, id: u64) -> Result<()> {
        self.0.connect(endpoint, id)
    }

    /// Sends the oldest chunk as a tag message, and consumes it. For hubs with a worker.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::tag_send`]; `NO_RESOURCE` if there is no chunk.
    pub fn send(&self, endpoint: &Endpoint, tag: u64) -> Operation {
        let keep = Keep::Link(self.0.clone(), Some(endpoint.clone()));
        Operation::submit(keep, |params, out, _| {
            // SAFETY: the hub keeps the chunk until the operation has completed.
            unsafe { self.0.link().send(endpoint.shared(), tag, params, out) }
        })
    }
}

impl Stream for Consumer {
    type Item = Result<Chunk>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Self::Item>> {
        self.0.poll(context).map(|leased| match leased {
            Err(error) if error.status() == Status::CLOSED => None,
            leased => Some(leased.map(Chunk)),
        })
    }
}

impl Envelope {
    /// Adds the first `length` bytes as a chunk to the queue.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` for more than there are; `CLOSED` if the hub was dropped. The envelope is
    /// given back then.
    pub fn commit(mut self, length: usize) -> Result<()> {
        self.0.end(Some(length))
    }
}

impl Chunk {
    /// Gives the chunk back to the queue, where it is the oldest again.
    pub fn give_back(mut self) {
        // Fails only in a forked child, which cannot use it either.
        let _ = self.0.end(None);
        self.0.ended = true;
    }
}

impl Deref for Envelope {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DerefMut for Envelope {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`, and this borrows the envelope alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.data, self.0.length) }
    }
}

impl Deref for Chunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        if !self.0.ended {
            let _ = self.0.end(None);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if !self.0.ended {
            let _ = self.0.end(Some(0));
        }
    }
}

opaque! { Hub Producer Consumer Envelope Chunk }
