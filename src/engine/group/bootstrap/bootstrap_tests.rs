//! The rendezvous with real sockets on loopback: each rank is a thread, and strangers send what
//! they should not.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::{open, Bootstrap, BootstrapKind, BootstrapParams};
use crate::engine::group::bootstrap::tcp_member::{Member, Target};
use crate::engine::group::bootstrap::tcp_root::Root;
use crate::engine::group::bootstrap::tcp_socket as socket;
use crate::engine::wire::bootstrap::{
    self as wire, Answer, Challenge, Claim, Direction, FrameHeader, Kind, Meeting, Verdict,
    LONGEST_PART,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

const SECRET: &[u8] = b"what all members know";
/// Only a hang reaches it.
const LONG: u64 = 60_000_000_000;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address to listen at later, from ports that the kernel does not give to connections.
fn later(number: u32) -> SocketAddr {
    let port = 20_000 + (std::process::id() * 7 + number) % 10_000;
    SocketAddr::from(([127, 0, 0, 1], port as u16))
}

fn join(address: SocketAddr, rank: u32, size: u32, secret: &[u8], timeout: u64) -> Result<Member> {
    let name = address.to_string();
    let target =
        Target { name: &name, host: "127.0.0.1", port: address.port(), addresses: vec![address] };
    Member::join(target, rank, size, secret, timeout)
}

/// Joins on a new thread and then runs the function.
fn member<T: Send + 'static>(
    address: SocketAddr,
    rank: u32,
    size: u32,
    then: impl FnOnce(Result<Member>) -> T + Send + 'static,
) -> JoinHandle<T> {
    thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || then(join(address, rank, size, SECRET, LONG)))
        .unwrap()
}

fn gather(listener: TcpListener, size: u32, timeout: u64) -> JoinHandle<Result<Root>> {
    thread::spawn(move || Root::gather(vec![listener], size, SECRET, timeout))
}

/// Checks the error of an attempt that should fail.
fn error<T>(result: Result<T>, status: Status, named: &str) -> Error {
    let error = result.err().expect("an error");
    assert_eq!(error.status(), status, "{error}");
    assert!(error.message().contains(named), "{error}");
    error
}

fn part(rank: u32) -> Vec<u8> {
    rank.to_le_bytes().repeat(rank as usize % 5)
}

fn all_parts(size: u32) -> Vec<Vec<u8>> {
    (0..size).map(part).collect()
}

fn meet(size: u32) {
    let (listener, address) = listener();
    let members: Vec<_> = (1..size)
        .map(|rank| {
            member(address, rank, size, move |member| {
                let mut member = member.unwrap();
                assert_eq!((member.rank(), member.size()), (rank, size));
                assert_eq!(member.exchange(&part(rank)).unwrap(), all_parts(size));
                assert_eq!(member.exchange(b"").unwrap(), vec![b""; size as usize]);
            })
        })
        .collect();
    let mut root = Root::gather(vec![listener], size, SECRET, LONG).unwrap();
    assert_eq!((root.rank(), root.size()), (0, size));
    assert_eq!(root.exchange(&part(0)).unwrap(), all_parts(size));
    assert_eq!(root.exchange(b"").unwrap(), vec![b""; size as usize]);
    members.into_iter().for_each(|member| member.join().unwrap());
}

#[test]
fn members_meet_and_exchange() {
    (2..6).for_each(meet);
}

/// Each member of a test needs two descriptors in this process, and the usual limit is 1024.
fn make_room() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid struct, written and then read.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

#[test]
fn many_members_meet() {
    make_room();
    meet(std::env::var("UCXX_TEST_MEMBERS").map_or(512, |members| members.parse().unwrap()));
}

/// A hand-made member, which knows the secret and can send anything.
struct Raw {
    stream: TcpStream,
    session: wire::Session,
}

fn read<const LENGTH: usize>(stream: &mut TcpStream) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn challenge(stream: &mut TcpStream) -> Challenge {
    Challenge::decode(&read::<{ Challenge::LENGTH }>(stream)).unwrap()
}

