//! The kinds of operations.
#![deny(unsafe_code)]

use crate::engine::base::log::Component;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Free,
    TagSend,
    TagSendSync,
    TagRecv,
    TagMessageRecv,
    StreamSend,
    StreamRecv,
    EndpointFlush,
    WorkerFlush,
    EndpointClose,
    AmSend,
    /// The pull of a message whose data waits at its sender.
    AmRecv,
    /// The message with the request of a fetch, which is internal, and the fetch itself, until its
    /// reply has arrived.
    FetchAsk,
    Fetch,
    FetchReply,
    /// Multi-buffer transfer, and one of its messages, which is internal. See
    /// `messaging::tag::multi_common`.
    TagSendMulti,
    TagRecvMulti,
    TagSendPart,
    TagRecvPart,
    /// Writes or reads a peer's memory, or changes it with an atomic operation, which is sent like
    /// a fetch request. See `rma::put_get`.
    Put,
    Get,
    Atomic,
    /// To and from the queue of an endpoint. See `messaging::am::queue`.
    AmQueueSend,
    AmQueueRecv,
    /// A call on a window, and a lock that waits. See `window::pending_requests` and
    /// `window::lock_request`.
    Window,
    WindowLock,
    /// The pull of a multi-buffer message, which is internal.
    MultiPull,
    /// Not an operation: a received active message. See `core::channel::message`.
    AmMessage,
    /// UCP's half of a flush or a close, or a message that is dropped: internal.
    Internal,
}

impl Kind {
    pub(crate) const COUNT: usize = Kind::Internal as usize + 1;

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Free => "free",
            Kind::TagSend => "tag send",
            Kind::TagSendSync => "synchronous tag send",
            Kind::TagRecv => "tag receive",
            Kind::TagMessageRecv => "receive of a probed message",
            Kind::StreamSend => "stream send",
            Kind::StreamRecv => "stream receive",
            Kind::EndpointFlush => "endpoint flush",
            Kind::WorkerFlush => "worker flush",
            Kind::EndpointClose => "endpoint close",
            Kind::AmSend => "active message",
            Kind::AmRecv => "receive of an active message",
            Kind::FetchAsk => "request of a fetch",
            Kind::Fetch => "fetch",
            Kind::FetchReply => "reply to a fetch",
            Kind::TagSendMulti => "multi-buffer send",
            Kind::TagRecvMulti => "multi-buffer receive",
            Kind::TagSendPart | Kind::TagRecvPart => "frame",
            Kind::Put => "put",
            Kind::Get => "get",
            Kind::Atomic => "atomic operation",
            Kind::AmQueueSend => "message to a queue",
            Kind::AmQueueRecv => "receive from a queue",
            Kind::Window => "call on a window",
            Kind::WindowLock => "lock of a window",
            Kind::MultiPull => "pull of a multi-buffer message",
            Kind::AmMessage => "message",
            Kind::Internal => "internal operation",
        }
    }

    /// Whose log lines are about it.
    pub(crate) fn component(self) -> Component {
        match self {
            Kind::TagSend
            | Kind::TagSendSync
            | Kind::TagRecv
            | Kind::TagMessageRecv
            | Kind::TagSendMulti
            | Kind::TagRecvMulti
            | Kind::TagSendPart
            | Kind::TagRecvPart => Component::Tag,
            Kind::StreamSend | Kind::StreamRecv => Component::Stream,
            Kind::AmSend
            | Kind::AmRecv
            | Kind::AmMessage
            | Kind::AmQueueSend
            | Kind::AmQueueRecv
            | Kind::MultiPull => Component::Am,
            Kind::Fetch | Kind::FetchAsk | Kind::FetchReply => Component::Fetch,
            Kind::Put | Kind::Get | Kind::Atomic => Component::Rma,
            Kind::Window | Kind::WindowLock => Component::Window,
            Kind::EndpointFlush | Kind::EndpointClose => Component::Endpoint,
            Kind::WorkerFlush | Kind::Free | Kind::Internal => Component::Worker,
        }
    }

    #[inline(always)]
    pub(crate) fn is_send(self) -> bool {
        matches!(
            self,
            Kind::TagSend
                | Kind::TagSendSync
                | Kind::TagSendPart
                | Kind::StreamSend
                | Kind::AmSend
                | Kind::AmQueueSend
                | Kind::FetchAsk
                | Kind::FetchReply
                | Kind::Put
                | Kind::Get
        )
    }

    /// UCX reads or writes the peer's memory, or lets the peer do it.
    #[inline(always)]
    pub(crate) fn is_one_sided(self) -> bool {
        matches!(self, Kind::Put | Kind::Get)
    }

    /// Flushes wait for its completion.
    #[inline(always)]
    pub(crate) fn is_flushed(self) -> bool {
        self.is_send() || self == Kind::Atomic
    }

    /// It waits for a reply, which has its number.
    pub(crate) fn is_question(self) -> bool {
        matches!(self, Kind::Fetch | Kind::Atomic)
    }

    /// Its bytes go to the peer.
    #[inline(always)]
    pub(crate) fn takes_bytes(self) -> bool {
        self.is_send() && self != Kind::Get
    }

    /// Its bytes come from the peer.
    #[inline(always)]
    pub(crate) fn brings_bytes(self) -> bool {
        self.is_recv() || self == Kind::Get
    }

    #[inline(always)]
    pub(crate) fn is_recv(self) -> bool {
        self.is_single_recv()
            || matches!(
                self,
                Kind::TagRecvMulti | Kind::TagRecvPart | Kind::MultiPull | Kind::AmQueueRecv
            )
    }

    /// Neither made of other operations nor a part of one.
    pub(crate) fn is_single_recv(self) -> bool {
        matches!(
            self,
            Kind::TagRecv | Kind::TagMessageRecv | Kind::StreamRecv | Kind::AmRecv | Kind::Fetch
        )
    }

    pub(crate) fn is_multi(self) -> bool {
        matches!(self, Kind::TagSendMulti | Kind::TagRecvMulti)
    }

    /// It needs the peer's credit, because it takes memory there unexpectedly.
    pub(crate) fn needs_credit(self) -> bool {
        matches!(self, Kind::AmSend | Kind::FetchAsk)
    }

    /// No caller has it, and it is not counted.
    pub(crate) fn is_internal(self) -> bool {
        matches!(
            self,
            Kind::Internal
                | Kind::FetchAsk
                | Kind::TagSendPart
                | Kind::TagRecvPart
                | Kind::MultiPull
        )
    }
}

