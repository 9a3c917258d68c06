//! The order in which one thread takes the engine's locks, watched in builds with debug assertions.
//! In others the locks are `parking_lot`'s, and nothing of this is left.
//!
//! Locks that are made at one place in the source are of one class. Whoever takes a lock while it
//! holds another one has shown that their classes are taken in that order; who shows the opposite,
//! straight or by way of others, panics, and says which they are. So a test in which two threads
//! would wait for each other once in a million runs fails the first time that both orders have been
//! seen, on whatever threads. Of two locks of one class the one at the lower address is taken
//! first, as the hubs of `lease_many` are. What is only tried waits for nobody; what is taken while
//! it is held counts.
//!
//! The gates of workers have two classes, and an order that is known before anything has been
//! taken: see `gate::Gate`.

use parking_lot::{Mutex as Plain, WaitTimeoutResult};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::time::Duration;

/// More than there are, in the tests as well.
const MOST: usize = 128;

/// Classes that are known before anything is taken.
const GATES: [&str; 2] = ["a user's worker's gate", "a group's"];

/// A class, by its number. Those of gates are fixed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    pub(crate) const USER_GATE: Class = Class(0);
    pub(crate) const SERVICE_GATE: Class = Class(1);
}

/// Which classes have been taken while one was held.
struct Order {
    /// Of all classes but those of gates.
    places: Plain<Vec<&'static Location<'static>>>,
    /// For each class those that have been taken while it was held, bit by bit.
    after: [[AtomicU64; 2]; MOST],
}

static ORDER: Order = {
    let mut after = [const { [const { AtomicU64::new(0) }; 2] }; MOST];
    after[Class::USER_GATE.0 as usize][0] = AtomicU64::new(1 << Class::SERVICE_GATE.0);
    Order { places: Plain::new(Vec::new()), after }
};

thread_local! {
    /// What this thread holds, by class and address.
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

    /// Those that have been taken while it was held, bit by bit.
    fn after(&self, class: u32) -> u128 {
        let [low, high] = &self.after[class as usize];
        u128::from(low.load(Ordering::SeqCst)) | u128::from(high.load(Ordering::SeqCst)) << 64
    }

    /// Has it been taken while that one was held, or one that had been taken while it was, and so
    /// on?
    fn leads(&self, from: Class, to: Class) -> bool {
        let (mut seen, mut next) = (0_u128, 1_u128 << from.0);
        while next & !seen != 0 {
            let class = (next & !seen).trailing_zeros();
            seen |= 1 << class;
            next |= self.after(class);
        }
        next >> to.0 & 1 == 1
    }

    /// About to wait for it. Is it out of order?
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
        // Once more when it is marked: of two threads that do the opposite at the same time one
        // sees the other's mark.
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

/// About to wait for a lock of this class, at this address.
pub(crate) fn before(class: Class, at: usize) {
    let _ =
        HELD.try_with(|held| held.borrow().iter().for_each(|one| ORDER.check(*one, (class, at))));
}

/// It has been taken.
pub(crate) fn taken(class: Class, at: usize) {
    let _ = HELD.try_with(|held| held.borrow_mut().push((class, at)));
}

/// And is given back.
pub(crate) fn given_back(at: usize) {
    let _ = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(place) = held.iter().rposition(|one| one.1 == at) {
            held.remove(place);
        }
    });
}

/// The class of a lock, by where it was made, known from the first time on that it is taken.
pub(crate) struct Watched {
    made: &'static Location<'static>,
    /// 0 while it is not known.
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

/// As `parking_lot`'s.
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

/// As `parking_lot`'s. Who sleeps in it takes nothing meanwhile.
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
        // What was wrong once is so again, and what was right is not.
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
        // It counted while it was held.
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
