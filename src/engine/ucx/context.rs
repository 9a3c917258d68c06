//! The context: UCX is set up once, and all workers of the context share it. Any thread may use it.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::fork::Generation;
use crate::engine::ucx::config::Config;
use crate::engine::ucx::deferred_destroy::LateWorkers;
use crate::engine::ucx::registered_memory::Exposed;
use crate::engine::ucx::runtime;
use crate::sys;
use std::ffi::{c_void, CStr, CString};
use std::sync::Arc;

/// `UCXX_FEATURE_*`.
pub(crate) mod feature {
    pub(crate) const TAG: u64 = 1 << 0;
    pub(crate) const STREAM: u64 = 1 << 1;
    pub(crate) const AM: u64 = 1 << 2;
    pub(crate) const RMA: u64 = 1 << 3;
    pub(crate) const ATOMIC: u64 = 1 << 4;
    pub(crate) const WAKEUP: u64 = 1 << 5;
    pub(crate) const ALL: u64 = TAG | STREAM | AM | RMA | ATOMIC | WAKEUP;
    /// Meaning of 0: nothing that lets a peer access memory.
    pub(crate) const DEFAULT: u64 = TAG | STREAM | AM | WAKEUP;
}

/// Parameters of a context, checked and owned.
#[derive(Default)]
pub struct ContextParams {
    /// `UCXX_FEATURE_*`; 0 means the default set.
    pub features: u64,
    /// Names of UCX variables without `UCX_`, and their values.
    pub config: Vec<(String, String)>,
    /// Only loopback and shared memory.
    pub local_network: bool,
    /// Name for UCX's own output.
    pub name: Option<CString>,
}

/// A UCX context. Workers keep it alive: it ends with the handle and the last of them.
pub struct Context {
    handle: sys::ucp_context_h,
    /// For `visit_config`, and for checking UCX's complaints about it when a worker is created.
    config: Mutex<Config>,
    pub(crate) generation: Generation,
    pub(crate) features: u64,
    /// Only loopback and shared memory.
    pub(crate) local_network: bool,
    /// Shared memory is among the transports.
    pub(crate) shares_memory: bool,
    /// Bytes that UCX needs before each request.
    pub(crate) request_size: usize,
    memory_types: u64,
    pub(crate) exposed: Exposed,
    pub(crate) late_workers: LateWorkers,
}

// SAFETY: a ucp_context_h created with `mt_workers_shared` may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: UCX locks the context (`mt_workers_shared`); what changes here is behind locks.
unsafe impl Sync for Context {}

impl Context {
    /// Creates UCX's context.
    pub fn new(params: &ContextParams) -> Result<Arc<Self>> {
        runtime::initialise();
        log::begin();
        if params.features & !feature::ALL != 0 {
            return Err(Error::invalid(format!(
                "features: unknown bits 0x{:x}",
                params.features & !feature::ALL
            )));
        }
        if cfg!(feature = "vendored") && runtime::ucx_copies() > 1 {
            let text = "another libucp is mapped beside the one this library was built with: link \
                one of the two only";
            return Err(Error::new(Status::UNSUPPORTED, text));
        }
        let features = if params.features == 0 { feature::DEFAULT } else { params.features };
        runtime::check_thread_can_be_made()?;
        let generation = Generation::current();
        let (config, handle) = runtime::with_decimal_point(|| {
            let config = Config::new(&params.config, params.local_network)?;
            let handle = init(features, params.name.as_deref(), &config)?;
            Ok((config, handle))
        })?;
        let shares_memory = config.shares_memory();
        // From here on `Drop` cleans up after an error.
        let mut context = Context {
            handle,
            config: Mutex::new(config),
            generation,
            features,
            local_network: params.local_network,
            shares_memory,
            request_size: 0,
            memory_types: 0,
            exposed: Exposed::default(),
            late_workers: LateWorkers::default(),
        };
        // SAFETY: all-zero is valid: the mask says which fields count.
        let mut attr: sys::ucp_context_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask =
            u64::from(sys::UCP_ATTR_FIELD_REQUEST_SIZE | sys::UCP_ATTR_FIELD_MEMORY_TYPES);
        // SAFETY: a live context, and a struct with its mask set.
        let status = unsafe { sys::ucp_context_query(handle, &mut attr) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "UCX could not return the attributes of its context",
            ));
        }
        context.request_size = attr.request_size;
        context.memory_types = attr.memory_types;
        Ok(Arc::new(context))
    }

    pub(crate) fn handle(&self) -> sys::ucp_context_h {
        self.handle
    }

    /// UCP's handle, for calls that this library does not have. Null in a forked child.
    pub fn native(&self) -> *mut c_void {
        if self.generation.is_past() {
            return std::ptr::null_mut();
        }
        self.handle.cast()
    }

    /// Returns an error in a forked child.
    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.generation.is_past() {
            return Err(forked("context"));
        }
        Ok(())
    }

    pub(crate) fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    /// Does the loaded UCX support CUDA memory?
    pub fn has_cuda(&self) -> bool {
        self.has_memory_type(sys::UCS_MEMORY_TYPE_CUDA)
    }

    pub(crate) fn has_memory_type(&self, memory_type: sys::ucs_memory_type_t) -> bool {
        self.memory_types & (1 << memory_type) != 0
    }

    /// Can the CPU read memory of this type? `None` means that UCX finds out.
    #[inline(always)]
    pub(crate) fn is_in_reach(&self, told: Option<sys::ucs_memory_type_t>) -> bool {
        match told {
            None => {
                self.memory_types
                    & ((1 << sys::UCS_MEMORY_TYPE_CUDA) | (1 << sys::UCS_MEMORY_TYPE_ROCM))
                    == 0
            }
            Some(memory_type) => memory_type == sys::UCS_MEMORY_TYPE_HOST,
        }
    }

    /// Can UCX connect by host and port to addresses of this family?
    pub(crate) fn connects_over(&self, ipv4: bool) -> bool {
        self.config.lock().connects_over(ipv4)
    }

    pub(crate) fn check_config_applied(&self, logged: &[(i32, String)]) -> Result<()> {
        self.config.lock().check_applied(logged)
    }

    /// All configuration variables with their current values.
    pub fn config_entries(&self) -> Result<Vec<(CString, CString)>> {
        self.check_fork()?;
        Ok(self.config.lock().entries())
    }

    /// Each variable that was set, and by whom.
    pub(crate) fn what_was_set(&self) -> Vec<String> {
        self.config.lock().set.clone()
    }

    /// The variables of a context that is made now with default parameters.
    pub fn default_config_entries() -> Result<Vec<(CString, CString)>> {
        runtime::initialise();
        log::begin();
        let config = runtime::with_decimal_point(|| Config::new(&[], false))?;
        Ok(config.entries())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // In a forked child UCX's threads do not exist and its descriptors are the parent's, so
        // nothing may be touched.
        if !self.generation.is_past() {
            // SAFETY: created by ucp_init_version. Each worker holds a reference to this context,
            // so none is left.
            unsafe { sys::ucp_cleanup(self.handle) };
        }
    }
}

