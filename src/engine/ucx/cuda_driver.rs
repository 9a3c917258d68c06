//! GPUs by the CUDA driver: their primary contexts, which CUDA's runtime uses as well, and memory,
//! events and streams in them.
//!
//! The driver is loaded at the first use. Any thread may call this. Each call restores the thread's
//! current context.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::ucx::memory_type::{CUDA, CUDA_MANAGED, CUDA_PINNED, HOST};
use crate::engine::ucx::runtime;
use crate::sys::cuda::{self, *};
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock, Weak};

const MEMORY_HOST: u32 = CUmemorytype::CU_MEMORYTYPE_HOST as u32;
const MEMORY_DEVICE: u32 = CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;

/// Events that are kept for reuse.
const MOST_EVENTS: usize = 256;

/// An error of the driver: function and code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    call: &'static str,
    code: CUresult,
}

impl Fault {
    pub(crate) fn status(self) -> Status {
        match self.code {
            CUDA_ERROR_OUT_OF_MEMORY => Status::NO_MEMORY,
            CUDA_ERROR_NO_DEVICE | CUDA_ERROR_INVALID_DEVICE => Status::NO_DEVICE,
            _ => Status::IO_ERROR,
        }
    }

    /// The error, with its subject in front.
    pub(crate) fn into_error(self, what: impl std::fmt::Display) -> Error {
        Error::new(self.status(), format!("{what}: {self}"))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let call = self.call.trim_end_matches("_v2");
        let mut name = std::ptr::null();
        // SAFETY: a valid pointer for the result. The driver is loaded, as one of its functions has
        // failed.
        unsafe { cuGetErrorName(self.code, &mut name) };
        if name.is_null() {
            return write!(f, "{call} has returned {}", self.code as u32);
        }
        // SAFETY: not null; a terminated static string of the driver.
        write!(f, "{call}: {}", unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }
}

/// The result of a driver function. A newer driver may return codes that `CUresult` does not list.
/// So codes are compared, and each `match` on them has a wildcard arm.
fn done(call: &'static str, code: CUresult) -> std::result::Result<(), Fault> {
    if code == CUDA_SUCCESS {
        return Ok(());
    }
    Err(Fault { call, code })
}

/// Calls a function of the driver.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        done(stringify!($function), $function($($argument),*))
    };
}

static DRIVER: OnceLock<std::result::Result<(), String>> = OnceLock::new();

/// Loads the driver, once, before any other call. Error: NO_DEVICE, with the reason.
fn load() -> Result<()> {
    let loaded = DRIVER.get_or_init(|| {
        runtime::with_signals_blocked(|| {
            cuda::load()?;
            // SAFETY: the driver is loaded; cuInit is its first call.
            unsafe { call!(cuInit(0)) }
                .map_err(|fault| format!("the CUDA driver finds no device here: {fault}"))?;
            Ok(())
        })
    });
    loaded.clone().map_err(|why| Error::new(Status::NO_DEVICE, why))
}

/// A GPU with its primary context, retained while something uses it.
pub(crate) struct Gpu {
    number: i32,
    device: i32,
    context: CUcontext,
    /// Unused events, for reuse.
    events: Mutex<Vec<Handle<CUevent>>>,
}

/// A stream or an event of the driver.
#[derive(Clone, Copy)]
struct Handle<T>(T);

// SAFETY: streams and events are not tied to a thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: driver functions may be called from any thread, and the list of events has a lock.
unsafe impl Send for Gpu {}
// SAFETY: driver functions may be called from several threads at once, and the list of events has a
// lock.
unsafe impl Sync for Gpu {}

/// NO_DEVICE if there is no GPU of this number.
pub(crate) fn check_device(number: i32) -> Result<()> {
    load()?;
    let mut count = 0;
    // SAFETY: a valid pointer for the result.
    unsafe { call!(cuDeviceGetCount(&mut count)) }.map_err(|fault| fault.into_error("CUDA"))?;
    if number < 0 || number >= count {
        return Err(Error::new(
            Status::NO_DEVICE,
            format!("the CUDA driver knows {count} devices"),
        ));
    }
    Ok(())
}

