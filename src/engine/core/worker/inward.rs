//! References that only the thread inside the gate can reach: to a worker, or to objects that
//! belong to one. They are stored in the cells of the worker and its endpoints.
//!
//! `Inward<T>` is an `Arc` that gives access to the inside view. `Gated<T>` is a value in a shared
//! object that only the thread inside may use.

use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::worker::worker::Worker;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// An object that any thread may hold, and that gives more access to the thread inside the gate.
///
/// # Safety
/// `Inside` is neither `Send` nor `Sync`.
pub(crate) unsafe trait Guarded {
    /// The view of the thread inside.
    type Inside;

    /// Returns the inside view.
    ///
    /// # Safety
    /// The calling thread is inside the gate, and stays there while it uses the reference. UCP's
    /// callbacks are inside, because UCP is only called from inside.
    unsafe fn inside(&self) -> &Self::Inside;
}

/// Fails to compile if the type is `Send` or `Sync`: a second implementation would then make the
/// call ambiguous.
const _: () = {
    trait StaysOnItsThread<Which> {
        fn check() {}
    }
    impl<T> StaysOnItsThread<()> for T {}
    impl<T: Send> StaysOnItsThread<u8> for T {}
    impl<T: Sync> StaysOnItsThread<u16> for T {}
    let _ = <Worker as StaysOnItsThread<_>>::check;
    let _ = <Endpoint as StaysOnItsThread<_>>::check;
    let _ = <Inward<Worker> as StaysOnItsThread<_>>::check;
};

/// A reference from inside the gate. It stays on its thread.
pub(crate) struct Inward<T>(Arc<T>, PhantomData<*const T>);

impl<T> Inward<T> {
    /// # Safety
    /// Only the thread inside the gate can reach it where it is stored, or it is used only while
    /// the calling thread is inside.
    pub(crate) unsafe fn new(object: Arc<T>) -> Self {
        Inward(object, PhantomData)
    }

    /// Converts it into a reference that any thread may hold.
    pub(crate) fn into_outward(self) -> Arc<T> {
        self.0
    }

    /// Converts it into a pointer, which `Arc::from_raw` takes back.
    pub(crate) fn into_raw(self) -> *const T {
        Arc::into_raw(self.0)
    }

    /// As `into_outward`.
    #[inline(always)]
    pub(crate) fn outward(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T> Clone for Inward<T> {
    fn clone(&self) -> Self {
        Inward(self.0.clone(), PhantomData)
    }
}

/// A value that only the thread inside the gate may use, in an object that any thread may hold.
#[derive(Default)]
pub(crate) struct Gated<T>(T);

// SAFETY: `get` gives access only to the thread inside the gate, which admits one thread at a time.
unsafe impl<T> Send for Gated<T> {}
// SAFETY: for the reason given at `Send`.
unsafe impl<T> Sync for Gated<T> {}

impl<T> Gated<T> {
    pub(crate) fn new(object: T) -> Self {
        Gated(object)
    }

    /// For the thread inside the gate of the worker that the value belongs to.
    pub(crate) fn get(&self, _inside: &Worker) -> &T {
        &self.0
    }
}

impl<T: Guarded> Deref for Inward<T> {
    type Target = T::Inside;
    #[inline(always)]
    fn deref(&self) -> &T::Inside {
        // SAFETY: the caller of `new` guaranteed it.
        unsafe { self.0.inside() }
    }
}
