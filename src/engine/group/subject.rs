//! How lines of the log name groups and their members.
#![deny(unsafe_code)]

use crate::engine::base::log::Subject;
use crate::engine::group::group::Group;
use crate::engine::group::service::Service;

/// Such as `worker 1 "rx", job rank 0`.
impl Subject for Service {
    fn subject(&self) -> String {
        format!("{}, job rank {}", self.user.subject(), self.rank)
    }
}

/// Such as `worker 1 "rx", group 8d3f5a1c, rank 0 of 4`. Members give a group the same number.
impl Subject for Group {
    fn subject(&self) -> String {
        let (worker, rank, size) = (self.service.user.subject(), self.rank(), self.size());
        format!("{worker}, group {:08x}, rank {rank} of {size}", self.id as u32)
    }
}
