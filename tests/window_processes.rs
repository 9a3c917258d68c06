//! Segments, their locks and accumulates between real processes: this program starts itself again,
//! with its task in the environment.
#![allow(missing_docs)]

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use ucxx_rs::internals::window_words::LockType::{Exclusive, Shared};
use ucxx_rs::internals::window_words::{
    ElementType, Patience, Reduce, Segment, SegmentName, Update, WindowLock,
};
use ucxx_rs::internals::Status;

const RANKS: u32 = 8;
const TURNS: u64 = 20_000;
/// Half of what a lock waits for in vain here: a death is noticed long before.
const SOON: Duration = Duration::from_secs(10);
const TASK: &str = "UCXX_TEST_TASK";

/// A segment in these tests: a lock, followed by numbers.
struct Shared8(Segment);

impl Shared8 {
    fn new() -> Self {
        Shared8(Segment::create(WindowLock::bytes(RANKS), 4096).unwrap())
    }

    fn lock(&self) -> WindowLock<'_> {
        // SAFETY: as many bytes, zeroed at creation, used for nothing else.
        unsafe { WindowLock::at(self.0.control(), RANKS) }
    }

    fn number(&self, at: usize) -> *mut u64 {
        // SAFETY: inside the data.
        unsafe { self.0.data().cast::<u64>().add(at) }
    }

    fn start(&self, task: &str, rank: u32) -> Child {
        let name: String =
            self.0.name().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["the_other_process", "--exact", "--nocapture"])
            .env(TASK, format!("{task} {rank} {name}"));
        command.stdout(Stdio::piped()).spawn().unwrap()
    }
}

fn wait_for(child: &mut Child, word: &str) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line.contains(word)),
        "the other process ended early"
    );
}

/// The tasks of the other processes.
#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut words = task.split(' ');
    let (task, rank) = (words.next().unwrap(), words.next().unwrap().parse::<u32>().unwrap());
    let digits = words.next().unwrap();
    let name =
        std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
    let shared = Shared8(Segment::open(&SegmentName::decode(&name)).unwrap());
    let patience = Patience::new(u64::MAX, &|_| true);
    match task {
        "count" => count(&shared, rank),
        "write" | "read" => {
            shared
                .lock()
                .lock(rank, if task == "write" { Exclusive } else { Shared }, &patience)
                .unwrap();
            println!("holds it");
            std::thread::sleep(Duration::from_secs(100));
        }
        _ => {
            println!("waits for it");
            shared.lock().lock(rank, Exclusive, &patience).unwrap();
        }
    }
}

fn count(shared: &Shared8, rank: u32) {
    let lock = shared.lock();
    let (first, second, third) = (shared.number(0), shared.number(1), shared.number(2));
    let patience = Patience::new(u64::MAX, &|_| true);
    for turn in 0..TURNS {
        let how = if turn % 3 == 0 { Exclusive } else { Shared };
        lock.lock(rank, how, &patience).unwrap();
        // SAFETY: the lock is for this.
        unsafe {
            let now = first.read_volatile();
            assert_eq!(now, second.read_volatile());
            if how == Exclusive {
                first.write_volatile(now + 1);
                second.write_volatile(now + 1);
            }
        }
        lock.unlock(rank, how).unwrap();
        let (one, result) = (1.0_f64, std::ptr::null_mut());
        let (target, operand) = (third.cast(), std::ptr::from_ref(&one).cast());
        let update = Update {
            kind: ElementType::Double,
            op: Reduce::Sum,
            target,
            operand,
            result,
            count: 1,
        };
        // SAFETY: this double is only changed here.
        unsafe { update.execute_atomically() };
    }
}

#[test]
fn nothing_is_lost_among_processes() {
    let shared = Shared8::new();
    let children: Vec<Child> = (1..4).map(|rank| shared.start("count", rank)).collect();
    count(&shared, 0);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // SAFETY: no other process uses it any more.
    unsafe {
        assert_eq!(*shared.number(0), 4 * TURNS.div_ceil(3));
        assert_eq!(*shared.number(1), 4 * TURNS.div_ceil(3));
        assert_eq!(*shared.number(2).cast::<f64>(), (4 * TURNS) as f64);
    }
}

/// Kills the process when it has printed `word`, and then takes the lock.
fn after_killing(task: &str, word: &str) -> Result<(), Status> {
    let shared = Shared8::new();
    let mut killed = shared.start(task, 1);
    wait_for(&mut killed, word);
    // A process that was only told to take the lock takes it soon.
    std::thread::sleep(Duration::from_millis(20));
    killed.kill().unwrap();
    let killed = RefCell::new(killed);
    let is_alive = |rank| rank != 1 || killed.borrow_mut().try_wait().unwrap().is_none();
    let start = Instant::now();
    let outcome = shared.lock().lock(0, Exclusive, &Patience::new(20_000_000_000, &is_alive));
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    killed.borrow_mut().wait().unwrap();
    outcome.map_err(|error| error.status())
}

#[test]
fn a_writer_that_is_killed_poisons_the_lock() {
    assert_eq!(after_killing("write", "holds it"), Err(Status::RMA_POISONED));
}

#[test]
fn a_reader_that_is_killed_does_not() {
    assert_eq!(after_killing("read", "holds it"), Ok(()));
}

#[test]
fn one_that_is_killed_in_line_is_passed_over() {
    let shared = Shared8::new();
    assert!(shared.lock().try_lock(0, Exclusive));
    let mut killed = shared.start("wait", 1);
    wait_for(&mut killed, "waits for it");
    std::thread::sleep(Duration::from_millis(200));
    killed.kill().unwrap();
    killed.wait().unwrap();
    shared.lock().unlock(0, Exclusive).unwrap();
    let start = Instant::now();
    for how in [Shared, Exclusive] {
        shared.lock().lock(2, how, &Patience::new(20_000_000_000, &|rank| rank != 1)).unwrap();
        shared.lock().unlock(2, how).unwrap();
    }
    assert!(start.elapsed() < SOON);
}

/// A segment of a dead process cannot be opened, and needs no cleanup.
#[test]
fn a_segment_goes_with_its_process() {
    let shared = Shared8::new();
    let name = *shared.0.name();
    let mut child = shared.start("read", 1);
    wait_for(&mut child, "holds it");
    // The other process has only mapped it.
    let there = SegmentName { pid: child.id(), ..name };
    assert!(Segment::open(&there).is_err());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(Segment::open(&there).err().unwrap().status(), Status::UNREACHABLE);
}
