//! Registered memory: UCX knows it, and peers that receive a key can read and write it.
//!
//! It belongs to a context, not to a worker. UCX locks registration itself (`mt_workers_shared`),
//! so any thread may call this.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::own_memory;
use crate::engine::os::process_identity::{first_number, Identity};
use crate::engine::ucx::context::{feature, Context};
use crate::engine::ucx::memory_type;
use crate::engine::ucx::packed_key::KeyHeader;
use crate::engine::ucx::runtime;
use crate::sys;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Memory for which a key has been made, by its number. Atomic operations that arrive as messages
/// may touch only this memory. The thread that executes one holds the lock, so that the memory is
/// not unregistered meanwhile.
#[derive(Default)]
pub(crate) struct Exposed(Mutex<HashMap<u64, Range>>);

#[derive(Clone, Copy)]
struct Range {
    base: usize,
    length: usize,
}

/// A registered range.
pub struct Memory {
    context: Arc<Context>,
    handle: sys::ucp_mem_h,
    base: *mut c_void,
    length: usize,
    memory_type: i32,
    number: u64,
    packed: OnceCell<Box<[u8]>>,
}

// SAFETY: UCX's handle may be used from any thread, as its context was created with
// `mt_workers_shared`.
unsafe impl Send for Memory {}
// SAFETY: only the `OnceCell` changes, which is Sync. UCX locks what the handle refers to.
unsafe impl Sync for Memory {}

impl Memory {
    /// Registers the caller's memory.
    ///
    /// # Safety
    /// `base` is the start of `length` bytes that stay mapped while the result lives.
    pub unsafe fn register(
        context: &Arc<Context>,
        base: *mut c_void,
        length: usize,
        memory_type: i32,
    ) -> Result<Memory> {
        check_length(length)?;
        if base.is_null() || (base as usize).checked_add(length).is_none() {
            return Err(Error::invalid(format!(
                "base: {length} bytes at {base:p} are not a valid range"
            )));
        }
        // SAFETY: the memory stays mapped by this function's contract.
        unsafe { Self::map(context, base, length, memory_type, 0) }
    }

    /// Allocates registered memory. If UCX can, it is memory that processes of this host can share.
    pub fn allocate(context: &Arc<Context>, length: usize, memory_type: i32) -> Result<Memory> {
        check_length(length)?;
        let memory_type =
            if memory_type == memory_type::AUTO { memory_type::HOST } else { memory_type };
        if !memory_type::is_device(memory_type) && length as u64 > physical_memory() {
            // UCX would write to all of it before it fails, and exhaust the machine's memory.
            let text = format!(
                "length: {length} bytes are more than this machine has memory, {} bytes",
                physical_memory()
            );
            return Err(Error::new(Status::NO_MEMORY, text));
        }
        // SAFETY: UCX allocates the memory, so there is none that has to stay mapped.
        let memory = unsafe {
            Self::map(context, std::ptr::null_mut(), length, memory_type, sys::UCP_MEM_MAP_ALLOCATE)
        }?;
        if !memory_type::is_device(memory_type) {
            // UCX may have taken it from the heap. Clear it, as peers must not see what was there
            // before.
            // SAFETY: UCX allocated at least `length` bytes, and nobody else knows them yet.
            unsafe { memory.base.cast::<u8>().write_bytes(0, length) };
        }
        Ok(memory)
    }

