//! The target's side of `window::remote::remote`: receives messages for windows and handles them.
//!
//! The group's service receives messages on its own thread, in sending order. So a target is served
//! whether it makes calls or not. An operation is executed as if this process had called for it on
//! its own memory: under the same lock, or by the same atomic operations, as everybody else's.
//! Locks are requested in the name of the member that wants them; a lock that is not available is
//! polled in the passes of the service's worker.
//!
//! **Trust.** Messages are checked: the sender is the member that the connection leads to, the
//! pieces are inside this process's memory, and the data has their length. Errors are returned in
//! the reply, or kept for the next flush.
//!
//! **Ownership.** A window is found by a plain pointer, from before any member may send to it until
//! it leaves. Leaving waits for threads that are using the window (`visitors`).

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::Component;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch;
use crate::engine::core::channel::message::Message;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Ticket;
use crate::engine::group::service::{distances, Extension, Held, Service};
use crate::engine::group::service_connection::is_of_peer;
use crate::engine::window::access::Rooms;
use crate::engine::window::control_words::Ended;
use crate::engine::window::delegation::delegation::Mail;
use crate::engine::window::remote::blocked_queue::Taken;
use crate::engine::window::remote::origin::AT_ONCE;
use crate::engine::window::remote::outstanding::Awaited;
use crate::engine::window::remote::remote::Question;
use crate::engine::window::remote::rendezvous::Counts;
use crate::engine::window::remote::shipment::{part, SpareLists};
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::LockType;
use crate::engine::wire::window::{What, WindowHeader};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Number of reply buffers that are kept for reuse.
const BUFFERS_KEPT: usize = 64;

/// Most bytes of replies to one member that wait to be sent. A member that requests more without
/// receiving gets NO_RESOURCE. Members that keep to 2 MiB for each window reach it only with more
/// than a hundred windows.
const MOST_OWED: u64 = 256 << 20;

/// Bits of a window's number for the rank that proposed it.
const RANK_BITS: u32 = 24;

/// A group service's state for windows.
#[derive(Default)]
pub(crate) struct Windows {
    known: Mutex<HashMap<u64, Known>>,
    /// The greatest number that a window has had here.
    numbers: AtomicU64,
    /// Lock requests, by token.
    questions: Mutex<HashMap<u64, Arc<Question>>>,
    tokens: AtomicU64,
    /// All other awaited replies.
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) spare: SpareLists,
    pub(crate) rooms: Rooms,
    /// Operations delegated by members of this host.
    pub(crate) mail: Mail,
    /// Buffers for replies.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// By job rank: bytes of replies that are not sent yet.
    owed: Mutex<HashMap<u32, u64>>,
    /// UCX's transfers in progress on this process's memory: see `window::remote::rendezvous`.
    pub(crate) long: Mutex<Counts>,
}

struct Known(*const Window);

// SAFETY: the pointer is only used while it is in the map, under its lock; a window removes itself
// before it is freed.
unsafe impl Send for Known {}

impl Windows {
    /// A proposal for the number of a new window. The members use the greatest proposal, and each
    /// one is unique.
    pub(crate) fn next_number(&self, job_rank: u32) -> u64 {
        (1 + self.numbers.fetch_add(1, Ordering::Relaxed)) << RANK_BITS | u64::from(job_rank)
    }

    /// A window has got this number.
    pub(crate) fn take_number(&self, number: u64) {
        self.numbers.fetch_max(number >> RANK_BITS, Ordering::Relaxed);
    }

