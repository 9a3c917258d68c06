//! The library's own messages between endpoints: how they are sent, and how UCP's active-message
//! handlers receive them.
//!
//! A handler runs inside `ucp_worker_progress`, inside the gate. It only records what must follow,
//! and the pass does it afterwards, because messages that are sent from a handler lose their order.
//! Ids are registered in ascending order from 0, before the worker's address is known to any peer:
//! UCX up to 1.16 leaves gaps uninitialised.

use crate::engine::base::log::{self, Component, Subject};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::receive::{Arrived, Keeper};
use crate::engine::core::channel::send::send_by_ucp;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::endpoint::life::LifeEvent;
use crate::engine::core::request::request::{Part, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::shared_segment::SegmentName;
use crate::engine::wire::compact_header::{self, Piece};
use crate::engine::wire::header::{
    Amount, Header, Hello, Kind, Question, Unreadable, AM_ID, HEADER,
};
use crate::sys;
use std::ffi::c_void;

/// Most refusals that UCP may have in addition to the send window: a thread that waits for one may
/// be needed before the window has room. The same limit holds for other internal messages that a
/// peer could cause without end.
pub(crate) const AT_ONCE: u32 = 64;

impl Worker {
    /// Starts receiving messages. Called before any peer knows the worker.
    pub(crate) fn register_handlers(&self) -> Result<()> {
        for (id, handler) in self.protocols.foreign().chain([(AM_ID, on_message as Handler)]) {
            // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
            let mut param: sys::ucp_am_handler_param_t = unsafe { std::mem::zeroed() };
            param.field_mask = u64::from(
                sys::UCP_AM_HANDLER_PARAM_FIELD_ID
                    | sys::UCP_AM_HANDLER_PARAM_FIELD_CB
                    | sys::UCP_AM_HANDLER_PARAM_FIELD_ARG,
            );
            param.id = id;
            param.cb = Some(handler);
            param.arg = std::ptr::from_ref(self).cast_mut().cast();
            // SAFETY: a live worker that no other thread knows yet. It outlives UCP's worker, which
            // calls the handler.
            let status = unsafe { sys::ucp_worker_set_am_recv_handler(self.ucp(), &param) };
            if status != sys::UCS_OK {
                return Err(Error::new(
                    Status(status.into()),
                    "UCX could not set the library's handler for active messages",
                ));
            }
        }
        Ok(())
    }

    /// The endpoint of this UCP endpoint.
    pub(crate) fn endpoint_by_ucp(&self, ucp: sys::ucp_ep_h) -> Option<Inward<SharedEndpoint>> {
        if ucp.is_null() {
            return None;
        }
        let endpoints = self.endpoints.borrow();
        let is_end = |endpoint: &&Inward<SharedEndpoint>| endpoint.ucp.get() == ucp;
        let is_heard =
            |endpoint: &&Inward<SharedEndpoint>| endpoint.peering.heard_on.get() == Reply(ucp);
        endpoints
            .iter()
            .flatten()
            .find(is_end)
            .or_else(|| endpoints.iter().flatten().find(is_heard))
            .cloned()
    }

    /// Inside UCP's progress. `reply` is compared, and used for an answer here; it is not kept,
    /// because UCP may free it later.
    fn message_came(
        &self,
        header: std::result::Result<Header, Unreadable>,
        payload: &[u8],
        reply: sys::ucp_ep_h,
    ) {
        let header = match header {
            Ok(header) => header,
            Err(Unreadable::Garbage(why)) => return complain(Component::Worker, self, why),
            Err(Unreadable::Version { theirs, refusal, connection, sender }) => {
                if !refusal && !reply.is_null() {
                    self.refuse(reply, sender);
                }
                if let Some(endpoint) =
                    self.endpoint_by_id(connection).or_else(|| self.endpoint_by_ucp(reply))
                {
                    self.push_event(Event::Refused(endpoint, theirs));
                } else {
                    log::at!(WARN, Worker, self, "a peer {}", other_version(theirs));
                }
                return;
            }
        };
        let endpoint =
            self.endpoint_by_id(header.connection).or_else(|| self.endpoint_by_ucp(reply));
        let hello = match header.kind {
            Kind::Hello | Kind::Welcome => match Hello::decode(&header, payload) {
                Ok(hello) => Some(Box::new(hello)),
                Err(why) => return complain(Component::Worker, self, why),
            },
            _ => None,
        };
        if let Some(endpoint) = &endpoint {
            endpoint.heard();
        }
        match (header.kind, endpoint, hello) {
            (Kind::Hello, endpoint, Some(hello)) => {
                if let Some(endpoint) = &endpoint {
                    endpoint.note_hello();
                }
                self.push_event(Event::Hello(endpoint, hello, Reply(reply)));
            }
            (Kind::Welcome, Some(endpoint), Some(hello)) => {
                self.push_event(Event::Welcome(endpoint, hello))
            }
            (Kind::Bye, endpoint, _) => {
                if let Some(endpoint) = &endpoint {
                    endpoint.note_bye(&header);
                }
                self.push_event(Event::Bye(endpoint, header, Reply(reply)));
            }
            (Kind::ByeAck, Some(endpoint), _) => endpoint.on(LifeEvent::ByeIsAnswered),
            (Kind::Ping, Some(endpoint), _) => self.push_event(Event::Ping(endpoint)),
            (Kind::Grant, Some(endpoint), _) => endpoint.note_credit(header.taken),
            (Kind::FastBox, Some(endpoint), _) => match payload.try_into() {
                Ok(name) => {
                    self.push_event(Event::FastBox(endpoint, Some(SegmentName::decode(name))))
                }
                Err(_) => complain(
                    Component::Worker,
                    self,
                    "an offer of a fast box that has the wrong length",
                ),
            },
            // `heard` was all that was needed. A message for an endpoint that has ended is dropped.
            _ => {}
        }
    }

    /// Inside UCP's handler, for any message. Returns the handler's result.
    fn came(&self, header: &[u8], arrived: &Arrived) -> sys::ucs_status_t {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if header.is_empty() && !arrived.waits {
                // SAFETY: valid during the handler.
                let piece = unsafe { bytes(arrived.data, arrived.length) };
                return self.packed_came(piece, arrived.from);
            }
            let decoded = Header::decode(header);
            if let Some(decoded) = decoded.as_ref().ok().filter(|decoded| decoded.kind.has_data()) {
                return self.data_came(decoded, None, &header[HEADER..], arrived);
            }
            if arrived.waits {
                let why = "a control message that was sent as a rendezvous";
                complain(Component::Worker, self, why);
                return sys::UCS_ERR_UNSUPPORTED;
            }
            // SAFETY: valid during the handler.
            let data = unsafe { bytes(arrived.data, arrived.length) };
            self.message_came(decoded, data, arrived.from);
            sys::UCS_OK
        }));
        answer.unwrap_or(sys::UCS_OK)
    }

    /// The same for one with data.
    #[inline(always)]
    fn data_came(
        &self,
        header: &Header,
        question: Option<Question>,
        user_header: &[u8],
        arrived: &Arrived,
    ) -> sys::ucs_status_t {
        match header.kind {
            Kind::Answer => (self.receivers.answers.otherwise)(self, header, user_header, arrived),
            _ => self.receive_arrived(header, question, user_header, arrived),
        }
    }

    /// Inside UCP's handler, for a message with its header beside its data. Returns the handler's
    /// result.
    #[inline(always)]
    pub(crate) fn came_beside(&self, header: &[u8], arrived: &Arrived) -> sys::ucs_status_t {
        match self.receive_beside_fast(header, arrived) {
            Some(answer) => answer,
            None => self.came(header, arrived),
        }
    }

    /// As `message_came`, for a message whose header is at the start of its data.
    fn packed_came(&self, message: &[u8], from: sys::ucp_ep_h) -> sys::ucs_status_t {
        match Piece::decode(message) {
            Ok(mut piece) => {
                self.complete_header(&mut piece);
                let Piece { header, question, user_header, data, .. } = piece;
                let (length, data) = (data.len(), data.as_ptr().cast_mut().cast());
                let arrived = Arrived { data, length, waits: false, keeper: Keeper::Nobody, from };
                self.data_came(&header, question, user_header, &arrived)
            }
            Err(unreadable) => {
                self.message_came(Err(unreadable), &[], from);
                sys::UCS_OK
            }
        }
    }

    /// Tells the sender of a message in another protocol version which version is used here. Inside
    /// a handler; there is no endpoint for it.
    fn refuse(&self, reply: sys::ucp_ep_h, connection: u32) {
        if self.refusals.get() >= AT_ONCE {
            return;
        }
        let header = Header { connection, ..Header::of(Kind::Refusal) };
        // SAFETY: the endpoint is valid during the handler.
        let ended =
            self.start_part(None, Part::Refusal, |slot| unsafe { send(slot, reply, &header, &[]) });
        self.refusals.set(self.refusals.get() + u32::from(ended.is_none()));
    }
}

