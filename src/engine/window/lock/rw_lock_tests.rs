//! Threads that stand for processes: each has its own mapping of the lock's memory.

use super::*;
use std::cell::Cell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;
use LockType::{Exclusive, Shared};

const RANKS: u32 = 8;

/// A page of shared memory, with the lock at its beginning and the protected data after it.
struct Page(OwnedFd);

/// One process's mapping of the page.
struct Mapping(*mut u8);

// SAFETY: the lock and the data under it may be shared by threads as by processes.
unsafe impl Sync for Mapping {}
// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Mapping {}

impl Page {
    fn new() -> Self {
        // SAFETY: a terminated name; the descriptor is checked.
        let page = unsafe {
            let page = libc::memfd_create(c"window_lock".as_ptr(), libc::MFD_CLOEXEC);
            assert!(page >= 0 && libc::ftruncate(page, 4096) == 0);
            OwnedFd::from_raw_fd(page)
        };
        Page(page)
    }

    fn map(&self) -> Mapping {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, which is checked.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, protection, flags, self.0.as_raw_fd(), 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        Mapping(memory.cast())
    }
}

impl Mapping {
    fn lock(&self) -> WindowLock<'_> {
        // SAFETY: a zeroed page, which is longer than the lock.
        unsafe { WindowLock::at(self.0, RANKS) }
    }

    fn data(&self) -> &[Cell<u64>; 2] {
        assert!(WindowLock::bytes(RANKS) <= 4080);
        // SAFETY: after the lock, inside the page, and only used under the lock.
        unsafe { &*self.0.add(4080).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, unmapped once.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

fn everybody(_: u32) -> bool {
    true
}

fn patient() -> Patience<'static> {
    Patience::new(u64::MAX, &everybody)
}

fn milliseconds(count: u64) -> u64 {
    count * 1_000_000
}

/// With frequent checks whether others live.
fn asking(is_alive: &dyn Fn(u32) -> bool) -> Patience<'_> {
    Patience {
        pace: Some(Duration::from_millis(5)),
        ..Patience::new(milliseconds(20_000), is_alive)
    }
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

fn in_line(lock: WindowLock, rank: u32) -> bool {
    tag::is_in_line(lock.slot(rank).word.load(Ordering::SeqCst))
}

#[test]
fn who_may_hold_it_together() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    assert!(
        lock.try_lock(0, Exclusive) && !lock.try_lock(1, Exclusive) && !lock.try_lock(1, Shared)
    );
    lock.unlock(0, Exclusive).unwrap();
    assert!(lock.try_lock(1, Shared) && lock.try_lock(2, Shared) && !lock.try_lock(0, Exclusive));
    lock.unlock(1, Shared).unwrap();
    assert!(!lock.try_lock(0, Exclusive));
    lock.unlock(2, Shared).unwrap();
    assert!(lock.try_lock(7, Exclusive) && !lock.try_lock(7, Shared));
    lock.unlock(7, Exclusive).unwrap();
    assert!(lock.is_untouched());
    assert_eq!(lock.unlock(1, Exclusive).unwrap_err().status(), Status::RMA_POISONED);
    assert_eq!(lock.unlock(1, Shared).unwrap_err().status(), Status::RMA_POISONED);
}

#[test]
fn nothing_is_lost_among_processes() {
    const TURNS: u64 = 20_000;
    let page = Page::new();
    let written: u64 = std::thread::scope(|scope| {
        let threads = (0..4).map(|rank: u32| {
            let page = &page;
            scope.spawn(move || {
                let mapping = page.map();
                let (lock, [first, second]) = (mapping.lock(), mapping.data());
                let mut written = 0;
                for turn in 0..TURNS {
                    let how = if (turn * 7 + u64::from(rank)) % 5 < 2 { Exclusive } else { Shared };
                    if turn % 11 == 3 {
                        // Some waits are short.
                        if lock.lock(rank, how, &Patience::new(turn % 4 * 500, &everybody)).is_err()
                        {
                            continue;
                        }
                    } else if turn % 13 != 5 {
                        lock.lock(rank, how, &patient()).unwrap();
                    } else if !lock.try_lock(rank, how) {
                        continue;
                    }
                    let before = first.get();
                    assert_eq!(before, second.get());
                    if how == Exclusive {
                        first.set(before + 1);
                        second.set(before + 1);
                        written += 1;
                    }
                    lock.unlock(rank, how).unwrap();
                }
                written
            })
        });
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let mapping = page.map();
    assert_eq!(mapping.data()[0].get(), written);
    assert!(mapping.lock().is_untouched());
}

#[test]
fn the_line_is_served_in_its_order() {
    let page = Page::new();
    let mapping = page.map();
    let lock = mapping.lock();
    lock.lock(0, Exclusive, &patient()).unwrap();
    let served = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for (rank, how, turns) in [
            (1, Exclusive, 0..1),
            (2, Shared, 1..3),
            (3, Shared, 1..3),
            (4, Exclusive, 3..4),
            (5, Shared, 4..5),
        ] {
            let (page, served) = (&page, &served);
            scope.spawn(move || {
                let mapping = page.map();
                mapping.lock().lock(rank, how, &patient()).unwrap();
                let turn = served.fetch_add(1, Ordering::SeqCst);
                assert!(turns.contains(&turn), "rank {rank} was served as number {turn}");
                std::thread::sleep(Duration::from_millis(2));
                mapping.lock().unlock(rank, how).unwrap();
            });
            until("in line", || in_line(lock, rank));
            // Nobody may pass it.
            assert!(!lock.try_lock(7, Shared) && !lock.try_lock(6, Exclusive));
        }
        lock.unlock(0, Exclusive).unwrap();
    });
    assert!(lock.is_untouched());
}