fn claim(challenge: Challenge, rank: u32, size: u32, secret: &[u8]) -> (Meeting, Claim) {
    let nonce = [7; wire::SECRET_SIZE];
    let meeting = Meeting { rank, size, root_nonce: challenge.nonce, member_nonce: nonce };
    (meeting, Claim { rank, size, nonce, proof: meeting.proof_of_member(secret) })
}

impl Raw {
    fn shake_hands(address: SocketAddr, rank: u32, size: u32) -> (Self, Verdict) {
        let mut stream = TcpStream::connect(address).unwrap();
        let (meeting, claim) = claim(challenge(&mut stream), rank, size, SECRET);
        stream.write_all(&claim.encode()).unwrap();
        let answer = Answer::decode(&read::<{ Answer::LENGTH }>(&mut stream)).unwrap();
        assert!(meeting.is_from_root(SECRET, &answer));
        (Raw { stream, session: meeting.session(SECRET) }, answer.verdict)
    }

    fn join(address: SocketAddr, rank: u32, size: u32) -> Self {
        let (raw, verdict) = Self::shake_hands(address, rank, size);
        assert_eq!(verdict, Verdict::Welcome);
        raw
    }

    fn send(&mut self, sequence: u64, header: FrameHeader, payload: &[u8]) {
        let seal = self.session.seal(Direction::Up, sequence, &header, &wire::digest(payload));
        self.stream.write_all(&[&header.encode()[..], payload, &seal].concat()).unwrap();
    }

    /// The next frame. Checks that its seal is that of this number.
    fn receive(&mut self, sequence: u64) -> (Kind, Vec<u8>) {
        let header =
            FrameHeader::decode(&read::<{ FrameHeader::LENGTH }>(&mut self.stream), 1 << 20)
                .unwrap();
        let mut payload = vec![0; header.length as usize];
        self.stream.read_exact(&mut payload).unwrap();
        let seal = read::<{ wire::SECRET_SIZE }>(&mut self.stream);
        assert!(self.session.is_sealed(
            Direction::Down,
            sequence,
            &header,
            &wire::digest(&payload),
            &seal
        ));
        (header.kind, payload)
    }
}

/// Exchanges until that fails.
fn end(of: &mut dyn Bootstrap) -> Error {
    loop {
        if let Err(error) = of.exchange(b"") {
            return error;
        }
    }
}

/// A group of three in which rank 2 is hand-made. Returns the errors of rank 0 and rank 1.
fn with_raw(then: impl FnOnce(Raw)) -> (Error, Error) {
    let (listener, address) = listener();
    let other = member(address, 1, 3, |member| end(&mut member.unwrap()));
    let root = thread::spawn(move || {
        let mut root = Root::gather(vec![listener], 3, SECRET, LONG).unwrap();
        let error = end(&mut root);
        assert_eq!(root.exchange(b"zero").unwrap_err().message(), error.message(), "for good");
        error
    });
    let mut raw = Raw::join(address, 2, 3);
    assert_eq!(raw.receive(0), (Kind::Begin, Vec::new()));
    then(raw);
    (root.join().unwrap(), other.join().unwrap())
}

#[test]
fn a_member_that_dies_in_an_exchange_is_named_to_all() {
    let (root, other) = with_raw(drop);
    for failure in [root, other] {
        error::<()>(Err(failure), Status::PEER_FAILED, "rank 2");
    }
}

#[test]
fn what_a_member_must_not_send_ends_the_exchange() {
    let part = FrameHeader { kind: Kind::Part, length: 1 };
    // Sequence number, header, and what rank 0 reports.
    let cases = [
        (1, part, "seal"),
        (0, FrameHeader { length: 1 + LONGEST_PART as u64, ..part }, "too long"),
        (0, FrameHeader { length: u64::MAX, ..part }, "too long"),
        (0, FrameHeader { kind: Kind::All, ..part }, "an unexpected frame"),
    ];
    for (sequence, header, named) in cases {
        let (root, other) = with_raw(|mut raw| {
            raw.send(sequence, header, b"x");
            // Keeps the connection until rank 0 has closed it.
            let _ = raw.stream.read_to_end(&mut Vec::new());
        });
        assert!(root.message().contains(named), "{root}");
        for failure in [root, other] {
            error::<()>(Err(failure), Status::PEER_FAILED, "rank 2");
        }
    }
    // The same frame twice: replayed.
    let (root, _) = with_raw(|mut raw| {
        raw.send(0, part, b"x");
        raw.send(0, part, b"x");
        let _ = raw.stream.read_to_end(&mut Vec::new());
    });
    assert!(root.message().contains("rank 2"), "{root}");
}