impl Endpoint {
    /// Sends an internal message as `part`. Returns its status if it was sent inside the call. Not
    /// inside a handler.
    pub(crate) fn say(&self, kind: Kind, flags: u16, part: Part) -> Option<Status> {
        let ucp = self.ucp.get();
        if ucp.is_null() {
            return Some(Status::CLOSED);
        }
        if matches!(kind, Kind::Welcome | Kind::Pong | Kind::Grant) && self.sayings.get() >= AT_ONCE
        {
            // The peer does not receive them. What a Grant reports is sent later, when one of the
            // queued messages was sent: see `part_left`.
            return Some(Status::NO_RESOURCE);
        }
        let payload: &[u8] = match kind {
            Kind::Hello | Kind::Welcome => match self.worker.address_inside() {
                Ok(address) => address.bytes(),
                Err(error) => return Some(error.status()),
            },
            Kind::FastBox => self.fast_box.offer(),
            _ => &[],
        };
        let header = Header {
            flags,
            connection: self.peering.theirs.get(),
            taken: if kind == Kind::Grant { self.credits.advertise() } else { Amount::default() },
            sender: self.peering.number.get(),
            sequence: if kind == Kind::Hello { self.peering.place.get() } else { 0 },
            ..Header::of(kind)
        };
        // SAFETY: a live endpoint inside its worker's gate; the worker's address lives as long as
        // the worker, and an offer as long as the endpoint.
        self.start_part(part, |slot| unsafe { send(slot, ucp, &header, payload) })
    }
}

