//! The service of a family of groups: a worker with its own progress thread, the members'
//! addresses, connections to them, and the messages from them.
//!
//! A group and its subsets are one family. All members know each other by their rank in the first
//! group, the *job rank*. Messages go from service worker to service worker, so they use neither
//! the users' workers nor their tags or handlers.
//!
//! **Ownership.** `state` (connections and mail, see `group::mailbox`) is behind one lock, which is
//! held briefly and never over a call into a worker. The service's progress thread stores arrived
//! messages and ended members there, then increments `news` and wakes the waiting threads. A thread
//! in a collective reads `news` before it looks, so it does not miss a change. Callbacks have a
//! plain pointer to the service: its drop first shuts the worker down, which ends all callbacks.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::{self, Component};
use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::dispatch;
use crate::engine::core::channel::message::MessageHandler;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams, SharedEndpoint};
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::group::collective::{MOST_AHEAD, MOST_BYTES_AHEAD};
use crate::engine::group::describe::GroupWaits;
use crate::engine::group::mailbox::{self, Ended, Failure, Mail, Unrecorded};
use crate::engine::group::service_connection::{Link, Watch};
use crate::engine::messaging::am::send::Front;
use crate::engine::ucx::context::feature;
use crate::engine::wire::address::Address;
use crate::engine::wire::group::{GroupHeader, What};
use crate::engine::wire::header::Kind;
use std::any::Any;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Handler id of the groups' messages at the service worker. No user registers handlers there.
const AM_GROUP: u16 = 1;
/// Handler id of the extension's messages.
const AM_EXTENSION: u16 = 2;

/// How long a thread in a collective polls before it sleeps. It yields meanwhile.
pub(super) const ASSIST_NS: u64 = 200_000;

/// How much of a member's early messages is stored in a group without holding its credit: more than
/// members that keep to the rules get ahead.
const FREE_MESSAGES: usize = 2 * MOST_AHEAD;
const FREE_BYTES: u64 = 2 * MOST_BYTES_AHEAD as u64;

/// Addresses of a member.
pub(crate) struct Member {
    /// The address of its user's worker.
    pub(crate) user: Address,
    /// The address of its service worker.
    pub(crate) service: Address,
}

/// A message that waits for its collective.
pub(crate) type Arrived = mailbox::Arrived<Held>;

/// A stored message. Up to the bound for members that keep to the rules (see `collective`) it holds
/// none of its sender's credit, which windows and other groups need. Beyond that it holds credit
/// until it is dropped.
pub(crate) struct Held(*mut Message);

// SAFETY: any thread may use an active message, one at a time.
unsafe impl Send for Held {}

impl Held {
    /// Takes a message that a handler received.
    pub(crate) fn new(message: *mut Message) -> Self {
        Held(message)
    }

    pub(crate) fn message(&self) -> &Message {
        // SAFETY: we own the message; only drop destroys it.
        unsafe { &*self.0 }
    }

