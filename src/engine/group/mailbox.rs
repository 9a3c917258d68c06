//! Messages that have arrived for collectives which have not taken them yet, and failures of
//! groups.
//!
//! After a collective has failed, neither it nor a later one takes messages. The mailbox returns
//! such messages to its caller, which drops them without holding a lock. Dropping matters: a sender
//! whose data waits for its receiver waits until then, with its user's buffer.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::wire::group::GroupHeader;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Limit for remembered groups that do not exist here, not yet or no longer.
const MOST_REMEMBERED: usize = 1024;

/// The failure of a group's collectives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The first collective that cannot succeed. Earlier ones may still be in progress elsewhere,
    /// and can succeed.
    pub(crate) sequence: u32,
    pub(crate) status: Status,
    /// Job rank of the member that caused it.
    pub(crate) blamed: u32,
}

impl Failure {
    fn ends(&self, sequence: u32) -> bool {
        !is_before(sequence, self.sequence)
    }
}

/// A message that waits for its collective.
#[derive(Debug)]
pub(crate) struct Arrived<M> {
    pub(crate) header: GroupHeader,
    pub(crate) held: M,
}

/// Result of a new failure.
pub(crate) struct Ended<M> {
    /// Job ranks of the members, if the group exists here.
    pub(crate) ranks: Option<Arc<[u32]>>,
    /// Messages that no collective will take.
    pub(crate) late: Vec<Arrived<M>>,
}

/// Why a failure was not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unrecorded {
    /// This earlier one makes it irrelevant.
    Later(Failure),
    /// This member has left the group.
    Left,
    /// `MOST_REMEMBERED` groups that do not exist here have failed.
    TooMany,
}

/// See the head of this file. The service keeps it behind a lock.
pub(crate) struct Mail<M> {
    /// By group and job rank of the sender, in sending order.
    arrived: HashMap<(u64, u32), VecDeque<Arrived<M>>>,
    failures: HashMap<u64, Failure>,
    /// The groups left last: messages for them are dropped.
    left: VecDeque<u64>,
    /// The groups that exist here, with the job ranks of their members.
    groups: HashMap<u64, Arc<[u32]>>,
}

impl<M> Default for Mail<M> {
    fn default() -> Self {
        Mail {
            arrived: HashMap::new(),
            failures: HashMap::new(),
            left: VecDeque::new(),
            groups: HashMap::new(),
        }
    }
}

impl<M> Mail<M> {
    /// The group exists from now on. Returns its failure, if a notice has arrived before.
    pub(crate) fn enter(&mut self, group: u64, ranks: Arc<[u32]>) -> Option<Failure> {
        self.groups.insert(group, ranks);
        self.failures.get(&group).copied()
    }

    /// The group no longer exists here. `Ended::ranks` is `None` if it was the last one.
    pub(crate) fn leave(&mut self, group: u64) -> Ended<M> {
        let ranks = self.groups.remove(&group);
        self.failures.remove(&group);
        if self.left.len() >= MOST_REMEMBERED {
            self.left.pop_front();
        }
        self.left.push_back(group);
        let late = self.take_out(group, |_| true);
        Ended { ranks: ranks.filter(|_| !self.groups.is_empty()), late }
    }

    /// Stores a message. Returns it if no collective will take it.
    pub(crate) fn put(&mut self, arrived: Arrived<M>) -> Option<Arrived<M>> {
        let GroupHeader { group, from, sequence, .. } = arrived.header;
        let was_left = !self.groups.contains_key(&group) && self.left.contains(&group);
        if was_left || self.failure(group, sequence).is_some() {
            return Some(arrived);
        }
        self.arrived.entry((group, from)).or_default().push_back(arrived);
        None
    }

    /// Stored messages of this member in the group; `None` if the group does not exist here yet.
    pub(crate) fn waiting(&self, group: u64, from: u32) -> Option<impl Iterator<Item = &M>> {
        self.groups.contains_key(&group).then(|| {
            self.arrived.get(&(group, from)).into_iter().flatten().map(|arrived| &arrived.held)
        })
    }

    /// Takes the next message of this member in the group.
    pub(crate) fn take(&mut self, group: u64, from: u32) -> Option<Arrived<M>> {
        self.arrived.get_mut(&(group, from))?.pop_front()
    }

    /// A stored message of the group that does not satisfy `fits`.
    pub(crate) fn find_other(
        &self,
        group: u64,
        fits: impl Fn(&GroupHeader) -> bool,
    ) -> Option<GroupHeader> {
        let next = self
            .arrived
            .iter()
            .filter(|((of, _), _)| *of == group)
            .filter_map(|(_, queue)| queue.front());
        next.map(|arrived| arrived.header).find(|header| !fits(header))
    }

    /// The failure because of which this collective of the group cannot succeed.
    pub(crate) fn failure(&self, group: u64, sequence: u32) -> Option<Failure> {
        self.failures.get(&group).copied().filter(|failure| failure.ends(sequence))
    }

    /// Records a failure of a group's collectives.
    pub(crate) fn fail(&mut self, group: u64, failure: Failure) -> Result<Ended<M>, Unrecorded> {
        if let Some(first) = self.failures.get(&group).filter(|first| first.ends(failure.sequence))
        {
            return Err(Unrecorded::Later(*first));
        }
        let known = self.groups.contains_key(&group);
        if !known && self.left.contains(&group) {
            return Err(Unrecorded::Left);
        }
        if !known && self.failures.len() >= MOST_REMEMBERED {
            return Err(Unrecorded::TooMany);
        }
        self.failures.insert(group, failure);
        let late = self.take_out(group, |sequence| failure.ends(sequence));
        Ok(Ended { ranks: self.groups.get(&group).cloned(), late })
    }

