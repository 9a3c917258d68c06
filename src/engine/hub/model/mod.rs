//! What a hub has to do, written a second time and simply, for random calls to be compared with.

mod call_tests;
mod rules;
mod state_tests;
