//! References to a worker, or to what belongs to one, that lie where only those come who are inside
//! its gate: in its own cells, and in those of its endpoints.

use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::worker::worker::Worker;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// What any thread may hold, and of which those see more who are inside.
///
/// # Safety
/// `Inside` is neither `Send` nor `Sync`.
pub(crate) unsafe trait Guarded {
    /// What these see.
    type Inside;

    /// Shows it.
    ///
    /// # Safety
    /// The calling thread is inside the gate, and uses it no longer than that. UCP's callbacks are,
    /// as UCP is called from inside alone.
    unsafe fn inside(&self) -> &Self::Inside;
}

/// Neither `Send` nor `Sync`: a second implementation would leave it open which one is meant.
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

/// Such a reference. It stays on its thread.
pub(crate) struct Inward<T>(Arc<T>, PhantomData<*const T>);

impl<T> Inward<T> {
    /// # Safety
    /// It is kept where only those reach it who are inside the gate, or used no longer than the
    /// calling thread is.
    pub(crate) unsafe fn new(object: Arc<T>) -> Self {
        Inward(object, PhantomData)
    }

    /// As any thread may hold it.
    pub(crate) fn into_outward(self) -> Arc<T> {
        self.0
    }

    /// A reference that is given back by `Arc::from_raw`.
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

/// What belongs to the one who is inside, among what any thread may touch.
#[derive(Default)]
pub(crate) struct Gated<T>(T);

// SAFETY: `get` shows it to the one who is inside the gate, which admits one thread at a time.
unsafe impl<T> Send for Gated<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Gated<T> {}

impl<T> Gated<T> {
    pub(crate) fn new(object: T) -> Self {
        Gated(object)
    }

    /// For the one who is inside the gate of the worker to which it belongs.
    pub(crate) fn get(&self, _inside: &Worker) -> &T {
        &self.0
    }
}

impl<T: Guarded> Deref for Inward<T> {
    type Target = T::Inside;
    #[inline(always)]
    fn deref(&self) -> &T::Inside {
        // SAFETY: as `new` was promised.
        unsafe { self.0.inside() }
    }
}
