//! Rank 0 of a rendezvous over TCP: accepts members that prove the secret, and distributes
//! everybody's bytes.
//!
//! A connection is a guest until its proof has been verified. Guests have limited time and memory,
//! and cannot disturb the others.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::Bootstrap;
use crate::engine::group::bootstrap::tcp_connection::{self as link, Link, Payload};
use crate::engine::group::bootstrap::tcp_socket as socket;
use crate::engine::os::random::random;
use crate::engine::wire::bootstrap::{
    self as wire, Answer, Block, Challenge, Claim, Direction, Failure, Kind, Meeting, Verdict,
    LONGEST_PART,
};
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};

const SECOND: u64 = 1_000_000_000;
/// Time in which a guest has to prove itself.
const HANDSHAKE: u64 = 5 * SECOND;
/// Most guests at a time, in addition to the missing members. When there are more, the oldest is
/// dropped.
const GUESTS: usize = 256;
/// Connections accepted at a time, before existing ones are served.
const ACCEPTED_AT_ONCE: usize = 64;
/// Delay before accepting again after running out of descriptors.
const PAUSE: u64 = SECOND / 10;
/// Time for members to receive the notice of a failure.
const FAREWELL: u64 = SECOND;
/// Descriptors that the rest of the process may need meanwhile.
const SPARE_DESCRIPTORS: u64 = 32;

