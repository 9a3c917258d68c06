//! The engine's files under the names by which they know each other, on the stand-ins beside this file.
#![allow(dead_code, unreachable_pub)]

pub(crate) mod asymmetric;
pub(crate) mod futex;
pub(crate) mod sync;
pub(crate) mod timer;

#[path = "../../../src/engine/brief.rs"]
pub(crate) mod brief;
#[path = "../../../src/engine/bulk.rs"]
pub(crate) mod bulk;
#[path = "../../../src/engine/cache_line.rs"]
pub(crate) mod cache_line;
#[path = "../../../src/engine/completion_queue.rs"]
pub(crate) mod completion_queue;
#[path = "../../../src/engine/control.rs"]
pub(crate) mod control;
#[path = "../../../src/engine/done.rs"]
pub(crate) mod done;
#[path = "../../../src/engine/event_count.rs"]
pub(crate) mod event_count;
#[path = "../../../src/engine/fast_box.rs"]
pub(crate) mod fast_box;
#[path = "../../../src/engine/given_back.rs"]
pub(crate) mod given_back;
#[path = "../../../src/engine/hub_lane.rs"]
pub(crate) mod hub_lane;
#[path = "../../../src/engine/hub_sides.rs"]
pub(crate) mod hub_sides;
#[path = "../../../src/engine/places.rs"]
pub(crate) mod places;
#[path = "../../../src/engine/presence.rs"]
pub(crate) mod presence;
#[path = "../../../src/engine/sleep_flag.rs"]
pub(crate) mod sleep_flag;
#[path = "../../../src/engine/stage.rs"]
pub(crate) mod stage;
#[path = "../../../src/engine/standing.rs"]
pub(crate) mod standing;
#[path = "../../../src/engine/status.rs"]
pub(crate) mod status;
#[path = "../../../src/engine/sync_call.rs"]
pub(crate) mod sync_call;
#[path = "../../../src/engine/window_lock.rs"]
pub(crate) mod window_lock;
#[path = "../../../src/engine/window_turns.rs"]
pub(crate) mod window_turns;
