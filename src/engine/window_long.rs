//! Long puts and gets by messages, of memory that is in one piece on both sides: straight from the one into the other, by UCX's rendezvous.
//!
//! What is put waits at the origin until the target pulls it to where it belongs; the target answers when it is there. Of what is got the target offers its own memory with the
//! answer, and the origin pulls that. So nothing is copied on the way, and nothing of it is kept anywhere. Everything else is as for other operations (see `window_operate` and
//! `window_messages`): each has an answer of its own, which a flush waits for.
//!
//! Not for dynamic windows, whose memory may be detached in the midst of it. Nor with UCX 1.13, which ends the process by an assertion when a member dies in the midst of it
//! (`ucp_request.c:684`): there all goes in messages that bring their data along.
//!
//! Who owns what. What UCX reads or writes is listed in `Windows::long` until UCX is done with it. A window does not leave before what is listed for it has ended; a member that
//! holds that up for a second, as it was stopped, has its connection cut, which ends it. Of an answer that is pulled the entry in `Awaited` stays as long.
//!
//! Cost: an allocation for each, on the side that does not wait in a call.

use super::group_service::{Held, Service};
use super::inflight::Out;
use super::library;
use super::memory_type;
use super::operation::{flag, OpParams, Submitted};
use super::request::Slot;
use super::status::{Error, Result, Status};
use super::tag::Part;
use super::timer;
use super::window::{Flavor, Window};
use super::window_awaited::Pull;
use super::window_messages::{Visitor, Windows};
use super::window_wire::{What, WindowHeader};
use std::ffi::c_void;

/// From so many bytes on. The rendezvous costs another round trip.
pub(super) const LONG: u64 = 256 << 10;

/// A member that holds up the end of a window is given so long.
const LETS_GO_NS: u64 = 1_000_000_000;

/// One that is under way.
struct Long {
    /// Which ends its worker, and with that all callbacks, before it goes.
    service: *const Service,
    listed: Listed,
    role: Role,
}

/// Of which window, and with whom: a job rank.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    window: u64,
    with: u32,
}

enum Role {
    /// What is put is pulled into this process's memory.
    Taken { header: WindowHeader, _window: Visitor },
    /// What is got is offered in this process's memory.
    Offered { _window: Visitor },
    /// What this process gets is pulled.
    Fetched { token: u64 },
}

impl Long {
    fn begin(service: &Service, listed: Listed, role: Role) -> *mut Self {
        service.windows.long.lock().push(listed);
        Box::into_raw(Box::new(Long { service, listed, role }))
    }

    /// UCX is done with it.
    fn ended(self, status: Status) {
        // SAFETY: as is said there.
        let service = unsafe { &*self.service };
        let status = if status.is_error() { status.or_peer_failed() } else { Status::OK };
        match &self.role {
            Role::Taken { header, .. } => service.answer(header, status, Vec::new()),
            Role::Offered { .. } => {}
            Role::Fetched { token } => {
                service.windows.awaited.pulled(*token, status, &|ticket, status| service.tell_user(ticket, status));
                service.tell();
            }
        }
        // Last of all: whoever waits for that goes on.
        drop(self.role);
        let mut long = service.windows.long.lock();
        if let Some(place) = long.iter().position(|listed| *listed == self.listed) {
            long.swap_remove(place);
        }
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, status: i32) {
    // SAFETY: of `begin`, once.
    unsafe { Box::from_raw(arg.cast::<Long>()) }.ended(Status(status));
}

/// What has come of beginning it: if that is not its callback's matter it has ended.
fn begun(long: *mut Long, submitted: &Result<Submitted>) {
    let status = match submitted {
        Ok(Submitted::Pending) => return,
        Ok(_) => Status::OK,
        Err(error) => error.status(),
    };
    // SAFETY: of `begin`, and nobody else gets it.
    unsafe { Box::from_raw(long) }.ended(status);
}

fn whole(place: *mut u8, bytes: usize) -> [Part; 1] {
    [Part { data: place.cast(), length: bytes, memory_type: memory_type::HOST }]
}

/// Of an operation whose end is told to `on_ended`.
fn params(long: *mut Long, flags: u64) -> OpParams {
    OpParams { flags, callback: Some(on_ended), callback_arg: long.cast(), ..OpParams::DEFAULT }
}

impl Windows {
    /// Waits until nothing is under way for this window any more, with this member or any.
    pub(super) fn await_long(&self, window: &Window, with: Option<u32>) {
        let is_meant = |listed: &&Listed| listed.window == window.number && with.is_none_or(|with| with == listed.with);
        let deadline = timer::deadline_after(LETS_GO_NS);
        let mut cut = false;
        loop {
            let with: Vec<u32> = {
                let long = self.long.lock();
                long.iter().filter(is_meant).map(|listed| listed.with).collect()
            };
            if with.is_empty() {
                return;
            }
            if !cut && timer::now_ns() >= deadline {
                cut = true;
                with.into_iter().for_each(|rank| window.group.service.cut(rank));
            }
            std::thread::yield_now();
        }
    }
}

impl Service {
    /// A message for a window whose data waits at its sender.
    pub(super) fn take_in_long(&self, header: &WindowHeader, held: &Held) -> std::result::Result<(), &'static str> {
        match header.what {
            What::Answer => {
                self.fetch_long(header, held);
                Ok(())
            }
            What::Put => {
                let status = match self.windows.visit(header.window) {
                    Some(window) => self.take_long(header, held, window),
                    None => Err(Error::new(Status::CLOSED, "window: has gone")),
                };
                if let Err(error) = status {
                    self.answer(header, error.status(), Vec::new());
                }
                Ok(())
            }
            _ => Err("a window's message whose data is not here"),
        }
    }

