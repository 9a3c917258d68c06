//! The sending end of a stream: sends chunks of a consumer link, and consumes them when the
//! receiver has acknowledged them. Runs on the thread that has the stream's turn.

use crate::engine::base::status::Status;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::hub::lease::Refusal;
use crate::engine::hub::stream::stream::{HubStream, Stage, Work};
use crate::engine::wire::hub_stream::METADATA;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};

/// From this length on, a chunk is pulled: it stays at the sender until UCX copies it directly into
/// its envelope. Shorter ones are sent eagerly and copied twice. See docs/hub.md.
const PULLED_FROM: u64 = 16 << 10;

impl HubStream {
    /// Consumes acknowledged chunks, and sends as credit allows.
    pub(crate) fn send(&self, work: &mut Work) {
        self.consume(work);
        if work.end.is_some() {
            // The receiver closes when it has all chunks.
            return;
        }
        if self.is_given_up() {
            return self.send_end(work, false);
        }
        while work.stage == Stage::Joined
            && work.end.is_none()
            && work.next - work.first < self.window(work)
        {
            if work.next == work.granted {
                return self.note_stall(work);
            }
            match self.lease(false) {
                Ok(lease) => {
                    self.place(work.next).hold(lease);
                    self.send_chunk(work);
                }
                Err(Refusal::Closed) => {
                    // A destroyed hub has not ended regularly, and its link has been notified.
                    let last = !self.hub.state.lock().destroyed;
                    return self.send_end(work, last);
                }
                Err(Refusal::Failed { .. }) => {
                    return self.broken(
                        work,
                        "a chunk could not be copied to the link's memory",
                        Status::IO_ERROR,
                    );
                }
                Err(_) => return,
            }
        }
    }

    fn send_chunk(&self, work: &mut Work) {
        let place = self.place(work.next);
        // SAFETY: a lease of this stream, which lasts until `place` ends it.
        let Ok(view) = (unsafe { &*place.lease.get() }).view() else {
            place.end(false);
            return;
        };
        if work.peer.is_none_or(|peer| peer.size < view.length) {
            place.end(false);
            let why =
                format!("a chunk of {} bytes is longer than the receiver's envelopes", view.length);
            self.complain(&why);
            work.is_last = true;
            return self.send_end(work, false);
        }
        let mut bytes = [0; StreamHeader::WITH_METADATA];
        let header = StreamHeader { count: work.next, ..self.header(work, Tells::Chunk) };
        bytes[..StreamHeader::LENGTH].copy_from_slice(&header.encode());
        // SAFETY: `METADATA` bytes of an envelope that our lease lets us read.
        let metadata = unsafe { std::slice::from_raw_parts(view.metadata, METADATA) };
        bytes[StreamHeader::LENGTH..].copy_from_slice(metadata);
        place.length.set(0);
        let part = [Part {
            data: view.data.cast(),
            length: view.length as usize,
            memory_type: view.kind.to_network(),
        }];
        let data: &[Part] = if view.length == 0 { &[] } else { &part };
        // To a device, too: the CPU cannot write there.
        let is_pulled = view.length >= PULLED_FROM || work.peer.is_some_and(|peer| peer.device);
        let waits = if is_pulled && view.length > 0 { flag::RNDV } else { 0 };
        // It counts as sent, whatever happens to it.
        work.next += 1;
        let sent = self.begin(place, |params| {
            // SAFETY: the lease keeps the envelope until the transfer has ended.
            unsafe {
                self.endpoint.send_hub_message(&bytes, data, &OpParams { flags: waits, ..*params })
            }
        });
        if let Err(error) = sent {
            self.endpoint_failed(work, &error);
        }
    }

    fn note_stall(&self, work: &mut Work) {
        if work.stalled {
            return;
        }
        let mut state = self.hub.state.lock();
        if state.is_joined_by(self.request.link, self) && state.look(&self.request).is_ok() {
            work.stalled = true;
            state.stats.credit_stalls += 1;
        }
    }

    fn send_end(&self, work: &mut Work, last: bool) {
        work.end = Some((work.next, last));
        let header = StreamHeader { mark: last, count: work.next, ..self.header(work, Tells::End) };
        self.send_header(work, header);
    }

    /// Consumes the chunks that the receiver has acknowledged and that UCX has released.
    fn consume(&self, work: &mut Work) {
        while work.first < work.taken && self.place(work.first).outcome().is_some() {
            self.place(work.first).end(true);
            work.first += 1;
        }
    }

    /// Handles a message of the receiving end.
    pub(crate) fn on_receiver_message(
        &self,
        work: &mut Work,
        header: &StreamHeader,
    ) -> Result<(), &'static str> {
        let StreamHeader { count, size, .. } = *header;
        match header.tells {
            Tells::Credit => {
                if count < work.taken || count > work.next {
                    return Err("it acknowledged chunks that were not sent");
                }
                if size < work.granted || size < work.next || size - count > self.window(work) {
                    return Err("it granted more than the window allows, or less than before");
                }
                if size > work.granted {
                    work.stalled = false;
                }
                (work.taken, work.granted) = (count, size);
                Ok(())
            }
            Tells::Close => {
                if count < work.taken || count > work.next {
                    return Err("it acknowledged chunks that were not sent");
                }
                work.taken = count;
                let heard =
                    work.end.is_some_and(|(all, _)| all == count) && header.status == Status::OK.0;
                work.stage = Stage::Clearing { over: heard };
                Ok(())
            }
            _ => Err("it sent a message that only a sending end sends"),
        }
    }
}
