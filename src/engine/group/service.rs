//! What the groups of one start share: a worker of their own with a progress thread, the members'
//! addresses, links to them, and what has come from them.
//!
//! A group and its subsets are one family: all members know each other by their ranks in the group
//! that was started first, their *job ranks*. Messages go from service worker to service worker, so
//! that they need nothing of the users' workers, tags or handlers.
//!
//! Who owns what. The links and the mail (see `group::mailbox`) are behind one lock, held for
//! moments and never over a call into a worker. The service's progress thread puts there what has
//! come and who has gone, then raises `news` and wakes whoever waits; a thread in a collective
//! reads `news` before it looks, so that it sees a change either way. Callbacks reach the service
//! by a plain pointer: its end first ends the worker, and with that all callbacks.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::dispatch;
use crate::engine::core::channel::message::MessageHandler;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams};
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::worker::Worker;
use crate::engine::group::collective::{MOST_AHEAD, MOST_BYTES_AHEAD};
use crate::engine::group::mailbox::{self, Ended, Failure, Mail};
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

/// The id of the members' messages at the service worker, where all ids are the library's.
const AM_GROUP: u16 = 1;
/// And that of the extension.
const AM_EXTENSION: u16 = 2;

/// How long a thread in a collective polls before it sleeps. It lets others run meanwhile.
pub(super) const ASSIST_NS: u64 = 200_000;

/// What is kept of a member in a group for collectives that have not been called here, and holds no
/// credit: more than members get ahead by that keep to the rules.
const FREE_MESSAGES: usize = 2 * MOST_AHEAD;
const FREE_BYTES: u64 = 2 * MOST_BYTES_AHEAD as u64;

/// Where a member is.
pub(crate) struct Member {
    /// Of its user's worker.
    pub(crate) user: Address,
    /// Of its service worker.
    pub(crate) service: Address,
}

/// A message that has come, for a collective to take.
pub(crate) type Arrived = mailbox::Arrived<Held>;

/// A message that is kept. What a member that keeps to the rules is ahead by (see `collective`)
/// holds none of its sender's credit, which windows and other groups need; the rest does until it
/// is dropped.
pub(crate) struct Held(*mut Message);

// SAFETY: an active message may be used by any thread, one at a time.
unsafe impl Send for Held {}

impl Held {
    /// Of one that a handler got.
    pub(crate) fn new(message: *mut Message) -> Self {
        Held(message)
    }

    pub(crate) fn message(&self) -> &Message {
        // SAFETY: ours until it is destroyed.
        unsafe { &*self.0 }
    }