/// Names of operations in metrics, and the kinds that are counted there: parts count with the
/// operation that they belong to.
pub(crate) const NAMES: [(&str, &[Kind]); 20] = [
    ("tag_send", &[Kind::TagSend]),
    ("tag_send_sync", &[Kind::TagSendSync]),
    ("tag_recv", &[Kind::TagRecv, Kind::TagMessageRecv]),
    ("tag_send_multi", &[Kind::TagSendMulti, Kind::TagSendPart]),
    ("tag_recv_multi", &[Kind::TagRecvMulti, Kind::TagRecvPart]),
    ("stream_send", &[Kind::StreamSend]),
    ("stream_recv", &[Kind::StreamRecv]),
    ("am_send", &[Kind::AmSend]),
    ("am_recv", &[Kind::AmRecv, Kind::MultiPull]),
    ("am_queue_send", &[Kind::AmQueueSend]),
    ("am_queue_recv", &[Kind::AmQueueRecv]),
    ("fetch", &[Kind::Fetch, Kind::FetchAsk]),
    ("fetch_reply", &[Kind::FetchReply]),
    ("put", &[Kind::Put]),
    ("get", &[Kind::Get]),
    ("atomic", &[Kind::Atomic]),
    ("flush", &[Kind::EndpointFlush, Kind::WorkerFlush]),
    ("endpoint_close", &[Kind::EndpointClose]),
    ("window", &[Kind::Window]),
    ("window_lock", &[Kind::WindowLock]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_that_is_an_operation_has_one_name() {
        let mut named: Vec<u8> =
            NAMES.iter().flat_map(|(_, kinds)| *kinds).map(|k| *k as u8).collect();
        named.sort_unstable();
        let others = [Kind::Free, Kind::AmMessage, Kind::Internal].map(|kind| kind as u8);
        let all: Vec<u8> = (0..Kind::COUNT as u8).filter(|kind| !others.contains(kind)).collect();
        assert_eq!(named, all);
    }
}
