//! Windows at members that share no memory with this process, or whose memory the kernel does not
//! let it access: the connection to such a member, and the messages for locks, signals and the end.
//! Operations are in `window::remote::origin`.
//!
//! **Ownership.** The service finds a lock request by its token; the thread that made the request
//! removes it. Other awaited replies are in `window::remote::outstanding`.
//!
//! Costs: a lock is a round trip and an allocation; everything else is one message.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::group::service::Service;
use crate::engine::window::control_words::Ended;
use crate::engine::window::remote::outstanding::Tally;
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::LockType;
use crate::engine::wire::window::{What, WindowHeader};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A member that is reached by messages, as this process sees it.
pub(crate) struct Remote {
    pub(crate) job_rank: u32,
    /// Address of its memory in that process; 0 if it does not matter.
    pub(crate) base: u64,
    /// Puts and accumulates that were sent, and how many of them a flush has covered.
    pub(crate) sent: AtomicU64,
    pub(crate) flushed: AtomicU64,
    pub(crate) tally: Tally,
    /// Numbers of signals sent to it.
    posted: AtomicU64,
    completed: AtomicU64,
    /// Like `Control::ended`, for members whose control words cannot be mapped.
    ended: AtomicU64,
}

impl Remote {
    pub(crate) fn new(job_rank: u32, base: u64) -> Self {
        let zero = AtomicU64::default;
        let tally = Tally::default();
        Remote {
            job_rank,
            base,
            tally,
            sent: zero(),
            flushed: zero(),
            posted: zero(),
            completed: zero(),
            ended: zero(),
        }
    }

    /// No operation is in progress there.
    pub(crate) fn is_idle(&self) -> bool {
        self.tally.missing() == 0
            && self.flushed.load(Ordering::Acquire) == self.sent.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self, why: Ended) {
        let _ = self.ended.compare_exchange(0, why.encode(), Ordering::SeqCst, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        Ended::decode(self.ended.load(Ordering::Acquire))
    }
}

/// A lock request.
pub(crate) struct Question {
    token: u64,
    /// Job rank of the member that was asked: only its reply counts.
    asked: u32,
    is_answered: AtomicBool,
    status: AtomicI32,
    /// `number` of the reply: see `WindowHeader`.
    number: AtomicU32,
}

impl Question {
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// The reply's status; `None` before it has arrived.
    pub(crate) fn outcome(&self) -> Option<Status> {
        self.is_answered
            .load(Ordering::Acquire)
            .then(|| Status(self.status.load(Ordering::Relaxed)))
    }

    /// A reply has arrived. The caller holds the lock of the requests.
    pub(crate) fn answered(&self, header: &WindowHeader) {
        if header.from != self.asked || self.is_answered.load(Ordering::Relaxed) {
            return;
        }
        self.status.store(header.status, Ordering::Relaxed);
        self.number.store(header.number, Ordering::Relaxed);
        self.is_answered.store(true, Ordering::Release);
    }
}

/// A request that the service knows until this is dropped.
pub(crate) struct LockQuestion<'a> {
    service: &'a Service,
    pub(crate) question: Arc<Question>,
    kept: bool,
}

impl LockQuestion<'_> {
    /// Keeps the request known, for a caller that polls it and calls `forget` itself.
    pub(crate) fn keep(mut self) -> Arc<Question> {
        self.kept = true;
        self.question.clone()
    }
}

impl Drop for LockQuestion<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.service.windows().forget(self.question.token);
        }
    }
}

impl Window {
    /// Why this member no longer serves others. A member whose synchronisation has failed still
    /// does.
    pub(crate) fn what_left(&self, rank: u32) -> Option<Ended> {
        let left = |ended: &Ended| ended.status == Status::CLOSED && ended.blamed == rank;
        self.what_ended(rank).filter(|ended| left(ended) || !self.lives(rank))
    }

    pub(crate) fn header(&self, what: What) -> WindowHeader {
        WindowHeader::new(what, self.number, self.group.service.rank())
    }

    pub(crate) fn remote(&self, rank: u32) -> &Remote {
        self.targets[rank as usize].remote().expect("reached by messages")
    }

    /// Sends one message, and awaits nothing.
    pub(crate) fn tell(&self, rank: u32, header: &WindowHeader) -> Result<()> {
        let sent = self.group.service.send_window(
            self.remote(rank).job_rank,
            &header.encode(),
            &[],
            Out::NOWHERE,
        );
        sent.map_err(|error| self.unreachable(rank, error))
    }

    /// An error for a status that the target has returned.
    pub(crate) fn answered_badly(&self, rank: u32, status: Status) -> Error {
        match status {
            Status::CLOSED | Status::PEER_FAILED => {
                self.failed(self.what_left(rank).unwrap_or(Ended { status, blamed: rank }))
            }
            Status::RMA_ATTACH => {
                let text = format!(
                    "window: an operation on rank {rank} used memory that is \
                    not attached there"
                );
                Error::new(status, text)
            }
            Status::INVALID_ADDR => {
                let text = format!(
                    "window: an operation on rank {rank} used memory that does not exist, or \
                    may not be written"
                );
                Error::new(status, text)
            }
            _ => Error::new(
                status,
                format!("window: rank {rank} answers: {}", status.sentence().to_string_lossy()),
            ),
        }
    }

