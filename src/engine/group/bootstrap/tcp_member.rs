//! The other ranks of a rendezvous over TCP: find rank 0, prove themselves, verify rank 0's proof,
//! and exchange by rank 0.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::Bootstrap;
use crate::engine::group::bootstrap::tcp_connection::{self as link, Link, Payload};
use crate::engine::group::bootstrap::tcp_socket as socket;
use crate::engine::os::random::random;
use crate::engine::os::socket_address;
use crate::engine::wire::bootstrap::{
    self as wire, Answer, Challenge, Claim, Direction, Failure, Kind, Meeting, Verdict,
    LONGEST_PART,
};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Time for rank 0's answers; then the connection is tried again.
const HANDSHAKE: u64 = 10 * SECOND;
/// Time to connect to one address, so that others get their turn.
const CONNECT: u64 = 5 * SECOND;
/// Pause between two attempts, first and longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// When this member's time has run out: how long it waits for rank 0 to report who is missing.
const LAST_WORD: u64 = SECOND;

/// Where a member finds rank 0.
pub(crate) struct Target<'a> {
    /// As the user wrote it, for errors.
    pub(crate) name: &'a str,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Empty if the name could not be resolved yet.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Why an attempt failed.
enum Setback {
    /// Another attempt may succeed.
    Passing(String),
    Final(Error),
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        Setback::Final(error)
    }
}

fn refused(text: String) -> Setback {
    Setback::Final(Error::new(Status::REJECTED, text))
}

pub(crate) struct Member {
    rank: u32,
    size: u32,
    timeout: u64,
    root: String,
    link: Option<Link>,
    /// The failure after which nothing is exchanged.
    failed: Option<(Status, String)>,
}

fn wait_for(link: &Link, deadline: u64) -> io::Result<bool> {
    let mut entries = [socket::entry(link.stream(), true, link.is_sending())];
    socket::wait(&mut entries, deadline)?;
    Ok(socket::is_ready(&entries[0]) || clock::now_ns() < deadline)
}

/// The next message of the handshake.
fn message(link: &mut Link, length: usize, deadline: u64) -> std::result::Result<Vec<u8>, Setback> {
    let lost = |error: io::Error| Setback::Passing(format!("rank 0 {}", link::describe(&error)));
    loop {
        link.flush().map_err(lost)?;
        if let Some(bytes) = link.message(length).map_err(lost)? {
            return Ok(bytes);
        }
        if !wire::begins_right(link.seen()) {
            return Err(Setback::Final(Error::new(Status::REJECTED, "")));
        }
        if !wait_for(link, deadline).map_err(lost)? {
            return Err(Setback::Passing("connected, but rank 0 does not answer".into()));
        }
    }
}

