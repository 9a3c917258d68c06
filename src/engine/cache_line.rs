//! Keeps apart in memory what different threads write.
//!
//! A word that one thread writes all the time costs every other thread that reads its neighbours a trip between cores, which is
//! as much as a whole submission may cost.
#![deny(unsafe_code)]

/// In a `repr(C)` struct: what follows begins a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine;

const _: () = assert!(size_of::<CacheLine>() == 0);
