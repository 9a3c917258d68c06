//! Handlers that messages name by owner and number, as UCXX names its receiver callbacks.

use crate::engine::base::status::Result;
use crate::engine::core::channel::handler_table::{DestroyArg, Handler};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::messaging::am::multi::MultiHandler;
use crate::engine::ucx::context::feature;
use crate::engine::wire::ucxx_am::CallbackName;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;

/// The handlers of a worker.
#[derive(Default)]
pub(crate) struct QueueHandlers(RefCell<HashMap<CallbackName, Rc<Handler<MultiHandler>>>>);

impl QueueHandlers {
    pub(crate) fn find(&self, name: &CallbackName) -> Option<Rc<Handler<MultiHandler>>> {
        self.0.borrow().get(name).cloned()
    }

    fn set(
        &self,
        name: CallbackName,
        handler: Option<Handler<MultiHandler>>,
    ) -> Option<Rc<Handler<MultiHandler>>> {
        let mut handlers = self.0.borrow_mut();
        match handler {
            Some(handler) => handlers.insert(name, Rc::new(handler)),
            None => handlers.remove(&name),
        }
    }

    /// Removes all.
    pub(crate) fn clear(&self) -> Vec<Rc<Handler<MultiHandler>>> {
        self.0.take().into_values().collect()
    }
}

impl SharedWorker {
    /// Calls `handler` for messages with this name from now on; None drops them. See
    /// `set_am_handler`.
    pub fn set_queue_handler(
        &self,
        name: CallbackName,
        handler: Option<MultiHandler>,
        arg: *mut c_void,
        destroy: Option<DestroyArg>,
    ) -> Result<()> {
        self.on_owner(|inside| {
            inside.need(feature::AM)?;
            let before = inside
                .queue_handlers()
                .set(name, handler.map(|function| Handler::new(function, arg, destroy)));
            before.into_iter().for_each(|before| inside.drop_handler(before));
            Ok(())
        })
    }
}
