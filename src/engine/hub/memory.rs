//! The memory of envelopes: the library's or the caller's, and on which device.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred::CallbackScope;
use crate::engine::hub::cuda::Fence;
use crate::engine::os::huge_pages::{LargePages, WORTHWHILE};
use crate::engine::ucx::context::Context;
use crate::engine::ucx::cuda_driver::{self, Gpu};
use crate::engine::ucx::memory_type::{self, CUDA, CUDA_PINNED, DUMMY, HOST};
use crate::engine::ucx::registered_memory::{physical_memory, Memory};
use crate::engine::wire::hub_stream::METADATA;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ffi::c_void;
use std::sync::Arc;

/// Alignment of envelopes: a cache line; for those of a page or more, a page.
const LINE: usize = 64;
const PAGE: usize = 4096;

/// A kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryKind {
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
    /// Device of that type; 0 for the host.
    pub device_id: i32,
}

impl MemoryKind {
    /// Returns an error if envelopes cannot be of this kind, or the device does not exist.
    pub fn check(self) -> Result<()> {
        memory_type::check(self.memory_type)?;
        if self.device_id < 0 || (self.device_id > 0 && self.memory_type == HOST) {
            return Err(Error::invalid(format!(
                "kind: device_id {} is not valid for this memory type",
                self.device_id
            )));
        }
        match self.memory_type {
            HOST | DUMMY => Ok(()),
            CUDA | CUDA_PINNED => cuda_driver::check_device(self.device_id).map_err(|error| {
                Error::new(error.status(), format!("kind: {self}: {}", error.message()))
            }),
            memory_type::AUTO => {
                Err(Error::invalid("kind: UCXX_MEMORY_AUTO does not say where envelopes are to be"))
            }
            _ => {
                let text = format!(
                    "kind: envelopes are not made of {self}, but of UCXX_MEMORY_HOST, _CUDA, \
                    _CUDA_PINNED or _DUMMY"
                );
                Err(Error::new(Status::UNSUPPORTED, text))
            }
        }
    }

    /// Returns an error if the driver knows that the caller's memory is of another kind.
    pub(crate) fn check_buffer(self, data: *const c_void) -> Result<()> {
        let found = if self.needs_cuda() { cuda_driver::find(data) } else { return Ok(()) };
        let there = match self.memory_type {
            CUDA => found == Some((CUDA, self.device_id)),
            _ => found.is_some_and(|(memory_type, _)| memory_type == CUDA_PINNED),
        };
        if there {
            return Ok(());
        }
        Err(Error::invalid(format!("data: according to the CUDA driver, {data:p} is not {self}")))
    }

    pub(crate) fn needs_cuda(self) -> bool {
        matches!(self.memory_type, CUDA | CUDA_PINNED)
    }

    /// The memory type for UCX.
    pub(crate) fn to_network(self) -> i32 {
        if self.memory_type == CUDA {
            CUDA
        } else {
            HOST
        }
    }

    /// Preferred source of transfers.
    pub(crate) fn is_host(self) -> bool {
        matches!(self.memory_type, HOST | CUDA_PINNED)
    }
}

impl std::fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.memory_type {
            HOST => f.write_str("the host"),
            DUMMY => write!(f, "dummy device {}", self.device_id),
            CUDA => write!(f, "CUDA device {}", self.device_id),
            CUDA_PINNED => f.write_str("pinned host memory"),
            memory_type::CUDA_MANAGED => f.write_str("CUDA managed memory"),
            memory_type::ROCM => f.write_str("ROCm memory"),
            other => write!(f, "device {} of memory type {other}", self.device_id),
        }
    }
}