    unsafe fn map(
        context: &Arc<Context>,
        base: *mut c_void,
        length: usize,
        memory_type: i32,
        flags: u32,
    ) -> Result<Memory> {
        context.check_fork()?;
        memory_type::check(memory_type)?;
        let told = memory_type::to_ucx(context, memory_type)?;
        // SAFETY: all-zero is valid: the mask says which fields count.
        let mut params: sys::ucp_mem_map_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(
            sys::UCP_MEM_MAP_PARAM_FIELD_ADDRESS
                | sys::UCP_MEM_MAP_PARAM_FIELD_LENGTH
                | sys::UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        );
        (params.address, params.length, params.flags) = (base, length, flags);
        if let Some(told) = told {
            params.field_mask |= u64::from(sys::UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE);
            params.memory_type = told;
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: a live context, a struct with its mask set, and a valid pointer for the result.
        // The callers ensure that the memory stays mapped.
        let status = unsafe { sys::ucp_mem_map(context.handle(), &params, &mut handle) };
        if status != sys::UCS_OK {
            let what = if flags == 0 { "register" } else { "allocate" };
            return Err(Error::new(
                Status(status.into()),
                format!("memory: UCX could not {what} {length} bytes"),
            ));
        }
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut memory = Memory {
            context: context.clone(),
            handle,
            base,
            length,
            memory_type,
            number: first_number() + LAST.fetch_add(1, Ordering::Relaxed) + 1,
            packed: OnceCell::new(),
        };
        memory.look()?;
        Ok(memory)
    }

    /// Asks UCX for the address that it allocated, and for the memory type that it found.
    fn look(&mut self) -> Result<()> {
        // SAFETY: all-zero is valid: the mask says which fields count.
        let mut attr: sys::ucp_mem_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask =
            u64::from(sys::UCP_MEM_ATTR_FIELD_ADDRESS | sys::UCP_MEM_ATTR_FIELD_MEM_TYPE);
        // SAFETY: a live handle, and a struct with its mask set.
        let status = unsafe { sys::ucp_mem_query(self.handle, &mut attr) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "memory: UCX could not describe what it has registered",
            ));
        }
        if self.base.is_null() {
            // Only for memory that UCX allocated. For memory of the caller, UCX 1.13 reports the
            // start of the region that it merged with neighbours.
            self.base = attr.address;
        }
        if self.memory_type == memory_type::AUTO {
            self.memory_type = memory_type::from_ucx(attr.mem_type);
        }
        Ok(())
    }

    pub fn base(&self) -> *mut c_void {
        self.base
    }

    /// Its length, as requested.
    pub fn length(&self) -> usize {
        self.length
    }

    /// UCP's handle, for calls that this library does not have. Null in a forked child.
    pub fn native(&self) -> *mut c_void {
        if self.context.generation.is_past() {
            return std::ptr::null_mut();
        }
        self.handle.cast()
    }

    /// Refuses a range that is not inside it.
    pub fn check_holds(&self, begin: *const c_void, length: usize) -> Result<()> {
        let (base, begin) = (self.base() as u64, begin as u64);
        if begin >= base
            && (begin - base)
                .checked_add(length as u64)
                .is_some_and(|end| end <= self.length() as u64)
        {
            return Ok(());
        }
        Err(Error::invalid(format!("memory: {length} bytes at {begin:#x} are not within it")))
    }

    /// May operations of this context use it?
    pub(crate) fn check_context(&self, context: &Arc<Context>) -> Result<()> {
        if Arc::ptr_eq(&self.context, context) {
            return Ok(());
        }
        Err(Error::invalid("memory: was registered with another context"))
    }

    /// A key for peers. Once there is a key, atomic operations of peers are allowed.
    pub fn packed(&self) -> Result<&[u8]> {
        self.context.check_fork()?;
        if !self.context.has(feature::RMA | feature::ATOMIC) {
            let text = "memory: its context was made without UCXX_FEATURE_RMA and \
                UCXX_FEATURE_ATOMIC, which let peers touch memory";
            return Err(Error::new(Status::UNSUPPORTED, text));
        }
        self.packed.get_or_try_init(|| self.pack()).map(|packed| &**packed)
    }

    fn pack(&self) -> Result<Box<[u8]>> {
        let (mut key, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: a live context and its memory, and valid pointers for the results.
        let status = unsafe {
            sys::ucp_rkey_pack(self.context.handle(), self.handle, &mut key, &mut length)
        };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "memory: UCX could not make a key to it",
            ));
        }
        let header = KeyHeader {
            base: self.base as u64,
            length: self.length as u64,
            number: self.number,
            memory_type: self.memory_type,
            read_only: !memory_type::is_device(self.memory_type)
                && !own_memory::is_open(self.base as u64, self.length as u64),
            owner: Identity::of_this_process(0),
        };
        // SAFETY: UCX's buffer of that length, released below.
        let packed = header.encode(unsafe { std::slice::from_raw_parts(key.cast::<u8>(), length) });
        // SAFETY: the buffer from above, released once.
        unsafe { sys::ucp_rkey_buffer_release(key) };
        if !memory_type::is_device(self.memory_type) {
            let range = Range { base: self.base as usize, length: self.length };
            self.context.exposed.0.lock().insert(self.number, range);
        }
        Ok(packed.into())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.context.generation.is_past() {
            return;
        }
        self.context.exposed.0.lock().remove(&self.number);
        // SAFETY: the handle from `map`, unmapped once, in its own context.
        let status = runtime::with_signals_blocked(|| unsafe {
            sys::ucp_mem_unmap(self.context.handle(), self.handle)
        });
        if status != sys::UCS_OK {
            log::at!(
                WARN,
                Memory,
                &(),
                "UCX could not release {} bytes of registered memory: {}",
                self.length,
                Status(status.into())
            );
        }
    }
}

/// Physical memory of this machine, in bytes.
pub(crate) fn physical_memory() -> u64 {
    // SAFETY: sysconf takes a number and has no precondition.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0))
}

fn check_length(length: usize) -> Result<()> {
    if length == 0 || isize::try_from(length).is_err() {
        return Err(Error::invalid(format!("length: {length} bytes cannot be registered")));
    }
    Ok(())
}

impl Exposed {
    /// Is memory of this number exposed, with exactly this range?
    pub(crate) fn has(&self, number: u64, base: u64, length: u64) -> bool {
        let range = self.0.lock().get(&number).copied();
        range.is_some_and(|range| range.base as u64 == base && range.length as u64 == length)
    }

    /// Calls `act` with the address of `size` bytes at `offset`. Holds the lock, so the memory
    /// stays registered meanwhile. Errors: NO_ELEM, OUT_OF_RANGE, INVALID_PARAM (not aligned to
    /// `size`).
    pub(crate) fn act_on<T>(
        &self,
        number: u64,
        (offset, size): (u64, u8),
        act: impl FnOnce(*mut u8) -> T,
    ) -> std::result::Result<T, Status> {
        let exposed = self.0.lock();
        let range = exposed.get(&number).ok_or(Status::NO_ELEM)?;
        let fits =
            offset.checked_add(u64::from(size)).is_some_and(|end| end <= range.length as u64);
        if !fits {
            return Err(Status::OUT_OF_RANGE);
        }
        let place = range.base + offset as usize;
        if place % usize::from(size) != 0 {
            return Err(Status::INVALID_PARAM);
        }
        Ok(act(std::ptr::with_exposed_provenance_mut(place)))
    }
}
