//! Multi-buffer send in its tag form: headers and then the frames, each as its own message under
//! one tag.
//!
//! All of them are given to UCP, or to the endpoint's queue, in one call inside the gate, so that
//! no other message of this endpoint comes between them.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part as Of, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::messaging::tag::multi_common::Multi;
use crate::engine::messaging::tag::tag::{self, Mode};
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::ucxx_multi::{self, headers_for, Announced};

impl Multi {
    fn describe(&mut self, parts: &[Part]) {
        self.parts.extend_from_slice(parts);
        let announced = |part: &Part| Announced {
            length: part.length as u64,
            device: memory_type::is_cuda(part.memory_type),
        };
        ucxx_multi::encode(parts.iter().map(announced), &mut self.headers);
    }

    /// Number of messages of a send.
    pub(crate) fn count_parts(&self) -> usize {
        count_parts(self.parts.len())
    }
}

fn count_parts(frames: usize) -> usize {
    headers_for(frames) + frames
}

impl SharedEndpoint {
    /// Sends the parts one by one, after headers that announce them.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed, and `out` is valid.
    pub unsafe fn tag_send_multi(
        &self,
        parts: &[Part],
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker().context, "multi-buffer send", flag::NO_WAIT)?;
        for part in parts {
            memory_type::to_ucx(&self.worker().context, part.memory_type)?;
        }
        let length: usize = parts.iter().map(|part| part.length).sum();
        request_wait::submit(params, out, |params, out| {
            if self.worker().must_submit_remotely(params) {
                return self.send_multi_later(parts, length, tag, params, out);
            }
            let to = self.enter()?;
            let inside = &to.worker;
            self.check_open()?;
            inside.need(feature::TAG)?;
            if to.must_wait() {
                to.check_queue(params, length)?;
            }
            let slot = inside.take_slot();
            slot.begin(Kind::TagSendMulti, params, length as u64, tag, out.is_wanted());
            let mut multi = inside.multis().take();
            multi.describe(parts);
            slot.state.set(Some(multi));
            if let Err(error) = to.send_frames(slot) {
                inside.multi_ended(slot);
                inside.return_slot(slot);
                return Err(error);
            }
            trace::submitted(slot, Some(&to));
            let ended = slot.remaining.get() == 0;
            if ended && slot.reason.get() == 0 && params.flags & flag::ALWAYS_CALLBACK == 0 {
                inside.stats.of(Kind::TagSendMulti).inline.add(1);
                trace::completed_inline(slot, Some(&to));
                inside.multi_ended(slot);
                inside.return_slot(slot);
                out.store_null();
                return Ok(Submitted::Done);
            }
            inside.start(slot, Some(&to), params, out);
            if ended {
                inside.complete(slot, Status(slot.reason.get()));
            }
            Ok(Submitted::Pending)
        })
    }

    #[inline(never)]
    fn send_multi_later(
        &self,
        parts: &[Part],
        length: usize,
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.check_open_outside()?;
        self.worker().need(feature::TAG)?;
        let reservation = self.reserve(params, Need::of_many(count_parts(parts.len()), length))?;
        self.worker().delay(Kind::TagSendMulti, length as u64, params, out, |slot| {
            let mut multi = self.worker().multis().take();
            multi.describe(parts);
            slot.state.set(Some(multi));
            slot.tag.set(tag);
            Queued { tag, endpoint: self, permit: reservation.keep(), ..Queued::NOTHING }
        })
    }
}

impl Endpoint {
    /// A send that came through the ring.
    pub(crate) fn send_multi_from_ring(&self, slot: &Slot, left: &OpParams) {
        match self.send_frames(slot) {
            Ok(()) => {
                self.worker.start(slot, Some(self), left, Out::NOWHERE);
                if slot.remaining.get() == 0 {
                    self.worker.complete(slot, Status(slot.reason.get()));
                }
            }
            Err(error) => self.worker.never_started(slot, Some(self), error.status()),
        }
    }

    /// Gives all messages to UCP or the queue. `remaining` counts those that have not completed. On
    /// an error nothing was sent. If a later message fails, the rest is not sent, and the operation
    /// fails when the earlier ones have completed.
    fn send_frames(&self, slot: &Slot) -> Result<()> {
        let Some(multi) = slot.take_multi() else { return Err(Error::invalid("buffers: none")) };
        // A part that completes in this loop does not complete the operation.
        slot.remaining.set(1);
        let headers = multi.headers.chunks_exact(ucxx_multi::HEADER).map(|header| Part {
            data: header.as_ptr().cast_mut().cast(),
            length: header.len(),
            memory_type: memory_type::HOST,
        });
        let mut result = Ok(());
        for (index, part) in headers.chain(multi.parts.iter().copied()).enumerate() {
            if let Err(error) = self.send_part(slot, index as u32, &part) {
                if index == 0 {
                    result = Err(error);
                } else {
                    slot.reason.set(error.status().0);
                }
                break;
            }
        }
        slot.state.set(Some(multi));
        slot.remaining.set(slot.remaining.get() - 1);
        result
    }

    fn send_part(&self, operation: &Slot, index: u32, part: &Part) -> Result<()> {
        let worker = &self.worker;
        let (tag, memory_type) =
            (operation.tag.get(), memory_type::to_ucx(&worker.context, part.memory_type)?);
        let (buffer, count, length) = (part.data, part.length, part.length as u64);
        // The caller keeps the frames, and the operation its headers.
        let queued = Queued {
            buffer,
            count,
            tag,
            memory_type,
            endpoint: &raw const **self,
            ..Queued::NOTHING
        };
        let frame = Of::Frame(operation.ticket(), index);
        let more = || operation.remaining.set(operation.remaining.get() + 1);
        let slot = worker.take_slot();
        if self.must_wait() {
            more();
            slot.begin(Kind::TagSendPart, &OpParams::DEFAULT, length, tag, false);
            slot.part.set(frame);
            slot.queued.set(queued);
            self.enqueue(slot, &OpParams::DEFAULT, Out::NOWHERE);
            return Ok(());
        }
        slot.prepare(Kind::TagSendPart);
        let posted = tag::post_send(Mode::Local, slot, &queued, Some(self));
        let Some(ended) = worker.part_posted(slot, posted) else {
            more();
            worker.start_as_part(slot, Some(self), frame, length, tag);
            return Ok(());
        };
        if ended.is_error() {
            let status = worker.status_from_ucx(ended, Some(self));
            return Err(Error::new(
                status,
                format!("endpoint: UCX refused a frame to {}", self.peer_text()),
            ));
        }
        worker.stats.of(Kind::TagSendMulti).bytes.add(length);
        self.count_sent(length);
        Ok(())
    }
}
