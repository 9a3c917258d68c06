//! The submission ring: slots, closing, and cancelling entries in it.

use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::core::request::queue_state::Stage;
use crate::model;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

/// Two threads want the last slot: one is refused, the accepted entry comes out, and the slot can
/// be used again.
#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    model(|| {
        let ring = Arc::new(PermitQueue::new(1));
        let submitters = [1, 2].map(|number| {
            let ring = ring.clone();
            thread::spawn(move || {
                let room = ring.take();
                if room {
                    ring.push(number);
                }
                usize::from(room)
            })
        });
        let mut seen = 0;
        seen += ring.drain(|_| ());
        let taken_in: usize = submitters.map(|submitter| submitter.join().unwrap()).iter().sum();
        seen += ring.drain(|_| ());
        assert!(taken_in >= 1);
        assert_eq!(seen, taken_in);
        assert!(ring.is_settled() && ring.take());
    });
}

/// Each thread's entries come out in the order in which they were submitted, around the ring.
#[test]
fn the_order_of_a_thread_is_kept() {
    model(|| {
        let ring = Arc::new(PermitQueue::new(2));
        let other = ring.clone();
        let submitter = thread::spawn(move || {
            for number in [1, 2, 3] {
                while !other.take() {
                    thread::yield_now();
                }
                other.push(number);
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            ring.drain(|number| seen.push(number));
            thread::yield_now();
        }
        assert_eq!(seen, [1, 2, 3]);
        submitter.join().unwrap();
    });
}

/// The end of a worker: `closed` is set, and the ring is drained until it has settled. Entries
/// being submitted have been taken out by then, and later ones are refused.
#[test]
fn nothing_comes_in_after_it_has_settled() {
    model(|| {
        let ring = Arc::new(PermitQueue::new(2));
        let closed = Arc::new(AtomicBool::new(false));
        let gone = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicUsize::new(0));
        let submitters = [1, 2].map(|number| {
            let (ring, closed, gone, refused) =
                (ring.clone(), closed.clone(), gone.clone(), refused.clone());
            thread::spawn(move || {
                assert!(ring.take());
                if closed.load(Ordering::SeqCst) {
                    ring.give_back(1);
                    refused.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // What is accessed here is freed once the ring has settled.
                assert!(!gone.load(Ordering::Relaxed));
                ring.push(number);
            })
        });
        closed.swap(true, Ordering::SeqCst);
        let mut seen = 0;
        loop {
            seen += ring.drain(|_| ());
            if ring.is_settled() {
                break;
            }
            thread::yield_now();
        }
        gone.store(true, Ordering::Relaxed);
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        assert_eq!(seen + refused.load(Ordering::Relaxed), 2);
        assert!(ring.is_empty());
    });
}

struct Slot {
    stage: Stage,
    /// Written by the submitting thread and read by the owner; loom reports a race.
    queued: UnsafeCell<u32>,
}

/// Two threads cancel an entry while it is taken out: it is submitted or cancelled, never both or
/// neither, and a thread that got "cancelled" is right.
#[test]
fn it_is_either_submitted_or_cancelled() {
    model(|| {
        let ring = Arc::new(PermitQueue::new(1));
        let slot = Arc::new(Slot { stage: Stage::new(), queued: UnsafeCell::new(0) });
        assert!(ring.take());
        // SAFETY: loom refuses concurrent access.
        slot.queued.with_mut(|queued| unsafe { *queued = 7 });
        slot.stage.enqueue();
        ring.push(slot.clone());
        let cancellers = [(); 2].map(|()| {
            let slot = slot.clone();
            thread::spawn(move || slot.stage.cancel())
        });
        let mut submitted = None;
        while submitted.is_none() {
            ring.drain(|slot: Arc<Slot>| {
                // SAFETY: as above.
                assert_eq!(slot.queued.with(|queued| unsafe { *queued }), 7);
                submitted = Some(slot.stage.dequeue());
            });
        }
        let cancelled = cancellers.map(|canceller| canceller.join().unwrap());
        assert_eq!(submitted, Some(!cancelled.contains(&true)));
        assert!(!slot.stage.cancel());
    });
}