    /// Its data; none where that waits at its sender.
    pub(crate) fn data(&self) -> Option<&[u8]> {
        let message = self.message();
        let length = message.length() as usize;
        match message.data() {
            data if data.is_null() => (length == 0).then_some(&[]),
            // SAFETY: the message's data, which is ours as long as it is.
            data => Some(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        }
    }

    /// The connection that it came on.
    pub(crate) fn link(&self) -> Option<&Endpoint> {
        // SAFETY: a reference of the message's, which is ours.
        unsafe { self.message().reply().as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { message::destroy(self.0) };
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// By job rank.
    pub(crate) links: Vec<Link>,
    pub(super) mail: Mail<Held>,
    /// What came from members that had been told of this one before it knew them.
    early: Vec<Held>,
    /// There has been a failure.
    pub(super) in_disorder: bool,
}

/// What a group's service carries beside the collectives: what stands on groups.
pub struct Extension {
    /// What it keeps of each service.
    pub(crate) state: fn() -> Box<dyn Any + Send + Sync>,
    /// Of its messages; with the service.
    pub(crate) on_message: MessageHandler,
    /// This member is gone.
    pub(crate) member_gone: fn(&Service, u32),
    /// As `Service::assist`, and serves what members of this host want meanwhile, until they want
    /// nothing; until this deadline.
    pub(crate) assist: fn(&Service, &dyn Fn() -> bool, u64) -> bool,
}

/// See the module.
pub(crate) struct Service {
    /// What this process initiates on.
    pub(crate) user: Arc<Worker>,
    pub(crate) worker: Arc<Worker>,
    members: OnceLock<Box<[Member]>>,
    pub(crate) watches: OnceLock<Box<[Watch]>>,
    /// Job rank.
    pub(super) rank: u32,
    /// How long a member of another host may be silent; 0 for as long as it likes. Changed inside
    /// the worker's gate.
    pub(crate) liveness_ns: AtomicU64,
    pub(crate) state: Mutex<State>,
    /// Counts what has come, and who has gone.
    news: AtomicU64,
    /// The endpoints on the user's worker, by job rank.
    pub(super) endpoints: Mutex<Vec<Option<Arc<Endpoint>>>>,
    extension: &'static Extension,
    pub(crate) state_of_extension: Box<dyn Any + Send + Sync>,
}

// SAFETY: the raw pointers in it are to itself, and looked at by its own callbacks.
unsafe impl Send for Service {}
// SAFETY: as above.
unsafe impl Sync for Service {}

impl Service {
    /// Refuses a worker whose context lacks what a service needs.
    pub(crate) fn check(user: &Worker) -> Result<()> {
        for wanted in [feature::AM, feature::WAKEUP] {
            user.need(wanted)?;
        }
        Ok(())
    }

    /// The service of this process, which is `rank`. It knows nobody yet.
    pub(crate) fn new(
        user: &Arc<Worker>,
        rank: u32,
        extension: &'static Extension,
    ) -> Result<Arc<Self>> {
        // Others than its thread send by calling UCX themselves: a collective's messages are short,
        // and wait for nothing.
        let thread = ThreadParams { delayed: Some(false), depth: 0, cpu: None, start: None };
        let params = WorkerParams {
            thread_mode: ThreadMode::Multi,
            spin_ns: 0,
            name: Some(c"ucxx_group".to_owned()),
            progress_mode: ProgressMode::Adaptive,
            thread,
        };
        let service = Arc::new(Service {
            user: user.clone(),
            worker: Worker::new(&user.context, params, user.protocols)?,
            members: OnceLock::new(),
            watches: OnceLock::new(),
            rank,
            liveness_ns: AtomicU64::new(0),
            state: Mutex::default(),
            news: AtomicU64::new(0),
            endpoints: Mutex::default(),
            extension,
            state_of_extension: (extension.state)(),
        });
        service.worker.gate.serve();
        let arg = Arc::as_ptr(&service).cast_mut().cast();
        service.worker.set_am_handler(AM_GROUP, Some(on_message), arg, None)?;
        service.worker.set_am_handler(AM_EXTENSION, Some(extension.on_message), arg, None)?;
        Ok(service)
    }

    /// Where this process is.
    pub(crate) fn here(&self) -> Result<Member> {
        Ok(Member { user: self.user.address()?, service: self.worker.address()? })
    }

    /// Who the members are, once.
    pub(crate) fn meet(self: &Arc<Self>, members: Box<[Member]>) {
        let service = Arc::as_ptr(self);
        let watches = (0..members.len() as u32).map(|rank| Watch { service, rank }).collect();
        self.state.lock().links.resize_with(members.len(), Link::default);
        self.endpoints.lock().resize_with(members.len(), || None);
        let _ = self.watches.set(watches);
        loop {
            // What comes meanwhile comes behind it.
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

    /// A group's messages are for somebody from now on.
    pub(crate) fn enter_group(&self, group: u64, ranks: Arc<[u32]>) {
        let failure = self.state.lock().mail.enter(group, ranks.clone());
        if let Some(failure) = failure {
            // It was heard of before there was anybody to tell.
            self.spread(group, failure, &ranks);
        }
    }

    /// And not any more: the others are told, unless the end of the service tells them. It takes
    /// part in none of the group's collectives from `sequence` on.
    pub(crate) fn leave_group(&self, group: u64, sequence: u32) {
        let Ended { ranks, late } = self.state.lock().mail.leave(group);
        if let Some(ranks) = ranks {
            let status = Status::CONNECTION_RESET;
            self.spread(group, Failure { sequence, status, blamed: self.rank }, &ranks);
        }
        // Behind the news: whose data is dropped is to know why.
        drop(late);
    }

    /// The endpoint to this member on the user's worker, made on first use.
    pub(crate) fn endpoint(&self, rank: u32) -> Result<Arc<Endpoint>> {
        self.user.check_usable()?;
        let kept = || self.endpoints.lock()[rank as usize].clone();
        if let Some(endpoint) = kept() {
            return Ok(endpoint);
        }
        let (user, params) = (&self.user, EndpointParams::quiet(true));
        // One at a time: the loser of a race could not be closed without the winner, where the one
        // has taken up the other's connection.
        user.on_owner(|_inside| {
            if let Some(endpoint) = kept() {
                return Ok(endpoint);
            }
            let made = Endpoint::new_inside(user, &self.members()[rank as usize].user, &params)?;
            self.endpoints.lock()[rank as usize] = Some(made.clone());
            Ok(made)
        })
    }

    /// Progresses the service in the place of its thread until `done`, but not for long.
    pub(crate) fn assist(&self, done: &dyn Fn() -> bool) -> bool {
        let progress = || {
            if !self.user.has_progress_thread() {
                // Whoever may not is told by the next call that waits.
                let _ = self.user.progress_and_tell();
            }
        };
        self.worker.assist(done, ASSIST_NS, &progress)
    }

    /// This member is gone: what stands on this is told.
    pub(crate) fn tell_extension_gone(&self, rank: u32) {
        (self.extension.member_gone)(self, rank);
    }

    /// The same, and serves what stands on this meanwhile; until `deadline`.
    pub(crate) fn assist_and_serve(&self, done: &dyn Fn() -> bool, deadline: u64) -> bool {
        (self.extension.assist)(self, done, deadline)
    }

    /// What has changed is seen by whoever waits, and has read this before it looked.
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    pub(crate) fn tell(&self) {
        self.news.fetch_add(1, Ordering::Release);
        self.user.disturb();
        self.worker.disturb();
    }

    /// The next message of this member in the group, if it has come.
    pub(crate) fn take(&self, group: u64, from: u32) -> Option<Arrived> {
        self.state.lock().mail.take(group, from)
    }

    /// A message of the group's that has come, and that this is not so for.
    pub(crate) fn find_other(
        &self,
        group: u64,
        fits: impl Fn(&GroupHeader) -> bool,
    ) -> Option<GroupHeader> {
        self.state.lock().mail.find_other(group, fits)
    }

    /// Why this one of the group's collectives cannot succeed, if that is known.
    pub(crate) fn failure(&self, group: u64, sequence: u32) -> Option<Failure> {
        self.state.lock().mail.failure(group, sequence)
    }

    /// Ends the group's collectives, here and, by way of the members that this one exchanges
    /// messages with, everywhere: each that learns of it tells its own, and drops what has come of
    /// them, so that nobody waits with data. What stays is the earliest failure.
    pub(crate) fn fail(&self, group: u64, failure: Failure) -> Failure {
        let Ended { ranks, late } = {
            let mut state = self.state.lock();
            match state.mail.fail(group, failure) {
                Ok(ended) => {
                    state.in_disorder = true;
                    ended
                }
                Err(first) => return first,
            }
        };
        self.tell();
        if let Some(ranks) = ranks {
            self.spread(group, failure, &ranks);
        }
        // As above.
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
                    // Who cannot be told is gone, and nobody's concern.
                    let _ = self.send(rank, &header, &[], Out::NOWHERE);
                }
            }
        }
    }

    /// Sends a message to a member, also where others wait to leave. Its request, if it is not
    /// complete when this returns, is stored in `out`; its end is news.
    ///
    /// The data has to stay readable until then.
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

    /// Sends a message about a window to a member; the rest as for `send`.
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

    /// The same, with a callback of its own, which is made if it has not left when this returns.
    /// The data goes along, but with `RNDV`. NO_RESOURCE where many wait to leave, but for what is
    /// `OWED`.
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
        // SAFETY: the caller keeps the data, and `out` is the caller's.
        unsafe { link.send_message(Kind::Message, id, front, data, &params, out) }
    }

    /// Waits, on any thread, until `done`, which news come before; false when the time ran out
    /// first.
    pub(crate) fn await_news(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<bool> {
        if self.worker.assist(done, ASSIST_NS, &|| ()) {
            return Ok(true);
        }
        self.worker.drive(done, deadline)
    }

    /// Of an operation whose end is news.
    pub(crate) fn params(&self) -> OpParams {
        let callback_arg = std::ptr::from_ref(self).cast_mut().cast();
        OpParams { callback: Some(on_ended), callback_arg, ..OpParams::DEFAULT }
    }

    /// Has the member sent it that it names?
    pub(crate) fn check_sender(
        &self,
        from: u32,
        held: &Held,
    ) -> std::result::Result<(), &'static str> {
        check_sender(self.members(), from, held)
    }

    /// A member may be ahead of this one by what is kept of it in this group, and one message more.
    fn is_within_bounds(&self, header: &GroupHeader) -> bool {
        let state = self.state.lock();
        let Some(kept) = state.mail.waiting(header.group, header.from) else { return false };
        let add = |(messages, bytes), held: &Held| (messages + 1, bytes + held.message().length());
        let (messages, bytes) = kept.fold((0, 0), add);
        messages < FREE_MESSAGES && bytes < FREE_BYTES
    }

    /// A message has come.
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
            dispatch::complain(why);
        }
    }

    fn sort_in(&self, held: Held, members: &[Member]) -> std::result::Result<(), &'static str> {
        let header = GroupHeader::decode(held.message().header())?;
        check_sender(members, header.from, &held)?;
        if header.what == What::Notice {
            let GroupHeader { sequence, status, blamed, .. } = header;
            let failure = Failure { sequence, status: Status(status), blamed };
            if failure.blamed as usize >= members.len() {
                return Err("a notice that blames no member");
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
                // SAFETY: no data, and no place for a request.
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

/// 1, 2, 4, ... below the number of members: how far apart those are that exchange messages.
pub(crate) fn distances(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |distance| distance.checked_mul(2))
        .take_while(move |distance| *distance < size)
}

/// Has the member sent it that it names?
fn check_sender(
    members: &[Member],
    from: u32,
    held: &Held,
) -> std::result::Result<(), &'static str> {
    let member = members.get(from as usize).ok_or("a group's message of no member")?;
    let sender = held.link().and_then(Endpoint::origin);
    if sender.is_none() || sender != member.service.origin().as_ref() {
        return Err("a group's message of another member than it says");
    }
    Ok(())
}

unsafe extern "C" fn on_message(arg: *mut c_void, message: *mut Message) {
    // SAFETY: the service of this worker, which it outlives.
    unsafe { &*arg.cast::<Service>() }.admit(Held(message));
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, _status: i32) {
    // SAFETY: as above.
    unsafe { &*arg.cast::<Service>() }.tell();
}
