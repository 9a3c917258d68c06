//! One connection of a rendezvous over TCP: messages of fixed length during the handshake, sealed
//! frames afterwards. Never blocks.
#![deny(unsafe_code)]

use crate::engine::wire::bootstrap::{
    self as wire, Block, Direction, FrameHeader, Kind, Session, SECRET_SIZE,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// Payloads up to this length are copied, so that their frame is sent in one packet.
const SMALL: usize = 4096;

/// A payload for many members: stored once, and its digest computed once.
#[derive(Clone)]
pub(crate) struct Payload {
    bytes: Arc<Vec<u8>>,
    digest: Block,
}

impl Payload {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let digest = wire::digest(&bytes);
        Payload { bytes: Arc::new(bytes), digest }
    }
}

/// Set once the other side has proved itself.
struct Sealing {
    session: Session,
    /// Direction of the frames that we send.
    outward: Direction,
    sent: u64,
    received: u64,
}

pub(crate) struct Link {
    stream: TcpStream,
    inward: Vec<u8>,
    outward: VecDeque<Arc<Vec<u8>>>,
    /// Bytes of the first outgoing buffer that are sent.
    gone: usize,
    sealing: Option<Sealing>,
}

/// An error for bytes that the other side must not send.
pub(crate) fn broken(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// A lost connection in words; the sentence begins with the peer that lost it.
pub(crate) fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "closed the connection".into(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "dropped the connection".into(),
        ErrorKind::InvalidData => format!("sent {error}"),
        _ => format!("cannot be reached any more: {error}"),
    }
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Small messages that wait for each other would be slow. An error does not matter.
        let _ = stream.set_nodelay(true);
        Ok(Link { stream, inward: Vec::new(), outward: VecDeque::new(), gone: 0, sealing: None })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Received bytes that were not taken yet.
    pub(crate) fn seen(&self) -> &[u8] {
        &self.inward
    }

    /// From now on the connection carries frames.
    pub(crate) fn prove(&mut self, session: Session, outward: Direction) {
        self.sealing = Some(Sealing { session, outward, sent: 0, received: 0 });
    }

    /// Reads until `wanted` bytes are there, and no further. The buffer grows with what arrives,
    /// not with the announced length.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.inward.len() < wanted {
            let missing = wanted - self.inward.len();
            match (&self.stream).take(missing as u64).read_to_end(&mut self.inward) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.inward.len() < wanted {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }

    /// The next message of the handshake, if all of it has arrived.
    pub(crate) fn message(&mut self, length: usize) -> io::Result<Option<Vec<u8>>> {
        Ok(self.fill(length)?.then(|| std::mem::take(&mut self.inward)))
    }

    /// The next frame, if all of it has arrived. An error if its seal is wrong.
    pub(crate) fn frame(&mut self, longest: u64) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let Some(sealing) = &self.sealing else {
            return Err(broken("a frame before the handshake"));
        };
        let sequence = sealing.received;
        let direction = match sealing.outward {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        if !self.fill(FrameHeader::LENGTH)? {
            return Ok(None);
        }
        let header =
            FrameHeader::decode(&self.inward[..FrameHeader::LENGTH], longest).map_err(broken)?;
        let end = usize::try_from(header.length)
            .ok()
            .and_then(|length| length.checked_add(FrameHeader::LENGTH))
            .filter(|end| end.checked_add(SECRET_SIZE).is_some())
            .ok_or_else(|| broken("a frame that is too long"))?;
        if !self.fill(end + SECRET_SIZE)? {
            return Ok(None);
        }
        let mut payload = std::mem::take(&mut self.inward);
        let seal = payload.split_off(end);
        payload.drain(..FrameHeader::LENGTH);
        let Some(sealing) = &mut self.sealing else { return Ok(None) };
        if !sealing.session.is_sealed(direction, sequence, &header, &wire::digest(&payload), &seal)
        {
            return Err(broken("a frame whose seal is wrong"));
        }
        sealing.received += 1;
        Ok(Some((header.kind, payload)))
    }

    /// Queues a message of the handshake.
    pub(crate) fn send_message(&mut self, bytes: Vec<u8>) {
        self.outward.push_back(Arc::new(bytes));
    }

    /// Queues a frame.
    pub(crate) fn send_frame(&mut self, kind: Kind, payload: &Payload) {
        let Some(sealing) = &mut self.sealing else { return };
        let header = FrameHeader { kind, length: payload.bytes.len() as u64 };
        let seal = sealing.session.seal(sealing.outward, sealing.sent, &header, &payload.digest);
        sealing.sent += 1;
        if payload.bytes.len() <= SMALL {
            self.outward
                .push_back(Arc::new([&header.encode()[..], &payload.bytes, &seal].concat()));
            return;
        }
        self.outward.push_back(Arc::new(header.encode().to_vec()));
        self.outward.push_back(Arc::clone(&payload.bytes));
        self.outward.push_back(Arc::new(seal.to_vec()));
    }

    pub(crate) fn is_sending(&self) -> bool {
        !self.outward.is_empty()
    }

    /// Passes to the kernel what it takes now. Returns true if nothing is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while let Some(first) = self.outward.front() {
            if self.gone == first.len() {
                self.outward.pop_front();
                self.gone = 0;
                continue;
            }
            // The standard library sends with MSG_NOSIGNAL.
            match (&self.stream).write(&first[self.gone..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Nothing more will be sent. What was sent still arrives.
    pub(crate) fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads and drops some bytes. Returns true if the other side has closed the connection.
    pub(crate) fn drain(&mut self) -> bool {
        let mut nowhere = [0; 1 << 16];
        match (&self.stream).read(&mut nowhere) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
