//! A listening socket each of whose clients gets one text. Nothing waits: the monitor's thread
//! polls the descriptors.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use rustix::event::{PollFd, PollFlags};
use socket2::Socket;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

/// Clients at a time. Others wait in the kernel's queue.
const MOST_CLIENTS: usize = 8;
/// A client that has not got everything by then is cut off.
const PATIENCE_NS: u64 = 10_000_000_000;
/// After a failure to let a client in, as for lack of descriptors.
const PAUSE_NS: u64 = 100_000_000;
/// Longest request.
const MOST_RECEIVED: usize = 8192;

/// What becomes of a client, after a part of its request has arrived.
#[allow(dead_code)] // Services with requests make the others.
pub(crate) enum Answer {
    /// Its request is not complete.
    Later,
    /// It gets this text.
    Text(Vec<u8>),
    /// It is cut off.
    Nothing,
}

struct Client {
    socket: Socket,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    sent: usize,
    until: u64,
}

/// A client's end.
struct Gone;

/// See the head of this file.
pub(crate) struct TextServer {
    listener: Socket,
    /// Clients have to ask for something.
    with_requests: bool,
    clients: Vec<Client>,
    /// Until then it lets nobody in.
    pauses: u64,
}

impl TextServer {
    /// `listener` listens. With requests, what a client sends decides about its answer; without,
    /// nothing is ever read from it.
    pub(crate) fn new(listener: Socket, with_requests: bool) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(TextServer { listener, with_requests, clients: Vec::new(), pauses: 0 })
    }

    /// As `Service::waits_for`.
    pub(crate) fn waits_for<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) -> Option<u64> {
        let pauses = self.pauses > clock::now_ns();
        if self.clients.len() < MOST_CLIENTS && !pauses {
            polled.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
        }
        for client in &self.clients {
            let what = if client.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
            polled.push(PollFd::from_borrowed_fd(client.socket.as_fd(), what));
        }
        let ends = self.clients.iter().map(|client| client.until);
        ends.chain(pauses.then_some(self.pauses)).min()
    }

    /// Lets clients in that `admits` admits, and serves them: `answers` gets what a client has sent
    /// so far.
    pub(crate) fn turn(
        &mut self,
        now: u64,
        admits: impl Fn(&Socket) -> bool,
        mut answers: impl FnMut(&[u8]) -> Answer,
    ) {
        while self.clients.len() < MOST_CLIENTS {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) => {
                    self.pauses = if is_for_later(&error) { 0 } else { now + PAUSE_NS };
                    break;
                }
            };
            if admits(&socket) && socket.set_nonblocking(true).is_ok() {
                let until = clock::deadline_after(PATIENCE_NS);
                let (request, answer) = (Vec::new(), None);
                self.clients.push(Client { socket, request, answer, sent: 0, until });
            }
        }
        let with_requests = self.with_requests;
        self.clients.retain_mut(|client| {
            now < client.until && client.serve(with_requests, &mut answers).is_ok()
        });
    }
}

impl Client {
    fn serve(
        &mut self,
        with_requests: bool,
        answers: &mut impl FnMut(&[u8]) -> Answer,
    ) -> Result<(), Gone> {
        if self.answer.is_none() {
            if with_requests && !self.receive()? {
                return Ok(());
            }
            match answers(&self.request) {
                Answer::Later if self.request.len() < MOST_RECEIVED => return Ok(()),
                Answer::Text(text) => self.answer = Some(text),
                Answer::Later | Answer::Nothing => return Err(Gone),
            }
        }
        self.send()
    }

    /// Returns whether there is more of its request than before.
    fn receive(&mut self) -> Result<bool, Gone> {
        let mut buffer = [0; 1024];
        match (&self.socket).read(&mut buffer) {
            Ok(0) => Err(Gone),
            Ok(length) => {
                self.request.extend_from_slice(&buffer[..length]);
                Ok(true)
            }
            Err(error) => is_for_later(&error).then_some(false).ok_or(Gone),
        }
    }

    /// `Gone` when everything was sent.
    fn send(&mut self) -> Result<(), Gone> {
        while let Some(rest) = self.answer.as_ref().map(|answer| &answer[self.sent..]) {
            if rest.is_empty() {
                return Err(Gone);
            }
            match self.socket.send_with_flags(rest, libc::MSG_NOSIGNAL) {
                Ok(length) => self.sent += length,
                Err(error) => return is_for_later(&error).then_some(()).ok_or(Gone),
            }
        }
        Ok(())
    }
}

fn is_for_later(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