    /// A buffer of `bytes` zeros for a reply.
    pub(crate) fn take_buffer(&self, bytes: usize) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    /// Keeps a buffer after its reply was sent. Freed blocks of this size would be returned to the
    /// kernel page by page, which takes longer than everything else.
    fn keep_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 || buffer.capacity() as u64 > AT_ONCE {
            return;
        }
        buffer.clear();
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_KEPT {
            buffers.push(buffer);
        }
    }

    /// May there be a reply of this length for the member? One is always allowed.
    fn may_owe(&self, to: u32, bytes: u64) -> bool {
        let owed = self.owed.lock().get(&to).copied().unwrap_or(0);
        owed == 0 || owed.saturating_add(bytes) <= MOST_OWED
    }

    fn owe(&self, to: u32, bytes: u64) {
        if bytes > 0 {
            *self.owed.lock().entry(to).or_default() += bytes;
        }
    }

    fn has_paid(&self, to: u32, bytes: u64) {
        if bytes > 0 {
            self.owed.lock().entry(to).and_modify(|owed| *owed -= bytes);
        }
    }

    pub(crate) fn next_token(&self) -> u64 {
        1 + self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn remember(&self, token: u64, question: Arc<Question>) {
        self.questions.lock().insert(token, question);
    }

    /// From now on no reply to this request is accepted.
    pub(crate) fn forget(&self, token: u64) {
        self.questions.lock().remove(&token);
    }

    /// From now on messages for the window are accepted.
    pub(crate) fn enter(&self, window: &Window) {
        self.known.lock().insert(window.number, Known(window));
        self.mail.enter(window);
    }

    /// Ends that. Threads that are still using the window are awaited by `await_visitors`.
    pub(crate) fn leave(&self, window: &Window) {
        if self.known.lock().remove(&window.number).is_some() {
            self.mail.leave(window);
        }
    }

    pub(crate) fn visit(&self, number: u64) -> Option<Visitor> {
        let known = self.known.lock();
        // SAFETY: windows in the map are valid, and `leave` has to take the same lock first.
        Some(Visitor::of(unsafe { &*known.get(&number)?.0 }))
    }
}

/// A member of another host that holds this member's lock.
pub(crate) struct FarHold {
    /// Token of its request.
    token: u64,
    how: LockType,
    /// It has confirmed the lock, or need not.
    taken: bool,
}

/// A use of a window, which keeps it from leaving. Not a reference: the service's thread must not
/// hold the last one.
pub(crate) struct Visitor(*const Window);

impl Visitor {
    /// The caller knows that the window cannot leave right now.
    pub(crate) fn of(window: &Window) -> Self {
        window.visitors.fetch_add(1, Ordering::Relaxed);
        Visitor(window)
    }
}

impl std::ops::Deref for Visitor {
    type Target = Window;

    fn deref(&self) -> &Window {
        // SAFETY: the window waits for its visitors before it is freed.
        unsafe { &*self.0 }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.visitors.fetch_sub(1, Ordering::Release);
    }
}

/// The table of windows for the group's service.
pub(crate) static WINDOWS: Extension = Extension {
    state: || Box::new(Windows::default()),
    on_message: on_window_message,
    member_gone: Service::nothing_comes_from,
    assist: Service::assist_windows,
};

/// Handler of the service's worker.
unsafe extern "C" fn on_window_message(arg: *mut c_void, message: *mut Message) {
    // SAFETY: the service registered itself with this handler, and outlives its worker.
    let service = unsafe { &*arg.cast::<Service>() };
    let held = Held::new(message);
    if let Err(why) = service.receive_for_window(held) {
        dispatch::complain(Component::Window, service, why);
    }
}

impl Service {
    /// The service's state for windows.
    pub(crate) fn windows(&self) -> &Windows {
        match self.state_of_extension.downcast_ref() {
            Some(windows) => windows,
            None => unreachable!("windows are every service's extension"),
        }
    }

    fn assist_windows(&self, done: &dyn Fn() -> bool, deadline: u64) -> bool {
        let Some(attendant) = self.windows().mail.attend() else { return self.assist(done) };
        loop {
            let look = || {
                attendant.look();
                done()
            };
            if self.assist(&look) {
                return true;
            }
            if !attendant.is_patient() || clock::now_ns() >= deadline {
                return false;
            }
        }
    }