pub type Deallocate = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Whose memory a slab is.
enum Source {
    Heap(Layout),
    Pages(#[allow(dead_code)] LargePages),
    /// The metadata are in host memory.
    Device(Arc<Gpu>, #[allow(dead_code)] Box<[Metadata]>),
    Pinned(Arc<Gpu>),
}

/// Memory of envelopes that were created together.
pub(crate) struct Slab {
    base: *mut u8,
    source: Source,
    /// Registration with UCX, if the hub has a worker. Dropped before the memory.
    memory: Option<Memory>,
}

/// A buffer of the caller.
struct Wrapped {
    data: *mut c_void,
    deallocate: Option<Deallocate>,
    arg: *mut c_void,
    _metadata: Box<Metadata>,
}

#[repr(align(64))]
struct Metadata(std::cell::UnsafeCell<[u8; METADATA]>);

/// Keeps the memory alive.
#[allow(dead_code)]
enum Owner {
    Slab(Arc<Slab>),
    Wrapped(Wrapped),
}

/// The memory of one envelope. A swap moves it to another envelope, perhaps of another hub, so it
/// keeps its own owner alive.
pub(crate) struct Block {
    span: Span,
    owner: Owner,
    /// Work of streams on it that is not done yet.
    pub(crate) fence: Fence,
}

/// Addresses of the bytes. Only the holder of a lease or a transfer uses them.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) data: *mut u8,
    pub(crate) metadata: *mut u8,
}

// SAFETY: plain addresses; the hub's state decides which thread accesses them.
unsafe impl Send for Span {}
// SAFETY: its memory may be used and freed on any thread, by one at a time.
unsafe impl Send for Block {}
// SAFETY: its memory may be freed on any thread.
unsafe impl Send for Slab {}
// SAFETY: a shared slab is never accessed, it only keeps the memory.
unsafe impl Sync for Slab {}

impl Block {
    /// Creates `count` blocks of `size` bytes, registered with UCX if it supports their kind.
    pub(crate) fn make(
        context: &Arc<Context>,
        kind: MemoryKind,
        size: usize,
        count: usize,
        register: bool,
    ) -> Result<Vec<Block>> {
        let align = if size >= PAGE { PAGE } else { LINE };
        let too_many = || {
            Error::new(
                Status::NO_MEMORY,
                format!("count: there is no memory for {count} envelopes of {size} bytes"),
            )
        };
        let stride = size.checked_next_multiple_of(align).ok_or_else(too_many)?;
        let data = stride.checked_mul(count).ok_or_else(too_many)?;
        let total = count
            .checked_mul(METADATA)
            .and_then(|metadata| metadata.checked_add(data))
            .ok_or_else(too_many)?;
        let layout = Layout::from_size_align(total, align).map_err(|_| too_many())?;
        if kind.memory_type != CUDA && total as u64 > physical_memory() {
            return Err(too_many());
        }
        let mut slab = match kind.memory_type {
            CUDA => Slab::on_device(kind, data, align, count)?,
            CUDA_PINNED => Slab::pinned(kind, total, align)?,
            _ => Slab::on_host(layout).ok_or_else(too_many)?,
        };
        let base = slab.base.wrapping_add(slab.base.align_offset(align));
        if register && (kind.to_network() == HOST || context.has_cuda()) {
            // SAFETY: the slab's own memory; `Slab::drop` ends the registration first.
            slab.memory =
                Some(unsafe { Memory::register(context, base.cast(), data, kind.to_network()) }?);
        }
        let metadata = match &slab.source {
            Source::Device(_, metadata) => metadata.as_ptr().cast_mut().cast(),
            _ => base.wrapping_add(data),
        };
        let slab = Arc::new(slab);
        let block = |index: usize| Block {
            span: Span {
                data: base.wrapping_add(index * stride),
                metadata: metadata.wrapping_add(index * METADATA),
            },
            owner: Owner::Slab(slab.clone()),
            fence: Fence::default(),
        };
        Ok((0..count).map(block).collect())
    }

