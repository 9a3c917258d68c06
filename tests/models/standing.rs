//! A count against a limit: reserved on other threads, taken over and released by the owner, and
//! given back.

use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::base::split_counter::{look_again, Added, Removed, SplitCounter};
use crate::{bounded_model, model};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Account {
    added: Added,
    gone: Removed,
    ring: PermitQueue<u32>,
}

impl Account {
    fn new() -> Arc<Self> {
        let (added, gone) = (Added::default(), Removed::default());
        Arc::new(Account { added, gone, ring: PermitQueue::new(4) })
    }

    fn standing(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.added, gone: &self.gone }
    }

    /// Submits a send if there is room for it.
    fn submit(&self, limit: u64) -> bool {
        let room = self.standing().try_add(self.standing().look(), 1, |before| before < limit);
        if room {
            assert!(self.ring.take());
            self.ring.push(1);
        }
        room
    }
}

/// Two threads want the last place, and the holder of the other keeps it: one of them gets it,
/// whichever thread takes it over meanwhile.
#[test]
fn no_more_than_the_limit_is_promised() {
    model(|| {
        let account = Account::new();
        account.gone.subtract(1);
        let submitters = [1, 2].map(|_| {
            let account = account.clone();
            thread::spawn(move || account.submit(2))
        });
        // An entry that was taken over still counts.
        let mut seen = account.ring.drain(|_| ());
        let promised = submitters
            .map(|submitter| usize::from(submitter.join().unwrap()))
            .iter()
            .sum::<usize>();
        seen += account.ring.drain(|_| ());
        assert_eq!((promised, seen), (1, 1));
        assert_eq!(account.standing().get(), 2);
    });
}

/// A refusal is true of some moment. Of two places one is always free here, as the second thread
/// comes when the first entry has been released.
#[test]
fn nobody_is_refused_for_what_never_stood_together() {
    model(|| {
        let account = Account::new();
        account.gone.subtract(1);
        let submitter = |account: &Arc<Account>| {
            let account = account.clone();
            thread::spawn(move || account.submit(2))
        };
        let first = submitter(&account);
        account.gone.add(1);
        let second = submitter(&account);
        assert!(first.join().unwrap() && second.join().unwrap());
        assert_eq!(account.standing().get(), 2);
    });
}

/// The count never exceeds the limit, and is 0 at the end.
#[test]
fn what_goes_makes_room() {
    bounded_model(2, || {
        let account = Account::new();
        let inside = AtomicUsize::new(0);
        let submitters = [1, 2].map(|_| {
            let account = account.clone();
            thread::spawn(move || (0..2).filter(|_| account.submit(1)).count())
        });
        for _ in 0..2 {
            account.ring.drain(|_| {
                inside.fetch_add(1, Ordering::Relaxed);
                assert_eq!(account.standing().get(), 1);
                account.gone.add(1);
            });
            thread::yield_now();
        }
        let promised: usize = submitters.map(|submitter| submitter.join().unwrap()).iter().sum();
        account.ring.drain(|_| {
            inside.fetch_add(1, Ordering::Relaxed);
            account.gone.add(1);
        });
        assert!(promised >= 1);
        assert_eq!(inside.load(Ordering::Relaxed), promised);
        assert_eq!(account.standing().get(), 0);
        assert!(account.submit(1));
    });
}

/// One thread gives back a place that it had for a moment. Another, which was refused because of
/// it, has asked to be notified: either the notifying thread finds the room, or the thread that
/// gives it back finds the waiting one.
#[test]
fn room_that_is_given_back_is_told_of() {
    model(|| {
        let account = Account::new();
        let (armed, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        assert!(account.standing().try_add(0, 1, |before| before < 1));
        let (other, waits, tells) = (account.clone(), armed.clone(), told.clone());
        let giver = thread::spawn(move || {
            other.standing().give_back(1);
            look_again();
            if waits.load(Ordering::Relaxed) {
                tells.fetch_add(1, Ordering::Relaxed);
            }
        });
        armed.store(true, Ordering::Relaxed);
        look_again();
        if account.standing().get() == 0 {
            told.fetch_add(1, Ordering::Relaxed);
        }
        giver.join().unwrap();
        assert!(told.load(Ordering::Relaxed) > 0, "the waiting thread is not notified");
    });
}
