//! What comes for windows by messages, and what becomes of it here: the target's side of
//! `window::remote::remote`.
//!
//! The service of the group takes a message in on its own thread, one after the other as they were
//! sent. So a target is served whether it makes calls or not. An operation is executed as if this
//! process had called for it at its own memory: under the same lock, or by the same atomic
//! operations, as those of everybody else. Locks are asked for in the name of the member that wants
//! them; one that has to wait is looked after in the passes of the service's worker.
//!
//! A message is hostile until checked: its sender is who the connection leads to, its pieces are
//! inside this process's memory, its data is as long as they are. What is wrong is told to whoever
//! asks, or kept for the next flush.
//!
//! Who owns what. A window is known by a plain pointer, from before any member may send to it until
//! it leaves, which waits for those who are in the midst of something with it (`visitors`).

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
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

/// Buffers of answers that are kept for others.
const BUFFERS_KEPT: usize = 64;

/// Bytes of answers for one member that wait to leave. Who asks for more, and takes none, gets
/// NO_RESOURCE: of the members that keep to 2 MiB for each window, one with more than a hundred.
const MOST_OWED: u64 = 256 << 20;

/// Of a window's number: who has proposed it.
const RANK_BITS: u32 = 24;

/// What a group's service knows of windows.
#[derive(Default)]
pub(crate) struct Windows {
    known: Mutex<HashMap<u64, Known>>,
    /// Numbers that windows have had here.
    numbers: AtomicU64,
    /// About locks.
    questions: Mutex<HashMap<u64, Arc<Question>>>,
    tokens: AtomicU64,
    /// Everything else.
    pub(crate) awaited: Arc<Awaited>,
    pub(crate) spare: SpareLists,
    pub(crate) rooms: Rooms,
    /// What members of this host hand over.
    pub(crate) mail: Mail,
    /// For the data of answers.
    buffers: Mutex<Vec<Vec<u8>>>,
    /// By job rank: bytes of answers that have not left.
    owed: Mutex<HashMap<u32, u64>>,
    /// What UCX is in the midst of in this process's memory: see `window::remote::rendezvous`.
    pub(crate) long: Mutex<Counts>,
}

struct Known(*const Window);

// SAFETY: what it points to is used while it is known, as `Window` says.
unsafe impl Send for Known {}

impl Windows {
    /// One that no other window gets: the greatest that a member has proposed is taken, and each
    /// proposes what nobody else does, once.
    pub(crate) fn next_number(&self, job_rank: u32) -> u64 {
        (1 + self.numbers.fetch_add(1, Ordering::Relaxed)) << RANK_BITS | u64::from(job_rank)
    }

    /// A window has it now.
    pub(crate) fn take_number(&self, number: u64) {
        self.numbers.fetch_max(number >> RANK_BITS, Ordering::Relaxed);
    }

    /// So many bytes, all 0, for an answer.
    pub(crate) fn take_buffer(&self, bytes: usize) -> Vec<u8> {
        if bytes == 0 {
            return Vec::new();
        }
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    /// It has left. What the allocator gets back in such pieces it gives back to the kernel, page
    /// by page, which takes longer than all else.
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

    /// May an answer of so many bytes be made for this member? One always may.
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

    /// No answer to it is written from now on.
    pub(crate) fn forget(&self, token: u64) {
        self.questions.lock().remove(&token);
    }

    /// Messages for it are taken in from now on.
    pub(crate) fn enter(&self, window: &Window) {
        self.known.lock().insert(window.number, Known(window));
        self.mail.enter(window);
    }

    /// And not any more: who is in the midst of something with it is awaited by `await_visitors`.
    pub(crate) fn leave(&self, window: &Window) {
        if self.known.lock().remove(&window.number).is_some() {
            self.mail.leave(window);
        }
    }

    pub(crate) fn visit(&self, number: u64) -> Option<Visitor> {
        let known = self.known.lock();
        // SAFETY: known under the lock that `leave` takes first.
        Some(Visitor::of(unsafe { &*known.get(&number)?.0 }))
    }
}

/// Of a member on another host that holds the lock of this one.
pub(crate) struct FarHold {
    /// Of its question.
    token: u64,
    how: LockType,
    /// It knows, as far as that is known here.
    taken: bool,
}

/// In the midst of something with a window, which leaves only afterwards. Without a reference: the
/// service's thread must not be the last to have one.
pub(crate) struct Visitor(*const Window);

impl Visitor {
    /// Of one that cannot leave right now.
    pub(crate) fn of(window: &Window) -> Self {
        window.visitors.fetch_add(1, Ordering::Relaxed);
        Visitor(window)
    }
}

impl std::ops::Deref for Visitor {
    type Target = Window;

