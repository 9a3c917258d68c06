//! The notifier: where operations that name it are reported, in batches, to threads of the caller's
//! own. What else it hands out is in `notifier_events`.

use crate::engine::base::clock;
use crate::engine::base::completion_queue::{Found, Node, Pushed, Queue};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::push_foreign;
use crate::engine::core::request::notifier_events::Happened;
use crate::engine::core::request::request::{mark, Part, Slot, ENGINE, USER};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::event_fd::EventFd;
use crate::engine::ucx::context::{self, feature, Context};
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Bits of `Slot::outside`: who holds a request that names a notifier, beside the engine. All zero
/// for any other request.
pub(crate) mod outside {
    /// It names a notifier.
    pub(crate) const NOTIFIED: u8 = 1;
    /// It has not been polled yet.
    pub(crate) const QUEUE: u8 = 2;
    /// The caller has not let go of its request.
    pub(crate) const USER: u8 = 4;
}

/// A completion queue for the operations of any worker of one context.
///
/// **The slot is the queue's node.** A report allocates nothing and cannot fail for want of room,
/// because each operation brings the memory of its report along: the queue links the slots
/// themselves, through the link that is also used when a caller lets go of one, which cannot happen
/// at the same time.
///
/// **Who holds the slot.** For the engine, a slot that names a notifier is held from outside
/// (`hold`, USER) from the beginning, whether or not the caller kept a request; `Slot::outside`
/// tells who that is: the queue, until the report has been polled, and the caller, until it
/// destroys its request. Each of them clears its bit from whatever thread it is on, and the last
/// one hands the slot back to the worker through `foreign`, as any request that a caller lets go
/// of. So what a report tells is read from the slot while the queue still holds it, and a request
/// that is polled is valid until the caller destroys it.
///
/// **When the worker goes first**, it completes what is in flight with CANCELED, reports that, and
/// counts the slots that the queue holds among those that keep its memory, as it does with requests
/// that callers hold. The last one to be polled, or dropped with the notifier, takes the worker's
/// memory with it.
///
/// **When the notifier goes first**, the queue is emptied and refuses what comes later: the
/// operation then completes unreported, and its slot is freed by its worker as if nobody had asked.
/// Operations in flight hold a reference to `Core`, given back right after the report; reports
/// themselves hold none, so the two never keep each other alive.
pub struct Notifier {
    core: Arc<Core>,
}

/// What outlives the handle as long as operations in flight name it.
pub(crate) struct Core {
    context: Arc<Context>,
    queue: Queue<Slot>,
    /// Made on first use. Written to after a report that finds the queue armed.
    event: OnceLock<EventFd>,
}

/// One operation that has completed, or one event.
#[derive(Clone, Copy)]
pub struct Completion {
    /// What it tells of.
    pub happened: Happened,
    /// `callback_arg` of its parameters, or what it was asked for with.
    pub user_data: *mut c_void,
    /// Null if the caller kept no request, or has destroyed it.
    pub request: *mut Slot,
    /// Bytes of the message.
    pub length: u64,
    /// Its tag.
    pub sender_tag: u64,
    /// Never INPROGRESS.
    pub status: Status,
}

/// How a wait ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Waited {
    /// There is something to poll, perhaps.
    Ready,
    /// The time ran out.
    TimedOut,
}

