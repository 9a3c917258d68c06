//! Replaces the kernel's barrier on every processor. Without that barrier a thread's store may take
//! effect after its next load, so that store is delayed here. The kernel's barrier happens before
//! both or after both.

use loom::sync::Mutex;

loom::lazy_static! {
    /// Held from the load to the store. One mutex for all processors, because the threads do not
    /// interact here.
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
