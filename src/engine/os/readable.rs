//! Checks whether a descriptor is readable now.

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::os::fd::AsFd;

/// Does not wait.
pub(crate) fn is_readable(descriptor: &impl AsFd) -> bool {
    let mut entry = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut entry, Some(&Timespec::default())) == Ok(1)
}
