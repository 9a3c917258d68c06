//! What callers let go of, from any thread: a list that the owner works off, and, after its end, a
//! count of what is still in callers' hands.
//!
//! One word holds the list, newest first, or says that the owner has ended. So whoever gives
//! something back learns in one step which of the two it is: it was listed, and belongs to the
//! owner; or it was among those that the owner has counted at its end, and the last of them takes
//! the owner's memory with it.

use crate::engine::base::completion_queue::Node;
use crate::engine::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use std::ptr::{null_mut, without_provenance_mut};

/// In the place of a list once the owner has ended. Not a node: never followed.
const SHUT: usize = 1;

/// See the module.
pub(crate) struct RemoteFreeList<N> {
    list: AtomicPtr<N>,
    /// After the end: nodes still in callers' hands.
    held: AtomicUsize,
}

impl<N: Node> RemoteFreeList<N> {
    pub(crate) fn new() -> Self {
        RemoteFreeList { list: AtomicPtr::new(null_mut()), held: AtomicUsize::new(0) }
    }

    /// Takes in what has been given back. By the owner, whose the nodes are from here on.
    ///
    /// # Safety
    /// Nodes that were pushed are valid until they are visited.
    #[inline(always)]
    pub(crate) unsafe fn drain(&self, visit: impl FnMut(&N)) {
        if self.list.load(Ordering::Relaxed).is_null() {
            return;
        }
        // SAFETY: as for this function; all of it is ours.
        unsafe { for_each(self.list.swap(null_mut(), Ordering::Acquire), visit) };
    }

    /// The owner ends, while callers have `held` nodes, among them those on their way here. True
    /// when none is left: what they would have taken with them is its own to free.
    ///
    /// # Safety
    /// As for `drain`. What is freed with the last node stays until this has returned.
    pub(crate) unsafe fn shut(&self, held: usize) -> bool {
        // One more for ourselves, so that the count cannot reach zero while the list is worked off.
        self.held.store(held + 1, Ordering::Release);
        let list = self.list.swap(without_provenance_mut(SHUT), Ordering::AcqRel);
        let mut gone = 1;
        // SAFETY: as for this function.
        unsafe { for_each(list, |_| gone += 1) };
        self.held.fetch_sub(gone, Ordering::AcqRel) == gone
    }

    /// Gives a node back. True when the owner has ended and this was the last node: the caller
    /// frees what is left of it.
    ///
    /// # Safety
    /// The list is there until this node has been given back, and not always afterwards. The caller
    /// holds the node, and does not use it again.
    pub(crate) unsafe fn push(this: *const Self, node: *const N) -> bool {
        // SAFETY: as for this function. No reference to the list outlives a step of it.
        let mut head = unsafe { (*this).list.load(Ordering::Acquire) };
        while head.addr() != SHUT {
            // SAFETY: as above: it is not on the list yet.
            unsafe { (*node).set_next(head) };
            // SAFETY: as above. Once this has succeeded the node belongs to the owner.
            match unsafe {
                (*this).list.compare_exchange_weak(
                    head,
                    node.cast_mut(),
                    Ordering::Release,
                    Ordering::Acquire,
                )
            } {
                Ok(_) => return false,
                Err(now) => head = now,
            }
        }
        // SAFETY: the owner has counted this node, which has not gone until here.
        unsafe { (*this).held.fetch_sub(1, Ordering::AcqRel) == 1 }
    }
}

/// # Safety
/// A list of valid nodes, which are the caller's.
unsafe fn for_each<N: Node>(mut list: *const N, mut visit: impl FnMut(&N)) {
    // SAFETY: as for this function; the next one is read before the node can be used again.
    while let Some(node) = unsafe { list.as_ref() } {
        list = node.next();
        visit(node);
    }
}
