//! Long puts and gets by messages, of memory that is contiguous on both sides: UCX's rendezvous
//! transfers them directly from one memory to the other.
//!
//! For a put, the origin's data waits until the target pulls it to its place; then the target
//! replies. For a get, the target's reply offers its own memory, and the origin pulls it. So
//! nothing is copied or buffered. Otherwise it works as for other operations (see
//! `window::remote::origin` and `window::remote::target`): each has its own reply, which a flush
//! waits for.
//!
//! **Not used** for dynamic windows, whose memory may be detached during the transfer, nor for
//! memory that may not be completely accessible. Nor with UCX 1.13, in which an assertion ends the
//! process if a member dies during it (`ucp_request.c:684`). In these cases all data is in
//! messages.
//!
//! **Ownership.** While UCX accesses a window's memory, the transfer is counted in `Windows::long`,
//! and the window has a visitor. While a reply is pulled, its entry stays in `Awaited`, marked as
//! pulled. A window leaves only after all of these have ended. If a member holds that up for a
//! second, for example because it is stopped, its connections are aborted, which ends them.
//!
//! **Order.** Messages sent after a long operation may be handled before it. So an unlock, or the
//! notification that an epoch has ended, first waits for the replies of long operations.
//!
//! **Costs.** An allocation for each operation, on the side that does not wait in a call.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::group::service::{Held, Service};
use crate::engine::ucx::runtime::{self, Release};
use crate::engine::window::access::Reach;
use crate::engine::window::remote::outstanding::{Call, Pull, Whom};
use crate::engine::window::remote::shipment::part_at;
use crate::engine::window::remote::target::{Visitor, Windows};
use crate::engine::window::window::{Flavor, Window};
use crate::engine::wire::window::{What, WindowHeader};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Length from which on it is used: the rendezvous costs another round trip.
pub(crate) const LONG: u64 = 256 << 10;

/// How long a member may hold up the end of a window.
const LETS_GO_NS: u64 = 1_000_000_000;

/// Number of polls that yield, before polls that sleep.
const LOOKS: u32 = 200;
const NAP: Duration = Duration::from_micros(50);

/// Most transfers in progress of a member for a window: twice as many as it may request
/// (`MOST_ASKED`). More are refused.
const MOST: u32 = 128;

/// Transfers in progress on this process's memory, by window and member.
pub(crate) type Counts = HashMap<Whom, u32>;

/// A transfer in progress.
struct Long {
    /// The service shuts its worker down before it is freed, which ends all callbacks.
    service: *const Service,
    role: Role,
}

enum Role {
    /// A put, being pulled into this process's memory.
    Taken { header: WindowHeader, held: Counted },
    /// A get, offered from this process's memory.
    Offered { held: Counted },
    /// This process's own get, being pulled.
    Fetched { token: u64 },
}

/// Counted in `Windows::long` until it is dropped.
struct Counted {
    window: Visitor,
    whom: Whom,
}

impl Counted {
    fn new(window: Visitor, member: u32) -> Result<Self> {
        let whom = Whom { window: window.number, member };
        {
            let mut long = window.group.service.windows().long.lock();
            let count = long.entry(whom).or_default();
            if *count >= MOST {
                return Err(Error::new(
                    Status::NO_RESOURCE,
                    "window: a member has too many long operations under way",
                ));
            }
            *count += 1;
        }
        Ok(Counted { window, whom })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut long = self.window.group.service.windows().long.lock();
        if let Some(count) = long.get_mut(&self.whom) {
            *count -= 1;
            if *count == 0 {
                long.remove(&self.whom);
            }
        }
    }
}

impl Long {
    fn begin(service: &Service, role: Role) -> *mut Self {
        Box::into_raw(Box::new(Long { service, role }))
    }

