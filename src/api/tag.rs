//! Tag messages.

use crate::api::calling;
use crate::api::endpoint::Endpoint;
use crate::api::request::{Keep, Received, Request, WAITS};
use crate::api::worker::Worker;
use crate::engine::base::status::Result;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, RecvInfo};
use crate::engine::messaging::tag::tag::Mode;
use std::sync::Arc;

/// Which messages a receive takes. A number is the tag to match:
/// `worker.tag_recv(buffer, 7)`.
///
/// ```
/// # use ucxx_rs::{Context, Match, Worker};
/// # let worker = Worker::new(&Context::builder().local().build()?)?;
/// # let endpoint = worker.connect_to(&worker.address()?)?;
/// endpoint.tag_send_wait(b"x", 0x107)?;
/// // Any tag that ends with 07, until this peer ends.
/// let (received, _) = worker.tag_recv([0; 1], Match::tag(7).mask(0xff).source(&endpoint)).wait();
/// assert_eq!(received?.tag, 0x107);
/// # Ok::<(), ucxx_rs::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Match {
    tag: u64,
    mask: u64,
    source: Option<Endpoint>,
}

impl Match {
    /// Messages with this tag.
    pub fn tag(tag: u64) -> Self {
        Match { tag, mask: u64::MAX, source: None }
    }

    /// All messages.
    pub fn any() -> Self {
        Match { tag: 0, mask: 0, source: None }
    }

    /// The bits of the tag that have to agree.
    pub fn mask(mut self, mask: u64) -> Self {
        self.mask = mask;
        self
    }

    /// The receive also ends when this endpoint ends. It still matches messages of every peer.
    pub fn source(mut self, endpoint: &Endpoint) -> Self {
        self.source = Some(endpoint.clone());
        self
    }
}

impl From<u64> for Match {
    fn from(tag: u64) -> Self {
        Match::tag(tag)
    }
}

impl Endpoint {
    /// Sends a tag message. It ends when the buffer may be used again: at once for a short message,
    /// and when the peer receives it for a long one.
    ///
    /// # Errors
    ///
    /// `CLOSED`, `CONNECTION_RESET` or `PEER_FAILED` if the endpoint has ended; `CANCELED`;
    /// `NO_RESOURCE` if too many sends are waiting.
    pub fn tag_send<B: AsRef<[u8]> + Send + 'static>(&self, buffer: B, tag: u64) -> Request<B> {
        self.send(buffer, tag, Mode::Local)
    }

    /// As [`tag_send`](Self::tag_send), but ends only when a receive of the peer has matched.
    pub fn tag_send_sync<B: AsRef<[u8]> + Send + 'static>(
        &self,
        buffer: B,
        tag: u64,
    ) -> Request<B> {
        self.send(buffer, tag, Mode::Synchronous)
    }

    fn send<B: AsRef<[u8]> + Send + 'static>(&self, buffer: B, tag: u64, mode: Mode) -> Request<B> {
        Request::submit(buffer, self.keep(), |buffer, params, out, _| {
            let bytes = (*buffer).as_ref();
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            unsafe {
                self.shared().tag_send(bytes.as_ptr().cast(), bytes.len(), tag, mode, params, out)
            }
        })
    }

    /// Sends a tag message, and waits on this thread until the buffer may be used again.
    ///
    /// # Errors
    ///
    /// As [`tag_send`](Self::tag_send); `BUSY` from a handler.
    pub fn tag_send_wait(&self, buffer: &[u8], tag: u64) -> Result<()> {
        let (data, length) = (buffer.as_ptr().cast(), buffer.len());
        calling(|| {
            // SAFETY: the call returns when the operation has completed, so the buffer is borrowed
            // for as long as it is used.
            unsafe { self.shared().tag_send(data, length, tag, Mode::Local, &WAITS, Out::NOWHERE) }
        })
        .map(drop)
    }
}

impl Worker {
    /// Receives a tag message from any peer. Messages and receives match in order.
    ///
    /// # Errors
    ///
    /// `MESSAGE_TRUNCATED` if the message is longer than the buffer; `CANCELED`; the end of the
    /// [`source`](Match::source).
    pub fn tag_recv<B: AsMut<[u8]> + Send + 'static>(
        &self,
        buffer: B,
        which: impl Into<Match>,
    ) -> Request<B, Received> {
        let which = which.into();
        Request::submit(buffer, Keep::Worker(self.clone()), |buffer, params, out, _| {
            let bytes = buffer.as_mut();
            let params = which.params(self, params)?;
            // SAFETY: the buffer and `recv_info` stay there until the operation has completed: see
            // `request.rs`. The source is alive during the call.
            unsafe {
                self.shared().tag_recv(
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    which.tag,
                    which.mask,
                    &params,
                    out,
                )
            }
        })
    }

    /// Receives a tag message, and waits for it on this thread.
    ///
    /// # Errors
    ///
    /// As [`tag_recv`](Self::tag_recv); `BUSY` from a handler.
    pub fn tag_recv_wait(&self, buffer: &mut [u8], which: impl Into<Match>) -> Result<Received> {
        let which = which.into();
        let mut info = RecvInfo::default();
        let params = OpParams { recv_info: &raw mut info, ..which.params(self, &WAITS)? };
        let (data, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        calling(|| {
            // SAFETY: the call returns when the operation has completed, so the buffer is borrowed,
            // and `info` is there, for as long as they are used.
            unsafe {
                self.shared().tag_recv(data, length, which.tag, which.mask, &params, Out::NOWHERE)
            }
        })?;
        Ok(Received { length: info.length as usize, tag: info.sender_tag })
    }
}

impl Match {
    /// The parameters with the source, which lives as long as this.
    fn params(&self, worker: &Worker, params: &OpParams) -> Result<OpParams> {
        let Some(source) = &self.source else { return Ok(*params) };
        source.check_worker(worker)?;
        Ok(OpParams { source: Arc::as_ptr(source.shared()), ..*params })
    }
}
