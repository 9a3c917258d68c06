//! GPUs by the CUDA driver: their primary contexts, which they share with CUDA's runtime, and what
//! is made in them.
//!
//! The context that is current on the caller's thread is so again after each call.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::ucx::memory_type::{CUDA, CUDA_MANAGED, CUDA_PINNED, HOST};
use crate::engine::ucx::runtime;
use crate::sys::cuda::{self, Address, Driver, Object};
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock, Weak};

/// Events that are kept for the next time.
const MOST_EVENTS: usize = 256;

/// What the driver has refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    call: &'static str,
    code: i32,
}

impl Fault {
    pub(crate) fn status(self) -> Status {
        match self.code {
            cuda::OUT_OF_MEMORY => Status::NO_MEMORY,
            cuda::NO_DEVICE | cuda::INVALID_DEVICE => Status::NO_DEVICE,
            _ => Status::IO_ERROR,
        }
    }

    /// With what it was about in front.
    pub(crate) fn into_error(self, what: impl std::fmt::Display) -> Error {
        Error::new(self.status(), format!("{what}: {self}"))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = std::ptr::null();
        if let Ok(driver) = driver() {
            // SAFETY: a valid out-pointer.
            unsafe { (driver.error_name)(self.code, &mut name) };
        }
        if name.is_null() {
            return write!(f, "{} has returned {}", self.call, self.code);
        }
        // SAFETY: a terminated text of the driver's, which stays.
        write!(f, "{}: {}", self.call, unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }
}

/// What a function of the driver has returned.
fn done(call: &'static str, code: i32) -> std::result::Result<(), Fault> {
    if code == cuda::SUCCESS {
        return Ok(());
    }
    Err(Fault { call, code })
}

static DRIVER: OnceLock<std::result::Result<Driver, String>> = OnceLock::new();

/// The driver, with what it can be used for; NO_DEVICE and why, where there is none.
fn driver() -> Result<&'static Driver> {
    let loaded = DRIVER.get_or_init(|| {
        runtime::with_signals_blocked(|| {
            let driver = Driver::load()?;
            // SAFETY: the first call of all.
            match unsafe { (driver.init)(0) } {
                cuda::SUCCESS => Ok(driver),
                code => {
                    Err(format!("the CUDA driver finds no device here: cuInit has returned {code}"))
                }
            }
        })
    });
    loaded.as_ref().map_err(|why| Error::new(Status::NO_DEVICE, why.clone()))
}

/// A GPU, as long as something is on it.
pub(crate) struct Gpu {
    driver: &'static Driver,
    number: i32,
    device: i32,
    context: Object,
    /// Made before, and free.
    events: Mutex<Vec<Handle>>,
}

/// An object of the driver's: it may be used on any thread.
#[derive(Clone, Copy)]
struct Handle(Object);

// SAFETY: the driver's objects belong to no thread.
unsafe impl Send for Handle {}
// SAFETY: the driver's functions may be called from any thread; what changes is behind a lock.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// Is there such a GPU? NO_DEVICE if not.
pub(crate) fn check_device(number: i32) -> Result<()> {
    let driver = driver()?;
    let mut count = 0;
    // SAFETY: a valid out-pointer.
    done("cuDeviceGetCount", unsafe { (driver.device_count)(&mut count) })
        .map_err(|fault| fault.into_error("CUDA"))?;
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
    let driver = driver()?;
    let mut known = KNOWN.lock();
    known.retain(|gpu| gpu.strong_count() > 0);
    if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|gpu| gpu.number == number) {
        return Ok(found);
    }
    let (mut device, mut context) = (0, null_mut());
    let failed = |fault: Fault| fault.into_error(format!("CUDA device {number}"));
    // SAFETY: valid out-pointers.
    done("cuDeviceGet", unsafe { (driver.device)(&mut device, number) }).map_err(failed)?;
    // SAFETY: as above; signals are blocked, as it starts threads.
    let retained =
        runtime::with_signals_blocked(|| unsafe { (driver.context_retain)(&mut context, device) });
    done("cuDevicePrimaryCtxRetain", retained).map_err(failed)?;
    let gpu = Arc::new(Gpu { driver, number, device, context, events: Mutex::new(Vec::new()) });
    known.push(Arc::downgrade(&gpu));
    Ok(gpu)
}