#[test]
fn without_rank_0_there_is_an_error() {
    let (listener, address) = listener();
    let other =
        member(address, 1, 2, |member| member.unwrap().exchange(b"one").expect_err("no rank 0"));
    drop(Root::gather(vec![listener], 2, SECRET, LONG).unwrap());
    error::<()>(Err(other.join().unwrap()), Status::PEER_FAILED, "rank 0");
}

#[test]
fn too_much_is_refused_before_it_is_sent_and_the_others_learn_of_it() {
    let (listener, address) = listener();
    let big = member(address, 1, 3, |member| {
        member.unwrap().exchange(&vec![0; LONGEST_PART + 1]).err().unwrap()
    });
    let other = member(address, 2, 3, |member| member.unwrap().exchange(b"").err().unwrap());
    let mut root = Root::gather(vec![listener], 3, SECRET, LONG).unwrap();
    error(root.exchange(b""), Status::PEER_FAILED, "rank 1");
    error::<()>(Err(big.join().unwrap()), Status::EXCEEDS_LIMIT, "rank 1");
    error::<()>(Err(other.join().unwrap()), Status::PEER_FAILED, "rank 1");
}

#[test]
fn large_parts_of_different_lengths_arrive() {
    let parts = |rank: u32| vec![rank as u8; [3 << 20, 0, LONGEST_PART, 5][rank as usize]];
    let (listener, address) = listener();
    let members: Vec<_> = (1..4)
        .map(|rank| {
            member(address, rank, 4, move |member| {
                let all = member.unwrap().exchange(&parts(rank)).unwrap();
                assert!((0..4).zip(&all).all(|(rank, part)| *part == parts(rank)));
            })
        })
        .collect();
    let all = Root::gather(vec![listener], 4, SECRET, LONG).unwrap().exchange(&parts(0)).unwrap();
    assert!((0..4).zip(&all).all(|(rank, part)| *part == parts(rank)));
    members.into_iter().for_each(|member| member.join().unwrap());
}

#[test]
fn another_secret_is_refused_and_disturbs_nobody() {
    let (listener, address) = listener();
    let root = gather(listener, 3, LONG);
    let first = member(address, 1, 3, Result::unwrap);
    for secret in [&b"wrong"[..], b"", &SECRET[1..]] {
        error(join(address, 2, 3, secret, LONG), Status::REJECTED, "secret");
    }
    join(address, 2, 3, SECRET, LONG).unwrap();
    root.join().unwrap().unwrap();
    first.join().unwrap();
}

/// Plays rank 0 for one connection.
fn fake_root(
    answer: impl Fn(&Meeting, &Claim) -> Answer + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let nonce = [9; wire::SECRET_SIZE];
        stream.write_all(&Challenge { version: wire::VERSION, nonce }.encode()).unwrap();
        let claim = Claim::decode(&read::<{ Claim::LENGTH }>(&mut stream)).unwrap();
        let Claim { rank, size, nonce: member_nonce, .. } = claim;
        let meeting = Meeting { rank, size, root_nonce: nonce, member_nonce };
        stream.write_all(&answer(&meeting, &claim).encode()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (address, thread)
}

#[test]
fn a_member_is_not_taken_in_by_a_false_root() {
    let verdict = Verdict::Welcome;
    let (guessing, first) = fake_root(move |meeting, _| Answer {
        verdict,
        proof: meeting.proof_of_root(b"a guess", verdict),
    });
    error(join(guessing, 1, 2, SECRET, LONG), Status::REJECTED, "secret");
    let (reflecting, second) = fake_root(move |_, claim| Answer { verdict, proof: claim.proof });
    error(join(reflecting, 1, 2, SECRET, LONG), Status::REJECTED, "secret");
    // A refusal, too, is trusted only with a proof.
    let (refusing, third) =
        fake_root(|_, _| Answer { verdict: Verdict::RankTaken, proof: [0; wire::SECRET_SIZE] });
    error(join(refusing, 1, 2, SECRET, LONG), Status::REJECTED, "secret");
    [first, second, third].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn something_else_at_the_address_is_named() {
    for greeting in
        [&b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64]]
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(greeting).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        error(join(address, 1, 2, SECRET, LONG), Status::REJECTED, &address.to_string());
        thread.join().unwrap();
    }
    let (other_version, _) = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Challenge { version: 2, nonce: [0; wire::SECRET_SIZE] }.encode();
        (
            address,
            thread::spawn(move || {
                listener.accept().unwrap().0.write_all(&bytes).map(|()| listener)
            }),
        )
    };
    error(join(other_version, 1, 2, SECRET, LONG), Status::UNSUPPORTED, "version 2");
}

