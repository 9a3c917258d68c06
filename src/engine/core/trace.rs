//! What probes and traces see of operations, messages, sleeps and endpoints. docs/tracing.md lists
//! the probes.
//!
//! - **Probes** (`base::probe`) are in all paths: each is a `nop`.
//! - **Traces** (`os::trace`) are made by general paths alone. A worker that is created while one
//!   is recorded has no fast path, so a fast path has no check for it.

use crate::engine::base::lasting::lasting;
use crate::engine::base::log;
use crate::engine::base::probe::{constant, field, probe, register};
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
pub(crate) use crate::engine::os::trace::is_on;
use crate::engine::os::trace::{self, flow, record, Record, What};
use crate::engine::ucx::runtime;
use crate::engine::wire::header::{self, Header};
use std::cell::Cell;
use std::mem::offset_of;

/// In the number of a message that does not name its connection, because its sender does not know
/// the number that the receiver has given it: then it has that of the sender.
const UNNAMED: u64 = 1 << 63;

lasting! {
    /// When this thread began to give an operation to UCP; 0 for not at all.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The number of its message; 0 for none.
    static SENT: Cell<u64> = const { Cell::new(0) };
    /// When it called a user's function; 0 for not at all.
    static CALLED: Cell<u64> = const { Cell::new(0) };
}

/// Begins to record if the environment asks for it. Before the first worker or hub.
pub(crate) fn start() {
    if let Some(failed) = runtime::with_signals_blocked(trace::start_from_environment) {
        log::at!(ERROR, Trace, &(), "{failed}");
    }
}

/// A probe whose arguments are a request, what it contains (worker, kind, length), and `$more`.
/// bpftrace reads at most six.
macro_rules! request_probe {
    ($name:literal, $slot:expr, $more:expr $(, $($operands:tt)*)?) => {
        probe!(
            $name,
            concat!(
                register!("8", "slot"),
                field!("8", "slot", "worker"),
                field!("1", "slot", "kind"),
                field!("8", "slot", "length"),
                $more
            ),
            slot = in(reg) std::ptr::from_ref::<Slot>($slot),
            worker = const offset_of!(Slot, worker),
            kind = const offset_of!(Slot, kind),
            length = const offset_of!(Slot, length)
            $(, $($operands)*)?
        )
    };
}

/// The same with its tag and an endpoint, as `$to` describes it.
macro_rules! tagged_probe {
    ($name:literal, $slot:expr, $to:expr $(, $($operands:tt)*)?) => {
        request_probe!(
            $name,
            $slot,
            concat!(field!("8", "slot", "tag"), $to),
            tag = const offset_of!(Slot, tag)
            $(, $($operands)*)?
        )
    };
}

/// A probe whose argument is a worker.
macro_rules! worker_probe {
    ($name:literal, $worker:expr) => {
        probe!(
            $name,
            register!("8", "worker"),
            worker = in(reg) std::ptr::from_ref::<SharedWorker>($worker)
        )
    };
}

/// A probe whose arguments are an endpoint, its worker, `SharedEndpoint::peer_id`, and a status.
macro_rules! endpoint_probe {
    ($name:literal, $endpoint:expr, $worker:expr, $peer:expr, $status:expr) => {
        probe!(
            $name,
            concat!(
                register!("8", "endpoint"),
                register!("8", "worker"),
                register!("8", "peer"),
                register!("-8", "status")
            ),
            endpoint = in(reg) $endpoint,
            worker = in(reg) $worker,
            peer = in(reg) $peer,
            status = in(reg) $status as isize
        )
    };
}

fn address<T>(object: Option<&T>) -> *const T {
    object.map_or(std::ptr::null(), std::ptr::from_ref)
}

fn of_slot(what: What, slot: &Slot) -> Record {
    Record {
        id: std::ptr::from_ref(slot).addr() as u64,
        worker: slot.worker().identity.peer_id(),
        length: slot.length.get(),
        tag: slot.tag.get(),
        ..Record::now(what, slot.kind.get().describe())
    }
}

/// The same for a request that has no result yet: a receive learns both from its message.
fn of_request(what: What, slot: &Slot) -> Record {
    let known = of_slot(what, slot);
    if slot.kind.get().is_recv() {
        return Record { length: 0, tag: 0, ..known };
    }
    known
}

fn peer_of(endpoint: Option<&Endpoint>) -> u64 {
    endpoint.map_or(0, |endpoint| endpoint.peer_id())
}

/// A caller has submitted the operation that its slot describes.
#[inline(always)]
pub(crate) fn submitted(slot: &Slot, endpoint: Option<&Endpoint>) {
    tagged_probe!("submit", slot, register!("8", "to"), to = in(reg) address(endpoint));
    if is_on() {
        record_submitted(slot, endpoint);
    }
}

/// The same on a fast path.
#[inline(always)]
pub(crate) fn submitted_fast(slot: &Slot, endpoint: &Endpoint) {
    let to = std::ptr::from_ref(endpoint);
    tagged_probe!("submit", slot, register!("8", "to"), to = in(reg) to);
}