/// The GPU of a stream of the caller's, which has to be of its primary context.
pub(crate) fn gpu_of(stream: *mut c_void) -> Result<Arc<Gpu>> {
    let driver = driver()?;
    let failed = |fault: Fault| fault.into_error("stream");
    let (mut context, mut device) = (null_mut(), 0);
    // SAFETY: the caller's stream, and a valid out-pointer.
    done("cuStreamGetCtx", unsafe { (driver.stream_context)(stream, &mut context) })
        .map_err(failed)?;
    // SAFETY: the context of a live stream; what was pushed is popped.
    let found = unsafe {
        inside(driver, context, || done("cuCtxGetDevice", (driver.context_device)(&mut device)))
    };
    found.map_err(failed)?;
    let gpu = gpu(device)?;
    if gpu.context != context {
        let text =
            format!("stream: is of another context than the primary one of CUDA device {device}");
        return Err(Error::invalid(text));
    }
    Ok(gpu)
}

/// The GPU whose context is current on this thread, else the first. It is held until the process
/// ends: making its primary context takes long, so that is not to be done for each message; and
/// memory in it may be in the hands of a user of whom nothing more is known.
pub(crate) fn gpu_of_thread() -> Result<Arc<Gpu>> {
    static HELD: Mutex<Vec<Arc<Gpu>>> = Mutex::new(Vec::new());
    let driver = driver()?;
    let mut number = 0;
    // SAFETY: a valid out-pointer.
    match unsafe { (driver.context_device)(&mut number) } {
        cuda::INVALID_CONTEXT => number = 0,
        code => {
            done("cuCtxGetDevice", code).map_err(|fault| fault.into_error("the current context"))?
        }
    }
    let gpu = gpu(number)?;
    let mut held = HELD.lock();
    if !held.iter().any(|known| Arc::ptr_eq(known, &gpu)) {
        held.push(gpu.clone());
    }
    Ok(gpu)
}

/// Where memory is, if the driver knows it: memory type and device.
pub(crate) fn find(data: *const c_void) -> Option<(i32, i32)> {
    let driver = driver().ok()?;
    let (mut kind, mut managed, mut device) = (0u32, 0u32, 0i32);
    let address = data as Address;
    let ask = |attribute, into: *mut c_void| {
        // SAFETY: an out-pointer that has room for the attribute; of the address only the number is
        // looked at.
        unsafe { (driver.pointer_attribute)(into, attribute, address) == cuda::SUCCESS }
    };
    if !ask(cuda::POINTER_MEMORY_TYPE, (&raw mut kind).cast()) {
        return None;
    }
    if ask(cuda::POINTER_IS_MANAGED, (&raw mut managed).cast()) && managed != 0 {
        return Some((CUDA_MANAGED, 0));
    }
    match kind {
        cuda::MEMORY_DEVICE if ask(cuda::POINTER_DEVICE, (&raw mut device).cast()) => {
            Some((CUDA, device))
        }
        cuda::MEMORY_HOST => Some((CUDA_PINNED, 0)),
        _ => Some((HOST, 0)),
    }
}

/// Is it a GPU's own memory? Yes where that cannot be told. The driver is asked if the process has
/// it; it is not loaded for this.
pub(crate) fn may_be_on_device(data: *const c_void) -> bool {
    let there = DRIVER.get().is_some() || Driver::is_loaded();
    let Some(driver) = there.then(driver).and_then(Result::ok) else { return true };
    let mut kind = 0u32;
    // SAFETY: an out-pointer that has room for the attribute; of the address only the number is
    // looked at.
    match unsafe {
        (driver.pointer_attribute)(
            (&raw mut kind).cast(),
            cuda::POINTER_MEMORY_TYPE,
            data as Address,
        )
    } {
        // Managed memory is said to be a device's, too.
        cuda::SUCCESS => {
            kind == cuda::MEMORY_DEVICE && find(data).is_none_or(|(found, _)| found != CUDA_MANAGED)
        }
        // Memory that the driver does not know.
        cuda::INVALID_VALUE => false,
        _ => true,
    }
}

/// The same, and no where the process has no driver: then nothing in it is.
pub(crate) fn is_on_device(data: *const c_void) -> bool {
    (DRIVER.get().is_some() || Driver::is_loaded()) && may_be_on_device(data)
}