#[test]
fn a_recorded_handshake_serves_nobody() {
    let (listener, address) = listener();
    let root = gather(listener, 3, LONG);
    let mut first = TcpStream::connect(address).unwrap();
    let (_, recorded) = claim(challenge(&mut first), 1, 3, SECRET);
    let mut second = TcpStream::connect(address).unwrap();
    let fresh = challenge(&mut second);
    second.write_all(&recorded.encode()).unwrap();
    let answer = Answer::decode(&read::<{ Answer::LENGTH }>(&mut second)).unwrap();
    assert_eq!(answer, Answer { verdict: Verdict::WrongSecret, proof: [0; wire::SECRET_SIZE] });
    // Rank 0's own bytes, sent back to it.
    let mut third = TcpStream::connect(address).unwrap();
    let mut echo = challenge(&mut third).encode();
    assert_ne!(echo[16..], fresh.nonce);
    echo.resize(Claim::LENGTH, 0);
    third.write_all(&echo).unwrap();
    assert!(matches!(
        Answer::decode(&read(&mut third) as &[u8; Answer::LENGTH]).unwrap().verdict,
        Verdict::WrongSecret
    ));
    let members = [1, 2].map(|rank| member(address, rank, 3, Result::unwrap));
    root.join().unwrap().unwrap();
    members.into_iter().for_each(|member| drop(member.join().unwrap()));
}

#[test]
fn ranks_and_sizes_that_do_not_fit_are_told_so() {
    let (listener, address) = listener();
    let root = gather(listener, 3, LONG);
    let first = Raw::join(address, 1, 3);
    error(join(address, 1, 3, SECRET, LONG), Status::INVALID_PARAM, "rank: another member");
    let size = error(join(address, 2, 4, SECRET, LONG), Status::INVALID_PARAM, "size: ");
    assert!(size.message().contains("says 4") && size.message().contains("says 3"), "{size}");
    error(join(address, 0, 3, SECRET, LONG), Status::INVALID_PARAM, "rank: another member");
    assert_eq!(Raw::shake_hands(address, 3, 3).1, Verdict::NoSuchRank(3));
    assert_eq!(Raw::shake_hands(address, u32::MAX, 3).1, Verdict::NoSuchRank(3));
    let second = member(address, 2, 3, Result::unwrap);
    root.join().unwrap().unwrap();
    second.join().unwrap();
    drop(first);
}

