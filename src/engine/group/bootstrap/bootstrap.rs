//! How the members of a group find each other before there are endpoints: a rank, a size, and an
//! exchange of bytes. Runs on the thread that creates the group.
//!
//! - [`crate::engine::group::bootstrap::tcp`]: rank 0 listens, and the others connect.
//! - [`crate::engine::group::bootstrap::launcher_env`]: the same, with ranks from a launcher's
//!   environment.
//! - [`crate::engine::group::bootstrap::pmix`]: a launcher's PMIx server also carries the bytes.
//! - `Callbacks`: the user's own allgather.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::launcher_env as env;
use crate::engine::group::bootstrap::pmix::Pmix;
use crate::engine::group::bootstrap::tcp;
use crate::engine::wire::bootstrap::LONGEST_PART;
use std::ffi::{c_void, OsString};

/// Used if the caller sets no timeout.
const DEFAULT_TIMEOUT: u64 = 60_000_000_000;
/// More members than any system has, and few enough to keep a record for each.
pub(crate) const MOST_MEMBERS: u32 = 1 << 20;

/// How the members find each other. The numbers are those of the C header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootstrapKind {
    /// By the user's allgather.
    Callbacks = 0,
    /// Rank 0 listens, the others connect.
    Tcp = 1,
    /// By a launcher's PMIx server.
    Pmix = 2,
    /// Like `Tcp`, with values from the launcher's environment.
    Env = 3,
}

/// The user's allgather: argument, this rank's bytes, their length, and where the bytes of all go,
/// in rank order. Returns a status.
pub type Allgather = unsafe extern "C" fn(
    arg: *mut c_void,
    data: *const c_void,
    length: usize,
    out: *mut c_void,
) -> i32;

/// Parameters of the rendezvous.
pub struct BootstrapParams {
    /// The means.
    pub kind: BootstrapKind,
    /// Rank of this member; PMIX and ENV find it themselves.
    pub rank: u32,
    /// Number of members; PMIX and ENV find it themselves.
    pub size: u32,
    /// CALLBACKS: the function and its first argument.
    pub allgather: Option<(Allgather, *mut c_void)>,
    /// Where rank 0 listens, "host:port". For TCP, and for ENV instead of MASTER_ADDR and
    /// MASTER_PORT.
    pub root: Option<String>,
    /// TCP and ENV: the secret that all members share.
    pub secret: Option<Vec<u8>>,
    /// Time limit for the rendezvous, and for each exchange. 0 is 60 s, `u64::MAX` no limit.
    pub timeout_ns: u64,
}

/// Members that have found each other.
pub(crate) trait Bootstrap {
    /// Rank of this member.
    fn rank(&self) -> u32;

    /// Number of members.
    fn size(&self) -> u32;

    /// Exchanges bytes: returns those of all members, in rank order. Lengths may differ, up to 16
    /// MiB each. All members call it equally often, in the same order. After an error, every
    /// further call returns the same error.
    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>>;
}

fn check_members(rank: u32, size: u32) -> Result<()> {
    if size == 0 || size > MOST_MEMBERS {
        return Err(Error::invalid(format!(
            "size: a group has 1 to {MOST_MEMBERS} members, not {size}"
        )));
    }
    if rank >= size {
        return Err(Error::invalid(format!("rank: {rank} is not below the size, {size}")));
    }
    Ok(())
}

/// Finds the other members. Checks all arguments first.
pub(crate) fn open(params: &BootstrapParams) -> Result<Box<dyn Bootstrap>> {
    open_in(params, &|name| std::env::var_os(name))
}

fn open_in(
    params: &BootstrapParams,
    lookup: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Box<dyn Bootstrap>> {
    let timeout = if params.timeout_ns == 0 { DEFAULT_TIMEOUT } else { params.timeout_ns };
    let given_secret = params.secret.as_deref().filter(|secret| !secret.is_empty());
    match params.kind {
        BootstrapKind::Callbacks => {
            let (rank, size) = (params.rank, params.size);
            check_members(rank, size)?;
            let Some((allgather, arg)) = params.allgather else {
                return Err(Error::invalid("allgather: is NULL, and CALLBACKS needs one"));
            };
            Ok(Box::new(Callbacks { rank, size, allgather, arg, failed: None }))
        }
        BootstrapKind::Tcp => {
            check_members(params.rank, params.size)?;
            if params.size == 1 {
                return Ok(Box::new(Alone));
            }
            let Some(root) = &params.root else {
                return Err(Error::invalid(
                    "root: is NULL, and TCP needs \"host:port\", where rank 0 listens",
                ));
            };
            tcp::open(params.rank, params.size, root, given_secret.unwrap_or_default(), timeout)
        }
        BootstrapKind::Env => {
            let env::Found { rank, size } = env::find(lookup)?;
            check_members(rank, size)?;
            if size == 1 {
                return Ok(Box::new(Alone));
            }
            let root = match &params.root {
                Some(root) => root.clone(),
                None => env::find_root(lookup)?,
            };
            let secret = given_secret
                .map(<[u8]>::to_vec)
                .or_else(|| env::find_secret(lookup))
                .unwrap_or_default();
            tcp::open(rank, size, &root, &secret, timeout)
        }
        BootstrapKind::Pmix => Ok(Box::new(Pmix::open(timeout)?)),
    }
}

/// A group with one member.
struct Alone;

impl Bootstrap for Alone {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec()])
    }
}

