//! Streams: bytes in order on an endpoint.

use crate::api::endpoint::Endpoint;
use crate::api::request::Request;

impl Endpoint {
    /// Sends bytes on the endpoint's stream, behind those sent before. It ends when the buffer may
    /// be used again.
    pub fn stream_send<B: AsRef<[u8]> + Send + 'static>(&self, buffer: B) -> Request<B> {
        Request::submit(buffer, self.keep(), |buffer, params, out, _| {
            let bytes = (*buffer).as_ref();
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            unsafe { self.shared().stream_send(bytes.as_ptr().cast(), bytes.len(), params, out) }
        })
    }

    /// Fills the buffer with the next bytes of the endpoint's stream. Returns how many there are:
    /// all, unless it fails.
    ///
    /// Receives share the stream in the order of their calls.
    pub fn stream_recv<B: AsMut<[u8]> + Send + 'static>(&self, buffer: B) -> Request<B, usize> {
        Request::submit(buffer, self.keep(), |buffer, params, out, _| {
            let bytes = buffer.as_mut();
            // SAFETY: the buffer and `recv_info` stay there until the operation has completed: see
            // `request.rs`.
            unsafe {
                self.shared().stream_recv(bytes.as_mut_ptr().cast(), bytes.len(), params, out)
            }
        })
    }
}