    /// Its data; `None` if the data waits at its sender.
    pub(crate) fn data(&self) -> Option<&[u8]> {
        let message = self.message();
        let length = message.length() as usize;
        match message.data() {
            data if data.is_null() => (length == 0).then_some(&[]),
            // SAFETY: the message's own data, not null, valid as long as the message.
            data => Some(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        }
    }

    /// The connection that it arrived on.
    pub(crate) fn link(&self) -> Option<&SharedEndpoint> {
        // SAFETY: null, or a reference that the message holds, and we own the message.
        unsafe { self.message().reply().as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: we own the message, and it is destroyed once.
        unsafe { message::destroy(self.0) };
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// By job rank.
    pub(crate) links: Vec<Link>,
    pub(super) mail: Mail<Held>,
    /// Messages from members that already know this one, before it knows them.
    early: Vec<Held>,
    /// A collective has failed.
    pub(super) in_disorder: bool,
}

/// A protocol that uses the group's service: windows.
pub struct Extension {
    /// Creates its state for a service.
    pub(crate) state: fn() -> Box<dyn Any + Send + Sync>,
    /// Handler of its messages; its argument is the service.
    pub(crate) on_message: MessageHandler,
    /// Called when a member has ended.
    pub(crate) member_gone: fn(&Service, u32),
    /// Like `Service::assist`, and meanwhile serves requests of members on this host until there
    /// are none, or until the deadline.
    pub(crate) assist: fn(&Service, &dyn Fn() -> bool, u64) -> bool,
}

/// See the head of this file.
pub(crate) struct Service {
    /// The worker for operations that the user posts.
    pub(crate) user: Arc<SharedWorker>,
    pub(crate) worker: Arc<SharedWorker>,
    members: OnceLock<Box<[Member]>>,
    pub(crate) watches: OnceLock<Box<[Watch]>>,
    /// Job rank of this process.
    pub(super) rank: u32,
    /// How long a member of another host may be silent; 0 for no limit. Changed inside the worker's
    /// gate.
    pub(crate) liveness_ns: AtomicU64,
    pub(crate) state: Mutex<State>,
    /// Incremented when a message has arrived or a member has ended.
    news: AtomicU64,
    /// Endpoints on the user's worker, by job rank.
    pub(super) endpoints: Mutex<Vec<Option<Arc<SharedEndpoint>>>>,
    extension: &'static Extension,
    pub(crate) state_of_extension: Box<dyn Any + Send + Sync>,
    /// Set when there are members.
    pub(super) waits: OnceLock<Arc<GroupWaits>>,
}

// SAFETY: the watches point to the service itself, and only its own callbacks use them.
unsafe impl Send for Service {}
// SAFETY: what changes is behind locks or atomic; the watches are constant once set.
unsafe impl Sync for Service {}

impl Service {
    /// Refuses a worker whose context lacks features that a service needs.
    pub(crate) fn check(user: &SharedWorker) -> Result<()> {
        for wanted in [feature::AM, feature::WAKEUP] {
            user.need(wanted)?;
        }
        Ok(())
    }

    /// The service of this process, which has the given rank. It has no members yet.
    pub(crate) fn new(
        user: &Arc<SharedWorker>,
        rank: u32,
        extension: &'static Extension,
    ) -> Result<Arc<Self>> {
        // Other threads send by calling UCX themselves: a collective's messages are short, and the
        // sender waits for them at once.
        let thread = ThreadParams { delayed: Some(false), depth: 0, cpu: None, start: None };
        let params = WorkerParams {
            thread_mode: ThreadMode::Multi,
            spin_ns: 0,
            name: Some(c"ucxx_group".to_owned()),
            describe_requests: false,
            progress_mode: ProgressMode::Adaptive,
            thread,
        };
        let service = Arc::new(Service {
            user: user.clone(),
            worker: SharedWorker::new(&user.context, params, user.protocols)?,
            members: OnceLock::new(),
            watches: OnceLock::new(),
            rank,
            liveness_ns: AtomicU64::new(0),
            state: Mutex::default(),
            news: AtomicU64::new(0),
            endpoints: Mutex::default(),
            extension,
            state_of_extension: (extension.state)(),
            waits: OnceLock::new(),
        });
        service.worker.gate().serve();
        let arg = Arc::as_ptr(&service).cast_mut().cast();
        service.worker.set_am_handler(AM_GROUP, Some(on_message), arg, None)?;
        service.worker.set_am_handler(AM_EXTENSION, Some(extension.on_message), arg, None)?;
        Ok(service)
    }

    /// The addresses of this process.
    pub(crate) fn here(&self) -> Result<Member> {
        Ok(Member { user: self.user.address()?, service: self.worker.address()? })
    }

    /// Sets the members, once.
    pub(crate) fn meet(self: &Arc<Self>, members: Box<[Member]>) {
        let service = Arc::as_ptr(self);
        let watches = (0..members.len() as u32).map(|rank| Watch { service, rank }).collect();
        self.state.lock().links.resize_with(members.len(), Link::default);
        self.endpoints.lock().resize_with(members.len(), || None);
        let _ = self.watches.set(watches);
        loop {
            // Loops, as more messages may arrive while the lock is released.
            let mut state = self.state.lock();
            if state.early.is_empty() {
                let _ = self.members.set(members);
                return;
            }
            let early = std::mem::take(&mut state.early);
            drop(state);
            early.into_iter().for_each(|held| self.receive(held, &members));
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        self.members.get().map_or(&[], |members| members)
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The group exists from now on: its messages are stored.
    pub(crate) fn enter_group(&self, group: u64, ranks: Arc<[u32]>) {
        let failure = self.state.lock().mail.enter(group, ranks.clone());
        if let Some(failure) = failure {
            // The notice arrived before the group existed here.
            self.spread(group, failure, &ranks);
        }
    }

    /// The group no longer exists here. Notifies the others, unless the service ends too and does
    /// it. This member takes part in no collective from `sequence` on.
    pub(crate) fn leave_group(&self, group: u64, sequence: u32) {
        let Ended { ranks, late } = self.state.lock().mail.leave(group);
        if let Some(ranks) = ranks {
            let status = Status::CONNECTION_RESET;
            self.spread(group, Failure { sequence, status, blamed: self.rank }, &ranks);
        }
        // After the notice: senders whose data is dropped should know why.
        drop(late);
    }

    /// The endpoint to this member on the user's worker, made on first use.
    pub(crate) fn endpoint(&self, rank: u32) -> Result<Arc<SharedEndpoint>> {
        self.user.check_usable()?;
        let kept = || self.endpoints.lock()[rank as usize].clone();
        if let Some(endpoint) = kept() {
            return Ok(endpoint);
        }
        let (user, params) = (&self.user, EndpointParams::quiet(true));
        // Inside the gate, so only one is made: a second one might take over the connection of the
        // first, and could not be closed without it.
        user.on_owner(|inside| {
            if let Some(endpoint) = kept() {
                return Ok(endpoint);
            }
            let member = &self.members()[rank as usize].user;
            let made = Endpoint::new_inside(inside, member, &params)?.into_outward();
            self.endpoints.lock()[rank as usize] = Some(made.clone());
            Ok(made)
        })
    }

    /// Progresses the service, instead of its thread, until `done` or for `ASSIST_NS` at most.
    pub(crate) fn assist(&self, done: &dyn Fn() -> bool) -> bool {
        let progress = || {
            if !self.user.has_progress_thread() {
                // An error is ignored here: the next call that waits reports it.
                let _ = self.user.progress_and_tell();
            }
        };
        self.worker.assist(done, ASSIST_NS, &progress)
    }

    /// Notifies the extension that this member has ended.
    pub(crate) fn tell_extension_gone(&self, rank: u32) {
        (self.extension.member_gone)(self, rank);
    }

    /// Like `assist`, and serves the extension's requests meanwhile, until `deadline`.
    pub(crate) fn assist_and_serve(&self, done: &dyn Fn() -> bool, deadline: u64) -> bool {
        (self.extension.assist)(self, done, deadline)
    }

    /// Counter of changes. A thread reads it before it looks for its message: if it changes, the
    /// thread has to look again.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self) {
        self.news.fetch_add(1, Ordering::Release);
        self.user.disturb();
        self.worker.disturb();
    }

    /// Takes the next message of this member in the group.
    pub(crate) fn take(&self, group: u64, from: u32) -> Option<Arrived> {
        self.state.lock().mail.take(group, from)
    }

    /// A stored message of the group that does not satisfy `fits`.
    pub(crate) fn find_other(
        &self,
        group: u64,
        fits: impl Fn(&GroupHeader) -> bool,
    ) -> Option<GroupHeader> {
        self.state.lock().mail.find_other(group, fits)
    }

    /// The failure because of which this collective of the group cannot succeed.
    pub(crate) fn failure(&self, group: u64, sequence: u32) -> Option<Failure> {
        self.state.lock().mail.failure(group, sequence)
    }

    /// Ends the group's collectives, here and at all members: each member that learns of a failure
    /// notifies those that it exchanges messages with, and drops the group's messages, so that no
    /// sender waits. Returns the earliest failure.
    pub(crate) fn fail(&self, group: u64, failure: Failure) -> Failure {
        let recorded = {
            let mut state = self.state.lock();
            let recorded = state.mail.fail(group, failure);
            state.in_disorder |= recorded.is_ok();
            recorded
        };
        let Ended { ranks, late } = match recorded {
            Ok(ended) => ended,
            Err(Unrecorded::Later(first)) => return first,
            Err(Unrecorded::Left) => return failure,
            Err(Unrecorded::TooMany) => {
                let text =
                    format_args!("too many failure notices for unknown groups: one is dropped");
                log::write(log::WARN, Component::Group, self, text);
                return failure;
            }
        };
        let Failure { status, blamed, .. } = failure;
        log::at!(
            INFO,
            Group,
            self,
            "the collectives of group {:08x} have failed: {status}, because of job rank {blamed}",
            group as u32
        );
        self.tell();
        if let Some(ranks) = ranks {
            self.spread(group, failure, &ranks);
        }
        // After the notice: senders whose data is dropped should know why.
        drop(late);
        failure
    }

    fn spread(&self, group: u64, failure: Failure, ranks: &[u32]) {
        let Some(here) = ranks.iter().position(|rank| *rank == self.rank) else { return };
        let Failure { sequence, status: Status(status), blamed } = failure;
        let header = GroupHeader {
            group,
            sequence,
            blamed,
            status,
            ..GroupHeader::aside(What::Notice, self.rank)
        };
        for distance in distances(ranks.len()) {
            let ahead = ranks[(here + distance) % ranks.len()];
            let behind = ranks[(here + ranks.len() - distance) % ranks.len()];
            for rank in [ahead, behind] {
                if self.gone(rank).is_none() {
                    // If the send fails, the member counts as gone, and needs no notice.
                    let _ = self.send(rank, &header, &[], Out::NOWHERE);
                }
            }
        }
    }

    /// Sends a message to a member, before messages that wait for credit. If it is not complete on
    /// return, its request is in `out`; its completion increments `news`.
    ///
    /// The data has to stay readable until completion.
    pub(crate) fn send(
        &self,
        to: u32,
        header: &GroupHeader,
        data: &[Part],
        out: Out,
    ) -> Result<()> {
        self.send_as(
            AM_GROUP,
            to,
            &header.encode(),
            data,
            &OpParams { flags: flag::OWED, ..self.params() },
            out,
        )
        .map(drop)
    }

    /// Sends a message of a window to a member; otherwise like `send`.
    pub(crate) fn send_window(
        &self,
        to: u32,
        header: &[u8],
        data: &[Part],
        out: Out,
    ) -> Result<()> {
        self.send_with(to, header, data, &OpParams { flags: flag::OWED, ..self.params() }, out)
            .map(drop)
    }

    /// Like `send_window`, with the caller's callback, which is called only if the send is not
    /// complete on return. The data is sent eagerly unless `RNDV` is set. NO_RESOURCE if many
    /// messages wait to be sent; never with `OWED`.
    pub(crate) fn send_with(
        &self,
        to: u32,
        header: &[u8],
        data: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let form = if params.flags & flag::RNDV == 0 { flag::EAGER } else { 0 };
        self.send_as(
            AM_EXTENSION,
            to,
            header,
            data,
            &OpParams { flags: params.flags | form, ..*params },
            out,
        )
    }

    fn send_as(
        &self,
        id: u16,
        to: u32,
        header: &[u8],
        data: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let params = OpParams { flags: params.flags | flag::AM_REPLY, ..*params };
        let link = self.link(to)?;
        let front = Front { header, table: &[] };
        // SAFETY: the caller keeps the data readable, and `out` is valid.
        unsafe { link.send_message(Kind::Message, id, front, data, &params, out) }
    }

    /// Waits, on any thread, until `done`. Each change of its result is followed by `news`. Returns
    /// false at the deadline.
    pub(crate) fn await_news(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<bool> {
        if self.worker.assist(done, ASSIST_NS, &|| ()) {
            return Ok(true);
        }
        self.worker.drive(done, deadline)
    }

    /// Parameters of an operation whose completion increments `news`.
    pub(crate) fn params(&self) -> OpParams {
        let callback_arg = std::ptr::from_ref(self).cast_mut().cast();
        OpParams { callback: Some(on_ended), callback_arg, ..OpParams::DEFAULT }
    }

    /// Did the member that the message names send it?
    pub(crate) fn check_sender(
        &self,
        from: u32,
        held: &Held,
    ) -> std::result::Result<(), &'static str> {
        check_sender(self.members(), from, held)
    }

    /// Is this member's stored mail in the group within the free bound, with one more message?
    fn is_within_bounds(&self, header: &GroupHeader) -> bool {
        let state = self.state.lock();
        let Some(kept) = state.mail.waiting(header.group, header.from) else { return false };
        let add = |(messages, bytes), held: &Held| (messages + 1, bytes + held.message().length());
        let (messages, bytes) = kept.fold((0, 0), add);
        messages < FREE_MESSAGES && bytes < FREE_BYTES
    }

    /// Receives a message.
    fn admit(&self, held: Held) {
        {
            let mut state = self.state.lock();
            if self.members.get().is_none() {
                return state.early.push(held);
            }
        }
        self.receive(held, self.members());
    }

    fn receive(&self, held: Held, members: &[Member]) {
        if let Err(why) = self.sort_in(held, members) {
            dispatch::complain(Component::Group, self, why);
        }
    }

    fn sort_in(&self, held: Held, members: &[Member]) -> std::result::Result<(), &'static str> {
        let header = GroupHeader::decode(held.message().header())?;
        check_sender(members, header.from, &held)?;
        if header.what == What::Notice {
            let GroupHeader { sequence, status, blamed, .. } = header;
            let failure = Failure { sequence, status: Status(status), blamed };
            if failure.blamed as usize >= members.len() {
                return Err("a failure notice that names no member");
            }
            drop(held);
            self.fail(header.group, failure);
            return Ok(());
        }
        if header.what == What::Left {
            self.state.lock().links[header.from as usize].has_all = true;
            self.tell();
            return Ok(());
        }
        if header.what == What::Leave {
            let answer = GroupHeader::aside(What::Left, self.rank);
            let params = OpParams { flags: flag::AM_REPLY, ..OpParams::DEFAULT };
            if let Some(link) = held.link() {
                // SAFETY: there is no data, and no place for a request.
                let _ =
                    unsafe { link.am_send(AM_GROUP, &answer.encode(), &[], &params, Out::NOWHERE) };
            }
            return Ok(());
        }
        if self.is_within_bounds(&header) {
            held.message().give_credit_back();
        }
        let for_nobody = self.state.lock().mail.put(Arrived { header, held });
        if for_nobody.is_none() {
            self.tell();
        }
        Ok(())
    }
}

/// 1, 2, 4, ... below the number of members: distances between members that exchange messages.
pub(crate) fn distances(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |distance| distance.checked_mul(2))
        .take_while(move |distance| *distance < size)
}

/// Did the member that the message names send it?
fn check_sender(
    members: &[Member],
    from: u32,
    held: &Held,
) -> std::result::Result<(), &'static str> {
    let member = members.get(from as usize).ok_or("a group's message from no member")?;
    let sender = held.link().and_then(SharedEndpoint::origin);
    if sender.is_none() || sender != member.service.origin().as_ref() {
        return Err("a group's message from another member than it names");
    }
    Ok(())
}

unsafe extern "C" fn on_message(arg: *mut c_void, message: *mut Message) {
    // SAFETY: the service that registered the handler; it outlives its worker.
    unsafe { &*arg.cast::<Service>() }.admit(Held(message));
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, _status: i32) {
    // SAFETY: `params` passed the service, which outlives its worker's operations.
    unsafe { &*arg.cast::<Service>() }.tell();
}