impl Member {
    /// Finds rank 0, and waits until all members have. `timeout` is for this, and for each later
    /// exchange.
    pub(crate) fn join(
        mut target: Target<'_>,
        rank: u32,
        size: u32,
        secret: &[u8],
        timeout: u64,
    ) -> Result<Self> {
        let deadline = clock::deadline_after(timeout);
        let mut pause = PAUSES.0;
        let name = target.name;
        let mut last = String::from("not tried");
        loop {
            if target.addresses.is_empty() {
                match socket_address::resolve(target.host, target.port) {
                    Ok(addresses) => target.addresses = addresses,
                    Err(error) => last = error.message().to_owned(),
                }
            }
            for address in &target.addresses {
                match Self::attempt(name, *address, rank, size, secret, deadline) {
                    Ok(link) => {
                        return Ok(Member {
                            rank,
                            size,
                            timeout,
                            root: name.to_owned(),
                            link: Some(link),
                            failed: None,
                        })
                    }
                    Err(Setback::Final(error)) => return Err(error),
                    Err(Setback::Passing(text)) => last = text,
                }
            }
            let left = clock::remaining(deadline).unwrap_or(Duration::MAX);
            if left.is_zero() {
                let text =
                    format!("root: rank {rank} could not reach rank 0 at {name} in time: {last}");
                return Err(Error::new(Status::TIMED_OUT, text));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn attempt(
        name: &str,
        address: SocketAddr,
        rank: u32,
        size: u32,
        secret: &[u8],
        deadline: u64,
    ) -> std::result::Result<Link, Setback> {
        let until = deadline.min(clock::deadline_after(CONNECT));
        // An attempt needs a time above 0, and at least one attempt is made.
        let time = clock::remaining(until).unwrap_or_default().max(Duration::from_millis(1));
        let passing = |cause: io::Error| Setback::Passing(cause.to_string());
        let stream = TcpStream::connect_timeout(&address, time).map_err(passing)?;
        // On one host, the kernel may give the connection the very port that it connects to, if
        // nothing listens there. It is then connected to itself, and would keep rank 0 from
        // listening there.
        if stream.local_addr().is_ok_and(|own| own == address) {
            return Err(Setback::Passing("connection refused".into()));
        }
        let mut link = Link::new(stream).map_err(passing)?;
        Self::shake_hands(&mut link, name, rank, size, secret, deadline).map_err(|setback| {
            match setback {
                Setback::Final(error) if error.message().is_empty() => refused(format!(
                    "root: what listens at {name} is not rank 0 of a group of this library"
                )),
                other => other,
            }
        })?;
        Self::wait_for_all(&mut link, name, rank, deadline)?;
        Ok(link)
    }

    fn shake_hands(
        link: &mut Link,
        name: &str,
        rank: u32,
        size: u32,
        secret: &[u8],
        deadline: u64,
    ) -> std::result::Result<(), Setback> {
        let until = deadline.min(clock::deadline_after(HANDSHAKE));
        let foreign = |_| Setback::Final(Error::new(Status::REJECTED, ""));
        let challenge =
            Challenge::decode(&message(link, Challenge::LENGTH, until)?).map_err(foreign)?;
        if challenge.version != wire::VERSION {
            let (theirs, ours) = (challenge.version, wire::VERSION);
            let text = format!(
                "root: rank 0 at {name} speaks version {theirs} of the rendezvous, \
                this member {ours}"
            );
            return Err(Setback::Final(Error::new(Status::UNSUPPORTED, text)));
        }
        let nonce = random()?;
        let meeting = Meeting { rank, size, root_nonce: challenge.nonce, member_nonce: nonce };
        let proof = meeting.proof_of_member(secret);
        link.send_message(Claim { rank, size, nonce, proof }.encode());
        let answer = Answer::decode(&message(link, Answer::LENGTH, until)?).map_err(foreign)?;
        if answer.verdict == Verdict::WrongSecret {
            return Err(refused(format!(
                "secret: rank 0 at {name} has another secret than rank {rank}"
            )));
        }
        if !meeting.is_from_root(secret, &answer) {
            return Err(refused(format!(
                "secret: what listens at {name} as rank 0 does not know rank {rank}'s secret"
            )));
        }
        let text = match answer.verdict {
            Verdict::Welcome => {
                link.prove(meeting.session(secret), Direction::Up);
                return Ok(());
            }
            Verdict::OtherSize(theirs) => {
                format!(
                    "size: this member (rank {rank}) says {size}, rank 0 at {name} says {theirs}"
                )
            }
            Verdict::NoSuchRank(theirs) => {
                format!("rank: {rank} is too large: the group at {name} has {theirs} members")
            }
            Verdict::RankTaken | Verdict::WrongSecret => {
                format!("rank: another member of the group at {name} has rank {rank} already")
            }
        };
        Err(Setback::Final(Error::invalid(text)))
    }

    fn wait_for_all(
        link: &mut Link,
        name: &str,
        rank: u32,
        deadline: u64,
    ) -> std::result::Result<(), Setback> {
        // Lost before all are connected: rank 0 forgets this member, so it can connect again.
        let lost =
            |error: io::Error| Setback::Passing(format!("rank 0 {}", link::describe(&error)));
        let (mut until, mut leaving) = (deadline, false);
        loop {
            link.flush().map_err(lost)?;
            match link.frame(Failure::LONGEST).map_err(lost)? {
                Some((Kind::Begin, _)) => return Ok(()),
                Some((Kind::Failure, bytes)) => return Err(Setback::Final(told(&bytes))),
                Some(_) => return Err(lost(link::broken("an unexpected frame"))),
                None => {}
            }
            if wait_for(link, until).map_err(lost)? {
                continue;
            }
            if leaving {
                let text = format!(
                    "root: rank {rank} reached rank 0 at {name}, but others did not in time"
                );
                return Err(Setback::Final(Error::new(Status::TIMED_OUT, text)));
            }
            // Rank 0 knows who is missing.
            link.send_frame(Kind::Leave, &Payload::new(Vec::new()));
            (until, leaving) = (clock::deadline_after(LAST_WORD), true);
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.link = None;
        self.failed = Some((error.status(), error.message().to_owned()));
        error
    }

    fn try_exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.rank, self.size);
        if mine.len() > LONGEST_PART {
            let text = format!(
                "rank {rank} has {} bytes to exchange; at most {LONGEST_PART} are possible",
                mine.len()
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        let Some(link) = &mut self.link else {
            return Err(Error::new(Status::CLOSED, "the group is closed"));
        };
        // Rank 0's time runs out at about the same moment, and it knows which member is late.
        let deadline = clock::deadline_after(self.timeout.saturating_add(LAST_WORD));
        let lost = |error: io::Error| {
            let text = format!("rank 0 at {} {}", self.root, link::describe(&error));
            Error::new(Status::PEER_FAILED, text)
        };
        link.send_frame(Kind::Part, &Payload::new(mine.to_vec()));
        let mut unsent = None;
        loop {
            // Rank 0 may have sent a reason before it closed: read that before reporting a failed
            // send.
            if unsent.is_none() {
                unsent = link.flush().err();
            }
            match link.frame(wire::longest_all(size).max(Failure::LONGEST)) {
                Ok(Some((Kind::All, bytes))) => {
                    return wire::split(&bytes, size).map_err(|what| {
                        lost(io::Error::new(
                            io::ErrorKind::InvalidData,
                            format!("an exchange that is {what}"),
                        ))
                    })
                }
                Ok(Some((Kind::Failure, bytes))) => return Err(told(&bytes)),
                Ok(Some(_)) => return Err(lost(link::broken("an unexpected frame"))),
                Ok(None) => {}
                Err(error) => return Err(lost(error)),
            }
            let waited = match unsent {
                None => wait_for(link, deadline),
                Some(error) => return Err(lost(error)),
            };
            if !waited.map_err(lost)? {
                let text = format!(
                    "rank {rank} received nothing from rank 0 at {} in an exchange in time",
                    self.root
                );
                return Err(Error::new(Status::TIMED_OUT, text));
            }
        }
    }
}

/// The error that rank 0 reports.
fn told(bytes: &[u8]) -> Error {
    match Failure::decode(bytes) {
        Ok(Failure { status, text }) => Error::new(Status(status), text),
        Err(_) => Error::new(Status::PEER_FAILED, "rank 0 gave up, and did not say why"),
    }
}

impl Bootstrap for Member {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some((status, text)) = &self.failed {
            return Err(Error::new(*status, text.clone()));
        }
        self.try_exchange(mine).map_err(|error| self.fail(error))
    }
}
