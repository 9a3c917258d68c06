//! Groups: processes that were started together and know each other by rank.
//!
//! The bootstrap lets the members find each other. By it they exchange, once, the addresses of two
//! workers each: the user's, for the endpoints that the group returns, and the service's, for the
//! group's own messages (see `group::service`). Connections are made on first use.

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::group::bootstrap::bootstrap::{self, BootstrapParams};
use crate::engine::group::collective::Turn;
use crate::engine::group::mailbox::Failure;
use crate::engine::group::metrics::Meter;
use crate::engine::group::service::{Extension, Member, Service};
use crate::engine::os::process_identity::Identity;
use crate::engine::os::random::random;
use crate::engine::wire::address::Address;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// How long a subset waits for its members if the group has no time limit.
const SUBSET_TIMEOUT_NS: u64 = 60_000_000_000;

/// Version of the data that members exchange at the start.
const CARD_VERSION: u16 = 1;

/// Checked parameters of a group.
pub struct GroupParams {
    /// How the members find each other.
    pub bootstrap: BootstrapParams,
    /// Time limit of each collective; 0 for none.
    pub collective_timeout_ns: u64,
}

/// Members that know each other by rank.
pub struct Group {
    pub(crate) service: Arc<Service>,
    /// Identifies the group in messages.
    pub(crate) id: u64,
    /// Job rank of each member, by its rank in this group.
    pub(crate) ranks: Arc<[u32]>,
    pub(crate) rank: u32,
    pub(crate) collective_timeout_ns: u64,
    pub(crate) meter: Arc<Meter>,
    /// Locked during a collective.
    pub(crate) turn: Mutex<Turn>,
    /// How often each list of ranks has been made a subset.
    subsets: Mutex<HashMap<Vec<u32>, u32>>,
}

impl Group {
    /// Meets the other members, which call this too.
    pub fn new(
        worker: &Arc<SharedWorker>,
        params: &GroupParams,
        extension: &'static Extension,
    ) -> Result<Arc<Self>> {
        worker.check_usable()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        // Checked before other members rely on this one.
        Service::check(worker)?;
        let mut bootstrap = bootstrap::open(&params.bootstrap)?;
        let (rank, size) = (bootstrap.rank(), bootstrap.size());
        let service = Service::new(worker, rank, extension)?;
        let mut job: [u8; 16] = random()?;
        let cards = bootstrap.exchange(&card(&job, &service.here()?))?;
        let mut members = Vec::with_capacity(size as usize);
        for (rank, card) in cards.iter().enumerate() {
            let (theirs, member) = read_card(card).map_err(|why| {
                Error::new(
                    Status::IO_ERROR,
                    format!(
                        "group: the data that rank {rank} sent at the start cannot be used: {why}"
                    ),
                )
            })?;
            if rank == 0 {
                job = theirs;
            }
            members.push(member);
        }
        service.meet(members.into());
        service.show_waits();
        let ranks: Arc<[u32]> = (0..size).collect();
        let id = identify(&job, &ranks, 0);
        Ok(Self::enter(service, id, ranks, rank, params.collective_timeout_ns))
    }

    fn enter(
        service: Arc<Service>,
        id: u64,
        ranks: Arc<[u32]>,
        rank: u32,
        collective_timeout_ns: u64,
    ) -> Arc<Self> {
        service.enter_group(id, ranks.clone());
        let (turn, subsets) = (Mutex::default(), Mutex::default());
        let meter = Meter::new(&service.user.context, rank, ranks.len() as u32);
        let group = Group { service, id, ranks, rank, collective_timeout_ns, meter, turn, subsets };
        log::at!(DEBUG, Group, &group, "created");
        Arc::new(group)
    }

    /// The group of these members. All of them call this with the same list, and it waits for them.
    pub fn subset(&self, ranks: &[u32]) -> Result<Arc<Self>> {
        self.check_caller()?;
        let mut seen = vec![false; self.ranks.len()];
        for (place, rank) in ranks.iter().enumerate() {
            self.check_rank(*rank, &format!("ranks[{place}]"))?;
            if std::mem::replace(&mut seen[*rank as usize], true) {
                return Err(Error::invalid(format!("ranks[{place}]: {rank} is in the list twice")));
            }
        }
        let Some(here) = ranks.iter().position(|rank| *rank == self.rank) else {
            let text = format!(
                "ranks: this process, rank {}, is not in the list of those that call",
                self.rank
            );
            return Err(Error::invalid(text));
        };
        let job_ranks: Arc<[u32]> = ranks.iter().map(|rank| self.ranks[*rank as usize]).collect();
        let turn = {
            let mut subsets = self.subsets.lock();
            let turns = subsets.entry(ranks.to_vec()).or_default();
            *turns += 1;
            *turns
        };
        let id = identify(&self.id.to_le_bytes(), &job_ranks, turn);
        let subset = Self::enter(
            self.service.clone(),
            id,
            job_ranks,
            here as u32,
            self.collective_timeout_ns,
        );
        let patience = if self.collective_timeout_ns == 0 {
            SUBSET_TIMEOUT_NS
        } else {
            self.collective_timeout_ns
        };
        subset.meet(clock::deadline_after(patience)).map_err(|error| {
            // In ranks of the group that the caller knows.
            let failure = self.service.failure(subset.id, subset.turn.lock().number());
            let error = failure.map_or(error, |failure| self.failed(failure));
            let text =
                format!("ranks: not all members of the subset made the call: {}", error.message());
            Error::new(error.status(), text)
        })?;
        Ok(subset)
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    pub(crate) fn check_rank(&self, rank: u32, argument: &str) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        Err(Error::invalid(format!("{argument}: {rank} is no rank of a group of {}", self.size())))
    }

