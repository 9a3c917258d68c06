//! The user's handlers by message id: one table for each kind of handler, read for every message.
//! Used inside the gate.
//!
//! A handler that is running while it is replaced or removed is kept until it has returned. Its
//! argument is destroyed after that, outside the gate, because that runs user code.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::Result;
use crate::engine::core::channel::message::MessageHandler;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context::feature;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::rc::Rc;

/// Frees the argument that a handler was registered with.
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
            // SAFETY: the user's function for its own argument, called once.
            unsafe { destroy.call_out((self.arg,)) };
        }
    }
}

const PAGE: usize = 256;
type Page<F> = [Option<Rc<Handler<F>>>; PAGE];

/// The handlers of 65,536 ids. No user code runs while a reference into the table exists: each
/// method returns first, and what was replaced is still alive then.
pub(crate) struct Handlers<F> {
    pages: UnsafeCell<[Option<Box<Page<F>>>; PAGE]>,
}

impl<F> Default for Handlers<F> {
    fn default() -> Self {
        Handlers { pages: UnsafeCell::new([const { None }; PAGE]) }
    }
}

impl<F> Handlers<F> {
    /// For a look-up; the reference must not be kept.
    #[inline(always)]
    fn pages(&self) -> &[Option<Box<Page<F>>>; PAGE] {
        // SAFETY: see the type: only the thread inside the gate reads the table, and it changes
        // nothing meanwhile.
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

    /// Sets the handler of an id. Returns the one that it replaces.
    pub(crate) fn set(&self, id: u16, handler: Option<Handler<F>>) -> Option<Rc<Handler<F>>> {
        let [page, entry] = id.to_be_bytes();
        // SAFETY: see the type: no reference into the table exists.
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
        // SAFETY: see the type: no reference into the table exists.
        let pages: Vec<_> =
            unsafe { &mut *self.pages.get() }.iter_mut().filter_map(Option::take).collect();
        pages.into_iter().flat_map(|page| page.into_iter().flatten()).collect()
    }
}

impl SharedWorker {
    /// Calls `function` for active messages with this id from now on; None drops them. The previous
    /// registration is destroyed when it is not running any more.
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

    /// Drops these handlers.
    pub(crate) fn drop_all<F>(&self, handlers: Vec<Rc<Handler<F>>>) {
        handlers.into_iter().for_each(|handler| self.drop_handler(handler));
    }

    /// Drops a handler that has returned or was replaced.
    #[inline(always)]
    pub(crate) fn drop_handler<F>(&self, handler: Rc<Handler<F>>) {
        if Rc::strong_count(&handler) == 1 {
            self.end_handler(handler);
        }
    }

    /// Out of line, with the look-up of thread-local storage that it needs: otherwise each message
    /// would pay for that.
    #[cold]
    #[inline(never)]
    fn end_handler<F>(&self, handler: Rc<Handler<F>>) {
        self.outside(|| drop(handler));
    }
}
