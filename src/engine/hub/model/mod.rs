//! What a hub has to do, written a second time and simply, for random calls to be compared with.

mod call_checks;
mod call_tests;
mod rules;
mod rules_together;
mod state_checks;
mod state_tests;
