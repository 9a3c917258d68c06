//! The gate of a worker: one thread at a time is inside, by the rule that the worker was created
//! with.
//!
//! The thread inside uses the worker's cells: the types in `core::worker::worker` enforce it. User
//! code never runs inside: the thread leaves the gate, runs the callback, and enters again.
//!
//! # Publication
//!
//! - MULTI: the lock's acquire and release publish the cells.
//! - SERIALIZED: the caller's own synchronisation publishes them.
//! - SINGLE: there is one thread only.
//!
//! `inside` publishes nothing: it detects misuse.

#[cfg(debug_assertions)]
use crate::engine::base::lockdep;
use crate::engine::base::status::{Error, Result, Status};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::lock_api::RawMutexFair as _;
use parking_lot::lock_api::RawMutexTimed as _;
use parking_lot::RawMutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Which threads may call while progress is manual. Numbers as in the C header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadMode {
    /// Any thread at any time; the worker has its own lock.
    Multi = 0,
    /// Any thread, one at a time. The caller must serialise calls; an overlap that is noticed is
    /// refused.
    Serialized = 1,
    /// Only the thread that created the worker.
    Single = 2,
}

/// A number for the calling thread, never 0. May be reused after a thread has ended.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let number;
        // SAFETY: reads a word that the ABI keeps at the start of each thread's storage: its
        // address. pthread_self() returns the same value, at the cost of a call.
        unsafe {
            std::arch::asm!(
                "mov {}, fs:0",
                out(reg) number,
                options(nostack, pure, readonly, preserves_flags)
            )
        };
        number
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: no precondition.
        unsafe { libc::pthread_self() as usize }
    }
}

/// See the head of this file.
///
/// **Order.** A thread inside the gate of a user's worker may enter the gate of a group's own
/// worker, and not the other way round. No thread is inside two gates of one kind at once. Builds
/// with debug assertions check this (`base::lockdep`).
pub(crate) struct Gate {
    /// The rule that the worker was created with.
    declared: ThreadMode,
    /// The rule in force: the declared one, or MULTI from the first progress thread on. Changed
    /// once, by a call that is serialised with all others as SERIALIZED requires.
    rule: AtomicU8,
    /// SINGLE: the only thread. Never changes.
    owner: usize,
    /// SINGLE and SERIALIZED: a thread is inside. Plain loads and stores: this detects misuse and
    /// is not a lock. The caller's own serialisation publishes what the last thread inside wrote.
    inside: AtomicBool,
    /// MULTI: the lock, whose acquire and release publish the worker's cells.
    lock: RawMutex,
    /// MULTI: the thread that holds the lock. Read only to tell re-entry (from a log callback) from
    /// contention.
    holder: AtomicUsize,
    /// The worker is a group's own worker.
    #[cfg(debug_assertions)]
    of_service: AtomicBool,
}

impl Gate {
    pub(crate) fn new(mode: ThreadMode) -> Self {
        Gate {
            declared: mode,
            rule: AtomicU8::new(mode as u8),
            owner: this_thread(),
            inside: AtomicBool::new(false),
            lock: RawMutex::INIT,
            holder: AtomicUsize::new(0),
            #[cfg(debug_assertions)]
            of_service: AtomicBool::new(false),
        }
    }

    /// Marks the worker as a group's own.
    pub(crate) fn serve(&self) {
        #[cfg(debug_assertions)]
        self.of_service.store(true, Ordering::Relaxed);
    }

    #[cfg(debug_assertions)]
    fn watched(&self) -> (lockdep::Class, usize) {
        let class = match self.of_service.load(Ordering::Relaxed) {
            true => lockdep::Class::SERVICE_GATE,
            false => lockdep::Class::USER_GATE,
        };
        (class, std::ptr::from_ref(self).addr())
    }

    /// Called before the lock is taken, or waited for.
    #[inline(always)]
    fn before(&self) {
        #[cfg(debug_assertions)]
        lockdep::before(self.watched().0, self.watched().1);
    }

    /// Called after the lock was taken.
    #[inline(always)]
    fn taken(&self) {
        self.holder.store(this_thread(), Ordering::Relaxed);
        #[cfg(debug_assertions)]
        lockdep::taken(self.watched().0, self.watched().1);
    }

    /// Called before the lock is released.
    #[inline(always)]
    fn given_back(&self) {
        self.holder.store(0, Ordering::Relaxed);
        #[cfg(debug_assertions)]
        lockdep::given_back(self.watched().1);
    }

    /// The rule that the worker was created with.
    pub(crate) fn declared(&self) -> ThreadMode {
        self.declared
    }

    #[inline(always)]
    fn rule(&self) -> ThreadMode {
        match self.rule.load(Ordering::Relaxed) {
            0 => ThreadMode::Multi,
            1 => ThreadMode::Serialized,
            _ => ThreadMode::Single,
        }
    }

