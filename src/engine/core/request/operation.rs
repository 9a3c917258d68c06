//! Operations: the parameters that all of them have, and how they leave their call.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::notifier::Notifier;
use crate::engine::core::request::request::Slot;
use crate::engine::ucx::context::Context;
use crate::engine::ucx::memory_type;
use crate::engine::ucx::registered_memory::Memory;
use std::ffi::c_void;
use std::sync::Arc;

/// `UCXX_FLAG_*`.
pub(crate) mod flag {
    pub(crate) const ALWAYS_CALLBACK: u64 = 1 << 0;
    pub(crate) const NO_WAIT: u64 = 1 << 1;
    pub(crate) const EAGER: u64 = 1 << 2;
    pub(crate) const RNDV: u64 = 1 << 3;
    pub(crate) const DELAYED: u64 = 1 << 4;
    pub(crate) const STREAM_PARTIAL: u64 = 1 << 5;
    pub(crate) const WAIT: u64 = 1 << 6;
    pub(crate) const AM_REPLY: u64 = 1 << 7;
    pub(crate) const TIMEOUT_CLOSES: u64 = 1 << 8;
    /// All flags, including those of operations that are not offered yet.
    pub(crate) const ALL: u64 = (1 << 9) - 1;
    /// Internal: an active message for a stream between two hubs.
    pub(crate) const HUB: u64 = 1 << 63;
    /// Internal: the peer waits for it, or the sender depends on it, so the send queue does not
    /// limit it.
    pub(crate) const OWED: u64 = 1 << 62;

    /// In the order of their bits.
    const NAMES: [&str; ALL.count_ones() as usize] = [
        "ALWAYS_CALLBACK",
        "NO_WAIT",
        "EAGER",
        "RNDV",
        "DELAYED",
        "STREAM_PARTIAL",
        "WAIT",
        "AM_REPLY",
        "TIMEOUT_CLOSES",
    ];

    /// The names of those flags that are in `ALL`, for an error message.
    #[cold]
    pub(crate) fn names(flags: u64) -> String {
        let named = NAMES.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 != 0);
        named.map(|(_, name)| format!("UCXX_FLAG_{name}")).collect::<Vec<_>>().join(" | ")
    }
}

/// `ucxx_request_callback_t`: argument, request, status.
pub type Callback = unsafe extern "C" fn(*mut c_void, *mut Slot, i32);

/// What a receive reports of the message. The layout is part of the C interface.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RecvInfo {
    /// Bytes of the message, even if it did not fit.
    pub length: u64,
    /// The tag it was sent with.
    pub sender_tag: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// The parameters of every operation besides its own arguments. The layout is part of the C
/// interface, so that a caller's struct is read in place.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpParams {
    /// Size of the struct; checked where it is taken from a caller.
    pub struct_size: usize,
    /// `UCXX_FLAG_*`.
    pub flags: u64,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
    /// Zero.
    pub reserved: u32,
    /// 0 for none.
    pub timeout_ns: u64,
    /// Called once, if the operation completes after the call has returned.
    pub callback: Option<Callback>,
    /// Argument of the callback, or of the report.
    pub callback_arg: *mut c_void,
    /// Reports the completion instead. Null, or alive during the call.
    pub notifier: *const Notifier,
    /// Registered memory that covers the buffer: a hint. Null, or alive during the call.
    pub memory: *const Memory,
    /// Filled when a receive completes.
    pub recv_info: *mut RecvInfo,
    /// A tag receive ends with this endpoint. Null, or alive during the call.
    pub source: *const SharedEndpoint,
}

impl Default for OpParams {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl OpParams {
    /// All defaults.
    pub const DEFAULT: OpParams = OpParams {
        struct_size: size_of::<OpParams>(),
        flags: 0,
        memory_type: memory_type::AUTO,
        reserved: 0,
        timeout_ns: 0,
        callback: None,
        callback_arg: std::ptr::null_mut(),
        notifier: std::ptr::null(),
        memory: std::ptr::null(),
        recv_info: std::ptr::null_mut(),
        source: std::ptr::null(),
    };