/// The GPU of this number.
pub(crate) fn gpu(number: i32) -> Result<Arc<Gpu>> {
    static KNOWN: Mutex<Vec<Weak<Gpu>>> = Mutex::new(Vec::new());
    check_device(number)?;
    let mut known = KNOWN.lock();
    known.retain(|gpu| gpu.strong_count() > 0);
    if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|gpu| gpu.number == number) {
        return Ok(found);
    }
    let (mut device, mut context) = (0, null_mut());
    let failed = |fault: Fault| fault.into_error(format!("CUDA device {number}"));
    // SAFETY: a valid pointer for the result.
    unsafe { call!(cuDeviceGet(&mut device, number)) }.map_err(failed)?;
    // SAFETY: a device of the driver, and a valid pointer. Signals are blocked because this starts
    // threads.
    runtime::with_signals_blocked(|| unsafe {
        call!(cuDevicePrimaryCtxRetain(&mut context, device))
    })
    .map_err(failed)?;
    let gpu = Arc::new(Gpu { number, device, context, events: Mutex::new(Vec::new()) });
    known.push(Arc::downgrade(&gpu));
    Ok(gpu)
}

/// The GPU of the caller's stream. The stream has to belong to its primary context.
pub(crate) fn gpu_of(stream: *mut c_void) -> Result<Arc<Gpu>> {
    load()?;
    let failed = |fault: Fault| fault.into_error("stream");
    let (mut context, mut device) = (null_mut(), 0);
    // SAFETY: the caller's stream is live, and the pointer for the result is valid.
    unsafe { call!(cuStreamGetCtx(stream.cast(), &mut context)) }.map_err(failed)?;
    // SAFETY: the context of a live stream, so it is live too.
    let found = unsafe { inside(context, || call!(cuCtxGetDevice(&mut device))) };
    found.map_err(failed)?;
    let gpu = gpu(device)?;
    if gpu.context != context {
        let text =
            format!("stream: is of another context than the primary one of CUDA device {device}");
        return Err(Error::invalid(text));
    }
    Ok(gpu)
}

/// The GPU whose context is current on this thread, or GPU 0. It is retained until the process
/// ends: creating its primary context for each message would take too long, and a user may still
/// have memory in it.
pub(crate) fn gpu_of_thread() -> Result<Arc<Gpu>> {
    static HELD: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());
    load()?;
    let mut number = 0;
    // SAFETY: a valid pointer for the result.
    match unsafe { call!(cuCtxGetDevice(&mut number)) } {
        Err(Fault { code: CUDA_ERROR_INVALID_CONTEXT, .. }) => number = 0,
        asked => asked.map_err(|fault| fault.into_error("the current context"))?,
    }
    let gpu = gpu(number)?;
    let mut held = HELD.lock();
    if !held.iter().any(|known| Arc::ptr_eq(known, &gpu)) {
        held.push(gpu.clone());
    }
    Ok(gpu)
}

/// Memory type and device of an address, if the driver knows it.
pub(crate) fn find(data: *const c_void) -> Option<(i32, i32)> {
    load().ok()?;
    let (mut kind, mut managed, mut device) = (0u32, 0u32, 0i32);
    let address = data as CUdeviceptr;
    let ask = |attribute, into: *mut c_void| {
        // SAFETY: `into` has room for the attribute. The driver uses the address only as a number.
        unsafe { cuPointerGetAttribute(into, attribute, address) == CUDA_SUCCESS }
    };
    if !ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (&raw mut kind).cast()) {
        return None;
    }
    if ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, (&raw mut managed).cast()) && managed != 0 {
        return Some((CUDA_MANAGED, 0));
    }
    match kind {
        MEMORY_DEVICE if ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (&raw mut device).cast()) => {
            Some((CUDA, device))
        }
        MEMORY_HOST => Some((CUDA_PINNED, 0)),
        _ => Some((HOST, 0)),
    }
}

/// May this be a GPU's own memory? True if that cannot be found out. Asks the driver if the process
/// has loaded it, and does not load it for this.
pub(crate) fn may_be_on_device(data: *const c_void) -> bool {
    let there = DRIVER.get().is_some() || cuda::is_loaded();
    if !there || load().is_err() {
        return true;
    }
    let mut kind = 0u32;
    // SAFETY: `kind` has room for the attribute. The driver uses the address only as a number.
    match unsafe {
        cuPointerGetAttribute(
            (&raw mut kind).cast(),
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            data as CUdeviceptr,
        )
    } {
        // The driver reports managed memory as a device's, too.
        CUDA_SUCCESS => {
            kind == MEMORY_DEVICE && find(data).is_none_or(|(found, _)| found != CUDA_MANAGED)
        }
        // The driver does not know this memory.
        CUDA_ERROR_INVALID_VALUE => false,
        _ => true,
    }
}

/// Like `may_be_on_device`, but false if the process has no driver: then it has no GPU memory.
pub(crate) fn is_on_device(data: *const c_void) -> bool {
    (DRIVER.get().is_some() || cuda::is_loaded()) && may_be_on_device(data)
}