    fn receive_for_window(&self, held: Held) -> std::result::Result<(), &'static str> {
        let header = WindowHeader::decode(held.message().header())?;
        self.check_sender(header.from, &held)?;
        let Some(data) = held.data() else { return self.receive_long(&header, &held) };
        if header.what == What::Answer {
            if Awaited::knows(header.token) {
                self.windows()
                    .awaited
                    .answered(&header, data, &|ticket, status| self.tell_user(ticket, status));
            } else if let Some(question) = self.windows().questions.lock().get(&header.token) {
                question.answered(&header);
            }
            self.tell();
            return Ok(());
        }
        let Some(window) = self.windows().visit(header.window) else {
            self.answer(&header, Status::CLOSED, Vec::new());
            return Ok(());
        };
        let from = window.rank_of(header.from);
        let from = from.ok_or("a window's message from a process that is not a member")?;
        window.receive_or_block(from, &header, held)
    }

    /// No more replies come from this member.
    pub(crate) fn nothing_comes_from(&self, rank: u32) {
        let tell = |ticket, status| self.tell_user(ticket, status);
        self.windows().awaited.discard_all_of(rank, Status::PEER_FAILED, &tell);
    }

    /// A request of the user has completed.
    pub(crate) fn tell_user(&self, ticket: Ticket, status: Status) {
        self.user.window_ends().push(&self.user, ticket, status);
    }

    /// Sends a reply, if one is wanted.
    pub(crate) fn answer(&self, asked: &WindowHeader, status: Status, data: Vec<u8>) {
        if asked.token == 0 {
            return self.windows().keep_buffer(data);
        }
        let header = WindowHeader {
            token: asked.token,
            offset: asked.offset,
            status: status.0,
            number: asked.number,
            ..WindowHeader::new(What::Answer, asked.window, self.rank())
        };
        let parts = [part(&data)];
        let parts: &[Part] = if data.is_empty() { &[] } else { &parts };
        let (to, bytes) = (asked.from, data.len() as u64);
        self.windows().owe(to, bytes);
        let kept = Box::into_raw(Box::new(Answer { service: self, to, data }));
        let callback = OpParams {
            callback: Some(on_answered),
            callback_arg: kept.cast(),
            ..OpParams::DEFAULT
        };
        let params = OpParams { flags: flag::OWED, ..callback };
        let sent = self.send_with(to, &header.encode(), parts, &params, Out::NOWHERE);
        if !matches!(sent, Ok(Submitted::Pending)) {
            // SAFETY: boxed above. The send has ended, so its callback does not run.
            unsafe { Box::from_raw(kept) }.has_left();
        }
        self.answer_has_gone(to, sent);
    }

    /// Handles a failed reply.
    pub(crate) fn answer_has_gone(&self, to: u32, sent: Result<Submitted>) {
        if sent.is_err_and(|error| !is_of_peer(error.status())) {
            // The origin would wait without end.
            let why = "a window's answer could not be sent: the connection is closed";
            dispatch::complain(Component::Window, self, why);
            self.cut(to);
        }
    }
}

/// A reply in flight.
struct Answer {
    /// The service shuts its worker down before it is freed, which ends all callbacks.
    service: *const Service,
    to: u32,
    data: Vec<u8>,
}

impl Answer {
    fn has_left(self) {
        // SAFETY: the service outlives its worker's callbacks.
        let windows = unsafe { &*self.service }.windows();
        windows.has_paid(self.to, self.data.len() as u64);
        windows.keep_buffer(self.data);
    }
}

unsafe extern "C" fn on_answered(
    arg: *mut c_void,
    _request: *mut crate::engine::core::request::request::Slot,
    _status: i32,
) {
    // SAFETY: boxed in `answer`; the callback runs once.
    unsafe { Box::from_raw(arg.cast::<Answer>()) }.has_left();
}

