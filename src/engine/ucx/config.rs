//! UCX configuration: the library's own defaults, the caller's entries, and their spelling in the
//! release that is loaded.

use crate::engine::base::status::{Error, Result};
use crate::engine::ucx::runtime::{ucx_release, with_decimal_point, Release};
use crate::sys;
use std::ffi::{CStr, CString};

/// A `ucp_config_t` that is released when dropped.
pub(crate) struct Config {
    handle: *mut sys::ucp_config_t,
    /// Keys of the caller's, as spelled for this release: one of them that UCX cannot apply is an
    /// error.
    asked: Vec<String>,
    /// What TCP_AF_PRIO comes to.
    families: String,
    /// What TLS comes to.
    transports: String,
}

// SAFETY: after it was built it is only read, by one thread at a time (behind the context's lock).
unsafe impl Send for Config {}

/// Shared memory stays in use under failure detection only if these are set; keepalive is what
/// notices that a process on this host has died. Each is set only where neither the environment nor
/// the caller says anything on it, in this form or in that of a single transport: a value set
/// through the API would win over the environment.
const DEFAULTS: &[(&str, &str, &[&str])] = &[
    ("MM_ERROR_HANDLING", "y", &["ERROR_HANDLING", "POSIX_ERROR_HANDLING", "SYSV_ERROR_HANDLING"]),
    ("CMA_MEMORY_INVALIDATE", "y", &["MEMORY_INVALIDATE"]),
    ("KEEPALIVE_INTERVAL", "1s", &[]),
    ("KEEPALIVE_NUM_EPS", "inf", &[]),
    // A listener that is started again finds its port free, whatever became of the connections of
    // the one before.
    ("TCP_CM_REUSEADDR", "y", &[]),
    // What goes out over TCP without zero-copy goes in pieces of this length, a system call each:
    // UCX's own choice of 8 KiB makes long messages three to four times as slow. It is what
    // receivers take; one that was told to take less would have no room, and UCX opens no device
    // that sends more than it takes.
    ("TCP_TX_SEG_SIZE", "64k", &["TX_SEG_SIZE", "TCP_RX_SEG_SIZE", "RX_SEG_SIZE"]),
];

/// Up to 1.15 a zero-copy send that is under way when its TCP peer dies is completed twice, and an
/// assertion in UCX ends the process; so is the data of a rendezvous. Without it UCX copies.
const NO_ZCOPY_BEFORE: Release = Release::new(1, 16);
const INSTEAD_OF_ZCOPY: &[(&str, &str, &[&str])] = &[("ZCOPY_THRESH", "inf", &[])];

/// The kernel tells of a socket whose other end has gone. UCX's keepalive would ask that end, and
/// where it has just been closed UCX 1.13 to 1.22 answer over a connection of their own, which is
/// taken for the one that the two dial next: that one never stands.
const WITHOUT_KEEPALIVE: &[(&str, &str, &[&str])] = &[("KEEPALIVE_INTERVAL", "inf", &[])];

/// Releases before this one know CMA's key without its prefix, and ignore prefixed transport keys
/// that come by the API.
const PREFIXED_KEYS_SINCE: Release = Release::new(1, 17);

/// Four times the longest name in UCX. What names a variable that no transport takes is a line of
/// UCX's log, of 2 KiB at most: in a longer one it would not be found.
const LONGEST_KEY: usize = 128;