#[test]
fn a_member_that_leaves_early_can_come_again() {
    let (listener, address) = listener();
    let root = gather(listener, 3, LONG);
    drop(Raw::join(address, 1, 3));
    // A member whose time has run out is told who is missing, and is forgotten as well.
    let mut leaving = Raw::join(address, 1, 3);
    leaving.send(0, FrameHeader { kind: Kind::Leave, length: 0 }, b"");
    let (kind, text) = leaving.receive(0);
    assert_eq!(kind, Kind::Failure);
    let text = wire::Failure::decode(&text).unwrap().text;
    assert!(text.contains("rank 2"), "{text}");
    // A frame of an exchange is not allowed before all have joined.
    let mut early = Raw::join(address, 1, 3);
    early.send(0, FrameHeader { kind: Kind::Part, length: 1 }, b"x");
    assert_eq!(early.stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    let members = [1, 2].map(|rank| member(address, rank, 3, Result::unwrap));
    root.join().unwrap().unwrap();
    members.into_iter().for_each(|member| drop(member.join().unwrap()));
}

#[test]
fn strangers_disturb_nobody() {
    make_room();
    let (listener, address) = listener();
    let root = gather(listener, 4, LONG);
    let mut strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (stream, bytes) in strangers.iter_mut().zip([
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 4096],
        b"u",
        b"ucxxrsBs",
    ]) {
        // Rank 0 may have closed the connection already.
        let _ = stream.write_all(bytes);
    }
    // A correct handshake, cut off at each byte.
    for length in 0..Claim::LENGTH {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut bytes = [0; Challenge::LENGTH];
        if stream.read_exact(&mut bytes).is_ok() {
            let (_, claim) = claim(Challenge::decode(&bytes).unwrap(), 1, 4, SECRET);
            let _ = stream.write_all(&claim.encode()[..length]);
        }
    }
    let members = [1, 2, 3].map(|rank| {
        member(address, rank, 4, move |member| {
            assert_eq!(member.unwrap().exchange(&part(rank)).unwrap(), all_parts(4))
        })
    });
    assert_eq!(root.join().unwrap().unwrap().exchange(&part(0)).unwrap(), all_parts(4));
    members.into_iter().for_each(|member| member.join().unwrap());
}

#[test]
fn who_is_missing_is_said_when_the_time_is_over() {
    let (listener, address) = listener();
    let alone =
        error(Root::gather(vec![listener], 5, SECRET, 1).map(drop), Status::TIMED_OUT, "rank 1-4");
    assert!(alone.message().contains(&address.to_string()), "{alone}");
    // Nothing listens there any more.
    let unreachable =
        error(join(address, 1, 5, SECRET, 1), Status::TIMED_OUT, &address.to_string());
    assert!(unreachable.message().contains("refused"), "{unreachable}");
}

#[test]
fn a_member_that_is_early_waits_for_rank_0() {
    let address = later(0);
    let early = member(address, 1, 2, Result::unwrap);
    let root = Root::gather(vec![socket::listen(address).unwrap()], 2, SECRET, LONG);
    early.join().unwrap();
    root.unwrap();
}

/// The processes of a launcher: the test below starts them. Does nothing otherwise.
#[test]
fn under_a_launcher() {
    let kind = match std::env::var(UNDER).as_deref() {
        Ok("env") => BootstrapKind::Env,
        Ok("pmix") => BootstrapKind::Pmix,
        _ => return,
    };
    // Twice: the second group must not find data of the first.
    for _ in 0..2 {
        let params = BootstrapParams {
            kind,
            rank: 77,
            size: 0,
            allgather: None,
            root: None,
            secret: None,
            timeout_ns: LONG,
        };
        let mut group = open(&params).unwrap();
        assert_eq!(group.size(), 3);
        assert_eq!(group.exchange(&part(group.rank())).unwrap(), all_parts(3));
        assert_eq!(group.exchange(b"").unwrap(), vec![b""; 3]);
        let long = |rank: u32| vec![rank as u8; (rank as usize + 1) << 20];
        assert!(group.exchange(&long(group.rank())).unwrap() == [0, 1, 2].map(long));
    }
}

const UNDER: &str = "UCXX_RS_TEST_UNDER";

#[test]
fn launchers_start_a_group() {
    let open_mpi = &["--allow-run-as-root", "--oversubscribe"][..];
    let launchers = [
        ("mpirun.openmpi", open_mpi, "env"),
        ("mpirun.openmpi", open_mpi, "pmix"),
        ("mpiexec.mpich", &[], "env"),
    ];
    for ((launcher, options, kind), number) in launchers.into_iter().zip(1..) {
        let run = std::process::Command::new(launcher)
            .args(options)
            .args(["-n", "3"])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "engine::group::bootstrap::bootstrap_tests::under_a_launcher",
                "--nocapture",
            ])
            .env(UNDER, kind)
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", later(number).port().to_string())
            .output();
        match run {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(
                    output.status.success(),
                    "{launcher}, {kind}: {said} {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                assert_eq!(said.matches("1 passed").count(), 3, "{said}");
            }
            Err(cause) => println!("{launcher}: left out: {cause}"),
        }
    }
}