    /// The notifier that reports the completion.
    #[inline(always)]
    pub(crate) fn notifier(&self) -> Option<&Notifier> {
        // SAFETY: null, or alive during the call: see the field.
        unsafe { self.notifier.as_ref() }
    }

    /// The endpoint that a receive ends with.
    #[inline(always)]
    pub(crate) fn source(&self) -> Option<&SharedEndpoint> {
        // SAFETY: null, or alive during the call: see the field.
        unsafe { self.source.as_ref() }
    }

    /// Refuses parameters that are incompatible with each other or with this operation. `allowed`:
    /// flags in addition to those of every operation.
    #[inline]
    pub(crate) fn check(
        &self,
        context: &Arc<Context>,
        operation: &str,
        allowed: u64,
    ) -> Result<()> {
        const EVERYWHERE: u64 =
            flag::ALWAYS_CALLBACK | flag::WAIT | flag::TIMEOUT_CLOSES | flag::DELAYED;
        let looked_at = flag::WAIT | flag::DELAYED | flag::EAGER | flag::RNDV;
        let plain = self.flags & !(EVERYWHERE | allowed) == 0 && self.flags & looked_at == 0;
        let plain = plain && self.notifier.is_null() && self.memory.is_null();
        if plain && (self.memory_type == memory_type::AUTO || self.memory_type == memory_type::HOST)
        {
            return Ok(());
        }
        self.check_slow(context, operation, EVERYWHERE | allowed)
    }

    #[cold]
    fn check_slow(&self, context: &Arc<Context>, operation: &str, allowed: u64) -> Result<()> {
        memory_type::check(self.memory_type)?;
        // SAFETY: null, or alive during the call: see the field.
        if let Some(memory) = unsafe { self.memory.as_ref() } {
            memory.check_context(context)?;
        }
        if self.flags & !flag::ALL != 0 {
            return Err(Error::invalid(format!(
                "flags: unknown bits 0x{:x}",
                self.flags & !flag::ALL
            )));
        }
        if self.flags & !allowed != 0 {
            let article = if operation.starts_with('a') { "an" } else { "a" };
            let text = format!(
                "flags: {} is not for {article} {operation}",
                flag::names(self.flags & !allowed)
            );
            return Err(Error::invalid(text));
        }
        if self.flags & (flag::EAGER | flag::RNDV) == flag::EAGER | flag::RNDV {
            return Err(Error::invalid("flags: UCXX_FLAG_EAGER excludes UCXX_FLAG_RNDV"));
        }
        let reported = self.callback.is_some() || !self.notifier.is_null();
        if self.flags & flag::WAIT != 0 && (reported || self.flags & flag::ALWAYS_CALLBACK != 0) {
            let text = "flags: UCXX_FLAG_WAIT excludes a callback, a notifier and \
                UCXX_FLAG_ALWAYS_CALLBACK";
            return Err(Error::invalid(text));
        }
        if let Some(notifier) = self.notifier() {
            if self.callback.is_some() {
                return Err(Error::invalid("notifier: cannot be set together with a callback"));
            }
            notifier.check(context)?;
        }
        Ok(())
    }
}

/// The call waits for the completion: `UCXX_FLAG_WAIT`.
pub const WAITS: u64 = flag::WAIT;

/// How an operation left its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// Complete: no request, no callback.
    Done,
    /// In flight: the request was stored where the caller asked for it.
    Pending,
}

/// When an operation with this timeout must end; None for 0 and for a deadline that never comes.
pub(crate) fn deadline_of(params: &OpParams) -> Option<u64> {
    let deadline = (params.timeout_ns != 0).then(|| clock::deadline_after(params.timeout_ns))?;
    (deadline != u64::MAX).then_some(deadline)
}