impl Config {
    /// The environment, then the library's defaults, then `entries`, the later winning over the
    /// earlier.
    pub(crate) fn new(entries: &[(String, String)], local_network: bool) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: both strings are optional; a valid out-pointer.
        let status =
            unsafe { sys::ucp_config_read(std::ptr::null(), std::ptr::null(), &mut handle) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                crate::engine::base::status::Status(status.into()),
                "UCX could not read its configuration: is a UCX_* variable in the environment \
                malformed?",
            ));
        }
        let mut config = Config {
            handle,
            asked: Vec::new(),
            families: families_in_environment(),
            transports: transports_among(entries),
        };
        let alone = if config.goes_over_sockets_alone() { WITHOUT_KEEPALIVE } else { &[] };
        let copies = if ucx_release() < NO_ZCOPY_BEFORE { INSTEAD_OF_ZCOPY } else { &[] };
        // The later win.
        for (key, value, other_forms) in DEFAULTS.iter().chain(copies).chain(alone) {
            let is_given = |key: &str| {
                let named = |(name, _): &(String, String)| bare(name) == key;
                std::env::var_os(format!("UCX_{key}")).is_some() || entries.iter().any(named)
            };
            if !is_given(key) && !other_forms.iter().any(|form| is_given(form)) {
                // Not an error: the transport may be missing from this build of UCX.
                let _ = config.modify(spelled_for(ucx_release(), key), value);
            }
        }
        if local_network {
            config.modify("NET_DEVICES", "lo").map_err(|_| {
                Error::new(
                    crate::engine::base::status::Status::UNSUPPORTED,
                    "network: this UCX cannot be held to the loopback device",
                )
            })?;
        }
        for (key, value) in entries {
            let key = bare(key);
            if local_network && key == "NET_DEVICES" {
                return Err(Error::invalid(
                    "config: NET_DEVICES is UCXX_NETWORK_LOCAL's to set: ask for one of the two",
                ));
            }
            if key.len() > LONGEST_KEY {
                let text = format!(
                    "config: a key of {} bytes, where {LONGEST_KEY} are the most",
                    key.len()
                );
                return Err(Error::invalid(text));
            }
            let spelled = spelled_for(ucx_release(), key);
            config.modify(spelled, value).map_err(|status| {
                Error::invalid(format!(
                    "config: UCX {} does not take {key}={value} (status {status})",
                    ucx_release()
                ))
            })?;
            config.asked.push(spelled.to_owned());
            if key == "TCP_AF_PRIO" {
                config.families = value.clone();
            }
        }
        Ok(config)
    }

    pub(crate) fn handle(&self) -> *mut sys::ucp_config_t {
        self.handle
    }

    /// Is shared memory among the transports?
    pub(crate) fn shares_memory(&self) -> bool {
        const ALL: [&str; 4] = ["shm", "sm", "mm", "all"];
        const SOME: [&str; 3] = ["posix", "sysv", "xpmem"];
        let among =
            |list: &str, names: &[&str]| list.split(',').any(|name| names.contains(&name.trim()));
        match self.transports.strip_prefix('^') {
            // What excludes one kind leaves the others.
            Some(list) => !among(list, &ALL) && !SOME.iter().all(|kind| among(list, &[kind])),
            None => among(&self.transports, &ALL) || among(&self.transports, &SOME),
        }
    }

    /// Are there no transports but TCP, and those within a process?
    fn goes_over_sockets_alone(&self) -> bool {
        self.transports.split(',').all(|name| ["tcp", "self"].contains(&name.trim()))
    }

    /// Can UCX connect to an address of this family by host and port? UCX lays out a TCP connection
    /// for the family of its device, which is the first of TCP_AF_PRIO that the device has,
    /// whatever the family of the address: an IPv6 address where the device has IPv4 is written
    /// beyond the end of its memory (1.21, 1.22) or found unreachable, an IPv4 address where the
    /// device has IPv6 is waited for in vain. So IPv6 needs devices that cannot have IPv4.
    pub(crate) fn connects_over(&self, ipv4: bool) -> bool {
        let mut families = self.families.split(',').map(str::trim);
        if ipv4 {
            families.next() == Some("inet")
        } else {
            families.all(|family| family == "inet6")
        }
    }

    fn modify(&mut self, key: &str, value: &str) -> std::result::Result<(), sys::ucs_status_t> {
        let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) else {
            return Err(sys::UCS_ERR_INVALID_PARAM);
        };
        // SAFETY: a live configuration and two terminated strings, which UCX copies.
        match unsafe { sys::ucp_config_modify(self.handle, key.as_ptr(), value.as_ptr()) } {
            sys::UCS_OK => Ok(()),
            status => Err(status),
        }
    }

    /// Looks through what UCX logged while it created a worker, and hands on what is the user's
    /// business. Releases up to 1.16 take any key, and name those that found no taker in a warning:
    /// "invalid configuration(s): KEY=VALUE,...". Ours are among them where shared memory is not in
    /// use, which nobody needs to know.
    pub(crate) fn check_applied(&self, logged: &[(i32, String)]) -> Result<()> {
        for (level, line) in logged {
            let Some((_, list)) =
                line.split_once("invalid configuration").and_then(|(_, rest)| rest.split_once(':'))
            else {
                crate::engine::base::log::write_ucx(*level, line);
                continue;
            };
            for entry in list.split(',') {
                let key = entry.split('=').next().unwrap_or_default().trim();
                if self.asked.iter().any(|asked| asked == key) {
                    return Err(Error::invalid(format!(
                        "config: no transport of UCX {} that is in use here takes {key}; it may \
                         still work as the environment variable UCX_{key}",
                        ucx_release()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with each variable and its value, as UCX prints them.
    pub(crate) fn visit(&self, mut visit: impl FnMut(&CStr, &CStr)) {
        let print = |stream: *mut libc::FILE| {
            // UCS_CONFIG_PRINT_CONFIG: the values alone, without comments.
            // SAFETY: a live configuration, an open stream, and no title.
            unsafe { sys::ucp_config_print(self.handle, stream.cast(), c"".as_ptr(), 1) }
        };
        let text = with_decimal_point(|| crate::engine::ucx::printed::printed(print));
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = bare(key);
            if let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) {
                visit(&key, &value);
            }
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: read by ucp_config_read, released once.
        unsafe { sys::ucp_config_release(self.handle) };
    }
}

/// A key as the library writes it: callers may name the environment's variable.
fn bare(key: &str) -> &str {
    key.strip_prefix("UCX_").unwrap_or(key)
}

fn transports_among(entries: &[(String, String)]) -> String {
    let told = entries.iter().rev().find(|(key, _)| bare(key) == "TLS");
    let told = told.map(|(_, value)| value.clone()).or_else(|| std::env::var("UCX_TLS").ok());
    told.unwrap_or_else(|| "all".to_owned())
}

fn families_in_environment() -> String {
    let set = ["UCX_TCP_AF_PRIO", "UCX_AF_PRIO"].iter().find_map(|name| std::env::var(name).ok());
    set.unwrap_or_else(|| "inet,inet6".to_owned())
}

/// The key that means the same in `release`. Transport keys are documented with their prefix here,
/// whatever UCX wants.
fn spelled_for(release: Release, key: &str) -> &str {
    if release < PREFIXED_KEYS_SINCE {
        match key {
            "CMA_MEMORY_INVALIDATE" => "MEMORY_INVALIDATE",
            "POSIX_ERROR_HANDLING" | "SYSV_ERROR_HANDLING" => "MM_ERROR_HANDLING",
            "TCP_AF_PRIO" => "AF_PRIO",
            "TCP_TX_SEG_SIZE" => "TX_SEG_SIZE",
            "TCP_RX_SEG_SIZE" => "RX_SEG_SIZE",
            "TCP_CM_REUSEADDR" => "CM_REUSEADDR",
            other => other,
        }
    } else {
        match key {
            "MEMORY_INVALIDATE" => "CMA_MEMORY_INVALIDATE",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spelled_for_the_release() {
        assert_eq!(spelled_for(Release::new(1, 13), "CMA_MEMORY_INVALIDATE"), "MEMORY_INVALIDATE");
        assert_eq!(spelled_for(Release::new(1, 13), "SYSV_ERROR_HANDLING"), "MM_ERROR_HANDLING");
        assert_eq!(spelled_for(Release::new(1, 13), "TCP_TX_SEG_SIZE"), "TX_SEG_SIZE");
        assert_eq!(spelled_for(Release::new(1, 13), "TCP_CM_REUSEADDR"), "CM_REUSEADDR");
        assert_eq!(spelled_for(Release::new(1, 22), "MEMORY_INVALIDATE"), "CMA_MEMORY_INVALIDATE");
        assert_eq!(
            spelled_for(Release::new(1, 22), "POSIX_ERROR_HANDLING"),
            "POSIX_ERROR_HANDLING"
        );
    }

    #[test]
    fn shared_memory_is_found_among_the_transports() {
        let mut config = Config::new(&[], false).unwrap();
        for (transports, shares) in [
            ("all", true),
            ("tcp,self", false),
            ("posix,cma,self", true),
            ("rc, shm", true),
            ("^tcp", true),
            ("^sysv", true),
            ("^sm", false),
            ("^posix,sysv,xpmem", false),
        ] {
            config.transports = transports.to_owned();
            assert_eq!(config.shares_memory(), shares, "{transports}");
        }
        let told = Config::new(&[("TLS".to_owned(), "tcp".to_owned())], false).unwrap();
        assert!(!told.shares_memory(), "an entry wins over the environment");
        assert!(told.goes_over_sockets_alone());
        for transports in ["all", "tcp,self,cma", "^tcp", "rc,self"] {
            config.transports = transports.to_owned();
            assert!(!config.goes_over_sockets_alone(), "{transports}");
        }
    }

    #[test]
    fn a_family_is_used_only_where_every_device_has_it() {
        let mut config = Config::new(&[], false).unwrap();
        for (families, ipv4, ipv6) in [
            ("inet,inet6", true, false),
            ("inet", true, false),
            ("inet6,inet", false, false),
            ("inet6", false, true),
        ] {
            config.families = families.to_owned();
            assert_eq!(
                (config.connects_over(true), config.connects_over(false)),
                (ipv4, ipv6),
                "{families}"
            );
        }
    }

    #[test]
    fn only_the_callers_own_keys_can_fail_a_worker() {
        let mut config = Config::new(&[], false).unwrap();
        let warning = [(2, "invalid configurations: MM_ERROR_HANDLING=y,TCP_BOGUS=2".to_owned())];
        config.check_applied(&warning).unwrap();
        config.asked.push("TCP_BOGUS".to_owned());
        let error = config.check_applied(&warning).unwrap_err();
        assert!(error.message().contains("TCP_BOGUS"), "{error}");
    }
}
