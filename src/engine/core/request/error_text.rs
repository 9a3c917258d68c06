//! What an operation that has failed says of itself: which one, with whom, and why.

use crate::engine::base::status::{Error, Status};
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::request::request::{Kind, Slot};

impl Slot {
    /// For `error_message`.
    #[cold]
    pub(crate) fn describe_failure(&self, status: Status) -> String {
        let endpoint = self.endpoint.get();
        let peer = if endpoint.is_null() {
            String::new()
        } else {
            // SAFETY: the worker keeps the endpoint alive while this operation is in flight, and it still is.
            format!(", peer {}", unsafe { &*endpoint }.peer_text())
        };
        let (what, why) = (self.describe_operation(status), self.describe_cause(status));
        format!("{what}{peer}: {}", why.unwrap_or_else(|| status.sentence().to_string_lossy().into_owned()))
    }

    fn describe_operation(&self, status: Status) -> String {
        match self.kind.get() {
            kind @ (Kind::TagSend | Kind::TagSendSync) => {
                format!("{} of {} bytes, tag 0x{:x}", kind.describe(), self.length.get(), self.tag.get())
            }
            Kind::TagRecv | Kind::TagMessageRecv if status == Status::MESSAGE_TRUNCATED => {
                format!("{}: the message has {} bytes", self.kind.get().describe(), self.length.get())
            }
            kind @ (Kind::TagSendMulti | Kind::TagRecvMulti) => {
                let trouble = self.with_multi(|multi| multi.trouble.take()).flatten();
                let trouble = trouble.map_or(String::new(), |trouble| format!(": {trouble}"));
                format!("{}, tag 0x{:x}{trouble}", kind.describe(), self.tag.get())
            }
            Kind::StreamSend => format!("stream send of {} bytes", self.length.get()),
            Kind::StreamRecv => {
                format!("stream receive of {} bytes, {} of them there", self.queued.get().count, self.length.get())
            }
            Kind::AmSend if status == Status::NO_ELEM => {
                format!("active message of {} bytes, id {}", self.length.get(), self.queued.get().outgoing.id)
            }
            Kind::Fetch => format!("fetch, id {}", self.queued.get().outgoing.id),
            kind => kind.describe().to_owned(),
        }
    }

    /// Where more is known than the status says.
    fn describe_cause(&self, status: Status) -> Option<String> {
        let kind = self.kind.get();
        if let (Kind::Fetch | Kind::AmQueueRecv, Some(trouble)) = (kind, self.trouble_of_making()) {
            return Some(trouble.message().to_owned());
        }
        let text = match (kind, status) {
            (Kind::AmSend, Status::NO_ELEM) => {
                "the peer has no handler for this id (ucxx_worker_set_am_handler, or _set_multi_handler for several buffers)"
                    .to_owned()
            }
            (Kind::AmQueueSend, Status::NO_ELEM) => {
                "the peer has no handler for this owner and number of a callback".to_owned()
            }
            (Kind::Fetch, Status::NO_ELEM) => {
                "the peer has no handler for this id (ucxx_worker_set_fetch_handler), or that has rejected the question with UCXX_ERR_NO_ELEM".to_owned()
            }
            (Kind::Fetch, Status::MESSAGE_TRUNCATED) => {
                format!("the answer has {} bytes, and there is room for {}", self.length.get(), self.room_for_answer())
            }
            (Kind::Fetch, Status::BUSY | Status::REJECTED) => format!("the peer's handler has rejected it with {status}"),
            (Kind::Fetch, status) if status.0 <= Status::APPLICATION.0 => {
                format!("the peer's handler has rejected it with a status of the application's, {}", status.0)
            }
            _ => return None,
        };
        Some(text)
    }

    fn trouble_of_making(&self) -> Option<Error> {
        let mut making: Option<Box<Making>> = self.making.take();
        let trouble = making.as_mut().and_then(|making| making.trouble.take());
        self.making.set(making);
        trouble
    }

    fn room_for_answer(&self) -> u64 {
        let queued = self.queued.get();
        if !queued.scattered {
            return queued.count as u64;
        }
        // SAFETY: the slot's own list, which nobody changes while it is in flight, and it still is.
        unsafe { &*self.iov.get() }.iter().map(|part| part.length as u64).sum()
    }
}
