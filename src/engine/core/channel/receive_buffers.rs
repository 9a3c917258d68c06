//! Buffers that are allocated when the size of the incoming data is known: by the caller's
//! allocator or the library's own, within the caller's limits.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::buffer_cache::{FrameStore, Kept};
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::cuda_driver::{self, Gpu};
use crate::engine::ucx::memory_type;
use std::ffi::c_void;
use std::sync::Arc;

/// `ucxx_allocator_t`'s function to allocate.
pub type Allocate = unsafe extern "C" fn(*mut c_void, usize, i32, i32, *mut *mut c_void) -> i32;
/// `ucxx_allocator_t`'s function to free.
pub type Deallocate = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32, i32);

/// How buffers are allocated, how many and how large. Without functions the library allocates them.
#[derive(Clone, Copy)]
pub struct Allocator {
    /// Allocates one.
    pub allocate: Option<Allocate>,
    /// Frees it.
    pub deallocate: Option<Deallocate>,
    /// For both functions.
    pub arg: *mut c_void,
    /// A peer that announces more is refused.
    pub max_frames: usize,
    /// The same in bytes.
    pub max_total_bytes: usize,
}

/// One buffer.
#[derive(Clone, Copy)]
pub struct Frame {
    /// Null if `length` is 0, or if it was taken.
    pub data: *mut c_void,
    /// Bytes.
    pub length: usize,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
    /// For memory types with several devices.
    pub device_id: i32,
}

/// Received buffers. Dropping it frees those that were not taken; that may run the caller's code,
/// so it happens outside the gate.
pub struct Buffers {
    allocator: Allocator,
    frames: Vec<Frame>,
    /// Set if the library has allocated CUDA buffers.
    gpu: Option<Arc<Gpu>>,
    /// The cache for the library's own buffers.
    store: Arc<FrameStore>,
}

// SAFETY: the caller's memory; the caller knows that its functions may be called on any thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates buffers for frames of these lengths. Outside the gate. `reaches_cuda`: UCX can
    /// receive into CUDA memory.
    pub(crate) fn allocate(
        allocator: Allocator,
        wanted: impl ExactSizeIterator<Item = (usize, i32)>,
        reaches_cuda: bool,
        store: &Arc<FrameStore>,
    ) -> Result<Self> {
        let mut kept = store.lock();
        let mut buffers =
            Buffers { allocator, frames: kept.take_list(), gpu: None, store: store.clone() };
        // The caller's function runs outside every lock.
        let mut kept = allocator.allocate.is_none().then_some(kept);
        buffers.frames.reserve(wanted.len());
        for (length, memory_type) in wanted {
            let mut frame = Frame { data: std::ptr::null_mut(), length, memory_type, device_id: 0 };
            let filled = match &mut kept {
                _ if length == 0 => Ok(()),
                Some(kept) => buffers.fill_own(&mut frame, reaches_cuda, kept),
                None => buffers.fill(&mut frame),
            };
            if let Err(error) = filled {
                // Dropping buffers takes the lock.
                drop(kept);
                return Err(error);
            }
            buffers.frames.push(frame);
        }
        drop(kept);
        Ok(buffers)
    }

    fn fill(&self, frame: &mut Frame) -> Result<()> {
        let Some(allocate) = self.allocator.allocate else { return Ok(()) };
        // SAFETY: the caller's function and argument; a valid out-pointer.
        let status = Status(unsafe {
            allocate.call_out((
                self.allocator.arg,
                frame.length,
                frame.memory_type,
                frame.device_id,
                &raw mut frame.data,
            ))
        });
        if status.is_error() {
            return Err(refused(frame, status));
        }
        check_made(frame)
    }

    /// The library's own memory comes from malloc and the CUDA driver, so that a caller can free a
    /// buffer that it takes.
    fn fill_own(&mut self, frame: &mut Frame, reaches_cuda: bool, kept: &mut Kept) -> Result<()> {
        if memory_type::is_cuda(frame.memory_type) && reaches_cuda {
            let gpu = match &self.gpu {
                Some(gpu) => gpu,
                None => self.gpu.insert(cuda_driver::gpu_of_thread()?),
            };
            let failed = |fault: cuda_driver::Fault| {
                fault.into_error(format!("allocator: CUDA device {}", gpu.number()))
            };
            frame.data = gpu.allocate(frame.length).map_err(failed)?.cast();
            frame.device_id = gpu.number();
            return Ok(());
        }
        if memory_type::is_device(frame.memory_type) {
            let text = match frame.memory_type {
                memory_type::CUDA => {
                    "has no `allocate`, and the loaded UCX cannot receive into CUDA memory here"
                }
                _ => "has no `allocate`, and the library allocates no memory of this type",
            };
            return Err(Error::new(Status::UNSUPPORTED, format!("allocator: {text}")));
        }
        frame.data = kept.take(frame.length);
        check_made(frame)
    }

    /// Number of buffers.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// All buffers.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// One buffer.
    pub fn get(&self, index: usize) -> Result<Frame> {
        self.frames.get(index).copied().ok_or_else(|| self.no_such(index))
    }

    /// Takes one buffer out; the caller frees it.
    pub fn take(&mut self, index: usize) -> Result<Frame> {
        let frame = self.get(index)?;
        self.frames[index].data = std::ptr::null_mut();
        Ok(frame)
    }

    #[cold]
    fn no_such(&self, index: usize) -> Error {
        Error::new(
            Status::OUT_OF_RANGE,
            format!("index: {index} is not below the number of buffers, {}", self.frames.len()),
        )
    }
}

