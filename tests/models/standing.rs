//! What stands before a limit: promised outside, taken over and gone inside, and given back.

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

    /// Hands a send over if there is room for it.
    fn submit(&self, limit: u64) -> bool {
        let room = self.standing().try_add(self.standing().look(), 1, |before| before < limit);
        if room {
            assert!(self.ring.take());
            self.ring.push(1);
        }
        room
    }
}

/// Two threads want the last place, and what has it stays: one of them gets it, whoever takes it
/// over meanwhile.
#[test]
fn no_more_than_the_limit_is_promised() {
    model(|| {
        let account = Account::new();
        account.gone.subtract(1);
        let submitters = [1, 2].map(|_| {
            let account = account.clone();
            thread::spawn(move || account.submit(2))
        });
        // What is taken over stands all the same.
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

/// A refusal is true of some moment: of two places one is free all the time, as the second thread
/// comes when what stood there has gone.
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

/// What passes through is never more than the limit, and the accounts are even at the end.
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

/// One gives back what it had for a moment, and another one, who was refused for that, has asked to
/// be told: either the one who tells finds the room, or the one who gives it back finds that
/// somebody waits.
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
        assert!(told.load(Ordering::Relaxed) > 0, "nobody is told");
    });
}
