//! A second, simple implementation of a hub's rules; random tests compare the hub with it.

mod call_checks;
mod call_tests;
mod rules;
mod rules_together;
mod state_checks;
mod state_tests;