/// Copies from the host to a GPU's memory, and waits for the copy.
///
/// # Safety
/// `bytes` bytes are valid at both addresses.
pub(crate) unsafe fn put(target: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
    let device = match find(target) {
        Some((CUDA, device)) => device,
        _ => return Err(Error::invalid("memory_type: the memory is not CUDA device memory")),
    };
    let gpu = gpu(device)?;
    let copy = || {
        let stream = Stream::new(&gpu)?;
        // SAFETY: both sides have `bytes` bytes by this function's contract, and the stream is
        // waited for before they can end.
        unsafe {
            stream.copy(
                (from.cast_mut().cast(), Side::Host),
                (target.cast(), Side::Device(&gpu)),
                bytes,
                std::iter::empty(),
            )?;
            gpu.inside(|| call!(cuStreamSynchronize(stream.handle.0)))
        }
    };
    copy().map_err(|fault| fault.into_error("buffer: the message could not be copied there"))
}

/// Calls a closure with this context as the current one.
///
/// # Safety
/// The context is live.
unsafe fn inside<T>(
    context: CUcontext,
    call: impl FnOnce() -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    // SAFETY: the context is live by this function's contract.
    unsafe { call!(cuCtxPushCurrent_v2(context)) }?;
    let answer = call();
    let mut popped = null_mut();
    // SAFETY: pops what was pushed above; a valid pointer for the result.
    unsafe { cuCtxPopCurrent_v2(&mut popped) };
    answer
}

impl Gpu {
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    fn inside<T>(
        &self,
        call: impl FnOnce() -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        // SAFETY: the context is retained while `self` lives.
        unsafe { inside(self.context, call) }
    }

    /// For calls that destroy something, whose errors no caller can handle: they are logged.
    fn end(&self, call: impl FnOnce() -> std::result::Result<(), Fault>) {
        if let Err(fault) = self.inside(call) {
            log::at!(WARN, Cuda, &(), "device {}: {fault}", self.number);
        }
    }

    /// Device memory by cuMemAlloc, to which other devices and processes can be given access.
    pub(crate) fn allocate(&self, bytes: usize) -> std::result::Result<*mut u8, Fault> {
        let mut address: CUdeviceptr = 0;
        self.inside(|| {
            // SAFETY: a valid pointer for the result.
            unsafe { call!(cuMemAlloc_v2(&mut address, bytes)) }
        })?;
        Ok(address as *mut u8)
    }

    /// # Safety
    /// `data` came from `allocate`, and is freed once.
    pub(crate) unsafe fn free(&self, data: *mut u8) {
        // SAFETY: memory from `allocate`, freed once, by this function's contract.
        self.end(|| unsafe { call!(cuMemFree_v2(data as CUdeviceptr)) });
    }

    /// Host memory that stays where it is (pinned), usable by all devices.
    pub(crate) fn allocate_pinned(&self, bytes: usize) -> std::result::Result<*mut u8, Fault> {
        let mut data = null_mut();
        let flags = CU_MEMHOSTALLOC_PORTABLE;
        self.inside(|| {
            // SAFETY: a valid pointer for the result.
            unsafe { call!(cuMemHostAlloc(&mut data, bytes, flags)) }
        })?;
        Ok(data.cast())
    }

    /// # Safety
    /// `data` came from `allocate_pinned`, and is freed once.
    pub(crate) unsafe fn free_pinned(&self, data: *mut u8) {
        // SAFETY: memory from `allocate_pinned`, freed once, by this function's contract.
        self.end(|| unsafe { call!(cuMemFreeHost(data.cast())) });
    }