/// Copies from the host to a GPU's own memory, and waits for that.
///
/// # Safety
/// So many bytes on either side.
pub(crate) unsafe fn put(target: *mut c_void, from: *const c_void, bytes: usize) -> Result<()> {
    let device = match find(target) {
        Some((CUDA, device)) => device,
        _ => return Err(Error::invalid("memory_type: the memory is no CUDA device's")),
    };
    let gpu = gpu(device)?;
    let copy = || {
        let stream = Stream::new(&gpu)?;
        // SAFETY: as for this function.
        unsafe {
            stream.copy(
                (from.cast_mut().cast(), Side::Host),
                (target.cast(), Side::Device(&gpu)),
                bytes,
                std::iter::empty(),
            )?;
            gpu.inside(|driver| {
                done("cuStreamSynchronize", (driver.stream_synchronize)(stream.handle.0))
            })
        }
    };
    copy().map_err(|fault| fault.into_error("buffer: the message could not be copied there"))
}

/// Calls with this context as the current one.
///
/// # Safety
/// A live context.
unsafe fn inside<T>(
    driver: &Driver,
    context: Object,
    call: impl FnOnce() -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    // SAFETY: as for this function.
    done("cuCtxPushCurrent", unsafe { (driver.context_push)(context) })?;
    let answer = call();
    let mut popped = null_mut();
    // SAFETY: what was pushed above; a valid out-pointer.
    unsafe { (driver.context_pop)(&mut popped) };
    answer
}

impl Gpu {
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    fn inside<T>(
        &self,
        call: impl FnOnce(&Driver) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        // SAFETY: retained as long as this lives.
        unsafe { inside(self.driver, self.context, || call(self.driver)) }
    }

    /// For what cannot be answered: the end of something.
    fn end(&self, call: &'static str, function: impl FnOnce(&Driver) -> i32) {
        if let Err(fault) = self.inside(|driver| done(call, function(driver))) {
            log::write(log::WARN, c"cuda", &format!("CUDA device {}: {fault}", self.number));
        }
    }

    /// By cuMemAlloc, which other devices and processes can be given access to.
    pub(crate) fn allocate(&self, bytes: usize) -> std::result::Result<*mut u8, Fault> {
        let mut address: Address = 0;
        self.inside(|driver| {
            // SAFETY: a valid out-pointer.
            done("cuMemAlloc", unsafe { (driver.allocate)(&mut address, bytes) })
        })?;
        Ok(address as *mut u8)
    }

    /// # Safety
    /// From `allocate`, once.
    pub(crate) unsafe fn free(&self, data: *mut u8) {
        // SAFETY: as for this function.
        self.end("cuMemFree", |driver| unsafe { (driver.free)(data as Address) });
    }

    /// Host memory that stays where it is, for this and every other device.
    pub(crate) fn allocate_pinned(&self, bytes: usize) -> std::result::Result<*mut u8, Fault> {
        let mut data = null_mut();
        let flags = cuda::HOST_ALLOC_PORTABLE;
        self.inside(|driver| {
            // SAFETY: a valid out-pointer.
            done("cuMemHostAlloc", unsafe { (driver.host_allocate)(&mut data, bytes, flags) })
        })?;
        Ok(data.cast())
    }

    /// # Safety
    /// From `allocate_pinned`, once.
    pub(crate) unsafe fn free_pinned(&self, data: *mut u8) {
        // SAFETY: as for this function.
        self.end("cuMemFreeHost", |driver| unsafe { (driver.host_free)(data.cast()) });
    }

    fn take_event(&self) -> std::result::Result<Handle, Fault> {
        if let Some(event) = self.events.lock().pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        let flags = cuda::EVENT_DISABLE_TIMING;
        // SAFETY: a valid out-pointer, in the context that is current.
        done("cuEventCreate", unsafe { (self.driver.event_create)(&mut event, flags) })?;
        Ok(Handle(event))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        for event in std::mem::take(self.events.get_mut()) {
            // SAFETY: ours, once.
            self.end("cuEventDestroy", |driver| unsafe { (driver.event_destroy)(event.0) });
        }
        // SAFETY: retained once.
        unsafe { (self.driver.context_release)(self.device) };
    }
}

/// Where in a stream's work something stood. It is recorded once.
pub(crate) struct Event {
    gpu: Arc<Gpu>,
    handle: Handle,
}

// SAFETY: the driver's objects belong to no thread.
unsafe impl Sync for Event {}