/// The same for a receive.
#[inline(always)]
pub(crate) fn submitted_fast_receive(slot: &Slot) {
    tagged_probe!("submit", slot, constant!("8", "0"));
}

#[cold]
#[inline(never)]
fn record_submitted(slot: &Slot, endpoint: Option<&Endpoint>) {
    if !slot.kind.get().is_internal() {
        record(Record { peer: peer_of(endpoint), ..of_request(What::Submit, slot) });
    }
}

/// The operation is given to UCP, or to shared memory, from here to `posted`.
#[inline(always)]
pub(crate) fn posts(slot: &Slot, endpoint: Option<&Endpoint>) {
    tagged_probe!("post", slot, register!("8", "to"), to = in(reg) address(endpoint));
    if is_on() {
        begin_to_post();
    }
}

/// `submitted` and `posts`.
#[inline(always)]
pub(crate) fn submitted_and_posts(slot: &Slot, endpoint: Option<&Endpoint>) {
    tagged_probe!("submit", slot, register!("8", "to"), to = in(reg) address(endpoint));
    tagged_probe!("post", slot, register!("8", "to"), to = in(reg) address(endpoint));
    if is_on() {
        record_submitted(slot, endpoint);
        begin_to_post();
    }
}

#[cold]
#[inline(never)]
fn begin_to_post() {
    SENT.with(|sent| sent.set(0));
    BEGUN.with(|begun| begun.set(trace::now()));
}

#[inline(always)]
pub(crate) fn posted(slot: &Slot, endpoint: Option<&Endpoint>) {
    if is_on() {
        record_posted(slot, endpoint);
    }
}

#[cold]
#[inline(never)]
fn record_posted(slot: &Slot, endpoint: Option<&Endpoint>) {
    let (begin, peer) = (BEGUN.with(|begun| begun.replace(0)), peer_of(endpoint));
    if begin != 0 {
        let flow = SENT.with(|sent| sent.replace(0));
        record(Record { begin, peer, flow, ..of_request(What::Post, slot) });
    }
}

/// A message with this header is about to be posted.
#[inline(always)]
pub(crate) fn sends(endpoint: &Endpoint, header: &Header) {
    if is_on() {
        note_sent(endpoint, header);
    }
}

#[cold]
#[inline(never)]
fn note_sent(endpoint: &Endpoint, header: &Header) {
    let own = || endpoint.worker.identity.peer_id();
    let sequence = u64::from(header.sequence);
    let number = match (header.kind, header.connection) {
        (header::Kind::Answer, _) => {
            flow(endpoint.peer_id(), 0, header::join_number(header.id, header.sender))
        }
        (_, 0) => flow(own(), endpoint.peering.number.get(), UNNAMED | sequence),
        (_, connection) => flow(endpoint.peer_id(), connection, sequence),
    };
    SENT.with(|sent| sent.set(number));
}

/// The reply to this fetch has arrived.
#[inline(always)]
pub(crate) fn replied(worker: &Worker, slot: &Slot, number: u64) {
    if is_on() {
        record_replied(worker, slot, number);
    }
}

#[cold]
#[inline(never)]
fn record_replied(worker: &Worker, slot: &Slot, number: u64) {
    let flow = flow(worker.identity.peer_id(), 0, number);
    record(Record { name: "reply", flow, ..of_slot(What::Reply, slot) });
}

/// The operation has its result, which its slot has.
#[inline(always)]
pub(crate) fn completed(slot: &Slot) {
    completed_fast_receive(slot);
    if is_on() {
        record_completed(slot, slot.outcome.get());
    }
}

/// The same on a fast path.
#[inline(always)]
pub(crate) fn completed_fast_receive(slot: &Slot) {
    request_probe!(
        "complete",
        slot,
        concat!(field!("-4", "slot", "outcome"), field!("8", "slot", "endpoint")),
        endpoint = const offset_of!(Slot, endpoint),
        outcome = const offset_of!(Slot, outcome)
    );
}

/// The same inside UCP's call on a fast path: its slot has no result.
#[inline(always)]
pub(crate) fn completed_fast(slot: &Slot, endpoint: *const Endpoint) {
    request_probe!(
        "complete",
        slot,
        concat!(constant!("-4", "0"), register!("8", "to")),
        to = in(reg) endpoint
    );
}

/// The same on a general path.
#[inline(always)]
pub(crate) fn completed_inline(slot: &Slot, endpoint: Option<&Endpoint>) {
    completed_fast(slot, address(endpoint));
    if is_on() {
        record_completed(slot, Status::OK);
    }
}

/// UCP has refused it.
pub(crate) fn refused(slot: &Slot, status: Status) {
    slot.outcome.set(status);
    completed(slot);
    slot.outcome.set(Status::OK);
}

#[cold]
#[inline(never)]
fn record_completed(slot: &Slot, status: Status) {
    if !slot.kind.get().is_internal() {
        record(Record { status: status.0, ..of_slot(What::Complete, slot) });
    }
}