    /// Requests the lock of a target on another host. The result shows when the reply has arrived.
    pub(crate) fn ask_for_lock(&self, rank: u32, how: LockType) -> Result<LockQuestion<'_>> {
        let service = &*self.group.service;
        let (token, asked) = (service.windows().next_token(), self.remote(rank).job_rank);
        let (is_answered, status, number) =
            (AtomicBool::new(false), AtomicI32::new(0), AtomicU32::new(0));
        let question = Arc::new(Question { token, asked, is_answered, status, number });
        service.windows().remember(token, question.clone());
        let asked = LockQuestion { service, question, kept: false };
        self.tell(rank, &WindowHeader { how, token, ..self.header(What::Lock) })?;
        Ok(asked)
    }

    /// Cancels a lock request, or releases the lock if it has been granted.
    pub(crate) fn give_up_far(&self, rank: u32, question: &Question) {
        // If the send fails, the member has ended, which does the same.
        let _ =
            self.tell(rank, &WindowHeader { token: question.token, ..self.header(What::GiveUp) });
    }

    /// Waits for the lock. Meanwhile makes passes of the user's worker if nobody else does.
    pub(crate) fn lock_far(&self, rank: u32, how: LockType, deadline: u64) -> Result<()> {
        let asked = self.ask_for_lock(rank, how)?;
        let there = || asked.question.outcome().is_some() || self.what_left(rank).is_some();
        loop {
            let slice = clock::deadline_after(self.pace().as_nanos() as u64).min(deadline);
            let _ = self.group.service.await_news(&there, slice)?;
            if there() {
                break;
            }
            self.progress_meanwhile();
            if clock::remaining(deadline) == Some(Duration::ZERO) {
                self.give_up_far(rank, &asked.question);
                let text = "lock: others held it, or waited for it first, until the deadline";
                return Err(Error::new(Status::TIMED_OUT, text));
            }
        }
        self.locked_far(rank, &asked.question)
    }

    /// The result of a lock request whose reply has arrived, or whose target has ended.
    pub(crate) fn locked_far(&self, rank: u32, question: &Question) -> Result<()> {
        match question.outcome() {
            Some(Status::OK) if question.number.load(Ordering::Relaxed) != 0 => {
                self.tell(rank, &WindowHeader { token: question.token, ..self.header(What::Took) })
            }
            Some(Status::OK) => Ok(()),
            Some(status) => Err(self.answered_badly(rank, status)),
            None => Err(self.failed(
                self.what_left(rank).unwrap_or(Ended { status: Status::PEER_FAILED, blamed: rank }),
            )),
        }
    }
}

/// Signals between members.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Posted,
    Completed,
    /// Round, and number of barriers begun.
    Round(usize, u64),
}

impl Window {
    /// Signals a member, and wakes it if it sleeps.
    pub(crate) fn signal(&self, rank: u32, signal: Signal) -> Result<()> {
        let target = &self.targets[rank as usize];
        if let Some(control) = &target.control {
            let from = control.from(self.rank);
            let (word, count) = match signal {
                Signal::Posted => {
                    (&from.posted, from.posted.load(Ordering::Relaxed).wrapping_add(1))
                }
                Signal::Completed => {
                    (&from.completed, from.completed.load(Ordering::Relaxed).wrapping_add(1))
                }
                Signal::Round(round, count) => (control.round(round), count),
            };
            word.store(count, Ordering::Release);
            control.ring();
            return Ok(());
        }
        let remote = self.remote(rank);
        let header = match signal {
            Signal::Posted => WindowHeader {
                at: 1 + remote.posted.fetch_add(1, Ordering::Relaxed),
                ..self.header(What::Posted)
            },
            Signal::Completed => WindowHeader {
                at: 1 + remote.completed.fetch_add(1, Ordering::Relaxed),
                ..self.header(What::Completed)
            },
            Signal::Round(round, count) => {
                WindowHeader { at: count, number: round as u32, ..self.header(What::Round) }
            }
        };
        self.tell(rank, &header)
    }

    /// Announces to all members that this one no longer takes part, and why.
    pub(crate) fn announce(&self, ended: Ended) {
        self.own().control().end(ended);
        for (rank, target) in (0..).zip(&self.targets) {
            match &target.control {
                Some(control) => control.ring(),
                None => {
                    let status = ended.status.0;
                    // If the send fails, the member has ended.
                    let _ = self.tell(
                        rank,
                        &WindowHeader { status, number: ended.blamed, ..self.header(What::Ended) },
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_asked_answers_and_once() {
        let (is_answered, status, number) =
            (AtomicBool::new(false), AtomicI32::new(0), AtomicU32::new(0));
        let question = Question { token: 1, asked: 2, is_answered, status, number };
        let answer =
            |from, status| WindowHeader { status, ..WindowHeader::new(What::Answer, 1, from) };
        question.answered(&answer(3, 0));
        assert_eq!(question.outcome(), None);
        question.answered(&answer(2, 0));
        question.answered(&answer(2, Status::CLOSED.0));
        assert_eq!(question.outcome(), Some(Status::OK));
    }
}
