//! Rank, size, and where rank 0 listens, from environment variables that launchers set.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result};
use crate::engine::group::bootstrap::tcp::SECRET_VARIABLE;
use std::ffi::OsString;

/// Variables of torchrun, Open MPI's mpirun, MPICH's mpiexec, and srun, in the order of lookup.
const PAIRS: [(&str, &str); 4] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
/// A rank without a size of its own.
const PMIX_RANK: &str = "PMIX_RANK";
const HOST: &str = "MASTER_ADDR";
const PORT: &str = "MASTER_PORT";

/// Rank and size from the environment.
#[derive(PartialEq, Eq, Debug)]
pub struct Found {
    /// Rank of this process.
    pub rank: u32,
    /// Number of members.
    pub size: u32,
}

fn text(lookup: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<String>> {
    match lookup(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) if value.trim().is_empty() => Ok(None),
        Some(Ok(value)) => Ok(Some(value.trim().to_owned())),
        Some(Err(value)) => {
            Err(Error::invalid(format!("environment: {name} is {value:?}, which is not UTF-8")))
        }
    }
}

fn number(lookup: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<u32>> {
    let Some(value) = text(lookup, name)? else { return Ok(None) };
    match value.parse() {
        Ok(number) if value.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
        _ => Err(Error::invalid(format!(
            "environment: {name} is {value:?}, which is not a number from 0 to {}",
            u32::MAX
        ))),
    }
}

/// Rank and size, from the first launcher that has set one of them.
pub fn find(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Found> {
    for (rank_name, size_name) in PAIRS {
        let (mut rank_name, size) = (rank_name, number(lookup, size_name)?);
        let mut rank = number(lookup, rank_name)?;
        if rank.is_none() && size.is_some() {
            if let Some(other) = number(lookup, PMIX_RANK)? {
                (rank_name, rank) = (PMIX_RANK, Some(other));
            }
        }
        let (rank, size) = match (rank, size) {
            (None, None) => continue,
            (Some(rank), Some(size)) => (rank, size),
            (Some(_), None) => return Err(half(rank_name, size_name)),
            (None, Some(_)) => return Err(half(size_name, rank_name)),
        };
        if rank >= size {
            let text = format!(
                "environment: {rank_name} is {rank}, and {size_name} is {size}: a rank is \
                    below the size"
            );
            return Err(Error::invalid(text));
        }
        return Ok(Found { rank, size });
    }
    let names = PAIRS.map(|(rank, size)| format!("{rank} and {size}")).join(", ");
    let only = match text(lookup, PMIX_RANK)? {
        Some(_) => format!(" ({PMIX_RANK} is set, which is not enough)"),
        None => String::new(),
    };
    Err(Error::invalid(format!(
        "environment: nothing says which rank this process has{only}: start it by torchrun, \
         mpirun, mpiexec or srun, or set RANK and WORLD_SIZE (looked for: {names})"
    )))
}

fn half(set: &str, unset: &str) -> Error {
    Error::invalid(format!("environment: {set} is set, but {unset} is not: a launcher sets both"))
}

/// Where rank 0 listens, as "host:port".
pub fn find_root(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<String> {
    let (host, port) = (text(lookup, HOST)?, text(lookup, PORT)?);
    let missing = match (&host, &port) {
        (Some(host), Some(port)) => {
            let bare_v6 = host.contains(':') && !host.starts_with('[');
            return Ok(if bare_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") });
        }
        (Some(_), None) => format!("{PORT} is not set"),
        (None, Some(_)) => format!("{HOST} is not set"),
        (None, None) => format!("{HOST} and {PORT} are not set"),
    };
    Err(Error::invalid(format!(
        "environment: nothing says where rank 0 listens: {missing}: set both for all members (for \
         instance `mpirun -x {HOST}=node1 -x {PORT}=4711 ...`), or give root in the parameters"
    )))
}

/// The secret, if the variable is set and not empty.
pub(crate) fn find_secret(lookup: &dyn Fn(&str) -> Option<OsString>) -> Option<Vec<u8>> {
    // Any bytes are allowed, so it is neither decoded nor trimmed.
    lookup(SECRET_VARIABLE).map(OsString::into_encoded_bytes).filter(|secret| !secret.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::base::status::Status;

    fn of(list: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let list: Vec<(String, OsString)> =
            list.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        move |name: &str| {
            list.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        }
    }

    #[test]
    fn each_launcher_is_understood() {
        for (rank, size) in PAIRS {
            assert_eq!(find(&of(&[(rank, "3"), (size, "7")])).unwrap(), Found { rank: 3, size: 7 });
        }
        // The first launcher wins.
        let several =
            of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1"), ("RANK", "5"), ("WORLD_SIZE", "6")]);
        assert_eq!(find(&several).unwrap(), Found { rank: 5, size: 6 });
        assert_eq!(
            find(&of(&[("PMIX_RANK", "1"), ("WORLD_SIZE", "2")])).unwrap(),
            Found { rank: 1, size: 2 }
        );
        let pmix_too = of(&[("PMIX_RANK", "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]);
        assert_eq!(find(&pmix_too).unwrap(), Found { rank: 0, size: 2 });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases: [(&[(&str, &str)], &str); 11] = [
            (&[], "RANK"),
            (&[("RANK", "1")], "WORLD_SIZE"),
            (&[("WORLD_SIZE", "1")], "RANK"),
            (&[("RANK", ""), ("WORLD_SIZE", "1")], "RANK"),
            (&[("PMIX_RANK", "1")], "PMIX_RANK"),
            (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK is 2"),
            (&[("RANK", "0"), ("WORLD_SIZE", "0")], "WORLD_SIZE is 0"),
            (&[("RANK", "-1"), ("WORLD_SIZE", "2")], "RANK is \"-1\""),
            (&[("RANK", "+1"), ("WORLD_SIZE", "2")], "RANK is \"+1\""),
            (&[("RANK", "1"), ("WORLD_SIZE", "two")], "WORLD_SIZE is \"two\""),
            (&[("RANK", "1"), ("WORLD_SIZE", "4294967296")], "WORLD_SIZE is"),
        ];
        for (set, named) in cases {
            let error = find(&of(set)).unwrap_err();
            assert_eq!(error.status(), Status::INVALID_PARAM);
            assert!(error.message().contains(named), "{set:?}: {error}");
        }
    }

    #[test]
    fn the_root_is_two_variables() {
        assert_eq!(find_root(&of(&[(HOST, "node1"), (PORT, "4711")])).unwrap(), "node1:4711");
        assert_eq!(find_root(&of(&[(HOST, "::1"), (PORT, "1")])).unwrap(), "[::1]:1");
        assert_eq!(find_root(&of(&[(HOST, "[::1]"), (PORT, "1")])).unwrap(), "[::1]:1");
        for (set, named) in [
            (&[][..], "MASTER_ADDR and"),
            (&[(HOST, "a")], "MASTER_PORT is not"),
            (&[(PORT, "1")], "MASTER_ADDR is not"),
        ] {
            let error = find_root(&of(set)).unwrap_err();
            assert!(
                error.message().contains(named) && error.message().contains("mpirun -x"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_empty_secret_is_none() {
        assert_eq!(find_secret(&of(&[(SECRET_VARIABLE, "")])), None);
        assert_eq!(find_secret(&of(&[])), None);
        assert_eq!(find_secret(&of(&[(SECRET_VARIABLE, " x")])), Some(b" x".to_vec()));
    }
}