/// The user's function for this request or message is called, until `called`. `ALONE`: see
/// `Worker::outside_as`; then nothing is recorded.
#[inline(always)]
pub(crate) fn calls<const ALONE: bool>(slot: &Slot) {
    request_probe!("callback_begin", slot, "");
    if !ALONE && is_on() {
        CALLED.with(|called| called.set(trace::now()));
    }
}

/// It has returned. Its user may have released the request or message.
#[inline(always)]
pub(crate) fn called<const ALONE: bool>(worker: &Worker, kind: Kind) {
    worker_probe!("callback_end", worker);
    if !ALONE && is_on() {
        record_called(worker, kind);
    }
}

#[cold]
#[inline(never)]
fn record_called(worker: &Worker, kind: Kind) {
    let begin = CALLED.with(|called| called.replace(0));
    if begin != 0 {
        record_slice(What::Callback, kind.describe(), begin, worker);
    }
}

#[cold]
#[inline(never)]
fn record_slice(what: What, name: &'static str, begin: u64, worker: &SharedWorker) {
    let worker = worker.identity.peer_id();
    record(Record { begin, worker, ..Record::now(what, name) });
}

/// A message is handed to its receiver, by `dispatch`.
#[cold]
#[inline(never)]
pub(crate) fn delivers(endpoint: Option<&Endpoint>, slot: &Slot, dispatch: impl FnOnce()) {
    let mut delivered = of_slot(What::Deliver, slot);
    if let Some(endpoint) = endpoint {
        let (sequence, was_named) = endpoint.order.note_delivered();
        delivered.peer = endpoint.peer_id();
        delivered.flow = if was_named {
            flow(delivered.worker, endpoint.peering.number.get(), sequence.into())
        } else {
            flow(delivered.peer, endpoint.peering.theirs.get(), UNNAMED | u64::from(sequence))
        };
    }
    dispatch();
    record(Record { end: trace::now(), ..delivered });
}

/// The calling thread sleeps until there is something to do on the worker, in `sleep`.
#[inline(always)]
pub(crate) fn sleeps<T>(worker: &SharedWorker, sleep: impl FnOnce() -> T) -> T {
    worker_probe!("sleep", worker);
    let begin = if is_on() { trace::now() } else { 0 };
    let slept = sleep();
    worker_probe!("wake", worker);
    if begin != 0 {
        record_slice(What::Sleep, "sleep", begin, worker);
    }
    slept
}

/// What happens to an endpoint.
#[derive(Clone, Copy)]
pub(crate) enum Happens {
    Connected,
    Failed(Status),
    Closed(Status),
}

#[cold]
#[inline(never)]
pub(crate) fn happens(endpoint: &Endpoint, what: Happens) {
    let (place, worker) = (std::ptr::from_ref(endpoint), std::ptr::from_ref(&*endpoint.worker));
    let peer = endpoint.peer_id();
    let (name, status) = match what {
        Happens::Connected => {
            endpoint_probe!("endpoint_connected", place, worker, peer, 0);
            ("endpoint connected", 0)
        }
        Happens::Failed(status) => {
            endpoint_probe!("endpoint_failed", place, worker, peer, status.0);
            ("endpoint failed", status.0)
        }
        Happens::Closed(status) => {
            endpoint_probe!("endpoint_closed", place, worker, peer, status.0);
            ("endpoint closed", status.0)
        }
    };
    if is_on() {
        let (id, worker) = (place.addr() as u64, endpoint.worker.identity.peer_id());
        record(Record { id, worker, peer, status, ..Record::now(What::Endpoint, name) });
    }
}

/// A message begins to wait for the peer's credit.
pub(crate) fn credit_is_missing(slot: &Slot, endpoint: &Endpoint) {
    let to = std::ptr::from_ref(endpoint);
    tagged_probe!("credit_wait_begin", slot, register!("8", "to"), to = in(reg) to);
    record_credit(What::CreditBegin, slot, endpoint);
}

/// It has the credit, or was given up.
pub(crate) fn credit_is_there(slot: &Slot, endpoint: &Endpoint) {
    let to = std::ptr::from_ref(endpoint);
    tagged_probe!("credit_wait_end", slot, register!("8", "to"), to = in(reg) to);
    record_credit(What::CreditEnd, slot, endpoint);
}

fn record_credit(what: What, slot: &Slot, endpoint: &Endpoint) {
    if is_on() {
        let peer = endpoint.peer_id();
        record(Record { peer, name: "credit wait", ..of_slot(what, slot) });
    }
}

/// A worker was created.
pub(crate) fn worker_is_made(worker: &SharedWorker) {
    if is_on() {
        let worker = worker.identity.peer_id();
        record(Record { worker, ..Record::now(What::Worker, "worker created") });
    }
}

/// Writes what was recorded: a worker has ended.
pub(crate) fn worker_has_ended() {
    trace::flush();
}
