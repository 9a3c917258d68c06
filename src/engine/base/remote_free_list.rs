//! Objects that other threads release: a lock-free stack that the owner drains.
//!
//! `list` holds the stack, newest first, or `SHUT` once the owner has ended. So a thread that
//! releases an object learns in one atomic step which case it is in. If the owner lives, the object
//! is on the list and belongs to the owner. If the owner has ended, the thread decrements `held`,
//! the number of objects that callers still have, and the thread that releases the last one frees
//! the owner's memory.

use crate::engine::base::completion_queue::Node;
use crate::engine::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use std::ptr::{null_mut, without_provenance_mut};

/// Value of `list` after the owner's end. Not a node, never followed.
const SHUT: usize = 1;

/// See the head of this file.
pub(crate) struct RemoteFreeList<N> {
    list: AtomicPtr<N>,
    /// After the owner's end: nodes that callers still hold.
    held: AtomicUsize,
}

impl<N: Node> RemoteFreeList<N> {
    pub(crate) fn new() -> Self {
        RemoteFreeList { list: AtomicPtr::new(null_mut()), held: AtomicUsize::new(0) }
    }

    /// Takes all released nodes off the list. Called by the owner, which owns them from here on.
    ///
    /// # Safety
    /// Nodes that were pushed stay valid until `visit` has been called for them.
    #[inline(always)]
    pub(crate) unsafe fn drain(&self, visit: impl FnMut(&N)) {
        if self.list.load(Ordering::Relaxed).is_null() {
            return;
        }
        // SAFETY: the swap took the whole list, so no other thread has its nodes, and they are
        // valid by this function's contract.
        unsafe { for_each(self.list.swap(null_mut(), Ordering::Acquire), visit) };
    }

    /// The owner ends while callers hold `held` nodes, those on the list included. True if none is
    /// left: then the owner frees its memory itself.
    ///
    /// # Safety
    /// As for `drain`. The memory that the last node frees stays valid until this has returned.
    pub(crate) unsafe fn shut(&self, held: usize) -> bool {
        // One more for this call, so that the count cannot reach zero while the list is visited.
        self.held.store(held + 1, Ordering::Release);
        let list = self.list.swap(without_provenance_mut(SHUT), Ordering::AcqRel);
        let mut gone = 1;
        // SAFETY: the swap took the whole list, and its nodes are valid by this function's
        // contract.
        unsafe { for_each(list, |_| gone += 1) };
        self.held.fetch_sub(gone, Ordering::AcqRel) == gone
    }

    /// Releases a node. True if the owner has ended and this was the last node: the caller frees
    /// the owner's memory.
    ///
    /// # Safety
    /// The list is valid until this node has been released, and possibly not afterwards. The caller
    /// holds the node and does not use it again.
    pub(crate) unsafe fn push(this: *const Self, node: *const N) -> bool {
        // SAFETY: this node is not released yet, so the list is valid. No reference to the list
        // outlives a step.
        let mut head = unsafe { (*this).list.load(Ordering::Acquire) };
        while head.addr() != SHUT {
            // SAFETY: the caller holds the node, and it is not on the list yet.
            unsafe { (*node).set_next(head) };
            // SAFETY: the list is valid until this succeeds. Afterwards the node belongs to the
            // owner, and neither is used.
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
        // SAFETY: the owner has counted this node in `held`, so it keeps its memory until the count
        // reaches zero.
        unsafe { (*this).held.fetch_sub(1, Ordering::AcqRel) == 1 }
    }
}

/// # Safety
/// `list` is a list of valid nodes that belong to the caller.
unsafe fn for_each<N: Node>(mut list: *const N, mut visit: impl FnMut(&N)) {
    // SAFETY: valid by this function's contract; the link is read before `visit` can reuse the
    // node.
    while let Some(node) = unsafe { list.as_ref() } {
        list = node.next();
        visit(node);
    }
}
