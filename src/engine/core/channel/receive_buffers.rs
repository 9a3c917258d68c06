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

impl Frame {
    const NOTHING: Frame = Frame {
        data: std::ptr::null_mut(),
        length: 0,
        memory_type: memory_type::HOST,
        device_id: 0,
    };
}

/// Longer frames have memory of their own.
const LONGEST_PACKED: usize = 4096;
/// As malloc aligns.
const ALIGNMENT: usize = align_of::<libc::max_align_t>();

/// The memory that the small frames of a message share: one allocation, one entry in the cache, and
/// a reader's views of it can be cheap slices of one.
#[derive(Clone, Copy)]
struct Packed {
    /// Null if there is none.
    start: *mut c_void,
    length: usize,
}

impl Packed {
    const NOTHING: Packed = Packed { start: std::ptr::null_mut(), length: 0 };

    fn has(&self, frame: &Frame) -> bool {
        let offset = (frame.data as usize).wrapping_sub(self.start as usize);
        offset < self.length && !frame.data.is_null()
    }
}

/// The frame is small, and not in a device's memory.
fn is_packed(frame: &Frame) -> bool {
    (1..=LONGEST_PACKED).contains(&frame.length) && !memory_type::is_device(frame.memory_type)
}

/// What a frame takes of the shared block.
fn room_of(frame: &Frame) -> usize {
    frame.length.next_multiple_of(ALIGNMENT)
}

/// Received buffers. Dropping it frees those that were not taken; that may run the caller's code,
/// so it happens outside the gate.
pub struct Buffers {
    allocator: Allocator,
    frames: Vec<Frame>,
    packed: Packed,
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
        let mut buffers = Buffers {
            allocator,
            frames: kept.take_list(),
            packed: Packed::NOTHING,
            gpu: None,
            store: store.clone(),
        };
        // The caller's function runs outside every lock.
        let kept = allocator.allocate.is_none().then_some(kept);
        buffers.frames.extend(wanted.map(|(length, memory_type)| Frame {
            data: std::ptr::null_mut(),
            length,
            memory_type,
            device_id: 0,
        }));
        // The lock goes before the buffers, if there is an error: dropping them takes it.
        match kept {
            Some(mut kept) => buffers.fill_own(reaches_cuda, &mut kept)?,
            None => buffers.fill()?,
        }
        Ok(buffers)
    }

    fn fill(&mut self) -> Result<()> {
        let Allocator { allocate: Some(allocate), arg, .. } = self.allocator else { return Ok(()) };
        for frame in self.frames.iter_mut().filter(|frame| frame.length > 0) {
            // SAFETY: the caller's function and argument; a valid out-pointer.
            let status = Status(unsafe {
                allocate.call_out((
                    arg,
                    frame.length,
                    frame.memory_type,
                    frame.device_id,
                    &raw mut frame.data,
                ))
            });
            if status.is_error() {
                return Err(refused(frame, status));
            }
            check_made(frame)?;
        }
        Ok(())
    }

    /// The library's own memory comes from malloc and the CUDA driver, so that a caller can free a
    /// buffer that it takes. Small frames of a message share one block.
    fn fill_own(&mut self, reaches_cuda: bool, kept: &mut Kept) -> Result<()> {
        let small = self.frames.iter().filter(|frame| is_packed(frame));
        let (count, length) =
            small.fold((0, 0), |(count, end), frame| (count + 1, end + room_of(frame)));
        if count > 1 {
            let start = kept.take(length);
            check_made(&Frame { data: start, length, ..Frame::NOTHING })?;
            self.packed = Packed { start, length };
        }
        let mut next = self.packed.start;
        for frame in self.frames.iter_mut().filter(|frame| frame.length > 0) {
            if count > 1 && is_packed(frame) {
                frame.data = next;
                next = next.wrapping_byte_add(room_of(frame));
            } else if memory_type::is_cuda(frame.memory_type) && reaches_cuda {
                allocate_on_gpu(frame, &mut self.gpu)?;
            } else if memory_type::is_device(frame.memory_type) {
                return Err(not_allocated(frame.memory_type));
            } else {
                frame.data = kept.take(frame.length);
                check_made(frame)?;
            }
        }
        Ok(())
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

    /// Takes one buffer out; the caller frees it. So it leaves the block that it shares.
    pub fn take(&mut self, index: usize) -> Result<Frame> {
        let mut frame = self.get(index)?;
        if self.packed.has(&frame) {
            let shared = frame.data;
            // SAFETY: no precondition.
            frame.data = unsafe { libc::malloc(frame.length) };
            check_made(&frame)?;
            // SAFETY: as long as the frame, in the block; the other one is new.
            unsafe { frame.data.copy_from_nonoverlapping(shared, frame.length) };
        }
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

fn allocate_on_gpu(frame: &mut Frame, own: &mut Option<Arc<Gpu>>) -> Result<()> {
    let gpu = match own {
        Some(gpu) => gpu,
        None => own.insert(cuda_driver::gpu_of_thread()?),
    };
    let failed = |fault: cuda_driver::Fault| {
        fault.into_error(format!("allocator: CUDA device {}", gpu.number()))
    };
    frame.data = gpu.allocate(frame.length).map_err(failed)?.cast();
    frame.device_id = gpu.number();
    Ok(())
}

#[cold]
fn not_allocated(kind: i32) -> Error {
    let text = match kind {
        memory_type::CUDA => {
            "has no `allocate`, and the loaded UCX cannot receive into CUDA memory here"
        }
        _ => "has no `allocate`, and the library allocates no memory of this type",
    };
    Error::new(Status::UNSUPPORTED, format!("allocator: {text}"))
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
        let block = Frame { data: self.packed.start, length: self.packed.length, ..Frame::NOTHING };
        let block = std::iter::once(&block).filter(|block| !block.data.is_null());
        let alone = made().filter(|frame| !is_the_gpus(frame) && !self.packed.has(frame));
        let rest = alone.chain(block);
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
