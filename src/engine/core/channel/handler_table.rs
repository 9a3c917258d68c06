//! What the user has registered for the ids of messages: one table for each kind of handler, read
//! for every message.
//!
//! A handler that runs while it is replaced or removed stays until it has returned; its argument is
//! destroyed after that, outside the gate, as that is the user's code.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::Result;
use crate::engine::core::channel::message::MessageHandler;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context::feature;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::rc::Rc;

/// Frees what a handler was registered with.
pub type DestroyArg = unsafe extern "C" fn(*mut c_void);

/// A handler and its argument.
pub(crate) struct Handler<F> {
    pub(crate) function: F,
    pub(crate) arg: *mut c_void,
    destroy: Option<DestroyArg>,
}

impl<F> Handler<F> {
    pub(crate) fn new(function: F, arg: *mut c_void, destroy: Option<DestroyArg>) -> Self {
        Handler { function, arg, destroy }
    }
}

impl<F> Drop for Handler<F> {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: as the user registered it; once.
            unsafe { destroy.call_out((self.arg,)) };
        }
    }
}

const PAGE: usize = 256;
type Page<F> = [Option<Rc<Handler<F>>>; PAGE];

/// The handlers of 65,536 ids. No user code runs while a reference to what is in it lives: each of
/// its functions ends before, with what was replaced still there.
pub(crate) struct Handlers<F> {
    pages: UnsafeCell<[Option<Box<Page<F>>>; PAGE]>,
}

impl<F> Default for Handlers<F> {
    fn default() -> Self {
        Handlers { pages: UnsafeCell::new([const { None }; PAGE]) }
    }
}

impl<F> Handlers<F> {
    /// To be looked at, and not kept.
    #[inline(always)]
    fn pages(&self) -> &[Option<Box<Page<F>>>; PAGE] {
        // SAFETY: see the type: who is inside the gate is the only one to look, and changes nothing
        // meanwhile.
        unsafe { &*self.pages.get() }
    }

    #[inline(always)]
    pub(crate) fn find(&self, id: u16) -> Option<Rc<Handler<F>>> {
        let [page, entry] = id.to_be_bytes();
        self.pages()[usize::from(page)].as_ref()?[usize::from(entry)].clone()
    }

    #[inline]
    pub(crate) fn has(&self, id: u16) -> bool {
        let [page, entry] = id.to_be_bytes();
        self.pages()[usize::from(page)]
            .as_ref()
            .is_some_and(|page| page[usize::from(entry)].is_some())
    }

    /// The handler of the id from now on; with the one that it replaces.
    pub(crate) fn set(&self, id: u16, handler: Option<Handler<F>>) -> Option<Rc<Handler<F>>> {
        let [page, entry] = id.to_be_bytes();
        // SAFETY: see the type.
        let pages = unsafe { &mut *self.pages.get() };
        let place = &mut pages[usize::from(page)];
        if place.is_none() && handler.is_none() {
            return None;
        }
        let page = place.get_or_insert_with(|| Box::new([const { None }; PAGE]));
        std::mem::replace(&mut page[usize::from(entry)], handler.map(Rc::new))
    }

    /// Removes all.
    pub(crate) fn clear(&self) -> Vec<Rc<Handler<F>>> {
        // SAFETY: see the type.
        let pages: Vec<_> =
            unsafe { &mut *self.pages.get() }.iter_mut().filter_map(Option::take).collect();
        pages.into_iter().flat_map(|page| page.into_iter().flatten()).collect()
    }
}

impl SharedWorker {
    /// Has `function` called for active messages with this id from now on, or nobody. What was
    /// registered before is destroyed when it is not running any more.
    pub fn set_am_handler(
        &self,
        id: u16,
        function: Option<MessageHandler>,
        arg: *mut c_void,
        destroy: Option<DestroyArg>,
    ) -> Result<()> {
        self.set_handler(|inside| &inside.am_handlers, id, function, arg, destroy)
    }

    pub(crate) fn set_handler<F>(
        &self,
        table: impl Fn(&Worker) -> &Handlers<F>,
        id: u16,
        function: Option<F>,
        arg: *mut c_void,
        destroy: Option<DestroyArg>,
    ) -> Result<()> {
        self.on_owner(|inside| {
            inside.need(feature::AM)?;
            let handler = function.map(|function| Handler::new(function, arg, destroy));
            let before = table(inside).set(id, handler);
            before.into_iter().for_each(|before| inside.drop_handler(before));
            Ok(())
        })
    }
}

impl Worker {
    /// At the end of the worker.
    pub(crate) fn drop_handlers(&self) {
        self.drop_all(self.am_handlers.clear());
    }

    /// Lets go of these.
    pub(crate) fn drop_all<F>(&self, handlers: Vec<Rc<Handler<F>>>) {
        handlers.into_iter().for_each(|handler| self.drop_handler(handler));
    }

    /// Lets go of a handler that has returned, or was replaced.
    #[inline(always)]
    pub(crate) fn drop_handler<F>(&self, handler: Rc<Handler<F>>) {
        if Rc::strong_count(&handler) == 1 {
            self.end_handler(handler);
        }
    }

    /// Out of line, with the look-up of the thread's storage that it takes: else that is done for
    /// each message.
    #[cold]
    #[inline(never)]
    fn end_handler<F>(&self, handler: Rc<Handler<F>>) {
        self.outside(|| drop(handler));
    }
}