// SAFETY: the link is touched by the queue alone while the slot is in it, and by `push_foreign`
// afterwards.
unsafe impl Node for Slot {
    #[inline]
    fn set_next(&self, next: *const Slot) {
        self.next_foreign.store(next.cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    fn next(&self) -> *const Slot {
        self.next_foreign.load(Ordering::Relaxed)
    }
}

impl Notifier {
    /// An empty one.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        context.check_fork()?;
        Ok(Notifier {
            core: Arc::new(Core {
                context: context.clone(),
                queue: Queue::new(),
                event: OnceLock::new(),
            }),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// May an operation of this context name it?
    pub(crate) fn check(&self, context: &Arc<Context>) -> Result<()> {
        if !Arc::ptr_eq(&self.core.context, context) {
            return Err(Error::invalid("notifier: of another context"));
        }
        if self.core.queue.is_stopped() {
            return Err(stopped());
        }
        Ok(())
    }

    /// Refuses use in a forked child.
    fn check_fork(&self) -> Result<()> {
        if self.core.context.generation.is_past() {
            return Err(context::forked("notifier"));
        }
        Ok(())
    }

    /// Waits until there is something to poll, or a signal handler has run on this thread. CLOSED
    /// when it has been stopped and is empty.
    pub fn wait(&self, timeout_ns: u64) -> Result<Waited> {
        self.check_fork()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        let deadline = clock::deadline_after(timeout_ns);
        // A reference of our own: destroying the notifier ends this wait, and must not take the
        // queue from under it.
        let core = self.core.clone();
        match core.queue.wait(|| clock::remaining(deadline)) {
            // The caller looks, finds nothing, and has the time to see what the handler has left
            // for it.
            Found::Something | Found::Interrupted => Ok(Waited::Ready),
            Found::Nothing => Ok(Waited::TimedOut),
            Found::Stopped => Err(stopped()),
        }
    }

    /// Hands up to `max` completions to `visit`, oldest first; how many. CLOSED when it has been
    /// stopped and is empty.
    pub fn poll(&self, max: usize, mut visit: impl FnMut(Completion)) -> Result<usize> {
        self.check_fork()?;
        let chain = self.core.queue.take(max).ok_or_else(stopped)?;
        let mut count = 0;
        for slot in chain {
            // SAFETY: just taken from the queue, which is given up for it here.
            visit(unsafe { take_report(slot) });
            count += 1;
        }
        Ok(count)
    }

    /// The descriptor for the caller's own event loop. It stays the library's.
    pub fn event_fd(&self) -> Result<libc::c_int> {
        self.check_fork()?;
        let core = &self.core;
        if !core.context.has(feature::WAKEUP) {
            return Err(context::missing_feature(feature::WAKEUP));
        }
        if let Some(event) = core.event.get() {
            return Ok(event.as_raw_fd());
        }
        let made = EventFd::new().map_err(|cause| {
            Error::new(Status::IO_ERROR, format!("notifier: no descriptor to wait on: {cause}"))
        })?;
        let fd = core.event.get_or_init(|| made).as_raw_fd();
        if core.queue.is_stopped_in_order() {
            core.ring();
        }
        Ok(fd)
    }

    /// Asks that the descriptor become readable with the next completion. False when there is
    /// something to poll first. CLOSED when it has been stopped and is empty. Where this is not
    /// true, the descriptor is readable.
    pub fn arm(&self) -> Result<bool> {
        self.event_fd()?;
        let core = &self.core;
        match core.queue.arm(|| core.silence(), || core.ring()) {
            Found::Nothing => Ok(true),
            Found::Something | Found::Interrupted => Ok(false),
            Found::Stopped => Err(stopped()),
        }
    }

    /// Refuses operations that name it from now on; what is in it, and what is in flight, can still
    /// be polled.
    pub fn stop(&self) -> Result<()> {
        self.check_fork()?;
        self.core.queue.stop();
        self.core.ring();
        Ok(())
    }

    /// The same, and drops what is in it and what still comes. In a forked child it does nothing.
    pub fn destroy(self) {
        if self.core.context.generation.is_past() {
            // Its lock may have been held by a thread that is not there any more.
            std::mem::forget(self);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        for slot in self.core.queue.shut() {
            // SAFETY: just taken from the queue; nobody else gets what it tells of.
            unsafe { take_report(slot).happened.drop_unseen() };
        }
        self.core.ring();
    }
}

impl Core {
    /// Adds what the slot tells of. False where it has been destroyed: the queue keeps nothing of
    /// it.
    ///
    /// # Safety
    /// The queue holds the slot from here until it has been taken, if this is true, and the slot is
    /// in no other list.
    pub(crate) unsafe fn add(&self, slot: &Slot) -> bool {
        // SAFETY: as for this function.
        match unsafe { self.queue.push(slot) } {
            Pushed::Quietly => true,
            Pushed::Ring => {
                self.ring();
                true
            }
            Pushed::Refused => false,
        }
    }

    fn ring(&self) {
        if let Some(event) = self.event.get() {
            event.ring();
        }
    }

    fn silence(&self) {
        if let Some(event) = self.event.get() {
            event.silence();
        }
    }
}

#[cold]
fn stopped() -> Error {
    Error::new(Status::CLOSED, "notifier: has been stopped")
}

/// Copies what the slot reports, and gives up the queue's hold on it.
///
/// # Safety
/// The slot was taken from its queue by the caller, who does not use it afterwards but as the
/// request that this returns.
unsafe fn take_report(slot: *const Slot) -> Completion {
    let (mut completion, left) = {
        // SAFETY: the queue holds the slot. Nobody writes the cells between the push, which the
        // taker has acquired, and the time when nobody outside holds the slot.
        let slot = unsafe { &*slot };
        let happened = match slot.part.get() {
            Part::Event(happened) => happened,
            _ => Happened::Operation,
        };
        let completion = Completion {
            happened,
            user_data: slot.callback_arg.get(),
            request: std::ptr::from_ref(slot).cast_mut(),
            length: slot.length.get(),
            sender_tag: slot.tag.get(),
            status: slot.outcome.get(),
        };
        if happened.is_the_slot() {
            slot.part.set(Part::Nothing);
            return Completion { request: null_mut(), sender_tag: 0, ..completion };
        }
        (completion, slot.outside.fetch_and(!outside::QUEUE, Ordering::AcqRel))
    };
    if left & outside::USER == 0 {
        completion.request = null_mut();
        // SAFETY: the last one outside who held it, as for this function.
        unsafe { push_foreign(slot) };
    }
    completion
}

/// The caller lets go of a request. True when the slot is nobody's any more and has to go back to
/// its worker.
///
/// # Safety
/// The caller holds the request, and does not use it again when this is false.
#[inline]
pub(crate) unsafe fn left_by_user(slot: *const Slot) -> bool {
    // SAFETY: as for this function.
    let bits = unsafe { &(*slot).outside };
    bits.load(Ordering::Relaxed) == 0
        || bits.fetch_and(!outside::USER, Ordering::AcqRel) & outside::QUEUE == 0
}

impl Slot {
    /// The operation is to be reported to `notifier`. By whoever owns the slot, before anybody
    /// outside sees the slot.
    pub(crate) fn name_notifier(&self, notifier: &Notifier) {
        self.name_core(&notifier.core);
    }

    pub(crate) fn name_core(&self, core: &Arc<Core>) {
        self.notifier.set(Arc::into_raw(core.clone()));
        self.hold.set(ENGINE | USER);
        let user = if self.has_mark(mark::GIVEN) { outside::USER } else { 0 };
        self.outside.store(outside::NOTIFIED | outside::QUEUE | user, Ordering::Relaxed);
    }

    /// It was reported and the report has been taken: whoever knows that need not wait for the
    /// engine's last steps.
    #[inline]
    pub(crate) fn was_polled(&self) -> bool {
        self.outside.load(Ordering::Acquire) & (outside::NOTIFIED | outside::QUEUE)
            == outside::NOTIFIED
    }
}

impl Worker {
    /// The completion of an operation that names a notifier: the result is visible, then it is
    /// reported, then waiters may go. False where the notifier has been destroyed.
    #[inline(never)]
    pub(crate) fn report(&self, slot: &Slot) -> bool {
        // SAFETY: the reference that `name_notifier` took, given back once.
        let core = unsafe { Arc::from_raw(slot.notifier.replace(std::ptr::null())) };
        slot.publish_status();
        // SAFETY: held by the queue's bit from here until it has been taken, and in no list of
        // ours.
        let added = unsafe { core.add(slot) };
        if !added && slot.outside.fetch_and(!outside::QUEUE, Ordering::AcqRel) & outside::USER == 0
        {
            slot.hold.set(slot.hold.get() & !USER);
        }
        self.finish(slot);
        added
    }
}