#[test]
fn a_writer_gets_in_among_readers() {
    let page = Page::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for rank in 1..4 {
            let (page, done) = (&page, &done);
            scope.spawn(move || {
                let mapping = page.map();
                while !done.load(Ordering::Relaxed) {
                    mapping.lock().lock(rank, Shared, &patient()).unwrap();
                    mapping.lock().unlock(rank, Shared).unwrap();
                }
            });
        }
        let mapping = page.map();
        for _ in 0..200 {
            mapping
                .lock()
                .lock(0, Exclusive, &Patience::new(milliseconds(20_000), &everybody))
                .unwrap();
            mapping.lock().unlock(0, Exclusive).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    for (held, waits) in [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive)] {
        assert!(lock.try_lock(0, held));
        for timeout in [0, milliseconds(2)] {
            let error = lock.lock(1, waits, &Patience::new(timeout, &everybody)).unwrap_err();
            assert_eq!(error.status(), Status::TIMED_OUT);
        }
        assert_eq!(lock.state() & WAITERS, if held == Shared { 0 } else { WAITERS });
        lock.unlock(0, held).unwrap();
        assert!(lock.is_untouched(), "{held:?} {waits:?}");
        assert!(lock.try_lock(2, waits));
        lock.unlock(2, waits).unwrap();
    }
}

/// A writer that gives up lets in the reader behind it, beside the one that reads.
#[test]
fn who_gives_up_lets_others_in() {
    let page = Page::new();
    let mapping = page.map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Shared));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mapping = page.map();
            let error = mapping
                .lock()
                .lock(1, Exclusive, &Patience::new(milliseconds(100), &everybody))
                .unwrap_err();
            assert_eq!(error.status(), Status::TIMED_OUT);
        });
        until("the writer drains", || lock.state() & DRAINING != 0);
        let start = Instant::now();
        let patience = Patience { pace: None, ..patient() };
        lock.lock(2, Shared, &patience).unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
        lock.unlock(2, Shared).unwrap();
    });
    lock.unlock(0, Shared).unwrap();
    assert!(lock.is_untouched());
}

#[test]
fn a_dead_writer_poisons_the_lock_for_all() {
    let page = Page::new();
    let mapping = page.map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Exclusive));
    let dead = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = [(1, Exclusive), (2, Shared), (3, Exclusive)]
            .into_iter()
            .map(|(rank, how)| {
                let (page, dead) = (&page, &dead);
                let waiter = scope.spawn(move || {
                    let is_alive = |rank| rank != 0 || !dead.load(Ordering::SeqCst);
                    page.map().lock().lock(rank, how, &asking(&is_alive)).unwrap_err().status()
                });
                until("in line", || in_line(lock, rank));
                waiter
            })
            .collect();
        std::thread::sleep(Duration::from_millis(30));
        assert!(!lock.is_poisoned());
        dead.store(true, Ordering::SeqCst);
        let start = Instant::now();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Status::RMA_POISONED);
        }
        assert!(start.elapsed() < Duration::from_secs(2));
    });
    for how in [Exclusive, Shared] {
        assert!(lock.is_poisoned() && !lock.try_lock(4, how));
        assert_eq!(lock.lock(4, how, &patient()).unwrap_err().status(), Status::RMA_POISONED);
    }
    lock.recover();
    assert!(lock.is_untouched() && lock.try_lock(4, Exclusive));
}

