//! Buffers that are made when it is known what comes: by the caller's allocator, within the caller's limits.

use super::memory_type;
use super::status::{Error, Result, Status};
use super::worker::Worker;
use std::ffi::c_void;

/// `ucxx_allocator_t`'s functions.
pub type Allocate = unsafe extern "C" fn(*mut c_void, usize, i32, i32, *mut *mut c_void) -> i32;
/// The other one.
pub type Deallocate = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32, i32);

/// Who makes buffers, and how many and how large. The library's own memory where there are no functions.
#[derive(Clone, Copy)]
pub struct Allocator {
    /// Makes one.
    pub allocate: Option<Allocate>,
    /// Frees it.
    pub deallocate: Option<Deallocate>,
    /// For both.
    pub arg: *mut c_void,
    /// A peer that announces more is refused.
    pub max_frames: usize,
    /// The same in bytes.
    pub max_total_bytes: usize,
}

/// One of them.
#[derive(Clone, Copy)]
pub struct Frame {
    /// Null when `length` is 0, and when it has been taken.
    pub data: *mut c_void,
    /// Bytes.
    pub length: usize,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
    /// For memory types that have several.
    pub device_id: i32,
}

/// What was received. Frees what was not taken when it goes: the caller's code, outside the gate.
pub struct Buffers {
    allocator: Allocator,
    frames: Vec<Frame>,
}

// SAFETY: memory of the caller's, which is told that its functions may be called on any thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Makes buffers for frames of these lengths. Outside the gate.
    pub(crate) fn allocate(allocator: Allocator, wanted: impl ExactSizeIterator<Item = (usize, i32)>) -> Result<Self> {
        let mut buffers = Buffers { allocator, frames: Vec::with_capacity(wanted.len()) };
        for (length, memory_type) in wanted {
            let mut frame = Frame { data: std::ptr::null_mut(), length, memory_type, device_id: 0 };
            if length > 0 {
                let status = match allocator.allocate {
                    // SAFETY: the caller's function and argument; a valid out-pointer.
                    Some(allocate) => Status(unsafe {
                        allocate(allocator.arg, length, memory_type, frame.device_id, &mut frame.data)
                    }),
                    None => own(&mut frame),
                };
                if status.is_error() || frame.data.is_null() {
                    let status = if status.is_error() { status } else { Status::NO_MEMORY };
                    let text =
                        format!("allocator: no memory for {length} bytes: {}", status.sentence().to_string_lossy());
                    return Err(Error::new(status, text));
                }
            }
            buffers.frames.push(frame);
        }
        Ok(buffers)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// All of them.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// One of them.
    pub fn get(&self, index: usize) -> Result<Frame> {
        self.frames.get(index).copied().ok_or_else(|| self.no_such(index))
    }

    /// The same, and the caller frees it.
    pub fn take(&mut self, index: usize) -> Result<Frame> {
        let frame = self.get(index)?;
        self.frames[index].data = std::ptr::null_mut();
        Ok(frame)
    }

    #[cold]
    fn no_such(&self, index: usize) -> Error {
        Error::new(Status::OUT_OF_RANGE, format!("index: {index} of {} buffers", self.frames.len()))
    }
}

impl Worker {
    /// As `Buffers::allocate`, which is the user's code. Inside the gate, which is left meanwhile.
    pub(super) fn make_buffers(
        &self,
        allocator: Allocator,
        wanted: impl ExactSizeIterator<Item = (usize, i32)>,
    ) -> Result<Buffers> {
        let mut made = None;
        self.outside(|| made = Some(Buffers::allocate(allocator, wanted)));
        made.unwrap_or_else(|| Err(Error::new(Status::NO_MEMORY, "no buffers were made")))
    }
}

/// The library's own memory is the C library's, so that a caller can free what it takes.
fn own(frame: &mut Frame) -> Status {
    if memory_type::is_device(frame.memory_type) {
        return Status::UNSUPPORTED;
    }
    // SAFETY: no precondition.
    frame.data = unsafe { libc::malloc(frame.length) };
    Status::OK
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for frame in self.frames.iter().filter(|frame| !frame.data.is_null()) {
            match (self.allocator.allocate, self.allocator.deallocate) {
                // SAFETY: the caller's function, and what its other one made.
                (Some(_), Some(free)) => unsafe {
                    free(self.allocator.arg, frame.data, frame.length, frame.memory_type, frame.device_id);
                },
                (Some(_), None) => {}
                // SAFETY: from `own`.
                (None, _) => unsafe { libc::free(frame.data) },
            }
        }
    }
}