/// # Safety
/// A live endpoint of the slot's worker, inside whose gate the caller is. The payload is valid
/// until the slot completes.
unsafe fn send(
    slot: &Slot,
    ucp: sys::ucp_ep_h,
    header: &Header,
    payload: &[u8],
) -> sys::ucs_status_ptr_t {
    let room = slot.room(HEADER);
    // SAFETY: `room` has space for the header.
    unsafe { room.cast::<[u8; HEADER]>().write(header.encode()) };
    let mut param = Param::new(slot);
    param.flags(sys::UCP_AM_SEND_FLAG_REPLY | sys::UCP_AM_SEND_FLAG_EAGER);
    param.memory_type(Some(sys::UCS_MEMORY_TYPE_HOST));
    let data = (payload.as_ptr().cast(), payload.len());
    // SAFETY: the caller guarantees the endpoint and the payload. The header is in the slot, so UCX
    // may read it until the slot completes.
    unsafe { send_by_ucp(ucp, AM_ID, (room.cast_const().cast(), HEADER), data, param.as_ptr()) }
}

pub(crate) type Handler = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t;

/// The entry for all messages. Short forms have their own functions, which this ends in with a
/// jump.
///
/// # Safety
/// As for a handler of UCP: `arg` is the worker, inside its gate, and the message is valid during
/// the call.
pub(crate) unsafe extern "C" fn on_message(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t {
    if header_length != 0 {
        // SAFETY: the arguments of this handler, passed on.
        return unsafe { on_message_beside(arg, header, header_length, data, length, param) };
    }
    // SAFETY: UCP passes a valid `param`, and data that is valid during the handler.
    let first = unsafe {
        let waits = (*param).recv_attr & u64::from(sys::UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
        if length != 0 && !waits {
            data.cast::<u8>().read()
        } else {
            0
        }
    };
    // SAFETY: the arguments of this handler, passed on.
    unsafe {
        match first {
            compact_header::MARK_OF_MESSAGE => {
                on_short_message(arg, header, header_length, data, length, param)
            }
            compact_header::MARK_OF_QUESTION => {
                on_short_question(arg, header, header_length, data, length, param)
            }
            compact_header::MARK_OF_ANSWER => {
                let short_answer = (&*arg.cast::<Worker>()).receivers.answers.short;
                short_answer(arg, header, header_length, data, length, param)
            }
            _ => on_message_slow(arg, header, header_length, data, length, param),
        }
    }
}

/// Defines a UCP handler for messages that begin with the mark of a short form, for `on_message`.
/// `$take` handles the usual case. If it returns false nothing has happened, and `$otherwise`
/// handles the message. Nothing here can panic.
macro_rules! on_short {
    ($name:ident, $take:expr, $otherwise:ident) => {
        #[inline(never)]
        pub(crate) unsafe extern "C" fn $name(
            arg: *mut ::std::ffi::c_void,
            _header: *const ::std::ffi::c_void,
            _header_length: usize,
            data: *mut ::std::ffi::c_void,
            length: usize,
            param: *const $crate::sys::ucp_am_recv_param_t,
        ) -> $crate::sys::ucs_status_t {
            // SAFETY: `arg` is the worker, which outlives UCP's worker, and this is inside its
            // gate.
            let worker = unsafe { &*arg.cast::<$crate::engine::core::worker::worker::Worker>() };
            // SAFETY: data that is valid during the handler.
            let message = unsafe { std::slice::from_raw_parts(data.cast(), length) };
            if $crate::engine::wire::compact_header::Short::of(message)
                .is_some_and(|short| $take(worker, short))
            {
                return $crate::sys::UCS_OK;
            }
            // SAFETY: the arguments of this handler, passed on; there is no header.
            unsafe { $otherwise(arg, std::ptr::null(), 0, data, length, param) }
        }
    };
}
pub(crate) use on_short;

on_short!(on_short_message, Worker::receive_message_fast, on_short_message_of_another);
on_short!(
    on_short_message_of_another,
    |worker: &Worker, short| worker.names_another(short) && worker.receive_message_fast(short),
    on_message_slow
);
on_short!(on_short_question, Worker::receive_question_fast, on_short_question_of_another);
on_short!(
    on_short_question_of_another,
    |worker: &Worker, short| worker.names_another(short) && worker.receive_question_fast(short),
    on_message_slow
);

/// A message with its header beside the data.
///
/// # Safety
/// As for `on_message`.
#[inline(never)]
unsafe extern "C" fn on_message_beside(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t {
    // SAFETY: `arg` is the worker, inside its gate; `param` and the data are valid during the
    // handler.
    unsafe {
        let worker = &*arg.cast::<Worker>();
        worker.came_beside(bytes(header, header_length), &Arrived::new(data, length, &*param))
    }
}

/// Any message of the library.
///
/// # Safety
/// As for `on_message`.
#[inline(never)]
pub(crate) unsafe extern "C" fn on_message_slow(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t {
    // SAFETY: `arg` is the worker, inside its gate; UCP passes a valid `param`, and a header that
    // is valid during the handler.
    unsafe {
        let worker = &*arg.cast::<Worker>();
        worker.came(bytes(header, header_length), &Arrived::new(data, length, &*param))
    }
}

/// # Safety
/// `length` bytes are readable while the result is in use, or `length` is 0.
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, length: usize) -> &'a [u8] {
    if pointer.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees that the bytes are readable.
    unsafe { std::slice::from_raw_parts(pointer.cast(), length) }
}

/// UCP's endpoint to the sender of a message. It is only compared with others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply(pub(crate) sys::ucp_ep_h);

impl Default for Reply {
    fn default() -> Self {
        Reply(std::ptr::null_mut())
    }
}

pub(crate) fn other_version(theirs: u8) -> String {
    format!(
        "speaks version {theirs} of the library's protocol, and this side version {}; use \
        compatible releases",
        crate::engine::wire::header::VERSION
    )
}

/// A message to this worker or endpoint is dropped.
#[cold]
#[track_caller]
pub(crate) fn complain(component: Component, at: &dyn Subject, why: &str) {
    log::write(log::WARN, component, at, format_args!("a message was dropped: {why}"));
}