#[test]
fn dead_readers_are_taken_out() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Shared) && lock.try_lock(1, Shared) && lock.try_lock(2, Shared));
    lock.unlock(1, Shared).unwrap();
    let is_alive = |rank| !matches!(rank, 0 | 2);
    lock.lock(3, Exclusive, &asking(&is_alive)).unwrap();
    lock.unlock(3, Exclusive).unwrap();
    assert!(lock.is_untouched());
}

#[test]
fn the_dead_in_line_are_passed_over() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Exclusive));
    for rank in [1, 2, 3] {
        lock.begin_waiting(rank, if rank == 2 { Shared } else { Exclusive });
        assert!(!lock.poll(rank, Exclusive).unwrap());
    }
    lock.unlock(0, Exclusive).unwrap();
    let is_alive = |rank| rank > 3;
    for how in [Exclusive, Shared] {
        lock.lock(4, how, &asking(&is_alive)).unwrap();
        lock.unlock(4, how).unwrap();
        assert!(lock.is_untouched());
    }
}

/// A writer that died while it waited for readers has changed nothing.
#[test]
fn a_dead_writer_that_was_not_there_yet_is_no_harm() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Shared));
    lock.begin_waiting(1, Exclusive);
    assert!(!lock.poll(1, Exclusive).unwrap());
    assert_eq!(lock.state() & (OWNER | DRAINING), owner_of(1) | DRAINING);
    assert!(!lock.try_lock(2, Shared));
    let is_alive = |rank| rank != 1;
    lock.lock(2, Shared, &asking(&is_alive)).unwrap();
    assert!(!lock.is_poisoned() && !lock.try_lock(3, Exclusive));
    lock.unlock(0, Shared).unwrap();
    lock.unlock(2, Shared).unwrap();
    assert!(lock.is_untouched());
}

/// As the process does for waiters that reach it only by messages.
#[test]
fn waiting_without_sleeping() {
    let mapping = Page::new().map();
    let lock = mapping.lock();
    assert!(lock.try_lock(0, Exclusive));
    lock.begin_waiting(1, Shared);
    lock.begin_waiting(2, Shared);
    lock.begin_waiting(3, Exclusive);
    lock.begin_waiting(4, Shared);
    let poll = |rank| lock.poll(rank, if rank == 3 { Exclusive } else { Shared }).unwrap();
    assert!((1..=4).all(|rank| !poll(rank)));
    lock.unlock(0, Exclusive).unwrap();
    assert!(!poll(3) && !poll(4) && poll(2) && !poll(3) && poll(1) && !poll(4) && !poll(3));
    lock.unlock(1, Shared).unwrap();
    assert!(!poll(3));
    lock.unlock(2, Shared).unwrap();
    assert!(poll(3) && !poll(4));
    lock.give_up(4);
    lock.unlock(3, Exclusive).unwrap();
    assert!(lock.is_untouched());
}

#[test]
#[ignore = "measures: see the top of rw_lock.rs"]
fn figures() {
    const LARGE: u32 = 60;
    let mapping = Page::new().map();
    // SAFETY: a zeroed page, which is long enough.
    let many = unsafe { WindowLock::at(mapping.0, LARGE) };
    let time = |what: &str, work: &dyn Fn()| {
        let best = (0..7).map(|_| {
            let start = Instant::now();
            (0..1_000_000).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / 1e6
        });
        println!("{what}: {:.1} ns", best.fold(f64::INFINITY, f64::min));
    };
    let patience = patient();
    for ranks in [4, LARGE] {
        let lock = WindowLock { slots: &many.slots[..ranks as usize], ..many };
        let lock = std::hint::black_box(lock);
        let both = |how| {
            lock.lock(1, how, &patience).unwrap();
            lock.unlock(1, how).unwrap();
        };
        time(&format!("exclusive, of {ranks} ranks"), &|| both(Exclusive));
        time(&format!("shared, of {ranks} ranks"), &|| both(Shared));
        time(&format!("one of each, of {ranks} ranks"), &|| {
            both(Exclusive);
            both(Shared);
        });
    }
    for (how, what) in [(Shared, "shared"), (Exclusive, "exclusive")] {
        const TURNS: u32 = 500_000;
        let page = Page::new();
        let rounds = (0..7).map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for rank in 0..2 {
                    let page = &page;
                    scope.spawn(move || {
                        let mapping = page.map();
                        for _ in 0..TURNS {
                            mapping.lock().lock(rank, how, &patient()).unwrap();
                            mapping.lock().unlock(rank, how).unwrap();
                        }
                    });
                }
            });
            start.elapsed().as_nanos() as f64 / f64::from(2 * TURNS)
        });
        let rounds: Vec<f64> = rounds.collect();
        println!("{what}, two threads at it all the time, each time one gets it: {rounds:.0?} ns");
    }
}
