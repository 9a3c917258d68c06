//! UCX's configuration: the library's defaults, the caller's entries, and the spelling of keys in
//! the loaded release.

use crate::engine::base::status::{Error, Result};
use crate::engine::ucx::runtime::{ucx_release, with_decimal_point, Release};
use crate::sys;
use std::ffi::CString;

/// Owns a `ucp_config_t`.
pub(crate) struct Config {
    handle: *mut sys::ucp_config_t,
    /// Each variable that was set, and by whom, for a dump.
    pub(crate) set: Vec<String>,
    /// The caller's keys, spelled for this release. If UCX cannot apply one, that is an error.
    asked: Vec<String>,
    /// Value of TCP_AF_PRIO in force.
    families: String,
    /// Value of TLS in force.
    transports: String,
}

// SAFETY: after construction it is only read, by one thread at a time (behind the context's lock).
unsafe impl Send for Config {}

/// Key, value, and other keys that set the same. UCX uses shared memory together with failure
/// detection only if the first two are set. Keepalive detects that a process of this host has died.
/// A default is set only if neither the environment nor the caller sets the key or one of the other
/// keys: a value set by the API would override the environment.
const DEFAULTS: &[(&str, &str, &[&str])] = &[
    ("MM_ERROR_HANDLING", "y", &["ERROR_HANDLING", "POSIX_ERROR_HANDLING", "SYSV_ERROR_HANDLING"]),
    ("CMA_MEMORY_INVALIDATE", "y", &["MEMORY_INVALIDATE"]),
    ("KEEPALIVE_INTERVAL", "1s", &[]),
    ("KEEPALIVE_NUM_EPS", "inf", &[]),
    // A restarted listener can bind its port even if connections of the previous one remain.
    ("TCP_CM_REUSEADDR", "y", &[]),
    // Length of the pieces in which TCP sends without zero-copy, one system call each. UCX's
    // default of 8 KiB makes long messages three to four times slower. 64 KiB is what receivers
    // accept. If the user sets a smaller receive size, UCX opens no device that sends larger
    // pieces.
    ("TCP_TX_SEG_SIZE", "64k", &["TX_SEG_SIZE", "TCP_RX_SEG_SIZE", "RX_SEG_SIZE"]),
];

/// Up to 1.15, UCX completes a zero-copy send twice if its TCP peer dies meanwhile, and an
/// assertion ends the process. The same happens to rendezvous data. Without zero-copy UCX copies.
const NO_ZCOPY_BEFORE: Release = Release::new(1, 16);
const INSTEAD_OF_ZCOPY: &[(&str, &str, &[&str])] = &[("ZCOPY_THRESH", "inf", &[])];

/// The kernel reports a TCP socket whose peer is gone, so keepalive is not needed. And it does
/// harm: if the probed peer has just closed, UCX 1.13 to 1.22 answers over a new connection of its
/// own. The two sides take that for the one that they dial next, which then never completes.
const WITHOUT_KEEPALIVE: &[(&str, &str, &[&str])] = &[("KEEPALIVE_INTERVAL", "inf", &[])];

/// Releases before this one know CMA's key only without its prefix, and ignore prefixed transport
/// keys set by the API.
const PREFIXED_KEYS_SINCE: Release = Release::new(1, 17);

/// Four times the longest name in UCX. We find keys that no transport took in a line of UCX's log,
/// which has at most 2 KiB. A longer key would not fit.
const LONGEST_KEY: usize = 128;