/// Ranks in words: "2, 5, 7-9", and the number of further ones if there are many.
pub(crate) fn ranks(list: impl IntoIterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in list {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let mut text = String::new();
    for (at, (first, last)) in runs.iter().enumerate() {
        if text.len() > 160 {
            let more: u64 =
                runs[at..].iter().map(|(first, last)| u64::from(last - first) + 1).sum();
            return format!("{text} and {more} more");
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match last - first {
            0 => format!("{comma}{first}"),
            1 => format!("{comma}{first}, {last}"),
            _ => format!("{comma}{first}-{last}"),
        };
    }
    text
}

struct Guest {
    link: Link,
    nonce: Block,
    from: SocketAddr,
    until: u64,
}

/// What becomes of a guest.
enum Step {
    Stays,
    Goes,
    IsIn(u32, Link),
}

struct Gathering<'a> {
    size: u32,
    secret: &'a [u8],
    /// By rank; the entry of rank 0 stays empty.
    members: Vec<Option<Link>>,
    missing: u32,
    /// Oldest first.
    guests: VecDeque<Guest>,
    /// Members that joined and are gone again.
    left: BTreeSet<u32>,
    /// The last refused connection, for the error message.
    refused: Option<String>,
    /// No connections are accepted before this time; 0 for no pause.
    paused_until: u64,
}

impl<'a> Gathering<'a> {
    fn new(size: u32, secret: &'a [u8]) -> Self {
        Gathering {
            size,
            secret,
            members: (0..size).map(|_| None).collect(),
            missing: size - 1,
            guests: VecDeque::new(),
            left: BTreeSet::new(),
            refused: None,
            paused_until: 0,
        }
    }

    /// Absent ranks: those that have not joined, and those that have joined and are gone.
    fn absent(&self) -> (Vec<u32>, Vec<u32>) {
        let absent = (1..self.size).filter(|rank| self.members[*rank as usize].is_none());
        absent.partition(|rank| !self.left.contains(rank))
    }

    fn refuse(&mut self, why: String) {
        log::at!(INFO, Group, &(), "rank 0 refused a connection: {why}");
        self.refused = Some(why);
    }

    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if socket::is_exhaustion(&error) => {
                    // Otherwise strangers that just stay connected could keep the members out.
                    if self.guests.pop_front().is_none() {
                        self.paused_until = clock::deadline_after(PAUSE);
                        self.refused = Some(format!("no connection could be accepted: {error}"));
                        return Ok(());
                    }
                    continue;
                }
                // The connection was closed before it was accepted.
                Err(_) => continue,
            };
            let nonce = random()?;
            let Ok(mut link) = Link::new(stream) else { continue };
            link.send_message(Challenge { version: wire::VERSION, nonce }.encode());
            // A new connection takes these few bytes at once, or it is broken.
            if !link.flush().unwrap_or(false) {
                continue;
            }
            self.guests.push_back(Guest {
                link,
                nonce,
                from,
                until: clock::deadline_after(HANDSHAKE),
            });
            if self.guests.len() > GUESTS + self.missing as usize {
                self.guests.pop_front();
            }
        }
        Ok(())
    }

    /// Is the member still connected? If not, forgets it.
    fn is_there(&mut self, rank: u32) -> bool {
        let Some(link) = &mut self.members[rank as usize] else { return false };
        match link.frame(0) {
            Ok(None) => return true,
            Ok(Some((Kind::Leave, _))) => {
                let failure = self.failure();
                if let Some(link) = &mut self.members[rank as usize] {
                    link.send_frame(Kind::Failure, &Payload::new(failure.encode()));
                    let _ = link.flush();
                }
            }
            Ok(Some(_)) | Err(_) => {}
        }
        self.members[rank as usize] = None;
        self.missing += 1;
        self.left.insert(rank);
        false
    }

    fn judge(&mut self, claim: &Claim, meeting: &Meeting) -> Verdict {
        if !meeting.is_from_member(self.secret, &claim.proof) {
            Verdict::WrongSecret
        } else if claim.size != self.size {
            Verdict::OtherSize(self.size)
        } else if claim.rank >= self.size {
            Verdict::NoSuchRank(self.size)
        } else if claim.rank == 0 || self.is_there(claim.rank) {
            Verdict::RankTaken
        } else {
            Verdict::Welcome
        }
    }

    fn hear(&mut self, mut guest: Guest) -> (Step, Option<Guest>) {
        let bytes = match guest.link.message(Claim::LENGTH) {
            Ok(Some(bytes)) => bytes,
            Ok(None) if wire::begins_right(guest.link.seen()) => return (Step::Stays, Some(guest)),
            _ => return (Step::Goes, None),
        };
        let Ok(claim) = Claim::decode(&bytes) else { return (Step::Goes, None) };
        let Claim { rank, size, nonce: member_nonce, .. } = claim;
        let meeting = Meeting { rank, size, root_nonce: guest.nonce, member_nonce };
        let verdict = self.judge(&claim, &meeting);
        let proof = match verdict {
            Verdict::WrongSecret => [0; wire::SECRET_SIZE],
            _ => meeting.proof_of_root(self.secret, verdict),
        };
        let mut link = guest.link;
        link.send_message(Answer { verdict, proof }.encode());
        let sent = link.flush().unwrap_or(false);
        let from = guest.from;
        match verdict {
            Verdict::Welcome if sent => {
                link.prove(meeting.session(self.secret), Direction::Down);
                return (Step::IsIn(rank, link), None);
            }
            Verdict::Welcome => {}
            Verdict::WrongSecret => self.refuse(format!("{from} has another secret")),
            Verdict::RankTaken => self
                .refuse(format!("{from} says that it is rank {rank}, which has connected already")),
            Verdict::OtherSize(own) => self.refuse(format!(
                "rank {rank} at {from} says that the group has {size} members, not {own}"
            )),
            Verdict::NoSuchRank(own) => self
                .refuse(format!("{from} says that it is rank {rank}, but there are {own} members")),
        }
        (Step::Goes, None)
    }

    /// Who is missing, for rank 0's error and for the members that are connected.
    fn failure(&self) -> Failure {
        let (missing, left) = self.absent();
        let mut text =
            format!("rank 0 waits for {} of {} members", missing.len() + left.len(), self.size);
        for (what, absent) in [("not connected", missing), ("connected and gave up", left)] {
            if !absent.is_empty() {
                text += &format!("; {what}: rank {}", ranks(absent.into_iter()));
            }
        }
        if let Some(refused) = &self.refused {
            text += &format!("; last refused: {refused}");
        }
        Failure { status: Status::TIMED_OUT.0, text }
    }

    /// The time is over: notifies the connected members who is missing.
    fn give_up(&mut self, listeners: &[TcpListener]) -> Error {
        let mut failure = self.failure();
        tell(&mut self.members, &failure);
        let places: Vec<_> =
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let joined = places.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ");
        failure.text += &format!("; it listened at {joined}");
        if !places.is_empty() && places.iter().all(|place| place.ip().to_canonical().is_loopback())
        {
            failure.text += ", where only processes of its own host can reach it";
        }
        Error::new(Status::TIMED_OUT, failure.text)
    }

    /// Waits for events, and handles them.
    fn round(&mut self, listeners: &[TcpListener], deadline: u64) -> Result<()> {
        let now = clock::now_ns();
        while self.guests.front().is_some_and(|guest| guest.until <= now) {
            self.guests.pop_front();
        }
        let accepting = self.paused_until <= now;
        let mut until = deadline.min(self.guests.front().map_or(u64::MAX, |guest| guest.until));
        if !accepting {
            until = until.min(self.paused_until);
        }
        let mut entries: Vec<_> =
            listeners.iter().map(|listener| socket::entry(listener, accepting, false)).collect();
        entries.extend(
            self.guests.iter().map(|guest| socket::entry(guest.link.stream(), true, false)),
        );
        let mut there = Vec::new();
        for (rank, link) in (0..).zip(&self.members) {
            let Some(link) = link else { continue };
            there.push(rank);
            entries.push(socket::entry(link.stream(), true, false));
        }
        socket::wait(&mut entries, until).map_err(no_poll)?;

        let ready: Vec<bool> = entries.iter().map(socket::is_ready).collect();
        let mut entries = ready.into_iter();
        let knocking: Vec<bool> = entries.by_ref().take(listeners.len()).collect();
        let speaking: Vec<bool> = entries.by_ref().take(self.guests.len()).collect();
        for (rank, _) in there.iter().zip(entries).filter(|(_, ready)| *ready) {
            self.is_there(*rank);
        }
        for ready in speaking {
            let Some(guest) = self.guests.pop_front() else { break };
            if !ready {
                self.guests.push_back(guest);
                continue;
            }
            match self.hear(guest) {
                (Step::IsIn(rank, link), _) => {
                    self.members[rank as usize] = Some(link);
                    self.missing -= 1;
                }
                (Step::Stays, Some(guest)) => self.guests.push_back(guest),
                _ => {}
            }
        }
        for (listener, _) in listeners.iter().zip(knocking).filter(|(_, ready)| *ready) {
            self.accept(listener)?;
        }
        Ok(())
    }
}