    /// A block of the caller's memory.
    pub(crate) fn wrap(
        data: *mut c_void,
        deallocate: Option<Deallocate>,
        arg: *mut c_void,
    ) -> Block {
        let metadata = Box::new(Metadata(std::cell::UnsafeCell::new([0; METADATA])));
        let span = Span { data: data.cast(), metadata: metadata.0.get().cast() };
        let owner = Owner::Wrapped(Wrapped { data, deallocate, arg, _metadata: metadata });
        Block { span, owner, fence: Fence::default() }
    }

    #[inline(always)]
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        matches!(self.owner, Owner::Wrapped(_))
    }
}

/// Clears an envelope's metadata. The caller is its only user.
#[inline(always)]
pub(crate) fn clear_metadata(metadata: *mut u8) {
    // SAFETY: `METADATA` bytes of an envelope that only the caller uses.
    unsafe { metadata.write_bytes(0, METADATA) };
}

impl Span {
    /// For a new chunk. The caller is the envelope's only user.
    #[inline(always)]
    pub(crate) fn clear_metadata(self) {
        clear_metadata(self.metadata);
    }

    /// Copies a chunk, for a transfer, which holds both envelopes.
    pub(crate) fn copy_to(self, to: Span, length: u64) {
        // SAFETY: different envelopes of the same size, and the length does not exceed it. The
        // transfer keeps others from writing the source and from using the target. They overlap if
        // the user has added one buffer twice.
        unsafe { self.data.copy_to(to.data, length as usize) };
        self.copy_metadata(to);
    }

    /// Copies the metadata of a transfer whose data are copied by a GPU.
    pub(crate) fn copy_metadata(self, to: Span) {
        // SAFETY: `METADATA` bytes of two different envelopes, which the transfer holds.
        unsafe { self.metadata.copy_to_nonoverlapping(to.metadata, METADATA) };
    }
}

impl Slab {
    fn on_host(layout: Layout) -> Option<Slab> {
        if layout.size() >= WORTHWHILE {
            let pages = LargePages::new(layout.size())?;
            return Some(Slab { base: pages.base(), source: Source::Pages(pages), memory: None });
        }
        // Zeroed: users who may not see memory that was never written get slices of it.
        // SAFETY: the layout is not empty: at least one envelope of at least one byte.
        let base = unsafe { alloc_zeroed(layout) };
        (!base.is_null()).then_some(Slab { base, source: Source::Heap(layout), memory: None })
    }

    /// Allocates `align` bytes more, so that the envelopes can be aligned.
    fn on_device(kind: MemoryKind, bytes: usize, align: usize, count: usize) -> Result<Slab> {
        let gpu = cuda_driver::gpu(kind.device_id)?;
        let base = gpu
            .allocate(bytes.saturating_add(align))
            .map_err(|fault| fault.into_error(format!("count: {kind}")))?;
        let metadata =
            (0..count).map(|_| Metadata(std::cell::UnsafeCell::new([0; METADATA]))).collect();
        Ok(Slab { base, source: Source::Device(gpu, metadata), memory: None })
    }

    fn pinned(kind: MemoryKind, bytes: usize, align: usize) -> Result<Slab> {
        let gpu = cuda_driver::gpu(kind.device_id)?;
        let base = gpu
            .allocate_pinned(bytes.saturating_add(align))
            .map_err(|fault| fault.into_error(format!("count: {kind}")))?;
        Ok(Slab { base, source: Source::Pinned(gpu), memory: None })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.memory = None;
        // SAFETY: allocated by the same allocator, and freed once.
        unsafe {
            match &self.source {
                Source::Pages(_) => {}
                Source::Heap(layout) => dealloc(self.base, *layout),
                Source::Device(gpu, _) => gpu.free(self.base),
                Source::Pinned(gpu) => gpu.free_pinned(self.base),
            }
        }
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        if let Some(deallocate) = self.deallocate {
            let _scope = CallbackScope::new();
            // SAFETY: function and arguments are the caller's, called once.
            unsafe { deallocate.call_out((self.arg, self.data)) };
        }
    }
}