    /// UCX has finished the transfer.
    fn ended(self, status: Status) {
        // SAFETY: the service outlives its worker's callbacks.
        let service = unsafe { &*self.service };
        let status = status.or_peer_failed();
        match self.role {
            Role::Taken { header, held } => {
                service.answer(&header, status, Vec::new());
                drop(held);
            }
            Role::Offered { held } => drop(held),
            Role::Fetched { token } => {
                service
                    .windows()
                    .awaited
                    .pulled(token, status, &|ticket, status| service.tell_user(ticket, status));
                service.tell();
            }
        }
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, status: i32) {
    // SAFETY: boxed in `begin`; the callback runs once.
    unsafe { Box::from_raw(arg.cast::<Long>()) }.ended(Status(status));
}

/// Does this UCX survive a member's death during a transfer?
fn copes(release: Release) -> bool {
    release.numbers >= (1, 16, 0)
}

/// Handles the result of starting a transfer: if it is not pending, it has ended.
fn begun(long: *mut Long, submitted: &Result<Submitted>) {
    let status = match submitted {
        Ok(Submitted::Pending) => return,
        Ok(_) => Status::OK,
        Err(error) => error.status(),
    };
    // SAFETY: boxed in `begin`. The transfer is not pending, so its callback does not run.
    unsafe { Box::from_raw(long) }.ended(status);
}

/// Parameters of an operation that calls `on_ended`.
fn params(long: *mut Long, flags: u64) -> OpParams {
    OpParams { flags, callback: Some(on_ended), callback_arg: long.cast(), ..OpParams::DEFAULT }
}

/// Waits until `under_way` returns `None`. Aborts the connections to members that it returns for a
/// whole second.
fn await_end(service: &Service, under_way: impl Fn() -> Option<Vec<u32>>) {
    let mut seen: Vec<(u32, u64)> = Vec::new();
    for turn in 0_u32.. {
        let Some(members) = under_way() else { return };
        let now = clock::now_ns();
        seen.retain(|(member, _)| members.contains(member));
        for member in members {
            match seen.iter_mut().find(|(known, _)| *known == member) {
                None => seen.push((member, now.saturating_add(LETS_GO_NS))),
                Some((_, deadline)) if now >= *deadline => {
                    *deadline = u64::MAX;
                    service.cut(member);
                }
                Some(_) => {}
            }
        }
        if turn < LOOKS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }
}

fn unless_empty(members: Vec<u32>) -> Option<Vec<u32>> {
    (!members.is_empty()).then_some(members)
}

impl Windows {
    /// Waits until nobody is using a window that has left, and no long transfer of it is in
    /// progress.
    pub(crate) fn await_visitors(&self, window: &Window) {
        let is_of_it = |whom: &&Whom| whom.window == window.number;
        await_end(&window.group.service, || {
            let mut members = self.awaited.pulls(|whom, _| is_of_it(&whom));
            members.extend(self.long.lock().keys().filter(is_of_it).map(|whom| whom.member));
            // Without members there may still be visitors, which may wait for a lock of other
            // processes.
            (!members.is_empty() || window.visitors.load(Ordering::Acquire) > 0).then_some(members)
        });
    }
}

impl Window {
    /// Waits until nothing is being pulled that was requested from this target, which has ended.
    pub(crate) fn await_pulls_of(&self, rank: u32) {
        let awaited = &self.group.service.windows().awaited;
        let asked = Whom { window: self.number, member: self.remote(rank).job_rank };
        await_end(&self.group.service, || unless_empty(awaited.pulls(|whom, _| *whom == asked)));
    }

    /// Waits until nothing is being pulled that this call has requested.
    pub(crate) fn await_pulls_for(&self, call: Call) {
        let awaited = &self.group.service.windows().awaited;
        await_end(&self.group.service, || unless_empty(awaited.pulls(|_, its| its.is_same(call))));
    }

    /// Waits until long operations at a target are done, before its lock is released; after a
    /// second the connection is aborted.
    pub(crate) fn await_long_at(&self, rank: u32) {
        let Some(remote) = self.targets[rank as usize].remote() else { return };
        let is_owed = || remote.tally.owes_long() && self.what_left(rank).is_none();
        await_end(&self.group.service, || is_owed().then(|| vec![remote.job_rank]));
    }
}

impl Service {
    /// A message for a window whose data waits at its sender.
    pub(crate) fn receive_long(
        &self,
        header: &WindowHeader,
        held: &Held,
    ) -> std::result::Result<(), &'static str> {
        match header.what {
            What::Answer => {
                self.fetch_long(header, held);
                Ok(())
            }
            What::Put => {
                let status = match self.windows().visit(header.window) {
                    Some(window) => self.take_long(header, held, window),
                    None => Err(Error::new(Status::CLOSED, "window: has been closed")),
                };
                if let Err(error) = status {
                    self.answer(header, error.status(), Vec::new());
                }
                Ok(())
            }
            _ => Err("a window's message of a kind that has no long data"),
        }
    }

