//! Checks the order in which threads take the engine's locks, in builds with debug assertions. In
//! other builds the locks are `parking_lot`'s, and nothing of this file is compiled.
//!
//! - **Classes.** All locks that are made at one place in the source form a class, as in Linux's
//!   lockdep.
//! - **Rule.** A thread that takes a lock of class B while it holds one of class A has shown the
//!   order A, B. A thread that shows the opposite, directly or through other classes, panics with
//!   the names of both. So a test finds a possible deadlock as soon as both orders have occurred,
//!   on any threads.
//! - **Two locks of one class** are taken by increasing address, as `lease_many` does with hubs.
//! - **try_lock** never waits, so it is not checked. Locks that are taken while it is held are.
//! - **Gates** of workers have two classes with a fixed order: see `gate::Gate`.

use parking_lot::{Mutex as Plain, WaitTimeoutResult};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::time::Duration;

/// More classes than there are, tests included.
const MOST: usize = 128;

/// Names of the fixed classes.
const GATES: [&str; 2] = ["a user's worker's gate", "a group's"];

/// Number of a class. Those of gates are fixed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    pub(crate) const USER_GATE: Class = Class(0);
    pub(crate) const SERVICE_GATE: Class = Class(1);
}

struct Order {
    /// Where the locks of each class are made; the classes of gates have no entry.
    places: Plain<Vec<&'static Location<'static>>>,
    /// For each class, a bit for each class that was taken while it was held.
    after: [[AtomicU64; 2]; MOST],
}

static ORDER: Order = {
    let mut after = [const { [const { AtomicU64::new(0) }; 2] }; MOST];
    after[Class::USER_GATE.0 as usize][0] = AtomicU64::new(1 << Class::SERVICE_GATE.0);
    Order { places: Plain::new(Vec::new()), after }
};

thread_local! {
    /// The locks that this thread holds: class and address.
    static HELD: RefCell<Vec<(Class, usize)>> = const { RefCell::new(Vec::new()) };
}

impl Order {
    fn class_of(&self, place: &'static Location<'static>) -> Class {
        let mut places = self.places.lock();
        let at = places.iter().position(|known| *known == place).unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        });
        let number = at + GATES.len();
        assert!(number < MOST, "lock order: more than {MOST} classes of locks");
        Class(number as u8)
    }

    fn name(&self, class: Class) -> String {
        match usize::from(class.0) {
            gate if gate < GATES.len() => GATES[gate].into(),
            other => format!("the lock of {}", self.places.lock()[other - GATES.len()]),
        }
    }

    /// Bit set of the classes that were taken while this class was held.
    fn after(&self, class: u32) -> u128 {
        let [low, high] = &self.after[class as usize];
        u128::from(low.load(Ordering::SeqCst)) | u128::from(high.load(Ordering::SeqCst)) << 64
    }

    /// Was `to` taken while `from` was held, directly or through a chain of other classes?
    fn leads(&self, from: Class, to: Class) -> bool {
        let (mut seen, mut next) = (0_u128, 1_u128 << from.0);
        while next & !seen != 0 {
            let class = (next & !seen).trailing_zeros();
            seen |= 1 << class;
            next |= self.after(class);
        }
        next >> to.0 & 1 == 1
    }

    /// Would waiting for `wanted` while `held` is held break the order?
    fn is_wrong(&self, held: (Class, usize), wanted: (Class, usize)) -> bool {
        let (first, second) = (held.0, wanted.0);
        if first == second {
            return usize::from(first.0) < GATES.len() || held.1 >= wanted.1;
        }
        let (word, bit) = (
            &self.after[usize::from(first.0)][usize::from(second.0 / 64)],
            1_u64 << (second.0 % 64),
        );
        if word.load(Ordering::Relaxed) & bit != 0 {
            return false;
        }
        if self.leads(second, first) {
            return true;
        }
        // Checks again after setting the bit: if two threads record opposite orders at the same
        // time, at least one of them sees the other's bit.
        word.fetch_or(bit, Ordering::SeqCst);
        let wrong = self.leads(second, first);
        if wrong {
            word.fetch_and(!bit, Ordering::SeqCst);
        }
        wrong
    }

    fn check(&self, held: (Class, usize), wanted: (Class, usize)) {
        if self.is_wrong(held, wanted) {
            let (second, first) = (self.name(wanted.0), self.name(held.0));
            panic!(
                "lock order: {second} is taken while {first} is held; the other way round \
                elsewhere"
            );
        }
    }
}

/// The thread is about to wait for a lock of this class at this address.
pub(crate) fn before(class: Class, at: usize) {
    let _ =
        HELD.try_with(|held| held.borrow().iter().for_each(|one| ORDER.check(*one, (class, at))));
}

/// The thread has taken it.
pub(crate) fn taken(class: Class, at: usize) {
    let _ = HELD.try_with(|held| held.borrow_mut().push((class, at)));
}

/// The thread has released it.
pub(crate) fn given_back(at: usize) {
    let _ = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(place) = held.iter().rposition(|one| one.1 == at) {
            held.remove(place);
        }
    });
}