    fn take_long(&self, header: &WindowHeader, held: &Held, window: Visitor) -> Result<()> {
        let listed = Listed { window: header.window, with: header.from };
        if !window.is_member(header.from) || header.pieces > 0 || header.bytes != held.message().length() {
            return Err(Error::new(Status::INVALID_PARAM, "window: a message whose data is not what it says"));
        }
        let (place, bytes) = window.place_of_long(header)?;
        let long = Long::begin(self, listed, Role::Taken { header: *header, _window: window });
        // SAFETY: inside this process's memory of the window, which stays until this has ended.
        let pulled = unsafe { held.message().receive(&whole(place, bytes), &params(long, 0), Out::NOWHERE) };
        begun(long, &pulled);
        Ok(())
    }

    fn fetch_long(&self, header: &WindowHeader, held: &Held) {
        let tell = |ticket, status| self.tell_user(ticket, status);
        let pull = self.windows.awaited.begin_pull(header, held.message().length(), &tell);
        let Some(Pull { place, bytes }) = pull else { return self.tell() };
        let listed = Listed { window: header.window, with: header.from };
        let long = Long::begin(self, listed, Role::Fetched { token: header.token });
        // SAFETY: memory that its caller has lent until the entry has ended, which this does.
        let pulled = unsafe { held.message().receive(&whole(place, bytes), &params(long, 0), Out::NOWHERE) };
        begun(long, &pulled);
    }

    /// Answers with so many bytes of this process's memory, which are read until the other side has them.
    fn offer_long(&self, asked: &WindowHeader, window: Visitor, (place, bytes): (*mut u8, usize)) {
        let header = WindowHeader { token: asked.token, ..WindowHeader::new(What::Answer, asked.window, self.rank()) };
        let listed = Listed { window: asked.window, with: asked.from };
        let long = Long::begin(self, listed, Role::Offered { _window: window });
        let params = params(long, flag::OWED | flag::RNDV);
        let sent = self.send_with(asked.from, &header.encode(), &whole(place, bytes), &params, Out::NOWHERE);
        begun(long, &sent);
        self.answer_has_gone(asked.from, sent);
    }
}

impl Window {
    /// Does a put or get of so many bytes in one piece go that way?
    pub(super) fn goes_long(&self, what: What, bytes: u64) -> bool {
        bytes >= LONG
            && matches!(what, What::Put | What::Get)
            && self.flavor != Flavor::Dynamic
            && library::ucx_release().numbers >= (1, 16, 0)
    }

    /// Where all of it is here.
    fn place_of_long(&self, header: &WindowHeader) -> Result<(*mut u8, usize)> {
        if self.flavor == Flavor::Dynamic {
            return Err(Error::new(Status::INVALID_PARAM, "window: a long message for memory that may be detached"));
        }
        self.place_here(header.at, header.bytes)
    }

    /// A long get, which is answered as such. False if it is none: all others are executed at once.
    pub(super) fn offers_long(&self, header: &WindowHeader) -> bool {
        let is_long = header.what == What::Get && header.pieces == 0 && header.bytes >= LONG;
        if !is_long || header.token == 0 || self.flavor == Flavor::Dynamic {
            return false;
        }
        let service = &self.group.service;
        match self.place_of_long(header) {
            Ok(place) => service.offer_long(header, Visitor::of(self), place),
            Err(error) => service.answer(header, error.status(), Vec::new()),
        }
        true
    }
}
