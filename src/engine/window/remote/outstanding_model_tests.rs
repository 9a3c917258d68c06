//! Every order of a few events about one request, with other requests in between: it ends once.
//!
//! Threads meet only under the lock of `Awaited`, so these are all possible orders.

use super::*;
use crate::engine::wire::window::What;
use std::cell::{Cell, RefCell};

const THEM: u32 = 2;
const ASKED: Whom = Whom { window: 1, member: THEM };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    /// The call requests something.
    Ask,
    /// A message of the call was sent.
    Gone,
    /// The call returns, with a ticket if necessary.
    Return,
    /// The call fails instead.
    Fail,
    /// The first reply, perhaps a second time.
    Answer,
    /// The second reply.
    AnswerNext,
    /// The first reply is to be pulled, or has been.
    Pull,
    Cancel,
    /// The window closes.
    Close,
    /// The member dies.
    Death,
    /// Another request is made, gets its reply, and completes in its call.
    Other,
}

const EVENTS: [Event; 11] = [
    Event::Ask,
    Event::Gone,
    Event::Return,
    Event::Fail,
    Event::Answer,
    Event::AnswerNext,
    Event::Pull,
    Event::Cancel,
    Event::Close,
    Event::Death,
    Event::Other,
];

/// How the request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// In its call, with or without success.
    InCall,
    Told,
    Canceled,
}

struct Trial {
    awaited: Awaited,
    /// Boxed, as entries have its address.
    tally: Box<Tally>,
    is_flush: bool,
    call: Call,
    ticket: Ticket,
    /// Tokens of its requests, in order, and their memory.
    tokens: Vec<u64>,
    place: Box<RefCell<[u8; 2]>>,
    returned: bool,
    gone: bool,
    pulling: bool,
    ends: RefCell<Vec<End>>,
    /// The memory's contents when it had ended.
    kept: Cell<Option<[u8; 2]>>,
}

impl Trial {
    fn new(is_flush: bool) -> Self {
        let (awaited, tally) = (Awaited::default(), Box::new(Tally::default()));
        // A request that nobody ends.
        let _ = awaited.call_with_request(None);
        Trial {
            call: awaited.call_with_request(is_flush.then_some(&*tally)),
            awaited,
            tally,
            is_flush,
            ticket: Ticket::NOWHERE,
            tokens: Vec::new(),
            place: Box::default(),
            returned: false,
            gone: false,
            pulling: false,
            ends: RefCell::default(),
            kept: Cell::new(None),
        }
    }

    /// Length of each reply.
    fn bytes(&self) -> usize {
        usize::from(!self.is_flush)
    }

    fn ended(&self, end: End) {
        self.ends.borrow_mut().push(end);
        self.kept.set(Some(*self.place.borrow()));
    }

    fn tell(&self) -> impl Fn(Ticket, Status) + '_ {
        |ticket, _| {
            assert!(ticket == self.ticket, "the end of another request");
            self.ended(End::Told);
        }
    }

    fn answer(&self, token: u64) {
        let header = WindowHeader { token, ..WindowHeader::new(What::Answer, 1, THEM) };
        self.awaited.answered(&header, &[7][..self.bytes()], &self.tell());
    }

    /// Returns false if the event is not possible here.
    fn step(&mut self, event: Event) -> bool {
        match event {
            Event::Ask if !self.returned && self.tokens.len() < 2 => {
                let run = (self.place.borrow_mut().as_mut_ptr().wrapping_add(self.tokens.len()), 1);
                let what = (self.bytes() as u64, true);
                let landing = |runs: &mut Vec<Run>| runs.extend((what.0 > 0).then_some(run));
                // SAFETY: the memory lives as long as this trial.
                let token =
                    unsafe { self.awaited.add(&self.tally, ASKED, self.call, what, landing) };
                self.tokens.push(token);
                if self.tokens.len() == 1 {
                    self.awaited.count_in(self.call);
                }
            }
            Event::Gone if !self.tokens.is_empty() && !self.gone => {
                self.gone = true;
                self.awaited.count_out(self.call, Status::OK, &self.tell());
            }
            Event::Return if !self.returned => {
                self.returned = true;
                if self.awaited.is_over(self.call, None).is_some()
                    || self.awaited.is_over(self.call, Some(self.ticket)).is_some()
                {
                    self.ended(End::InCall);
                }
            }
            Event::Fail if !self.returned => {
                self.returned = true;
                self.awaited.withdraw(self.call, &self.tell());
                self.awaited.is_lost(self.call);
                self.ended(End::InCall);
            }
            Event::Answer if !self.tokens.is_empty() => self.answer(self.tokens[0]),
            Event::AnswerNext if self.tokens.len() > 1 => self.answer(self.tokens[1]),
            Event::Pull if !self.tokens.is_empty() => {
                let header = WindowHeader {
                    token: self.tokens[0],
                    ..WindowHeader::new(What::Answer, 1, THEM)
                };
                let what = self.bytes() as u64;
                if std::mem::take(&mut self.pulling) {
                    self.awaited.pulled(header.token, Status::OK, &self.tell());
                } else {
                    let pull = self.awaited.begin_pull(&header, what, &self.tell());
                    self.pulling = pull.is_some();
                }
            }
            Event::Cancel => {
                if self.awaited.cancel(self.call, self.ticket) {
                    self.ended(End::Canceled);
                }
            }
            Event::Close => self.awaited.discard(&self.tally, Status::CANCELED, &self.tell()),
            Event::Death => self.awaited.discard_all_of(THEM, Status::PEER_FAILED, &self.tell()),
            Event::Other => {
                let other = self.awaited.call_with_request(None);
                assert!(other.order != self.call.order, "two requests have one place");
                assert_eq!(self.awaited.is_over(other, None), Some(Status::OK));
            }
            _ => return false,
        }
        true
    }

    /// Ends what is still in progress.
    fn finish(&mut self) {
        self.step(Event::Return);
        self.step(Event::Gone);
        if self.pulling {
            self.step(Event::Pull);
        }
        self.step(Event::Answer);
        self.step(Event::AnswerNext);
        assert_eq!(self.ends.borrow().len(), 1, "its ends");
        // The one in use is the first request, which nobody ends.
        assert_eq!((self.tally.missing(), self.awaited.0.lock().orders.in_use()), (0, 1));
        assert_eq!(self.kept.get(), Some(*self.place.borrow()), "written after its end");
    }
}

/// Explores all orders that begin with `events`; returns their number.
fn explore(is_flush: bool, events: &mut Vec<Event>, more: usize) -> u32 {
    let mut orders = 0;
    for event in EVENTS {
        events.push(event);
        let mut trial = Trial::new(is_flush);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let makes_sense = events.iter().all(|event| trial.step(*event));
            if makes_sense {
                trial.finish();
            }
            makes_sense
        }));
        match ended {
            Ok(true) if more > 0 => orders += 1 + explore(is_flush, events, more - 1),
            Ok(makes_sense) => orders += u32::from(makes_sense),
            Err(_) => panic!("a flush: {is_flush}, {events:?}"),
        }
        events.pop();
    }
    orders
}

#[test]
fn a_request_ends_once_whatever_comes_in_whatever_order() {
    for is_flush in [false, true] {
        let orders = explore(is_flush, &mut Vec::new(), 4);
        assert!(orders > 10_000, "{orders}");
    }
}
