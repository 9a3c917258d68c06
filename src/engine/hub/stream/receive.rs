//! The receiving end of a stream: puts received chunks into envelopes of a producer link, and
//! commits them in sending order. Runs on the thread that has the stream's turn.

use crate::engine::base::status::Status;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::hub::stream::slot::Mail;
use crate::engine::hub::stream::stream::{HubStream, Stage, Work};
use crate::engine::wire::hub_stream::METADATA;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};

/// A sender with less credit than this gets a credit update at once, however small the window is.
const PLENTY: u64 = 2;

impl HubStream {
    /// Commits received chunks, leases envelopes for more, and sends credit updates.
    pub(crate) fn receive(&self, work: &mut Work) {
        self.produce(work);
        if work.stage != Stage::Joined {
            return;
        }
        if self.is_given_up() {
            // An End that has arrived meanwhile is not passed to the hub: the stream's next end
            // here will receive it again.
            return self.close(work, Status::CANCELED, true);
        }
        if let Some((count, last)) = work.end {
            if work.first < count {
                return self.send_credit(work);
            }
            self.close(work, Status::OK, last);
            self.give_back(work);
            if last && work.stage == (Stage::Clearing { over: true }) {
                self.finish(work, true);
            }
            return;
        }
        if self.hub.state.lock().closed {
            // No more production: chunks in flight stay at their sender.
            return self.close(work, Status::CLOSED, true);
        }
        while work.granted - work.first < self.window(work) {
            match self.lease(true) {
                Ok(lease) => {
                    self.place(work.granted).hold(lease);
                    work.granted += 1;
                }
                // Closed a moment ago: the stream will run again.
                Err(_) => break,
            }
        }
        self.send_credit(work);
    }

    /// Sends a credit update. It acknowledges chunks, so their envelopes become free at the sender,
    /// and grants new ones. Each update costs the sender as much time as starting a chunk. So an
    /// update waits for the next received chunk as long as the sender has plenty of credit, and at
    /// least twice as many chunks are in flight as are unacknowledged. Then the sender always has
    /// something in flight that triggers the update.
    fn send_credit(&self, work: &mut Work) {
        if work.reported == (work.first, work.granted) {
            return;
        }
        let (reported_first, reported_granted) = work.reported;
        let plenty = self.window(work).div_ceil(4).max(PLENTY);
        let (unreported, under_way) =
            (work.first.saturating_sub(reported_first), work.next - work.first);
        let can_wait =
            unreported * 2 <= under_way && reported_granted.saturating_sub(work.next) >= plenty;
        if can_wait && work.end.is_none() {
            return;
        }
        work.reported = (work.first, work.granted);
        let header = StreamHeader {
            count: work.first,
            size: work.granted,
            ..self.header(work, Tells::Credit)
        };
        self.send_header(work, header);
    }

    /// Commits received chunks in order.
    fn produce(&self, work: &mut Work) {
        while work.first < work.next {
            let place = self.place(work.first);
            match place.outcome() {
                None => return,
                Some(Status::OK) => {
                    if !place.end(true) {
                        // The hub is gone. The chunk is not acknowledged, so the sender offers it
                        // again.
                        return self.close(work, Status::CANCELED, true);
                    }
                    work.first += 1;
                }
                Some(status) => return self.broken(work, "a chunk could not be received", status),
            }
        }
    }

    /// Gives back the envelopes that were leased for more chunks.
    fn give_back(&self, work: &mut Work) {
        for chunk in work.next..work.granted {
            self.return_lent();
            self.place(chunk).end(false);
        }
        work.granted = work.next;
    }

    /// Handles a message of the sending end.
    pub(crate) fn on_sender_message(
        &self,
        work: &mut Work,
        mail: &Mail,
    ) -> Result<(), &'static str> {
        let header = &mail.header;
        match header.tells {
            Tells::Chunk => self.on_chunk(work, mail),
            Tells::End if work.end.is_some() || header.count != work.next => {
                Err("a second end of the stream, or one before the last chunk")
            }
            Tells::End => {
                work.end = Some((header.count, header.mark));
                Ok(())
            }
            Tells::Close => {
                self.produce(work);
                if work.stage == Stage::Joined {
                    work.stage = Stage::Clearing { over: false };
                }
                Ok(())
            }
            _ => Err("it sent a message that only a receiving end sends"),
        }
    }

    fn on_chunk(&self, work: &mut Work, mail: &Mail) -> Result<(), &'static str> {
        let message = mail.message();
        if mail.header.count != work.next || work.end.is_some() {
            return Err("a chunk that is not the next one");
        }
        if work.next == work.granted {
            return Err("a chunk that there is no envelope for");
        }
        if message.length() > self.hub.size {
            return Err("a chunk that is longer than an envelope");
        }
        let place = self.place(work.next);
        // SAFETY: a lease of this stream, which lasts until `place` ends it.
        let view =
            unsafe { &*place.lease.get() }.view().map_err(|_| "the hub has been destroyed")?;
        let metadata = message
            .header()
            .get(StreamHeader::LENGTH..)
            .filter(|metadata| metadata.len() == METADATA);
        let metadata = metadata.ok_or("a chunk without metadata")?;
        // SAFETY: `METADATA` bytes of an envelope that our lease lets us write.
        unsafe { view.metadata.copy_from_nonoverlapping(metadata.as_ptr(), METADATA) };
        place.length.set(message.length());
        self.return_lent();
        work.next += 1;
        if message.length() == 0 {
            // There is no data to receive: the place is complete as `hold` has left it.
            return Ok(());
        }
        let part = [Part {
            data: view.data.cast(),
            length: message.length() as usize,
            memory_type: view.kind.to_network(),
        }];
        let received = self.begin(place, |params| {
            // SAFETY: the lease keeps the envelope until the transfer has ended.
            unsafe { message.receive(&part, params, Out::NOWHERE) }
        });
        // A failed start leaves the place with an error status, which is handled in order.
        let _ = received;
        Ok(())
    }
}