impl Config {
    /// Later ones override earlier ones: the environment, the library's defaults, `entries`.
    pub(crate) fn new(entries: &[(String, String)], local_network: bool) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: both strings are optional; the pointer for the result is valid.
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
            set: set_in_environment(),
            asked: Vec::new(),
            families: families_in_environment(),
            transports: transports_among(entries),
        };
        let alone = if config.goes_over_sockets_alone() { WITHOUT_KEEPALIVE } else { &[] };
        let copies = if ucx_release() < NO_ZCOPY_BEFORE { INSTEAD_OF_ZCOPY } else { &[] };
        // Later ones override earlier ones.
        for (key, value, other_forms) in DEFAULTS.iter().chain(copies).chain(alone) {
            let is_given = |key: &str| {
                let named = |(name, _): &(String, String)| bare(name) == key;
                std::env::var_os(format!("UCX_{key}")).is_some() || entries.iter().any(named)
            };
            if !is_given(key) && !other_forms.iter().any(|form| is_given(form)) {
                // Ignored: this build of UCX may lack the transport.
                if config.modify(spelled_for(ucx_release(), key), value).is_ok() {
                    config.set.push(format!("{key}={value}, set by this library"));
                }
            }
        }
        if local_network {
            config.modify("NET_DEVICES", "lo").map_err(|_| {
                Error::new(
                    crate::engine::base::status::Status::UNSUPPORTED,
                    "network: this UCX cannot be limited to the loopback device",
                )
            })?;
            config.set.push("NET_DEVICES=lo, set by UCXX_NETWORK_LOCAL".to_owned());
        }
        for (key, value) in entries {
            let key = bare(key);
            if local_network && key == "NET_DEVICES" {
                return Err(Error::invalid(
                    "config: UCXX_NETWORK_LOCAL sets NET_DEVICES: ask for one of the two",
                ));
            }
            if key.len() > LONGEST_KEY {
                let text = format!(
                    "config: a key of {} bytes; at most {LONGEST_KEY} are possible",
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
            config.set.push(format!("{key}={value}, set by the program"));
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
            // Excluding one kind leaves the others.
            Some(list) => !among(list, &ALL) && !SOME.iter().all(|kind| among(list, &[kind])),
            None => among(&self.transports, &ALL) || among(&self.transports, &SOME),
        }
    }

    /// Are TCP and in-process transports the only ones?
    fn goes_over_sockets_alone(&self) -> bool {
        self.transports.split(',').all(|name| ["tcp", "self"].contains(&name.trim()))
    }

    /// Can UCX connect by host and port to addresses of this family? UCX lays out a TCP connection
    /// for the family of its device, whatever the address's family is. The device's family is the
    /// first of TCP_AF_PRIO that it has. With an IPv4 device, an IPv6 address is written past the
    /// end of memory (1.21, 1.22) or reported unreachable. With an IPv6 device, UCX waits for an
    /// IPv4 address in vain. So IPv6 is possible only if devices cannot be IPv4.
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

    /// Checks what UCX logged while it created a worker, and passes on the lines that concern the
    /// user. Releases up to 1.16 accept any key, and then list the unused ones in a warning:
    /// "invalid configuration(s): KEY=VALUE,...". If shared memory is not in use, the list contains
    /// our own defaults, which is not an error.
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

    /// Each variable and its value, as UCX prints them.
    pub(crate) fn entries(&self) -> Vec<(CString, CString)> {
        let print = |stream: *mut libc::FILE| {
            // 1 is UCS_CONFIG_PRINT_CONFIG: values only, without comments.
            // SAFETY: a live configuration, an open stream and a terminated title.
            unsafe { sys::ucp_config_print(self.handle, stream.cast(), c"".as_ptr(), 1) }
        };
        let text = with_decimal_point(|| crate::engine::ucx::printed::printed(print));
        let variables = text.lines().filter_map(|line| line.split_once('='));
        variables
            .filter_map(|(key, value)| {
                Some((CString::new(bare(key)).ok()?, CString::new(value).ok()?))
            })
            .collect()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: created by ucp_config_read, and released once.
        unsafe { sys::ucp_config_release(self.handle) };
    }
}

/// The key without its prefix: callers may pass the name of the environment variable.
fn bare(key: &str) -> &str {
    key.strip_prefix("UCX_").unwrap_or(key)
}

fn transports_among(entries: &[(String, String)]) -> String {
    let told = entries.iter().rev().find(|(key, _)| bare(key) == "TLS");
    let told = told.map(|(_, value)| value.clone()).or_else(|| std::env::var("UCX_TLS").ok());
    told.unwrap_or_else(|| "all".to_owned())
}

fn set_in_environment() -> Vec<String> {
    let all = std::env::vars_os().map(|(key, value)| {
        (key.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    });
    let mut set: Vec<_> = all
        .filter_map(|(key, value)| {
            let key = key.strip_prefix("UCX_")?;
            Some(format!("{key}={value}, set in the environment"))
        })
        .collect();
    set.sort_unstable();
    set
}

fn families_in_environment() -> String {
    let set = ["UCX_TCP_AF_PRIO", "UCX_AF_PRIO"].iter().find_map(|name| std::env::var(name).ok());
    set.unwrap_or_else(|| "inet,inet6".to_owned())
}

/// The key with this meaning in `release`. Our documentation names transport keys with their
/// prefix, whatever UCX expects.
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
