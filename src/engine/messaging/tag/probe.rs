//! Probing for messages that have arrived and were not received. A handle can take one out of
//! matching.

use crate::engine::base::status::{Error, Result};
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, RecvInfo, Submitted};
use crate::engine::core::request::request::Kind;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context::feature;
use crate::sys;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

/// A message that was taken out of matching. Received once, or dropped with the handle.
pub struct TagMessage {
    worker: Arc<SharedWorker>,
    /// Null once it was received.
    message: AtomicPtr<sys::ucp_recv_desc>,
    info: RecvInfo,
}

impl SharedWorker {
    /// Probes for a message with a matching tag. With `take`, the message is removed from matching
    /// and returned.
    #[allow(clippy::type_complexity)]
    pub fn tag_probe(
        &self,
        tag: u64,
        tag_mask: u64,
        take: bool,
    ) -> Result<Option<(RecvInfo, Option<TagMessage>)>> {
        self.on_owner(|inside| inside.probe_inside(tag, tag_mask, take))
    }
}

impl Worker {
    #[allow(clippy::type_complexity)]
    fn probe_inside(
        &self,
        tag: u64,
        tag_mask: u64,
        take: bool,
    ) -> Result<Option<(RecvInfo, Option<TagMessage>)>> {
        self.need(feature::TAG)?;
        let mut found = sys::ucp_tag_recv_info_t { sender_tag: 0, length: 0 };
        // SAFETY: a live worker inside its gate, and a valid out-pointer.
        let message =
            unsafe { sys::ucp_tag_probe_nb(self.ucp(), tag, tag_mask, take.into(), &mut found) };
        if message.is_null() {
            return Ok(None);
        }
        let info = RecvInfo {
            length: found.length as u64,
            sender_tag: found.sender_tag,
            reserved: [0; 2],
        };
        let message = take.then(|| TagMessage {
            worker: self.shared(),
            message: AtomicPtr::new(message),
            info,
        });
        Ok(Some((info, message)))
    }
}

impl Worker {
    /// For people: the oldest message that no receive takes.
    pub(super) fn describe_unexpected(&self, lines: &mut Vec<String>) {
        if let Ok(Some((info, _))) = self.probe_inside(0, 0, false) {
            lines.push(format!(
                "a message has come that no receive takes: {} bytes, tag 0x{:x} (the first one)",
                info.length, info.sender_tag
            ));
        }
    }
}

impl TagMessage {
    /// Receives the message, once.
    ///
    /// # Safety
    /// As for `Worker::tag_recv`.
    pub unsafe fn receive(
        &self,
        buffer: *mut c_void,
        length: usize,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker.context, "receive of a probed message", 0)?;
        let submit = |params: &OpParams, out: Out| {
            let part = [Part { data: buffer, length, memory_type: params.memory_type }];
            let message = self.message.swap(std::ptr::null_mut(), Ordering::AcqRel);
            if message.is_null() {
                return Err(Error::invalid("message: has been received already"));
            }
            let kept = Cell::new(true);
            let wanted = || {
                kept.set(false);
                Queued { message, ..Queued::NOTHING }
            };
            let kind = Kind::TagMessageRecv;
            let submitted = self.worker.submit_receive(kind, &part, params, out, wanted);
            if kept.get() {
                self.message.store(message, Ordering::Release);
            }
            submitted
        };
        request_wait::submit(params, out, submit)
    }

    /// Length and tag, as probed.
    pub fn info(&self) -> RecvInfo {
        self.info
    }

    /// Takes UCP's handle out, for a receive that this library does not have. Null once the message
    /// was received, in a forked child, and from the worker's end on.
    pub fn take_native(&self) -> *mut c_void {
        if self.worker.check_usable().is_err() {
            return std::ptr::null_mut();
        }
        self.message.swap(std::ptr::null_mut(), Ordering::AcqRel).cast()
    }

    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        if self.worker.generation.is_past() {
            return Err(crate::engine::ucx::context::forked("message"));
        }
        Ok(())
    }
}

impl Drop for TagMessage {
    /// UCP has no call that drops a message: it is received into an empty buffer, and the sender
    /// completes as if it had arrived.
    fn drop(&mut self) {
        let message = *self.message.get_mut();
        if message.is_null() || self.worker.generation.is_past() {
            return;
        }
        let message = MessagePointer(message);
        // Fails only if the worker has ended, and UCP's messages with it.
        let _ = self.worker.post(move |inside| {
            let message = message;
            inside.drop_message(message.0);
        });
    }
}

struct MessagePointer(sys::ucp_tag_message_h);
// SAFETY: handed over with the job that drops it.
unsafe impl Send for MessagePointer {}