    /// Takes all messages.
    pub(crate) fn take_all(&mut self) -> Vec<Arrived<M>> {
        std::mem::take(&mut self.arrived).into_values().flatten().collect()
    }

    fn take_out(&mut self, group: u64, which: impl Fn(u32) -> bool) -> Vec<Arrived<M>> {
        let mut taken = Vec::new();
        self.arrived.retain(|(of, _), queue| {
            if *of == group {
                let (out, stays) = std::mem::take(queue)
                    .into_iter()
                    .partition(|arrived| which(arrived.header.sequence));
                taken.extend::<VecDeque<_>>(out);
                *queue = stays;
            }
            !queue.is_empty()
        });
        taken
    }
}

/// Does `first` precede `second`? Numbers of collectives wrap around.
fn is_before(first: u32, second: u32) -> bool {
    (first.wrapping_sub(second) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wire::group::What;

    const GROUP: u64 = 7;

    fn message(group: u64, from: u32, sequence: u32) -> Arrived<(u64, u32, u32)> {
        let header = GroupHeader { group, sequence, ..GroupHeader::aside(What::Broadcast, from) };
        Arrived { header, held: (group, from, sequence) }
    }

    fn failure(sequence: u32) -> Failure {
        Failure { sequence, status: Status::PEER_FAILED, blamed: 3 }
    }

    fn members() -> Arc<[u32]> {
        (0..4).collect()
    }

    fn sorted<M: Ord>(late: Vec<Arrived<M>>) -> Vec<M> {
        let mut held: Vec<M> = late.into_iter().map(|arrived| arrived.held).collect();
        held.sort();
        held
    }

    #[test]
    fn a_failure_takes_out_what_it_ends_and_nothing_else() {
        let mut mail = Mail::default();
        assert!(mail.enter(GROUP, members()).is_none());
        // The numbers wrap around in the middle.
        let last = u32::MAX;
        for (group, from, sequence) in
            [(GROUP, 1, last), (GROUP, 1, 0), (GROUP, 2, 0), (GROUP, 2, 1), (8, 1, 0)]
        {
            assert!(mail.put(message(group, from, sequence)).is_none());
        }
        let ended = mail.fail(GROUP, failure(0)).expect("it was not known");
        assert_eq!(ended.ranks, Some(members()));
        assert_eq!(sorted(ended.late), [(GROUP, 1, 0), (GROUP, 2, 0), (GROUP, 2, 1)]);
        assert_eq!(mail.take(GROUP, 1).map(|arrived| arrived.held), Some((GROUP, 1, last)));
        assert!(mail.take(GROUP, 1).is_none() && mail.take(GROUP, 2).is_none());
        assert!(mail.take(8, 1).is_some());
    }

    #[test]
    fn what_comes_after_a_failure_is_for_nobody() {
        let mut mail = Mail::default();
        // The notice arrives before the group exists here.
        assert!(mail.fail(GROUP, failure(5)).is_ok_and(|ended| ended.ranks.is_none()));
        assert_eq!(mail.enter(GROUP, members()), Some(failure(5)));
        assert!(mail.put(message(GROUP, 1, 4)).is_none());
        assert!(
            mail.put(message(GROUP, 1, 5)).is_some() && mail.put(message(GROUP, 1, 6)).is_some()
        );
        assert!(mail.put(message(8, 1, 5)).is_none());
    }

    #[test]
    fn the_earliest_failure_stays() {
        let mut mail = Mail::default();
        mail.enter(GROUP, members());
        assert!(mail.fail(GROUP, failure(5)).is_ok());
        assert!(mail.put(message(GROUP, 1, 3)).is_none());
        assert_eq!(mail.fail(GROUP, failure(6)).err(), Some(Unrecorded::Later(failure(5))));
        assert_eq!(mail.fail(GROUP, failure(5)).err(), Some(Unrecorded::Later(failure(5))));
        let ended = mail.fail(GROUP, failure(2)).expect("it is earlier");
        assert_eq!(sorted(ended.late), [(GROUP, 1, 3)]);
        assert_eq!((mail.failure(GROUP, 1), mail.failure(GROUP, 3)), (None, Some(failure(2))));
    }

    #[test]
    fn failures_of_unknown_groups_are_bounded() {
        let mut mail = Mail::<()>::default();
        let unknown = (0..MOST_REMEMBERED as u64).all(|group| mail.fail(group, failure(1)).is_ok());
        assert!(unknown);
        mail.enter(u64::MAX, members());
        assert_eq!(mail.fail(u64::MAX - 1, failure(1)).err(), Some(Unrecorded::TooMany));
        assert!(mail.fail(u64::MAX, failure(1)).is_ok());
    }

    #[test]
    fn a_group_that_was_left_takes_nothing_and_fails_no_more() {
        let mut mail = Mail::default();
        mail.enter(GROUP, members());
        mail.enter(8, members());
        assert!(mail.put(message(GROUP, 1, 0)).is_none());
        let ended = mail.leave(GROUP);
        assert_eq!((ended.ranks, ended.late.len()), (Some(members()), 1));
        assert!(mail.put(message(GROUP, 1, 1)).is_some());
        assert_eq!(mail.fail(GROUP, failure(1)).err(), Some(Unrecorded::Left));
        assert!(mail.failure(GROUP, 1).is_none());
        // The last group: no member is left to notify.
        assert!(mail.leave(8).ranks.is_none());
    }
}