fn no_poll(cause: io::Error) -> Error {
    Error::new(
        Status::IO_ERROR,
        format!("rank 0 cannot wait for its members: poll failed: {cause}"),
    )
}

/// Rank 0, once all members are connected.
pub(crate) struct Root {
    size: u32,
    timeout: u64,
    /// By rank; the entry of rank 0 stays empty.
    members: Vec<Option<Link>>,
    /// The failure after which nothing is exchanged.
    failed: Option<(Status, String)>,
}

impl Root {
    /// Waits for all members. `timeout` is for this, and for each later exchange.
    pub(crate) fn gather(
        listeners: Vec<TcpListener>,
        size: u32,
        secret: &[u8],
        timeout: u64,
    ) -> Result<Self> {
        let limit = socket::descriptor_limit();
        if u64::from(size) + SPARE_DESCRIPTORS > limit {
            let text = format!(
                "size: rank 0 needs a descriptor for each of {size} members, and may have {limit}: \
                 raise the limit on open files (ulimit -n) where rank 0 starts"
            );
            return Err(Error::new(Status::NO_RESOURCE, text));
        }
        let deadline = clock::deadline_after(timeout);
        let mut gathering = Gathering::new(size, secret);
        while gathering.missing > 0 {
            if clock::now_ns() >= deadline {
                return Err(gathering.give_up(&listeners));
            }
            gathering.round(&listeners, deadline)?;
        }
        let mut root = Root { size, timeout, members: gathering.members, failed: None };
        root.send_all(Kind::Begin, Vec::new(), deadline)?;
        Ok(root)
    }