    fn member(&self, rank: u32) -> Result<(u32, &Member)> {
        self.check_rank(rank, "rank")?;
        let job_rank = self.ranks[rank as usize];
        Ok((job_rank, &self.service.members()[job_rank as usize]))
    }

    /// The process of a member.
    pub(crate) fn identity(&self, rank: u32) -> Option<Identity> {
        let (_, member) = self.member(rank).ok()?;
        member.service.origin().map(|origin| origin.identity)
    }

    /// Does this member run on the same kernel?
    pub fn same_host(&self, rank: u32) -> Result<bool> {
        self.service.user.check_fork()?;
        self.member(rank)?;
        let both = self.identity(self.rank).zip(self.identity(rank));
        Ok(both.is_some_and(|(mine, theirs)| mine.same_host(&theirs)))
    }

    /// Sets how long members of other hosts may be silent before they count as failed; 0 for no
    /// limit.
    pub fn set_liveness(&self, liveness_ns: u64) -> Result<()> {
        self.service.user.check_fork()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        self.service.set_liveness(liveness_ns)
    }

    /// The endpoint from the user's worker to this member's, made on first use. It belongs to the
    /// group.
    pub fn endpoint(&self, rank: u32) -> Result<Arc<SharedEndpoint>> {
        let (job_rank, _) = self.member(rank)?;
        self.service.endpoint(job_rank)
    }

    /// An error for a failure, in this group's ranks.
    pub(crate) fn failed(&self, failure: Failure) -> Error {
        let rank = self.ranks.iter().position(|rank| *rank == failure.blamed);
        let who = match rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("rank {} of the original group", failure.blamed),
        };
        let what = match failure.status {
            Status::TIMED_OUT => "did not call in time",
            Status::INVALID_PARAM => "made another call than the others",
            Status::CONNECTION_RESET => {
                "had left the group, or closed the connection when another member failed"
            }
            Status::NO_MEMORY => "ran out of memory",
            _ => "has failed, or can no longer be reached",
        };
        let process = self
            .service
            .members()
            .get(failure.blamed as usize)
            .and_then(|member| member.service.origin());
        let process = process
            .map_or_else(String::new, |origin| format!(" (process {})", origin.identity.pid));
        let status = if failure.status == Status::CONNECTION_RESET {
            Status::PEER_FAILED
        } else {
            failure.status
        };
        Error::new(
            status,
            format!("group: {who}{process} {what}; the group allows no further collectives"),
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.service.user.check_fork().is_ok() {
            log::at!(DEBUG, Group, self, "destroyed");
            self.meter.end();
            self.service.leave_group(self.id, self.turn.get_mut().number());
        }
    }
}

/// Number of the group that these job ranks form for the `turn`-th time, in the job or group named
/// by `parent`.
fn identify(parent: &[u8], ranks: &[u32], turn: u32) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update((parent.len() as u64).to_le_bytes());
    hasher.update(parent);
    hasher.update(turn.to_le_bytes());
    ranks.iter().for_each(|rank| hasher.update(rank.to_le_bytes()));
    let digest = hasher.finalize();
    u64::from_le_bytes(std::array::from_fn(|byte| digest[byte]))
}

/// The data that a member exchanges: version, a random number for the job (rank 0's is used), and
/// the two addresses.
fn card(job: &[u8; 16], member: &Member) -> Vec<u8> {
    let (user, service) = (member.user.bytes(), member.service.bytes());
    let mut card = Vec::with_capacity(24 + user.len() + service.len());
    card.extend_from_slice(&CARD_VERSION.to_le_bytes());
    card.extend_from_slice(job);
    card.extend_from_slice(&(user.len() as u32).to_le_bytes());
    card.extend_from_slice(user);
    card.extend_from_slice(service);
    card
}

fn read_card(card: &[u8]) -> std::result::Result<([u8; 16], Member), String> {
    const SHORT: &str = "it is cut off";
    let (version, rest) = card.split_first_chunk::<2>().ok_or(SHORT)?;
    if u16::from_le_bytes(*version) != CARD_VERSION {
        return Err("it is of another version of this library".to_owned());
    }
    let (job, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
    let (user, service) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(SHORT)?;
    let address = |bytes| Address::from_bytes(bytes).map_err(|error| error.message().to_owned());
    Ok((*job, Member { user: address(user)?, service: address(service)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_other_members_order_or_time_are_others() {
        let job = [7; 16];
        let ids = [
            identify(&job, &[0, 1, 2], 0),
            identify(&job, &[0, 2, 1], 0),
            identify(&job, &[0, 1], 0),
            identify(&job, &[0, 1, 2], 1),
            identify(&[8; 16], &[0, 1, 2], 0),
        ];
        let different: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert_eq!(ids[0], identify(&job, &[0, 1, 2], 0));
    }

    #[test]
    fn a_card_that_is_cut_off_or_damaged_is_refused() {
        let version = CARD_VERSION.to_le_bytes();
        let short = [&version[..], &[1; 16], &9_u32.to_le_bytes(), &[0; 8]].concat();
        for length in 0..=short.len() {
            assert!(read_card(&short[..length]).is_err());
        }
        assert!(read_card(&[&[9, 9], &short[2..]].concat()).is_err());
    }
}