    fn take_event(&self) -> std::result::Result<Handle<CUevent>, Fault> {
        if let Some(event) = self.events.lock().pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        let flags = CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a valid pointer for the result; the callers have made this GPU's context current.
        unsafe { call!(cuEventCreate(&mut event, flags)) }?;
        Ok(Handle(event))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        for event in std::mem::take(self.events.get_mut()) {
            // SAFETY: the list owns its events, and each is destroyed once.
            self.end(|| unsafe { call!(cuEventDestroy_v2(event.0)) });
        }
        // SAFETY: releases the reference that `gpu` retained.
        unsafe { cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A point in a stream's work, recorded once.
pub(crate) struct Event {
    gpu: Arc<Gpu>,
    handle: Handle<CUevent>,
}

// SAFETY: events are not tied to a thread, and the driver locks its own state.
unsafe impl Sync for Event {}

impl Event {
    /// Makes the stream wait for the events in `after`, and records its work so far.
    ///
    /// # Safety
    /// The stream is live, and belongs to this GPU's primary context.
    pub(crate) unsafe fn record<'a>(
        gpu: &Arc<Gpu>,
        stream: *mut c_void,
        after: impl Iterator<Item = &'a Event>,
    ) -> std::result::Result<Self, Fault> {
        gpu.inside(|| {
            for event in after {
                // SAFETY: a live stream by this function's contract, and a live event.
                unsafe { call!(cuStreamWaitEvent(stream.cast(), event.handle.0, 0)) }?;
            }
            let event = Event { gpu: gpu.clone(), handle: gpu.take_event()? };
            // SAFETY: a live stream by this function's contract, and a new event.
            unsafe { call!(cuEventRecord(event.handle.0, stream.cast())) }?;
            Ok(event)
        })
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        self.handle.0.cast()
    }

    /// Has the stream reached it? Does not wait.
    pub(crate) fn query(&self) -> std::result::Result<bool, Fault> {
        self.gpu.inside(|| {
            // SAFETY: the event lives as long as `self`.
            match unsafe { call!(cuEventQuery(self.handle.0)) } {
                Err(Fault { code: CUDA_ERROR_NOT_READY, .. }) => Ok(false),
                asked => asked.map(|()| true),
            }
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut kept = self.gpu.events.lock();
        if kept.len() < MOST_EVENTS {
            return kept.push(self.handle);
        }
        drop(kept);
        // SAFETY: `self` owns the event and is being dropped.
        self.gpu.end(|| unsafe { call!(cuEventDestroy_v2(self.handle.0)) });
    }
}

/// Where one end of a copy is.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    Host,
    Device(&'a Gpu),
}

/// A stream that the library made.
pub(crate) struct Stream {
    gpu: Arc<Gpu>,
    handle: Handle<CUstream>,
}

impl Stream {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> std::result::Result<Self, Fault> {
        let mut stream = null_mut();
        let flags = CU_STREAM_NON_BLOCKING as u32;
        gpu.inside(|| {
            // SAFETY: a valid pointer for the result.
            unsafe { call!(cuStreamCreate(&mut stream, flags)) }
        })?;
        Ok(Stream { gpu: gpu.clone(), handle: Handle(stream) })
    }

    /// Starts a copy that waits for the events in `after`; returns an event for its end. After an
    /// error no copy is in progress.
    ///
    /// # Safety
    /// `bytes` bytes are valid at both addresses, on the named sides, until the returned event is
    /// reached.
    pub(crate) unsafe fn copy<'a>(
        &self,
        (from, from_side): (*mut u8, Side<'_>),
        (to, to_side): (*mut u8, Side<'_>),
        bytes: usize,
        after: impl Iterator<Item = &'a Event>,
    ) -> std::result::Result<Event, Fault> {
        let (stream, source, target) = (self.handle.0, from as CUdeviceptr, to as CUdeviceptr);
        let copy = || {
            for event in after {
                // SAFETY: a live stream and a live event.
                unsafe { call!(cuStreamWaitEvent(stream, event.handle.0, 0)) }?;
            }
            if bytes == 0 {
                return Ok(());
            }
            // SAFETY: both sides have `bytes` bytes by this function's contract, and the contexts
            // are live.
            unsafe {
                match (from_side, to_side) {
                    (Side::Device(here), Side::Device(there)) if here.number != there.number => {
                        let (here, there) = (here.context, there.context);
                        call!(cuMemcpyPeerAsync(target, there, source, here, bytes, stream))
                    }
                    (Side::Device(_), Side::Device(_)) => {
                        call!(cuMemcpyDtoDAsync_v2(target, source, bytes, stream))
                    }
                    (Side::Device(_), Side::Host) => {
                        call!(cuMemcpyDtoHAsync_v2(to.cast(), source, bytes, stream))
                    }
                    (Side::Host, _) => {
                        call!(cuMemcpyHtoDAsync_v2(target, from.cast(), bytes, stream))
                    }
                }
            }
        };
        self.gpu.inside(copy)?;
        // SAFETY: the stream is this object's own, and live.
        unsafe { Event::record(&self.gpu, stream.cast(), std::iter::empty()) }.inspect_err(|_| {
            // The copy may be in progress, and no event will report its end: wait here.
            // SAFETY: the stream is this object's own, and live.
            self.gpu.end(|| unsafe { call!(cuStreamSynchronize(stream)) });
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: `self` owns the stream and is being dropped.
        self.gpu.end(|| unsafe { call!(cuStreamDestroy_v2(self.handle.0)) });
    }
}