/// The class of a lock, from the place where it was made. The number is assigned when the lock is
/// first taken.
pub(crate) struct Watched {
    made: &'static Location<'static>,
    /// 0 until a number is assigned.
    class: AtomicU8,
}

impl Watched {
    #[track_caller]
    pub(crate) const fn new() -> Self {
        Watched { made: Location::caller(), class: AtomicU8::new(0) }
    }

    pub(crate) fn before(&self, at: usize) {
        before(self.class(), at);
    }

    pub(crate) fn taken(&self, at: usize) {
        taken(self.class(), at);
    }

    fn class(&self) -> Class {
        match self.class.load(Ordering::Relaxed) {
            0 => {
                let class = ORDER.class_of(self.made);
                self.class.store(class.0, Ordering::Relaxed);
                class
            }
            class => Class(class),
        }
    }
}

/// Interface of `parking_lot::Mutex`.
pub(crate) struct Mutex<T> {
    watched: Watched,
    lock: Plain<T>,
}

impl<T> Mutex<T> {
    #[track_caller]
    pub(crate) const fn new(value: T) -> Self {
        Mutex { watched: Watched::new(), lock: Plain::new(value) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.watched.before(self.address());
        let guard = self.lock.lock();
        self.watched.taken(self.address());
        MutexGuard { address: self.address(), guard }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.lock.try_lock()?;
        self.watched.taken(self.address());
        Some(MutexGuard { address: self.address(), guard })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

pub(crate) struct MutexGuard<'a, T> {
    address: usize,
    guard: parking_lot::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        given_back(self.address);
    }
}

/// Interface of `parking_lot::Condvar`. A sleeping thread takes no locks, so the mutex stays listed
/// as held.
#[derive(Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar(parking_lot::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.guard);
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        longest: Duration,
    ) -> WaitTimeoutResult {
        self.0.wait_for(&mut guard.guard, longest)
    }

    pub(crate) fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    pub(crate) fn notify_all(&self) -> usize {
        self.0.notify_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(act: impl FnOnce() + Send) -> String {
        let ended = std::thread::scope(|scope| scope.spawn(act).join());
        *ended.expect_err("it does not panic").downcast::<String>().expect("a text")
    }

    fn both(first: &Mutex<()>, second: &Mutex<()>) {
        let _first = first.lock();
        drop(second.lock());
    }

    #[test]
    fn the_opposite_order_is_a_panic_that_names_both() {
        let (one, other) = (Mutex::new(()), Mutex::new(()));
        both(&one, &other);
        both(&one, &other);
        let text = panics(|| both(&other, &one));
        assert_eq!(text.matches("lockdep.rs:").count(), 2, "{text}");
        // A wrong order stays wrong, and a right one stays right.
        panics(|| both(&other, &one));
        both(&one, &other);
    }

    #[test]
    fn so_is_one_by_way_of_others_that_other_threads_have_shown() {
        let (first, second, third) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
        std::thread::scope(|scope| {
            scope.spawn(|| both(&first, &second));
            scope.spawn(|| both(&second, &third));
        });
        panics(|| both(&third, &first));
        both(&first, &third);
    }

    #[test]
    fn locks_of_one_class_go_by_their_addresses() {
        let row: Vec<_> = (0..3).map(|_| Mutex::new(())).collect();
        let all: Vec<_> = row.iter().map(Mutex::lock).collect();
        drop(all);
        let text = panics(|| both(&row[2], &row[0]));
        assert!(text.contains("lock order"), "{text}");
        panics(|| both(&row[1], &row[1]));
    }

    #[test]
    fn what_is_tried_waits_for_nobody() {
        let (one, other, last) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
        both(&one, &other);
        let held = other.lock();
        let tried = one.try_lock().expect("nobody has it");
        drop(held);
        drop(last.lock());
        drop(tried);
        // The lock from `try_lock` counted while it was held.
        panics(|| both(&last, &one));
    }

    #[test]
    fn who_sleeps_has_what_it_had() {
        let (one, other, bell) = (Mutex::new(false), Mutex::new(()), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rung = one.lock();
                while !*rung {
                    bell.wait(&mut rung);
                }
                drop(other.lock());
            });
            *one.lock() = true;
            bell.notify_all();
        });
        let text = panics(|| {
            let _held = other.lock();
            drop(one.lock());
        });
        assert!(text.contains("lock order"), "{text}");
    }

    #[test]
    fn a_service_holds_no_gate_when_it_enters_a_users() {
        let (user, service, other) = (0x10, 0x20, 0x30);
        before(Class::USER_GATE, user);
        taken(Class::USER_GATE, user);
        before(Class::SERVICE_GATE, service);
        given_back(user);
        let held = |class| {
            move |wanted| {
                panics(move || {
                    taken(class, other);
                    before(wanted, service);
                })
            }
        };
        assert!(held(Class::SERVICE_GATE)(Class::USER_GATE)
            .contains("a user's worker's gate is taken while a group's is held"));
        held(Class::USER_GATE)(Class::USER_GATE);
        held(Class::SERVICE_GATE)(Class::SERVICE_GATE);
    }
}