/// Uses the user's allgather, whose blocks all have one length: first exchanges the lengths, then
/// the bytes, padded to the longest.
struct Callbacks {
    rank: u32,
    size: u32,
    allgather: Allgather,
    arg: *mut c_void,
    failed: Option<(Status, String)>,
}

impl Callbacks {
    fn call(&mut self, what: &str, mine: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let total = mine.len().checked_mul(self.size as usize);
        let room = total.filter(|total| out.try_reserve_exact(*total).is_ok());
        let Some(total) = room else {
            let text =
                format!("no memory for {} bytes of each of {} members", mine.len(), self.size);
            return Err(Error::new(Status::NO_MEMORY, text));
        };
        out.resize(total, 0);
        // SAFETY: the caller of `open` promises that this function may be called with this
        // argument. `mine` and `out` have the lengths that it receives, and nothing else refers to
        // `out`.
        let status = unsafe {
            self.allgather.call_out((
                self.arg,
                mine.as_ptr().cast(),
                mine.len(),
                out.as_mut_ptr().cast(),
            ))
        };
        match Status(status) {
            Status::OK => Ok(out),
            status if status.is_error() => Err(Error::new(
                status,
                format!(
                    "allgather: the callback returned {status} for \
                    {what}"
                ),
            )),
            other => Err(Error::invalid(format!(
                "allgather: the callback returned {} for {what}, which is neither UCXX_OK nor an \
                error",
                other.0
            ))),
        }
    }

    fn try_exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.call("the lengths", &(mine.len() as u64).to_ne_bytes())?;
        let lengths: Vec<u64> = lengths
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte])))
            .collect();
        if lengths[self.rank as usize] != mine.len() as u64 {
            let text = format!(
                "allgather: the callback did not put the bytes of rank {0} into place {0}",
                self.rank
            );
            return Err(Error::invalid(text));
        }
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest > LONGEST_PART as u64 {
            let rank = lengths.iter().position(|length| *length == longest).unwrap_or_default();
            let text = format!(
                "rank {rank} has {longest} bytes to exchange; at most {LONGEST_PART} are possible"
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        if longest == 0 {
            return Ok(vec![Vec::new(); self.size as usize]);
        }
        let mut padded = mine.to_vec();
        padded.resize(longest as usize, 0);
        let all = self.call("the bytes", &padded)?;
        Ok(all
            .chunks_exact(padded.len())
            .zip(lengths)
            .map(|(part, length)| part[..length as usize].to_vec())
            .collect())
    }
}