impl Worker {
    /// As `Buffers::allocate`, which runs user code: leaves the gate meanwhile.
    pub(crate) fn make_buffers(
        &self,
        allocator: Allocator,
        wanted: impl ExactSizeIterator<Item = (usize, i32)>,
    ) -> Result<Buffers> {
        let mut made = None;
        self.outside(|| {
            made = Some(Buffers::allocate(allocator, wanted, self.context.has_cuda(), &self.frames))
        });
        made.unwrap_or_else(|| {
            Err(Error::new(Status::NO_MEMORY, "allocator: no buffers were allocated"))
        })
    }
}

fn check_made(frame: &Frame) -> Result<()> {
    if frame.data.is_null() {
        return Err(Error::new(
            Status::NO_MEMORY,
            format!("allocator: there is no memory for {} bytes", frame.length),
        ));
    }
    Ok(())
}

#[cold]
fn refused(frame: &Frame, status: Status) -> Error {
    let Frame { length, memory_type, .. } = frame;
    let text = format!(
        "allocator: `allocate` has returned {status} for {length} bytes of memory \
        type {memory_type}"
    );
    Error::new(status, text)
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        let Allocator { allocate, deallocate, arg, .. } = self.allocator;
        let made = || frames.iter().filter(|frame| !frame.data.is_null());
        let is_the_gpus =
            |frame: &&Frame| self.gpu.is_some() && memory_type::is_cuda(frame.memory_type);
        if let (Some(_), Some(free)) = (allocate, deallocate) {
            // SAFETY: the caller's function to free, and what its other function allocated.
            made().for_each(|frame| unsafe {
                free.call_out((arg, frame.data, frame.length, frame.memory_type, frame.device_id))
            });
            if let Some(mut kept) = self.store.try_lock() {
                kept.end_message(frames);
            }
            return;
        }
        if let Some(gpu) = &self.gpu {
            // Before the lock: the driver may wait for the device.
            // SAFETY: from `fill_own`, which allocates CUDA memory only on this GPU.
            made().filter(is_the_gpus).for_each(|frame| unsafe { gpu.free(frame.data.cast()) });
        }
        let rest = made().filter(|frame| !is_the_gpus(frame));
        match self.store.try_lock() {
            Some(mut kept) => {
                // SAFETY: from `fill_own`, which takes everything else from the store.
                rest.for_each(|frame| unsafe { kept.give(frame.data, frame.length) });
                kept.end_message(frames);
            }
            // SAFETY: from the store, whose memory comes from malloc.
            None => rest.for_each(|frame| unsafe { libc::free(frame.data) }),
        }
    }
}

/// The buffers for a reply, and their allocator.
pub(crate) struct Making {
    pub(crate) allocator: Allocator,
    pub(crate) buffers: Option<Buffers>,
    /// Why there are none.
    pub(crate) trouble: Option<Error>,
}

impl Making {
    pub(crate) fn by(allocator: Allocator) -> Box<Self> {
        Box::new(Making { allocator, buffers: None, trouble: None })
    }
}
