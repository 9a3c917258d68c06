//! Who may be inside a worker: one thread at a time, by whatever rule the worker was created with.
//!
//! The cells of a worker belong to the thread that is inside: `core::worker::worker` has the types
//! that see to it. User code never runs inside: callbacks are made after leaving, and the gate is
//! entered again afterwards.

#[cfg(debug_assertions)]
use crate::engine::base::lockdep;
use crate::engine::base::status::{Error, Result, Status};
use parking_lot::lock_api::RawMutex as _;
use parking_lot::lock_api::RawMutexFair as _;
use parking_lot::RawMutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Who may call while progress is manual. Numbers as in the C header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadMode {
    /// Any thread at any time; a lock of the worker's own.
    Multi = 0,
    /// Any thread, one at a time: the caller sees to that, and an overlap that is noticed is
    /// refused.
    Serialized = 1,
    /// The creating thread alone.
    Single = 2,
}

/// A number for the calling thread, never 0. May be used again after a thread has ended.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let number;
        // SAFETY: reads a word that the ABI keeps at the beginning of each thread's storage: its
        // address, which is what pthread_self() returns, at the cost of a call.
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

/// See the top of this file.
///
/// **Order.** Who is inside the gate of a user's worker may enter that of a group's own one; who is
/// inside that one enters no user's. Nobody is inside two of a kind at once. Builds with debug
/// assertions watch that (`base::lockdep`).
pub(crate) struct Gate {
    /// What the worker was made with.
    declared: ThreadMode,
    /// The rule in force: the declared one, or MULTI from the first progress thread on. Changed
    /// once, by a call that is serialised with all others as SERIALIZED asks.
    rule: AtomicU8,
    /// SINGLE: the one thread. Never changes.
    owner: usize,
    /// SINGLE and SERIALIZED: somebody is inside. Plain loads and stores: it detects misuse, it is
    /// not a lock; the caller's own serialisation publishes what the last thread inside wrote.
    inside: AtomicBool,
    /// MULTI: the lock, whose acquire and release publish the worker's cells.
    lock: RawMutex,
    /// MULTI: who holds the lock, read only to tell re-entry (from a log callback) from contention.
    holder: AtomicUsize,
    /// It is that of a group's own worker.
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

    /// The worker is a group's own.
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

    /// The lock is about to be waited for, or could have been.
    #[inline(always)]
    fn before(&self) {
        #[cfg(debug_assertions)]
        lockdep::before(self.watched().0, self.watched().1);
    }

    /// It has been taken.
    #[inline(always)]
    fn taken(&self) {
        self.holder.store(this_thread(), Ordering::Relaxed);
        #[cfg(debug_assertions)]
        lockdep::taken(self.watched().0, self.watched().1);
    }

    /// It is about to be given back.
    #[inline(always)]
    fn given_back(&self) {
        self.holder.store(0, Ordering::Relaxed);
        #[cfg(debug_assertions)]
        lockdep::given_back(self.watched().1);
    }

    /// What the worker was made with.
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

    /// Threads that come at the same time wait for each other.
    #[inline]
    pub(crate) fn is_lock(&self) -> bool {
        self.rule() == ThreadMode::Multi
    }

    /// Another thread than the caller's may be inside at times.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.rule() != ThreadMode::Single
    }

    /// A progress thread is about to share the worker with its callers. It stays a lock: taking it
    /// back would need to know that nobody holds it.
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
                "worker: called from a log callback in the middle of a call",
            ));
        }
        self.before();
        self.lock.lock();
        Ok(())
    }

    /// Comes back from user code, which the worker's one thread has run.
    #[inline]
    pub(super) fn enter_again(&self) {
        match self.rule() {
            ThreadMode::Single => self.inside.store(true, Ordering::Relaxed),
            _ => self.enter_any(),
        }
    }

    /// Enters a MULTI worker, unless somebody is inside.
    pub(super) fn try_enter(&self) -> bool {
        debug_assert!(self.is_lock());
        let entered = self.lock.try_lock();
        if entered {
            self.taken();
        }
        entered
    }

    /// Enters for shutting down, where the thread does not matter and waiting is right.
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

    /// For the one thread of a SINGLE worker: false if it is inside.
    #[inline(always)]
    pub(super) fn enter_fast(&self) -> bool {
        let enters = self.is_free();
        if enters {
            self.inside.store(true, Ordering::Relaxed);
        }
        enters
    }

    /// The other half of `enter_fast`, which was true.
    #[inline(always)]
    pub(super) fn leave_fast(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// `enter_again` of one who has left so.
    #[inline(always)]
    pub(super) fn come_back_fast(&self) {
        self.inside.store(true, Ordering::Relaxed);
    }

    #[inline(never)]
    fn unlock(&self) {
        self.given_back();
        // SAFETY: whoever leaves has entered.
        unsafe { self.lock.unlock() };
    }

    /// Leaves, and lets in whoever waits before the caller can come back: a thread that enters
    /// again and again would keep the others out.
    pub(super) fn leave_fairly(&self) {
        debug_assert!(self.is_lock());
        self.given_back();
        // SAFETY: whoever leaves has entered.
        unsafe { self.lock.unlock_fair() };
    }

    /// True when the caller is the one thread of a SINGLE worker and not inside: then it may act on
    /// its cells at once.
    #[inline]
    pub(crate) fn is_free_owner(&self) -> bool {
        self.rule() == ThreadMode::Single && this_thread() == self.owner && self.is_free()
    }

    /// Nobody is inside; for SINGLE and SERIALIZED.
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