#[cold]
pub(crate) fn forked(what: &str) -> Error {
    Error::new(
        Status::FORKED,
        format!("{what}: made before fork; a child has to make a context of its own"),
    )
}

fn init(features: u64, name: Option<&CStr>, config: &Config) -> Result<sys::ucp_context_h> {
    let translation = [
        (feature::TAG, sys::UCP_FEATURE_TAG),
        (feature::STREAM, sys::UCP_FEATURE_STREAM),
        (feature::AM, sys::UCP_FEATURE_AM),
        (feature::RMA, sys::UCP_FEATURE_RMA),
        (feature::WAKEUP, sys::UCP_FEATURE_WAKEUP),
    ];
    // SAFETY: all-zero is valid: the mask says which fields count.
    let mut params: sys::ucp_params_t = unsafe { std::mem::zeroed() };
    params.field_mask =
        u64::from(sys::UCP_PARAM_FIELD_FEATURES | sys::UCP_PARAM_FIELD_MT_WORKERS_SHARED);
    params.features = translation
        .iter()
        .filter(|(ours, _)| features & ours != 0)
        .map(|(_, ucx)| u64::from(*ucx))
        .sum();
    // The library always needs active messages: by them endpoints notify each other of a close.
    params.features |= u64::from(sys::UCP_FEATURE_AM);
    // Without this the context's lock does nothing, and workers on several threads corrupt its
    // registration cache.
    params.mt_workers_shared = 1;
    if let Some(name) = name {
        params.field_mask |= u64::from(sys::UCP_PARAM_FIELD_NAME);
        params.name = name.as_ptr();
    }
    let mut handle = std::ptr::null_mut();
    let (status, logged) = log::capture(|| {
        runtime::with_signals_blocked(|| {
            let (major, minor) = sys::API;
            // SAFETY: params with its mask set, a live configuration and a valid pointer for the
            // result. UCX copies the name.
            unsafe { sys::ucp_init_version(major, minor, &params, config.handle(), &mut handle) }
        })
    });
    log::hand_on(&logged);
    if status != sys::UCS_OK {
        let text = format!("UCX {} could not be set up", runtime::ucx_release());
        return Err(Error::new(Status(status.into()), log::with_reason(text, &logged)));
    }
    Ok(handle)
}

#[cold]
pub(crate) fn missing_feature(wanted: u64) -> Error {
    let name = match wanted {
        feature::TAG => "UCXX_FEATURE_TAG",
        feature::STREAM => "UCXX_FEATURE_STREAM",
        feature::AM => "UCXX_FEATURE_AM",
        feature::RMA => "UCXX_FEATURE_RMA",
        feature::ATOMIC => "UCXX_FEATURE_ATOMIC",
        _ if wanted == feature::RMA | feature::ATOMIC => "UCXX_FEATURE_RMA or UCXX_FEATURE_ATOMIC",
        _ => "UCXX_FEATURE_WAKEUP",
    };
    Error::new(
        Status::UNSUPPORTED,
        format!("context: made without {name}; ask for it in ucxx_context_params_t.features"),
    )
}
