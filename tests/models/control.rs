//! The list for calls that find no place in the ring.

use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::core::worker::control_list::Control;
use crate::{bounded_model, model};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

/// The list opens and closes while others put: an entry has been taken when the list is closed, or
/// it was refused.
#[test]
fn what_is_put_is_taken_or_refused() {
    model(|| {
        let control: Arc<Control<Vec<u32>>> = Arc::new(Control::default());
        let refused = Arc::new(AtomicUsize::new(0));
        let others = [1, 2].map(|number| {
            let (control, refused) = (control.clone(), refused.clone());
            thread::spawn(move || {
                if !control.put(|list| list.push(number)) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        control.open();
        let (mut seen, mut list) = (0, Vec::new());
        if control.is_pending() {
            control.take(&mut list, false);
            assert!(!list.is_empty());
            seen += list.drain(..).count();
        }
        control.take(&mut list, true);
        seen += list.drain(..).count();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(!control.is_pending());
        assert_eq!(seen + refused.load(Ordering::Relaxed), 2);
    });
}

/// The list is taken before the ring is drained, and executed afterwards: a thread's earlier
/// submissions run before its entry in the list, even if they fall into two rounds.
#[test]
fn what_was_submitted_comes_before_the_job() {
    bounded_model(4, || {
        let control: Arc<Control<Vec<u32>>> = Arc::new(Control::default());
        let ring = Arc::new(PermitQueue::new(2));
        control.open();
        let (other_control, other_ring) = (control.clone(), ring.clone());
        let other = thread::spawn(move || {
            assert!(other_ring.take());
            other_ring.push(1);
            assert!(other_control.put(|list| list.push(2)));
        });
        let (mut seen, mut list) = (Vec::new(), Vec::new());
        while seen.len() < 2 {
            if control.is_pending() {
                control.take(&mut list, false);
            }
            ring.drain(|number| seen.push(number));
            seen.append(&mut list);
            thread::yield_now();
        }
        assert_eq!(seen, [1, 2]);
        other.join().unwrap();
    });
}
