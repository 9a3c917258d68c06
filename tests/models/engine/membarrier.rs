//! Stands in for the barrier that the kernel makes on every processor: without it, what the many
//! store may come to pass after what they load next. That is what they do here. The kernel's
//! barrier falls before both of them, or after both.

use loom::sync::Mutex;

loom::lazy_static! {
    /// Held from the load to the store. One for all processors: the many do not meet each other
    /// here.
    static ref PROCESSORS: Mutex<()> = Mutex::new(());
}

pub(crate) fn store_then_load<T>(store: impl FnOnce(), load: impl FnOnce() -> T) -> T {
    let _processor = PROCESSORS.lock().unwrap();
    let loaded = load();
    store();
    loaded
}

pub(crate) fn everywhere() -> bool {
    drop(PROCESSORS.lock().unwrap());
    true
}