    fn take_long(&self, header: &WindowHeader, held: &Held, window: Visitor) -> Result<()> {
        let is_plain = header.pieces == 0 && !header.has_extent;
        if !window.is_member(header.from) || !is_plain || header.bytes != held.message().length() {
            return Err(Error::new(
                Status::INVALID_PARAM,
                "window: a message whose data does not match its header",
            ));
        }
        let (place, bytes) = window.place_of_long(header)?;
        let counted = Counted::new(window, header.from)?;
        let long = Long::begin(self, Role::Taken { header: *header, held: counted });
        // SAFETY: inside this process's window memory, which the visitor keeps until this has
        // ended.
        let pulled = unsafe {
            held.message().receive(&[part_at(place, bytes)], &params(long, 0), Out::NOWHERE)
        };
        begun(long, &pulled);
        Ok(())
    }

    fn fetch_long(&self, header: &WindowHeader, held: &Held) {
        let tell = |ticket, status| self.tell_user(ticket, status);
        let pull = self.windows().awaited.begin_pull(header, held.message().length(), &tell);
        let Some(Pull { place, bytes }) = pull else { return self.tell() };
        let long = Long::begin(self, Role::Fetched { token: header.token });
        // SAFETY: the caller's memory, valid until the entry ends, which this transfer does.
        let pulled = unsafe {
            held.message().receive(&[part_at(place, bytes)], &params(long, 0), Out::NOWHERE)
        };
        begun(long, &pulled);
    }

    /// Replies with this process's memory, which is read until the other side has the data.
    fn offer_long(&self, asked: &WindowHeader, held: Counted, (place, bytes): (*mut u8, usize)) {
        let header = WindowHeader {
            token: asked.token,
            ..WindowHeader::new(What::Answer, asked.window, self.rank())
        };
        let long = Long::begin(self, Role::Offered { held });
        let params = params(long, flag::OWED | flag::RNDV);
        let sent = self.send_with(
            asked.from,
            &header.encode(),
            &[part_at(place, bytes)],
            &params,
            Out::NOWHERE,
        );
        begun(long, &sent);
        self.answer_has_gone(asked.from, sent);
    }
}

impl Window {
    /// Is a contiguous put or get of this length transferred by rendezvous? Both sides' UCX has to
    /// survive a death.
    pub(crate) fn goes_long(&self, rank: u32, what: What, bytes: u64) -> bool {
        let is_looked_at = self.flavor == Flavor::Dynamic || self.targets[rank as usize].is_guarded;
        if bytes < LONG || !matches!(what, What::Put | What::Get) || is_looked_at {
            return false;
        }
        let theirs =
            self.group.service.members()[self.remote(rank).job_rank as usize].service.origin();
        copes(runtime::ucx_release()) && theirs.is_some_and(|origin| copes(origin.release))
    }

    /// Address of the operation's memory here.
    fn place_of_long(&self, header: &WindowHeader) -> Result<(*mut u8, usize)> {
        let is_plain = matches!(self.own().reach, Reach::Mapped(_));
        if !is_plain || !copes(runtime::ucx_release()) {
            return Err(Error::new(
                Status::INVALID_PARAM,
                "window: a long message for a window that cannot receive one",
            ));
        }
        self.place_here(header.at, header.bytes)
    }

    /// Handles a long get. Returns false if it is not one: others are executed at once.
    pub(crate) fn offers_long(&self, header: &WindowHeader) -> bool {
        let is_long = header.what == What::Get
            && header.pieces == 0
            && header.bytes >= LONG
            && !header.has_extent;
        if !is_long || header.token == 0 || !matches!(self.own().reach, Reach::Mapped(_)) {
            return false;
        }
        let service = &self.group.service;
        let place = self.place_of_long(header);
        match place.and_then(|place| Ok((Counted::new(Visitor::of(self), header.from)?, place))) {
            Ok((held, place)) => service.offer_long(header, held, place),
            Err(error) => service.answer(header, error.status(), Vec::new()),
        }
        true
    }
}