impl Bootstrap for Callbacks {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn exchange(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some((status, text)) = &self.failed {
            return Err(Error::new(*status, text.clone()));
        }
        self.try_exchange(mine)
            .inspect_err(|error| self.failed = Some((error.status(), error.message().to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::base::lockdep::Mutex;
    use std::sync::Barrier;

    /// Shared by the ranks of a test, each of which is a thread.
    struct Table {
        slots: Mutex<Vec<Vec<u8>>>,
        barrier: Barrier,
    }

    struct Seat<'a> {
        table: &'a Table,
        rank: usize,
    }

    unsafe extern "C" fn allgather(
        arg: *mut c_void,
        data: *const c_void,
        length: usize,
        out: *mut c_void,
    ) -> i32 {
        // SAFETY: the seat that the test passed; `data` is valid as the engine promises.
        let (seat, data) = unsafe {
            (&*arg.cast::<Seat<'_>>(), std::slice::from_raw_parts(data.cast::<u8>(), length))
        };
        seat.table.slots.lock()[seat.rank] = data.to_vec();
        seat.table.barrier.wait();
        let all = seat.table.slots.lock().concat();
        // SAFETY: `out` has room for the bytes of all ranks.
        unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), out.cast(), all.len()) };
        seat.table.barrier.wait();
        0
    }

    unsafe extern "C" fn fails(
        arg: *mut c_void,
        _data: *const c_void,
        _length: usize,
        _out: *mut c_void,
    ) -> i32 {
        arg as usize as i32
    }

    fn params(kind: BootstrapKind) -> BootstrapParams {
        BootstrapParams {
            kind,
            rank: 0,
            size: 2,
            allgather: None,
            root: None,
            secret: None,
            timeout_ns: 0,
        }
    }

    fn refused(params: &BootstrapParams, set: &[(&str, &str)], named: &str) {
        let lookup = |name: &str| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let error = open_in(params, &lookup).err().expect("an error");
        assert_eq!(error.status(), Status::INVALID_PARAM, "{error}");
        assert!(error.message().contains(named), "{error}");
    }

    #[test]
    fn an_allgather_of_the_users_carries_parts_of_different_lengths() {
        let size = 4;
        let table =
            Table { slots: Mutex::new(vec![Vec::new(); size]), barrier: Barrier::new(size) };
        let parts: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8; 3 * rank]).collect();
        std::thread::scope(|scope| {
            for rank in 0..size {
                let (table, parts) = (&table, &parts);
                scope.spawn(move || {
                    let mut seat = Seat { table, rank };
                    let allgather = Some((allgather as Allgather, (&raw mut seat).cast()));
                    let (rank, size) = (rank as u32, size as u32);
                    let params = BootstrapParams {
                        rank,
                        size,
                        allgather,
                        ..params(BootstrapKind::Callbacks)
                    };
                    let mut group = open(&params).unwrap();
                    assert_eq!((group.rank(), group.size()), (rank, size));
                    assert_eq!(group.exchange(&parts[rank as usize]).unwrap(), *parts);
                    assert_eq!(group.exchange(b"").unwrap(), vec![b""; size as usize]);
                });
            }
        });
    }

    #[test]
    fn what_the_callback_returns_is_handed_on() {
        for (returned, status) in
            [(-21, Status::EXCEEDS_LIMIT), (-5000, Status(-5000)), (1, Status::INVALID_PARAM)]
        {
            let allgather = Some((fails as Allgather, returned as usize as *mut c_void));
            let mut group =
                open(&BootstrapParams { allgather, ..params(BootstrapKind::Callbacks) }).unwrap();
            for _ in 0..2 {
                let error = group.exchange(b"x").unwrap_err();
                assert_eq!(error.status(), status);
                assert!(error.message().contains("allgather"), "{error}");
            }
        }
        // Returns success without doing anything, so this rank's own length is not at its place.
        let allgather = Some((fails as Allgather, std::ptr::null_mut()));
        let mut group =
            open(&BootstrapParams { allgather, ..params(BootstrapKind::Callbacks) }).unwrap();
        assert_eq!(group.exchange(b"x").unwrap_err().status(), Status::INVALID_PARAM);
    }

    #[test]
    fn arguments_are_looked_at_first() {
        for kind in [BootstrapKind::Callbacks, BootstrapKind::Tcp] {
            refused(&BootstrapParams { size: 0, ..params(kind) }, &[], "size: ");
            refused(&BootstrapParams { size: u32::MAX, ..params(kind) }, &[], "size: ");
            refused(&BootstrapParams { rank: 2, ..params(kind) }, &[], "rank: 2");
        }
        refused(&params(BootstrapKind::Callbacks), &[], "allgather: ");
        refused(&params(BootstrapKind::Tcp), &[], "root: ");
        refused(
            &BootstrapParams { root: Some("host".into()), ..params(BootstrapKind::Tcp) },
            &[],
            "root: ",
        );
        let ranks = [("RANK", "1"), ("WORLD_SIZE", "2")];
        refused(&params(BootstrapKind::Env), &[], "RANK");
        refused(&params(BootstrapKind::Env), &ranks, "MASTER_ADDR");
        let elsewhere =
            [&ranks[..], &[("MASTER_ADDR", "192.0.2.1"), ("MASTER_PORT", "1")]].concat();
        refused(&params(BootstrapKind::Env), &elsewhere, "secret: ");
        refused(
            &BootstrapParams { secret: Some(Vec::new()), ..params(BootstrapKind::Env) },
            &elsewhere,
            "secret: ",
        );
    }

    #[test]
    fn a_group_of_one_needs_nobody() {
        let alone = BootstrapParams { size: 1, ..params(BootstrapKind::Tcp) };
        assert_eq!(open(&alone).unwrap().exchange(b"me").unwrap(), [b"me"]);
        let lookup = |name: &str| {
            ["RANK", "WORLD_SIZE"]
                .iter()
                .position(|known| *known == name)
                .map(|at| at.to_string().into())
        };
        let mut group = open_in(&params(BootstrapKind::Env), &lookup).unwrap();
        assert_eq!((group.rank(), group.size()), (0, 1));
        assert_eq!(group.exchange(b"me").unwrap(), [b"me"]);
    }
}