impl Event {
    /// The work that the stream has so far, all of which it does after the events.
    ///
    /// # Safety
    /// A live stream of this GPU's primary context.
    pub(crate) unsafe fn record<'a>(
        gpu: &Arc<Gpu>,
        stream: *mut c_void,
        after: impl Iterator<Item = &'a Event>,
    ) -> std::result::Result<Self, Fault> {
        gpu.inside(|driver| {
            for event in after {
                // SAFETY: as for this function; a live event.
                done("cuStreamWaitEvent", unsafe {
                    (driver.stream_wait)(stream, event.handle.0, 0)
                })?;
            }
            let event = Event { gpu: gpu.clone(), handle: gpu.take_event()? };
            // SAFETY: as for this function.
            done("cuEventRecord", unsafe { (driver.event_record)(event.handle.0, stream) })?;
            Ok(event)
        })
    }

    pub(crate) fn handle(&self) -> *mut c_void {
        self.handle.0
    }

    /// Has it been reached? Does not wait.
    pub(crate) fn query(&self) -> std::result::Result<bool, Fault> {
        self.gpu.inside(|driver| {
            // SAFETY: a live event.
            match unsafe { (driver.event_query)(self.handle.0) } {
                cuda::NOT_READY => Ok(false),
                code => done("cuEventQuery", code).map(|()| true),
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
        // SAFETY: ours, once.
        self.gpu.end("cuEventDestroy", |driver| unsafe { (driver.event_destroy)(self.handle.0) });
    }
}

/// What copies are made between.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    Host,
    Device(&'a Gpu),
}

/// A stream of the library's own.
pub(crate) struct Stream {
    gpu: Arc<Gpu>,
    handle: Handle,
}

impl Stream {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> std::result::Result<Self, Fault> {
        let mut stream = null_mut();
        let flags = cuda::STREAM_NON_BLOCKING;
        gpu.inside(|driver| {
            // SAFETY: a valid out-pointer.
            done("cuStreamCreate", unsafe { (driver.stream_create)(&mut stream, flags) })
        })?;
        Ok(Stream { gpu: gpu.clone(), handle: Handle(stream) })
    }

    /// Copies once the events have been reached. After an error nothing is under way.
    ///
    /// # Safety
    /// So many bytes on the sides that are named, which stay until the event has been reached.
    pub(crate) unsafe fn copy<'a>(
        &self,
        (from, from_side): (*mut u8, Side<'_>),
        (to, to_side): (*mut u8, Side<'_>),
        bytes: usize,
        after: impl Iterator<Item = &'a Event>,
    ) -> std::result::Result<Event, Fault> {
        let (stream, source, target) = (self.handle.0, from as Address, to as Address);
        let copy = |driver: &Driver| {
            for event in after {
                // SAFETY: a live stream and a live event.
                done("cuStreamWaitEvent", unsafe {
                    (driver.stream_wait)(stream, event.handle.0, 0)
                })?;
            }
            if bytes == 0 {
                return Ok(());
            }
            // SAFETY: as for this function.
            unsafe {
                match (from_side, to_side) {
                    (Side::Device(here), Side::Device(there)) if here.number != there.number => {
                        let (here, there) = (here.context, there.context);
                        let code =
                            (driver.copy_to_peer)(target, there, source, here, bytes, stream);
                        done("cuMemcpyPeerAsync", code)
                    }
                    (Side::Device(_), Side::Device(_)) => done(
                        "cuMemcpyDtoDAsync",
                        (driver.copy_on_device)(target, source, bytes, stream),
                    ),
                    (Side::Device(_), Side::Host) => done(
                        "cuMemcpyDtoHAsync",
                        (driver.copy_to_host)(to.cast(), source, bytes, stream),
                    ),
                    (Side::Host, _) => done(
                        "cuMemcpyHtoDAsync",
                        (driver.copy_to_device)(target, from.cast(), bytes, stream),
                    ),
                }
            }
        };
        self.gpu.inside(copy)?;
        // SAFETY: our own stream.
        unsafe { Event::record(&self.gpu, stream, std::iter::empty()) }.inspect_err(|_| {
            // The copy is under way, and nothing tells when it is over.
            // SAFETY: as above.
            self.gpu.end("cuStreamSynchronize", |driver| unsafe {
                (driver.stream_synchronize)(stream)
            });
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        self.gpu.end("cuStreamDestroy", |driver| unsafe { (driver.stream_destroy)(self.handle.0) });
    }
}