    /// Fails, and notifies all members. Final.
    fn fail(&mut self, status: Status, text: String) -> Error {
        tell(&mut self.members, &Failure { status: status.0, text: text.clone() });
        self.failed = Some((status, text.clone()));
        Error::new(status, text)
    }

    /// Sends the same to all members. Members that can receive it get it, whatever happens to
    /// others.
    fn send_all(&mut self, kind: Kind, bytes: Vec<u8>, deadline: u64) -> Result<()> {
        let payload = Payload::new(bytes);
        for link in self.members.iter_mut().flatten() {
            link.send_frame(kind, &payload);
        }
        let mut lost = None;
        loop {
            for rank in 1..self.size {
                let Some(link) = &mut self.members[rank as usize] else { continue };
                if let Err(error) = link.flush() {
                    lost = Some(format!("rank {rank} {}", link::describe(&error)));
                    self.members[rank as usize] = None;
                }
            }
            let sending = self.members.iter().flatten().filter(|link| link.is_sending());
            let mut entries: Vec<_> =
                sending.map(|link| socket::entry(link.stream(), false, true)).collect();
            if entries.is_empty() {
                break;
            }
            if clock::now_ns() >= deadline {
                let slow = |rank: &u32| {
                    self.members[*rank as usize].as_ref().is_some_and(Link::is_sending)
                };
                let slow: Vec<u32> = (1..self.size).filter(slow).collect();
                // They have received a part of a frame, so nothing else can be sent to them.
                slow.iter().for_each(|rank| self.members[*rank as usize] = None);
                let text = format!("rank {} did not read from rank 0 in time", ranks(slow));
                return Err(self.fail(Status::TIMED_OUT, text));
            }
            socket::wait(&mut entries, deadline).map_err(no_poll)?;
        }
        match lost {
            Some(text) => Err(self.fail(Status::PEER_FAILED, text)),
            None => Ok(()),
        }
    }

    /// Receives a part from each member.
    fn collect(&mut self, mine: &[u8], deadline: u64) -> Result<Vec<Vec<u8>>> {
        let mut parts: Vec<Option<Vec<u8>>> = (0..self.size).map(|_| None).collect();
        parts[0] = Some(mine.to_vec());
        let mut missing = self.size - 1;
        // Bytes that have arrived before the first wait are read without one.
        let mut ready: Vec<u32> = (1..self.size).collect();
        loop {
            for rank in ready {
                let Some(link) = &mut self.members[rank as usize] else { continue };
                let lost = match link.frame(LONGEST_PART as u64) {
                    Ok(None) => continue,
                    Ok(Some((Kind::Part, part))) if parts[rank as usize].is_none() => {
                        parts[rank as usize] = Some(part);
                        missing -= 1;
                        continue;
                    }
                    Ok(Some(_)) => link::broken("an unexpected frame"),
                    Err(error) => error,
                };
                self.members[rank as usize] = None;
                let text = format!("rank {rank} {}", link::describe(&lost));
                return Err(self.fail(Status::PEER_FAILED, text));
            }
            if missing == 0 {
                return Ok(parts.into_iter().flatten().collect());
            }
            if clock::now_ns() >= deadline {
                let late = ranks((1..self.size).filter(|rank| parts[*rank as usize].is_none()));
                return Err(self.fail(
                    Status::TIMED_OUT,
                    format!("rank {late} sent nothing for an exchange in time"),
                ));
            }
            let (watched, mut entries): (Vec<u32>, Vec<_>) = (1..self.size)
                .filter_map(|rank| {
                    let link = self.members[rank as usize].as_ref()?;
                    Some((rank, socket::entry(link.stream(), true, false)))
                })
                .unzip();
            socket::wait(&mut entries, deadline).map_err(no_poll)?;
            let happened =
                watched.iter().zip(&entries).filter(|(_, entry)| socket::is_ready(entry));
            ready = happened.map(|(rank, _)| *rank).collect();
        }
    }
}

