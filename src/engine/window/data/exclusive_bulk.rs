//! Atomic operations on single elements, and from time to time a process that updates very many
//! elements by plain instructions: how the two exclude each other.
//!
//! The CPU needs some 5 ns for each atomic update, and a loop over vectors a tenth of a nanosecond;
//! but during the loop nobody else may access these elements. A lock for both would make every
//! single operation wait for its holder, even for a stopped one. Here the process with many
//! elements pays, at first: it announces itself, makes the kernel execute a barrier for all
//! processes (see `base::membarrier`), and waits for operations in progress. From then on single
//! operations execute a barrier each, so that the next exclusive process only needs its own. When
//! none has come for long enough, the single operations stop doing so.
//!
//! Costs (AMD EPYC, Zen 5, a busy machine; `cargo test --release --lib
//! engine::window::data::exclusive_bulk -- --ignored --nocapture figures`): a single operation two
//! plain stores and a load, 0.3 to 0.8 ns on top of 5.3; 7 ns while they execute barriers.
//! Exclusive access 0.45 us the first time, if nobody else runs, and then 13 ns, among three
//! members; each further member is one more cache line to check.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::futex::{look_in_turns, look_shortly};
use crate::engine::base::membarrier::{everywhere, store_then_load};
use crate::engine::base::sync::{
    fence, in_one_order, spin_loop, yield_now, AtomicU32, AtomicU64, Ordering,
};
use std::cell::Cell;

/// Lanes of each process. Each is one thread's, except the last, which all other threads share (see
/// `thread_lane`). Under loom there are two.
pub(crate) const LANES: usize = if cfg!(loom) { 2 } else { 8 };
pub(crate) const SHARED: usize = LANES - 1;
/// Value of a thread's own lane during an operation; otherwise 0. The shared lane counts
/// operations.
const BUSY: u32 = 1;

/// Bits of `state`: the rank of the exclusive owner plus one. `state` is 0 at first.
const OWNER: u64 = (1 << 32) - 1;
/// Single operations execute barriers, so an owner needs none for them.
const FENCED: u64 = 1 << 32;
/// There was an owner since a thread with single operations last checked.
const USED: u64 = 1 << 33;
/// Somebody has waited for the owner for some time.
const WANTED: u64 = 1 << 34;

/// Number of single operations with barriers after which a thread checks whether they are still
/// worth it. So many cost as much as the first exclusive access. Under loom one is enough.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 64 };
/// Number of elements that are worth exclusive access: the first time, and when it has been
/// prepared (`FENCED`).
const MANY: u64 = 128;
const SOME: u64 = 16;

/// The owner's word. Zero at first.
#[derive(Default)]
#[repr(C)]
pub struct Head {
    state: AtomicU64,
    _alone: CacheLine,
}

/// Operations in progress of one process's threads. Zero at first.
#[derive(Default)]
#[repr(C)]
pub struct Lanes {
    lanes: [AtomicU32; LANES],
    /// By lane: operations with a barrier since the last check. Lost counts do not matter.
    fenced: [AtomicU32; LANES],
    _alone: CacheLine,
}

/// Both sides' words, for one target.
///
/// **The two sides.** A single operation writes its lane, then looks at `state`, and continues if
/// there is no owner. An exclusive process makes itself the owner, then looks at the lanes. If both
/// could miss the other's store, they would run at the same time. A barrier between store and look
/// on both sides prevents that (Dekker). At first single operations have none, so an owner makes
/// the kernel execute it for all (`everywhere`). Then the owner sees each lane that was written
/// before, and whoever writes its lane later sees the owner.
///
/// **Fenced.** When such an owner leaves, it sets `FENCED`. After its barrier, every operation that
/// continues has seen its store or a later one. A single operation that finds `FENCED` executes a
/// barrier and looks again. So for the next owner its own barrier is enough, which is its
/// read-modify-write of `state`. Clearing `FENCED` restores the first state: it does not matter who
/// still executes barriers, and the next owner uses the kernel. An owner that dies before it has
/// set `FENCED` may not have got to the kernel's barrier: it is removed without setting `FENCED`.
/// Each store to `state` after that barrier is a read-modify-write, so whoever acquires `FENCED` is
/// after the first owner's barrier.
///
/// **When.** The barriers of `PATIENCE` single operations cost about as much as one by the kernel.
/// After that many, a thread checks whether there was an owner meanwhile (`USED`, which it clears).
/// If not, it clears `FENCED`. So nobody pays more than about twice the optimum.
///
/// **Waiting.** A thread clears its lane while it waits for the owner, as the owner may be waiting
/// for it. After some time it sets `WANTED`. An owner that finds `WANTED` yields when it leaves;
/// otherwise it might be back before anybody notices that it was gone.
///
/// **Data.** A lane is cleared by a release, which the owner acquires, and so is `state`.
///
/// **Death.** Each element is valid at any time, whoever dies. The lanes of a dead process count as
/// free, and a dead owner is replaced. Waiting threads check from time to time whether the
/// processes live.
#[derive(Clone, Copy)]
pub struct Bulk<'a> {
    head: &'a Head,
    members: &'a [Lanes],
}