    /// Threads that enter at the same time wait for each other.
    #[inline]
    pub(crate) fn is_lock(&self) -> bool {
        self.rule() == ThreadMode::Multi
    }

    /// A thread other than the caller's may be inside at times.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.rule() != ThreadMode::Single
    }

    /// A progress thread is about to share the worker with its callers. The gate stays a lock:
    /// changing back would need to know that no thread holds it.
    pub(super) fn become_lock(&self) {
        self.rule.store(ThreadMode::Multi as u8, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn enter(&self) -> Result<()> {
        if self.rule() != ThreadMode::Single {
            return self.enter_shared();
        }
        if this_thread() != self.owner {
            return Err(wrong_thread());
        }
        self.mark()
    }

    #[inline(never)]
    fn enter_shared(&self) -> Result<()> {
        if !self.is_lock() {
            return self.mark();
        }
        if !self.lock.try_lock() {
            self.contended()?;
        }
        self.before();
        self.taken();
        Ok(())
    }

    #[inline(always)]
    fn mark(&self) -> Result<()> {
        if self.inside.load(Ordering::Relaxed) {
            return Err(overlap());
        }
        self.inside.store(true, Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    fn contended(&self) -> Result<()> {
        if self.holder.load(Ordering::Relaxed) == this_thread() {
            return Err(Error::new(
                Status::BUSY,
                "worker: called from a log callback, which must not call this library",
            ));
        }
        self.before();
        self.lock.lock();
        Ok(())
    }

    /// Enters again after user code. For SINGLE, the same thread has run that code.
    #[inline]
    pub(super) fn enter_again(&self) {
        match self.rule() {
            ThreadMode::Single => self.inside.store(true, Ordering::Relaxed),
            _ => self.enter_any(),
        }
    }

    /// Enters a MULTI worker if no thread is inside.
    pub(super) fn try_enter(&self) -> bool {
        debug_assert!(self.is_lock());
        let entered = self.lock.try_lock();
        if entered {
            self.taken();
        }
        entered
    }

    /// Enters a MULTI worker if that is possible in time; None if it is not one. The caller may be
    /// unknown to the program, so it sees the rule that `become_lock` has published.
    pub(super) fn enter_within(&self, time: Duration) -> Option<bool> {
        if self.rule.load(Ordering::Acquire) != ThreadMode::Multi as u8 {
            return None;
        }
        let entered = self.lock.try_lock_for(time);
        if entered {
            self.taken();
        }
        Some(entered)
    }

    /// Enters for shutting down, from any thread, and waits if necessary.
    pub(super) fn enter_any(&self) {
        match self.rule() {
            ThreadMode::Multi => {
                self.before();
                self.lock.lock();
                self.taken();
            }
            _ => {
                while self.inside.swap(true, Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn leave(&self) {
        if !self.is_lock() {
            return self.inside.store(false, Ordering::Release);
        }
        self.unlock();
    }

    /// Enters on the only thread of a SINGLE worker. False if it is inside.
    #[inline(always)]
    pub(super) fn enter_fast(&self) -> bool {
        let enters = self.is_free();
        if enters {
            self.inside.store(true, Ordering::Relaxed);
        }
        enters
    }

    /// Leaves after `enter_fast` returned true.
    #[inline(always)]
    pub(super) fn leave_fast(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// `enter_again` after `leave_fast`.
    #[inline(always)]
    pub(super) fn come_back_fast(&self) {
        self.inside.store(true, Ordering::Relaxed);
    }

    #[inline(never)]
    fn unlock(&self) {
        self.given_back();
        // SAFETY: the thread that leaves has entered.
        unsafe { self.lock.unlock() };
    }

    /// Leaves, and lets a waiting thread in before the caller can enter again: otherwise a thread
    /// that enters repeatedly would keep others out.
    pub(super) fn leave_fairly(&self) {
        debug_assert!(self.is_lock());
        self.given_back();
        // SAFETY: the thread that leaves has entered.
        unsafe { self.lock.unlock_fair() };
    }

    /// True if the caller is the only thread of a SINGLE worker and not inside: it may then use the
    /// worker's cells at once.
    #[inline]
    pub(crate) fn is_free_owner(&self) -> bool {
        self.rule() == ThreadMode::Single && this_thread() == self.owner && self.is_free()
    }

    /// No thread is inside; for SINGLE and SERIALIZED.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        !self.inside.load(Ordering::Relaxed)
    }
}

#[cold]
fn wrong_thread() -> Error {
    Error::invalid("worker: UCXX_THREAD_SINGLE, and this is not the thread that created it")
}

#[cold]
fn overlap() -> Error {
    Error::new(
        Status::BUSY,
        "worker: another call is inside it; with UCXX_THREAD_SINGLE or _SERIALIZED calls must not \
        overlap",
    )
}