    fn deref(&self) -> &Window {
        // SAFETY: it waits for its visitors.
        unsafe { &*self.0 }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.visitors.fetch_sub(1, Ordering::Release);
    }
}

/// Windows, as a group's service sees them.
pub(crate) static WINDOWS: Extension = Extension {
    state: || Box::new(Windows::default()),
    on_message: on_window_message,
    member_gone: Service::nothing_comes_from,
    assist: Service::assist_windows,
};

/// Of the service's worker.
unsafe extern "C" fn on_window_message(arg: *mut c_void, message: *mut Message) {
    // SAFETY: the service of this worker, which it outlives.
    let service = unsafe { &*arg.cast::<Service>() };
    let held = Held::new(message);
    if let Err(why) = service.receive_for_window(held) {
        dispatch::complain(why);
    }
}

impl Service {
    /// What it knows of windows.
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
        let from = from.ok_or("a window's message of somebody who is no member")?;
        window.receive_or_block(from, &header, held)
    }

    /// Nothing that was asked of this member is answered any more.
    pub(crate) fn nothing_comes_from(&self, rank: u32) {
        let tell = |ticket, status| self.tell_user(ticket, status);
        self.windows().awaited.discard_all_of(rank, Status::PEER_FAILED, &tell);
    }

    /// A request of the user's has ended.
    pub(crate) fn tell_user(&self, ticket: Ticket, status: Status) {
        self.user.window_ends().push(&self.user, ticket, status);
    }

    /// Answers, if that is wanted.
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
            // SAFETY: of the box above, which nobody else gets.
            unsafe { Box::from_raw(kept) }.has_left();
        }
        self.answer_has_gone(to, sent);
    }

    /// Or not.
    pub(crate) fn answer_has_gone(&self, to: u32, sent: Result<Submitted>) {
        if sent.is_err_and(|error| !is_of_peer(error.status())) {
            // It would wait for ever.
            dispatch::complain("a window's answer that cannot be sent: the connection is given up");
            self.cut(to);
        }
    }
}

/// One on its way.
struct Answer {
    /// Which ends its worker, and with that all callbacks, before it goes.
    service: *const Service,
    to: u32,
    data: Vec<u8>,
}

impl Answer {
    fn has_left(self) {
        // SAFETY: as is said there.
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
    // SAFETY: of `answer`, once.
    unsafe { Box::from_raw(arg.cast::<Answer>()) }.has_left();
}

impl Window {
    /// `granted`: as for `perform`.
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
                        "window: a member that takes no answers",
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
                let strange = "a window's message of a round that there is not";
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
                    return Err("a window's message of an end for no reason");
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

    /// In the window's group.
    fn rank_of(&self, job_rank: u32) -> Option<u32> {
        self.group.ranks.iter().position(|rank| *rank == job_rank).map(|rank| rank as u32)
    }

    pub(crate) fn is_member(&self, job_rank: u32) -> bool {
        self.rank_of(job_rank).is_some()
    }

    /// A member on another host wants the lock.
    fn lock_for(&self, from: u32, header: &WindowHeader) {
        // Once: a place in line is all there is for it.
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

    /// It has it, which is to be told. Where it has waited, inside the gate that its place in line
    /// was looked at in, lest it give up in between.
    pub(crate) fn grant_to(&self, from: u32, header: &WindowHeader, taken: bool) {
        if !taken {
            self.own().control().lock().set_known(from, false);
        }
        self.far_holds.lock().insert(from, FarHold { token: header.token, how: header.how, taken });
    }

    /// Locks that members on other hosts hold of this one are nobody's any more: those of this
    /// host, which may still lock its memory, would wait for ever.
    pub(crate) fn release_for_all(&self) {
        for (from, hold) in std::mem::take(&mut *self.far_holds.lock()) {
            self.release_for(from, &hold);
        }
    }

    fn release_for(&self, from: u32, hold: &FarHold) {
        let lock = self.own().control().lock();
        if hold.taken {
            // Whoever takes that member for dead has the lock already.
            let _ = lock.unlock(from, hold.how);
        } else {
            lock.give_up(from);
        }
    }

    /// It knows.
    fn taken_by(&self, from: u32, token: u64) {
        let mut holds = self.far_holds.lock();
        if let Some(hold) = holds.get_mut(&from).filter(|hold| hold.token == token && !hold.taken) {
            hold.taken = true;
            self.own().control().lock().set_known(from, true);
        }
    }

    /// It gives it back, if it holds it by this question.
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

#[cfg(all(test, not(loom)))]
#[path = "target_tests.rs"]
mod tests;