/// A single operation in progress. Ends when dropped, on the thread that began it.
pub struct Single<'a> {
    lane: &'a AtomicU32,
    fenced: &'a AtomicU32,
    is_shared: bool,
}

/// Exclusive access. Ends when dropped.
pub struct Alone<'a>(&'a Head);

impl<'a> Bulk<'a> {
    /// A view of these words, with one `Lanes` for each rank.
    pub fn of(head: &'a Head, members: &'a [Lanes]) -> Self {
        Bulk { head, members }
    }

    /// Is exclusive access worth its cost for this many elements?
    #[inline]
    pub fn is_worth(&self, elements: u64) -> bool {
        elements >= SOME
            && (elements >= MANY || self.head.state.load(Ordering::Relaxed) & FENCED != 0)
    }

    /// Begins single operations of this rank on a thread with this lane. Waits while there is an
    /// owner.
    #[inline(always)]
    pub fn single(&self, rank: u32, lane: usize, lives: &dyn Fn(u32) -> bool) -> Single<'a> {
        let member = &self.members[rank as usize];
        let single = Single {
            lane: &member.lanes[lane],
            fenced: &member.fenced[lane],
            is_shared: lane == SHARED,
        };
        let state = single.begin(self.head);
        if state != 0 {
            self.begin_slow(&single, state, lives);
        }
        single
    }

    #[cold]
    fn begin_slow(&self, single: &Single<'a>, mut state: u64, lives: &dyn Fn(u32) -> bool) {
        loop {
            if state & (OWNER | FENCED) == FENCED {
                fence(Ordering::SeqCst);
                state = self.head.state.load(Ordering::Acquire);
                if state & OWNER == 0 {
                    return self.count(single, state);
                }
            }
            if state & OWNER == 0 {
                return;
            }
            // The owner may be waiting for this operation.
            single.end();
            self.await_owner(lives);
            state = single.begin(self.head);
        }
    }

    /// Counts an operation with a barrier.
    fn count(&self, single: &Single<'a>, state: u64) {
        let number = single.fenced.load(Ordering::Relaxed) + 1;
        let is_enough = number >= PATIENCE;
        single.fenced.store(if is_enough { 0 } else { number }, Ordering::Relaxed);
        if is_enough {
            let next = if state & USED != 0 { state & !USED } else { state & !FENCED };
            let _ =
                self.head.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    #[cold]
    fn await_owner(&self, lives: &dyn Fn(u32) -> bool) {
        let is_free = || self.head.state.load(Ordering::Relaxed) & OWNER == 0;
        if look_shortly(&is_free) {
            return;
        }
        let state = self.head.state.load(Ordering::Relaxed);
        if state & OWNER != 0 {
            let _ = self.head.state.compare_exchange(
                state,
                state | WANTED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
        patiently(&is_free, &|| self.replace_dead(lives));
    }

    /// Removes a dead owner.
    fn replace_dead(&self, lives: &dyn Fn(u32) -> bool) {
        let state = self.head.state.load(Ordering::Acquire);
        let owner = state & OWNER;
        if owner != 0 && !lives((owner - 1) as u32) {
            let _ = self.head.state.compare_exchange(
                state,
                state & FENCED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Becomes the owner; does not wait for the lanes yet. Returns the old `state`.
    #[inline]
    pub(crate) fn own(&self, rank: u32, lives: &dyn Fn(u32) -> bool) -> u64 {
        let own = u64::from(rank) + 1;
        let mut state = self.head.state.load(Ordering::Relaxed);
        loop {
            if state & OWNER != 0 {
                self.await_owner(lives);
                state = self.head.state.load(Ordering::Relaxed) & !OWNER;
            }
            // SeqCst, like the loads of the lanes: the barrier of this side.
            let next = state & FENCED | own;
            match self.head.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return state,
                Err(now) => state = now,
            }
        }
    }

    /// Gets exclusive access for one thread of this rank. `None` if the kernel refuses a barrier
    /// that it had offered.
    #[inline]
    pub fn alone(&self, rank: u32, lives: &dyn Fn(u32) -> bool) -> Option<Alone<'a>> {
        let state = self.own(rank, lives);
        in_one_order();
        if state & FENCED == 0 && !everywhere() {
            self.head.state.store(0, Ordering::Release);
            return None;
        }
        let alone = Alone(self.head);
        for (rank, member) in (0..).zip(self.members) {
            if !member.is_free() {
                await_member(member, &|| lives(rank));
            }
        }
        Some(alone)
    }
}

impl Lanes {
    #[inline]
    fn is_free(&self) -> bool {
        self.lanes.iter().fold(0, |busy, lane| busy | lane.load(Ordering::SeqCst)) == 0
    }
}

#[cold]
fn await_member(member: &Lanes, lives: &dyn Fn() -> bool) {
    let gone = Cell::new(false);
    patiently(&|| gone.get() || member.is_free(), &|| gone.set(!lives()));
    if gone.get() {
        // A dead process's lanes are free.
        member.lanes.iter().for_each(|lane| lane.store(0, Ordering::Relaxed));
    }
}

impl Single<'_> {
    /// Stores, then looks at the state.
    #[inline(always)]
    fn begin(&self, head: &Head) -> u64 {
        let store = || {
            if self.is_shared {
                self.lane.fetch_add(BUSY, Ordering::Relaxed);
            } else {
                self.lane.store(BUSY, Ordering::Relaxed);
            }
        };
        store_then_load(store, || head.state.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn end(&self) {
        if self.is_shared {
            self.lane.fetch_sub(BUSY, Ordering::Release);
        } else {
            self.lane.store(0, Ordering::Release);
        }
    }
}

impl Drop for Single<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Alone<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.state.swap(FENCED | USED, Ordering::AcqRel) & WANTED != 0 {
            yield_now();
        }
    }
}

/// Waits until `ready`; calls `now_and_then` from time to time.
fn patiently(ready: &dyn Fn() -> bool, now_and_then: &dyn Fn()) {
    while !(ready() || look_in_turns(&mut || ready())) {
        now_and_then();
        spin_loop();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::engine::base::membarrier::take_part;
    use crate::engine::window::data::thread_lane;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    const MEMBERS: usize = 3;

    fn memory() -> (Head, [Lanes; MEMBERS]) {
        (Head::default(), Default::default())
    }

    /// Threads that stand for processes add to single elements, and one adds to all of them:
    /// nothing is lost.
    #[test]
    fn nothing_is_lost_between_single_operations_and_one_that_is_alone() {
        if !take_part() {
            return;
        }
        const ELEMENTS: usize = 64;
        let (head, members) = memory();
        let bulk = Bulk::of(&head, &members);
        let elements: Vec<AtomicU64> = (0..ELEMENTS).map(|_| AtomicU64::new(0)).collect();
        let is_over = AtomicBool::new(false);
        let (added, rounds) = std::thread::scope(|scope| {
            let adders: Vec<_> = (1..MEMBERS as u32)
                .flat_map(|rank| [rank; 5])
                .map(|rank| {
                    scope.spawn({
                        let (elements, is_over) = (&elements, &is_over);
                        move || {
                            let mut added = 0;
                            while !is_over.load(Ordering::Relaxed) {
                                let _single = bulk.single(rank, thread_lane::own(), &|_| true);
                                elements[added as usize % ELEMENTS].fetch_add(1, Ordering::AcqRel);
                                added += 1;
                            }
                            added
                        }
                    })
                })
                .collect();
            let mut rounds = 0;
            let start = Instant::now();
            while rounds < 100 || (rounds < 3000 && start.elapsed().as_millis() < 300) {
                let _alone = bulk.alone(0, &|_| true).unwrap();
                // Not atomically: reads first, and writes later.
                let seen: Vec<u64> =
                    elements.iter().map(|element| element.load(Ordering::Relaxed)).collect();
                for (element, seen) in elements.iter().zip(seen) {
                    element.store(seen + 1, Ordering::Relaxed);
                }
                rounds += 1;
            }
            is_over.store(true, Ordering::Relaxed);
            (adders.into_iter().map(|adder| adder.join().unwrap()).sum::<u64>(), rounds)
        });
        let sum: u64 = elements.iter().map(|element| element.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, added + rounds * ELEMENTS as u64);
    }

    #[test]
    fn what_the_dead_have_left_holds_nobody_up() {
        if !take_part() {
            return;
        }
        let (head, members) = memory();
        let bulk = Bulk::of(&head, &members);
        members[2].lanes[3].store(BUSY, Ordering::Relaxed);
        members[2].lanes[SHARED].store(2 * BUSY, Ordering::Relaxed);
        head.state.store(3, Ordering::Relaxed);
        let lives = |rank| rank != 2;
        drop(bulk.alone(0, &lives).unwrap());
        assert!(members[2].is_free());
        // An owner that died before it set `FENCED` may not have executed the barrier.
        for (left, stays) in [(3, 0), (3 | WANTED, 0), (3 | FENCED, FENCED)] {
            head.state.store(left, Ordering::Relaxed);
            drop(bulk.single(1, 0, &lives));
            assert_eq!(head.state.load(Ordering::Relaxed), stays);
        }
    }

    #[test]
    fn single_operations_leave_their_barriers_off_when_nobody_comes() {
        if !take_part() {
            return;
        }
        let (head, members) = memory();
        let bulk = Bulk::of(&head, &members);
        let state = || head.state.load(Ordering::Relaxed);
        let singles =
            |lane, number| (0..number).for_each(|_| drop(bulk.single(1, lane, &|_| true)));
        singles(0, 3 * PATIENCE);
        assert_eq!((state(), bulk.is_worth(MANY), bulk.is_worth(SOME)), (0, true, false));
        for _ in 0..2 {
            drop(bulk.alone(0, &|_| true).unwrap());
            assert_eq!(
                (state(), bulk.is_worth(SOME), bulk.is_worth(SOME - 1)),
                (FENCED | USED, true, false)
            );
            singles(0, PATIENCE - 1);
            singles(1, PATIENCE - 1);
            assert_eq!(state(), FENCED | USED);
            singles(1, 1);
            assert_eq!(state(), FENCED);
            drop(bulk.alone(2, &|_| true).unwrap());
            singles(0, 1);
            assert_eq!(state(), FENCED, "somebody was alone meanwhile");
            singles(0, PATIENCE);
            assert_eq!(state(), 0);
            singles(1, 2 * PATIENCE);
            assert_eq!(state(), 0);
        }
    }

    #[test]
    fn more_threads_than_lanes() {
        let (head, members) = memory();
        let bulk = Bulk::of(&head, &members);
        let all = std::sync::Barrier::new(LANES + 4);
        std::thread::scope(|scope| {
            for _ in 0..LANES + 4 {
                scope.spawn(|| {
                    let single = bulk.single(0, thread_lane::own(), &|_| true);
                    all.wait();
                    drop(single);
                    all.wait();
                });
            }
        });
        assert!(members[0].lanes.iter().all(|lane| lane.load(Ordering::Relaxed) == 0));
    }

    #[test]
    #[ignore = "measures: see the top of the file"]
    fn figures() {
        assert!(take_part());
        let (head, members) = memory();
        let bulk = Bulk::of(&head, &members);
        let word = AtomicU64::new(0);
        const TIMES: u32 = 10_000_000;
        let time = |what: &str, times: u32, work: &dyn Fn()| {
            let start = Instant::now();
            (0..times).for_each(|_| work());
            println!("{what}: {:.2} ns", start.elapsed().as_nanos() as f64 / f64::from(times));
        };
        time("an atomic addition", TIMES, &|| _ = word.fetch_add(1, Ordering::AcqRel));
        time("the same as a single operation", TIMES, &|| {
            let _single = bulk.single(0, thread_lane::own(), &|_| true);
            word.fetch_add(1, Ordering::AcqRel);
        });
        time("to be alone, as the first", TIMES / 1000, &|| {
            drop(bulk.alone(0, &|_| true).unwrap());
            head.state.store(0, Ordering::Relaxed);
        });
        time("to be alone, as the next", TIMES, &|| drop(bulk.alone(0, &|_| true).unwrap()));
        let next = head.state.load(Ordering::Relaxed);
        time("a single operation, where they make barriers", TIMES, &|| {
            head.state.store(next, Ordering::Relaxed);
            let _single = bulk.single(0, thread_lane::own(), &|_| true);
            word.fetch_add(1, Ordering::AcqRel);
        });
    }
}
