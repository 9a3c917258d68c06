//! The engine's files under their module names, on the replacements beside this file.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../src/engine/base"]
pub(crate) mod base {
    pub(crate) mod cache_line;
    #[path = "../../../tests/models/engine/clock.rs"]
    pub(crate) mod clock;
    pub(crate) mod completion_queue;
    pub(crate) mod condition;
    pub(crate) mod event_count;
    #[path = "../../../tests/models/engine/futex.rs"]
    pub(crate) mod futex;
    #[path = "../../../tests/models/engine/membarrier.rs"]
    pub(crate) mod membarrier;
    pub(crate) mod permit_queue;
    pub(crate) mod remote_free_list;
    pub(crate) mod spin_lock;
    pub(crate) mod split_counter;
    pub(crate) mod status;
    #[path = "../../../tests/models/engine/sync.rs"]
    pub(crate) mod sync;
}
#[path = "../../../src/engine/wire"]
pub(crate) mod wire {
    pub(crate) mod sync_constants;
}
#[path = "../../../src/engine/core"]
pub(crate) mod core {
    pub(crate) mod request {
        pub(crate) mod completion_flag;
        pub(crate) mod queue_state;
    }
    pub(crate) mod worker {
        pub(crate) mod control_list;
        pub(crate) mod sleep_flag;
        pub(crate) mod thread_state;
    }
    pub(crate) mod channel {
        pub(crate) mod shm_ring;
    }
}
#[path = "../../../src/engine/window"]
pub(crate) mod window {
    pub(crate) mod lock {
        pub(crate) mod lock_memory;
        pub(crate) mod rw_lock;
    }
    pub(crate) mod data {
        pub(crate) mod exclusive_bulk;
    }
    pub(crate) mod delegation {
        pub(crate) mod slot_state;
    }
}
#[path = "../../../src/engine/hub"]
pub(crate) mod hub {
    pub(crate) mod waiters;
    pub(crate) mod lockfree {
        pub(crate) mod queue_pair;
    }
}