impl Window {
    /// Handles a message. `granted` as for `perform`.
    pub(crate) fn receive(
        &self,
        from: u32,
        header: &WindowHeader,
        data: &[u8],
        granted: bool,
    ) -> std::result::Result<Taken, &'static str> {
        let service = &self.group.service;
        let control = self.own().control();
        let tells = |word: &AtomicU64| {
            word.store(header.at, Ordering::Release);
            control.ring();
        };
        match header.what {
            What::Get if self.offers_long(header) => {}
            What::Put | What::Get | What::Accumulate | What::Fetch | What::Swap => {
                let done = match header.what.is_answered()
                    && !service.windows().may_owe(header.from, header.bytes)
                {
                    true => Err(Error::new(
                        Status::NO_RESOURCE,
                        "window: a member does not read its answers",
                    )),
                    false => self.perform(header, data, granted),
                };
                if matches!(&done, Err(error) if error.status() == Status::BUSY) {
                    return Ok(Taken::Waits);
                }
                if let (Err(error), 0) = (&done, header.token) {
                    let complaint = &self.complaints[from as usize];
                    let _ = complaint.compare_exchange(
                        0,
                        error.status().0,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                }
                match done {
                    Ok(data) => service.answer(header, Status::OK, data),
                    Err(error) => service.answer(header, error.status(), Vec::new()),
                }
            }
            What::Flush => {
                let complaint = self.complaints[from as usize].swap(0, Ordering::Relaxed);
                service.answer(header, Status(complaint), Vec::new());
            }
            What::Lock => self.lock_for(from, header),
            What::Took => self.taken_by(from, header.token),
            What::Unlock => self.unlock_for(from, None),
            What::GiveUp => {
                if !service.cancel_lock_for(self, from, header.token) {
                    self.unlock_for(from, Some(header.token));
                }
            }
            What::Posted => tells(&control.from(from).posted),
            What::Completed => tells(&control.from(from).completed),
            What::Round => {
                let strange = "a window's message for a round that does not exist";
                let round = control.round_if(header.number).ok_or(strange)?;
                let size = self.targets.len();
                let distance = distances(size).nth(header.number as usize).ok_or(strange)?;
                if from as usize != (self.rank as usize + size - distance) % size {
                    return Err("a window's message of a round from another member than the one \
                        that it is waited for");
                }
                tells(round);
            }
            What::Ended => {
                if header.status == 0 || header.number as usize >= self.targets.len() {
                    return Err("a window's message of an end without a status");
                }
                if let Some(remote) = self.targets[from as usize].remote() {
                    remote.end(Ended { status: Status(header.status), blamed: header.number });
                }
                control.ring();
                service.tell();
            }
            What::Answer => {}
        }
        Ok(Taken::Done)
    }

    /// Rank in the window's group.
    fn rank_of(&self, job_rank: u32) -> Option<u32> {
        self.group.ranks.iter().position(|rank| *rank == job_rank).map(|rank| rank as u32)
    }

    pub(crate) fn is_member(&self, job_rank: u32) -> bool {
        self.rank_of(job_rank).is_some()
    }

    /// A member of another host requests the lock.
    fn lock_for(&self, from: u32, header: &WindowHeader) {
        // A member has one place in the queue, so a second request is refused.
        let (service, lock) = (&self.group.service, self.own().control().lock());
        if self.far_holds.lock().contains_key(&from) {
            return service.answer(header, Status::INVALID_PARAM, Vec::new());
        }
        if service.awaits_lock_for(self, from) {
            return service.answer(header, Status::INVALID_PARAM, Vec::new());
        }
        if lock.try_lock(from, header.how) {
            self.grant_to(from, header, true);
            service.answer(header, Status::OK, Vec::new());
        } else {
            lock.begin_waiting(from, header.how);
            service.await_lock_for(self, from, header);
        }
    }

    /// Notes that the member holds the lock, before it is told. If it has waited, the caller is
    /// still inside the gate in which it polled the queue, so that the member cannot give up in
    /// between.
    pub(crate) fn grant_to(&self, from: u32, header: &WindowHeader, taken: bool) {
        if !taken {
            self.own().control().lock().set_known(from, false);
        }
        self.far_holds.lock().insert(from, FarHold { token: header.token, how: header.how, taken });
    }

    /// Releases all locks that members of other hosts hold here. Otherwise members of this host,
    /// which may still lock this memory, would wait without end.
    pub(crate) fn release_for_all(&self) {
        for (from, hold) in std::mem::take(&mut *self.far_holds.lock()) {
            self.release_for(from, &hold);
        }
    }

    fn release_for(&self, from: u32, hold: &FarHold) {
        let lock = self.own().control().lock();
        if hold.taken {
            // An error is ignored: a process that treats that member as dead has the lock already.
            let _ = lock.unlock(from, hold.how);
        } else {
            lock.give_up(from);
        }
    }

    /// The member confirms its lock.
    fn taken_by(&self, from: u32, token: u64) {
        let mut holds = self.far_holds.lock();
        if let Some(hold) = holds.get_mut(&from).filter(|hold| hold.token == token && !hold.taken) {
            hold.taken = true;
            self.own().control().lock().set_known(from, true);
        }
    }

    /// The member releases its lock, or the one of this request.
    fn unlock_for(&self, from: u32, token: Option<u64>) {
        let mut holds = self.far_holds.lock();
        if holds.get(&from).is_none_or(|hold| token.is_some_and(|token| token != hold.token)) {
            return;
        }
        let hold = holds.remove(&from);
        drop(holds);
        if let Some(hold) = hold {
            self.release_for(from, &hold);
        }
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