/// Notifies the connected members of a failure, and closes their connections.
fn tell(members: &mut [Option<Link>], failure: &Failure) {
    let payload = Payload::new(failure.encode());
    for link in members.iter_mut().flatten() {
        link.send_frame(Kind::Failure, &payload);
    }
    let deadline = clock::deadline_after(FAREWELL);
    loop {
        for member in members.iter_mut() {
            let Some(link) = member else { continue };
            // Reads what the member has sent: closing over unread data resets the connection, and
            // the notice would be lost.
            let done = match link.flush() {
                Ok(true) => {
                    link.finish();
                    link.drain()
                }
                Ok(false) => link.drain(),
                Err(_) => true,
            };
            if done {
                *member = None;
            }
        }
        let there = members.iter().flatten();
        let mut entries: Vec<_> =
            there.map(|link| socket::entry(link.stream(), true, link.is_sending())).collect();
        if entries.is_empty()
            || clock::now_ns() >= deadline
            || socket::wait(&mut entries, deadline).is_err()
        {
            break;
        }
    }
    members.fill_with(|| None);
}

impl Bootstrap for Root {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some((status, text)) = &self.failed {
            return Err(Error::new(*status, text.clone()));
        }
        if mine.len() > LONGEST_PART {
            let text = format!(
                "rank 0 has {} bytes to exchange; at most {LONGEST_PART} are possible",
                mine.len()
            );
            return Err(self.fail(Status::EXCEEDS_LIMIT, text));
        }
        let deadline = clock::deadline_after(self.timeout);
        let parts = self.collect(mine, deadline)?;
        self.send_all(Kind::All, wire::join(&parts), deadline)?;
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::group::bootstrap::tcp_member::{Member, Target};
    use std::io::Read;
    use std::net::TcpStream;

    fn join(address: SocketAddr, rank: u32) -> Result<Member> {
        let target = Target {
            name: "it",
            host: "127.0.0.1",
            port: address.port(),
            addresses: vec![address],
        };
        Member::join(target, rank, 10, b"s", 60 * SECOND)
    }

    #[test]
    fn those_who_came_are_told_who_did_not() {
        let listeners = [socket::listen("127.0.0.1:0".parse().unwrap()).unwrap()];
        let address = listeners[0].local_addr().unwrap();
        let members = [1, 3]
            .map(|rank| std::thread::spawn(move || join(address, rank).err().expect("an error")));
        let mut gathering = Gathering::new(10, b"s");
        while gathering.missing > 7 {
            gathering.round(&listeners, u64::MAX).unwrap();
        }
        let own = gathering.give_up(&listeners);
        for error in [own].into_iter().chain(members.map(|member| member.join().unwrap())) {
            assert_eq!(error.status(), Status::TIMED_OUT);
            assert!(
                error.message().contains("7 of 10 members; not connected: rank 2, 4-9"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_guest_has_its_time_and_no_more() {
        let listeners = [socket::listen("127.0.0.1:0".parse().unwrap()).unwrap()];
        let mut gathering = Gathering::new(2, b"s");
        let mut idle = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        while gathering.guests.is_empty() {
            gathering.round(&listeners, u64::MAX).unwrap();
        }
        gathering.guests[0].until = clock::now_ns();
        gathering.round(&listeners, clock::now_ns()).unwrap();
        assert!(gathering.guests.is_empty());
        let mut seen = Vec::new();
        idle.read_to_end(&mut seen).unwrap();
        assert_eq!(seen.len(), Challenge::LENGTH);
    }

    #[test]
    fn ranks_are_written_short() {
        assert_eq!(ranks([]), "");
        assert_eq!(ranks([2, 5, 7, 8, 9]), "2, 5, 7-9");
        assert_eq!(ranks([0, 1, u32::MAX]), "0, 1, 4294967295");
        let long = ranks((0..10_000).step_by(2));
        assert!(long.len() < 200 && long.ends_with(" more"), "{long}");
        assert!(ranks(1..1_000_000).len() < 20);
    }
}
