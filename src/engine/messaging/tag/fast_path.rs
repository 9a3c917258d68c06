//! The fast path of plain tag operations: see `core::request::fast_path`.

use crate::engine::base::status::Result;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::completion::Returned;
use crate::engine::core::request::fast_path::FastPath;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::tag::tag::{receive_by_ucp, send_by_ucp, Mode};
use crate::sys;
use std::ffi::c_void;

impl FastPath<'_> {
    /// `Endpoint::tag_send` for plain parameters. `to` is the endpoint that this was made for.
    ///
    /// # Safety
    /// As for that function.
    #[inline(always)]
    pub unsafe fn tag_send(
        self,
        to: &SharedEndpoint,
        buffer: *const c_void,
        length: usize,
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: `to` is the endpoint that this was made for, whose worker is entered.
        let to = unsafe { to.inside() };
        self.send(Kind::TagSend, (length as u64, tag), to, params, out, |worker, slot| {
            let param = worker.templates.send(slot, params.plain_index());
            // SAFETY: an open endpoint, its worker entered; the caller keeps the buffer, and the
            // worker the slot.
            unsafe { send_by_ucp(Mode::Local, to.ucp.get(), buffer, length, tag, param) }
        })
    }

    /// `Worker::tag_recv` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that function.
    #[inline(always)]
    pub unsafe fn tag_recv(
        self,
        buffer: *mut c_void,
        length: usize,
        pattern: (u64, u64),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let FastPath { worker, slot } = self;
        slot.prepare(Kind::TagRecv);
        trace::submitted_fast_receive(slot);
        let param = worker.templates.receive(slot, params.plain_index());
        // SAFETY: a live worker, entered; the caller keeps the buffer, and the worker the slot.
        let posted = unsafe { receive_by_ucp(&worker, buffer, length, pattern, param) };
        if !Returned::is_pending(slot, posted) {
            return worker.received_within(slot, posted, params, out);
        }
        worker.slab.take(slot);
        slot.begin_fast(params, out.is_wanted());
        slot.sequence.set(worker.next_sequence());
        slot.started.set(worker.coarse_now.get());
        worker.stats.of(Kind::TagRecv).started.add(1);
        out.store(slot);
        worker.wake_sleeper();
        drop(worker);
        Ok(Submitted::Pending)
    }
}

impl Worker {
    /// The receive is not in flight. Usually its message had arrived before.
    #[inline(never)]
    fn received_within(
        &self,
        slot: &Slot,
        posted: sys::ucs_status_ptr_t,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        if !Returned::is_early(slot) {
            return self.submitted_slow(slot, posted, None, params, out);
        }
        // The slot is still a free one.
        slot.tell_received(params.recv_info);
        self.count_inline(Kind::TagRecv, slot.length.get(), None);
        trace::completed_fast(slot, std::ptr::null());
        out.store_null();
        Ok(Submitted::Done)
    }
}
