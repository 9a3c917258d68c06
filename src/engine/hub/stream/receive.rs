//! The receiving end of a stream: what comes goes into envelopes of a link that produces, and
//! becomes chunks in the order in which it was sent.

use crate::engine::base::status::Status;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::hub::stream::slot::Mail;
use crate::engine::hub::stream::stream::{HubStream, Stage, Work};
use crate::engine::wire::hub_stream::METADATA;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};

/// A sender with less credit is always told when there is more, however small the window.
const PLENTY: u64 = 2;

impl HubStream {
    /// Makes chunks of what has come, and tells of it, and of the envelopes that there are for
    /// more.
    pub(crate) fn receive(&self, work: &mut Work) {
        self.produce(work);
        if work.stage != Stage::Joined {
            return;
        }
        if self.is_given_up() {
            // An end that has come meanwhile is not that of this hub: who takes the place is told
            // it again.
            return self.close(work, Status::CANCELED, true);
        }
        if let Some((count, last)) = work.end {
            if work.first < count {
                return self.tell(work);
            }
            self.close(work, Status::OK, last);
            self.give_back(work);
            if last && work.stage == (Stage::Clearing { over: true }) {
                self.finish(work, true);
            }
            return;
        }
        if self.hub.state.lock().closed {
            // Nobody is to produce any more: what is on its way stays at its sender.
            return self.close(work, Status::CLOSED, true);
        }
        while work.granted - work.first < self.window(work) {
            match self.lease(true) {
                Ok(lease) => {
                    self.place(work.granted).hold(lease);
                    work.granted += 1;
                }
                // Closed a moment ago: its turn comes again.
                Err(_) => break,
            }
        }
        self.tell(work);
    }

    /// What has become a chunk frees its envelope at the sender, and there is one more here after a
    /// while. Each such message costs as much of the sender's time as the beginning of a chunk. So
    /// it waits for the next chunk that comes through, as long as the sender has plenty of credit,
    /// and twice as many chunks are on their way as it does not know to have come through: then it
    /// has something to send whatever it waits for.
    fn tell(&self, work: &mut Work) {
        if work.told == (work.first, work.granted) {
            return;
        }
        let (told_first, told_granted) = work.told;
        let plenty = self.window(work).div_ceil(4).max(PLENTY);
        let (untold, under_way) = (work.first.saturating_sub(told_first), work.next - work.first);
        let can_wait = untold * 2 <= under_way && told_granted.saturating_sub(work.next) >= plenty;
        if can_wait && work.end.is_none() {
            return;
        }
        work.told = (work.first, work.granted);
        let header = StreamHeader {
            count: work.first,
            size: work.granted,
            ..self.header(work, Tells::Credit)
        };
        self.say(work, header);
    }

    /// In their order.
    fn produce(&self, work: &mut Work) {
        while work.first < work.next {
            let place = self.place(work.first);
            match place.outcome() {
                None => return,
                Some(Status::OK) => {
                    if !place.end(true) {
                        // There is no hub any more to have it: it is not counted, and so is offered
                        // again.
                        return self.close(work, Status::CANCELED, true);
                    }
                    work.first += 1;
                }
                Some(status) => return self.broken(work, "a chunk did not come through", status),
            }
        }
    }

    /// The envelopes that were for more.
    fn give_back(&self, work: &mut Work) {
        for chunk in work.next..work.granted {
            self.unlend();
            self.place(chunk).end(false);
        }
        work.granted = work.next;
    }

    /// What the sending end has said.
    pub(crate) fn hear_sender(&self, work: &mut Work, mail: &Mail) -> Result<(), &'static str> {
        let header = &mail.header;
        match header.tells {
            Tells::Chunk => self.take_in(work, mail),
            Tells::End if work.end.is_some() || header.count != work.next => {
                Err("an end that is none")
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
            _ => Err("it receives, and is to send"),
        }
    }

    fn take_in(&self, work: &mut Work, mail: &Mail) -> Result<(), &'static str> {
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
        // SAFETY: a lease of ours, which lasts until `place` ends it.
        let view = unsafe { &*place.lease.get() }.view().map_err(|_| "there is no hub any more")?;
        let metadata = message
            .header()
            .get(StreamHeader::LENGTH..)
            .filter(|metadata| metadata.len() == METADATA);
        let metadata = metadata.ok_or("a chunk without metadata")?;
        // SAFETY: so many bytes, of an envelope that is ours to write.
        unsafe { view.metadata.copy_from_nonoverlapping(metadata.as_ptr(), METADATA) };
        place.length.set(message.length());
        self.unlend();
        work.next += 1;
        if message.length() == 0 {
            // No data came, nor waits for its being fetched: the place is as `hold` has left it.
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
        // What did not begin has ended, which is looked at when it is its turn.
        let _ = received;
        Ok(())
    }
}
