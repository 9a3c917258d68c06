//! The buffers of an operation in the form that UCP takes: one, or a list of parts.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::memory_type;
use crate::sys;
use std::ffi::c_void;

/// One part of a scattered message.
#[derive(Clone, Copy)]
pub struct Part {
    /// May be null if `length` is 0.
    pub data: *mut c_void,
    /// Bytes.
    pub length: usize,
    /// `UCXX_MEMORY_*`.
    pub memory_type: i32,
}

#[inline(always)]
pub(crate) fn memory_type_of(
    worker: &SharedWorker,
    parts: &[Part],
    params: &OpParams,
) -> Result<Option<sys::ucs_memory_type_t>> {
    match parts {
        [part] => memory_type::to_ucx(&worker.context, part.memory_type),
        _ => common_memory_type(worker, parts, params),
    }
}

/// The memory type that all parts share: UCP takes a list of one type only.
pub(crate) fn common_memory_type(
    worker: &SharedWorker,
    parts: &[Part],
    params: &OpParams,
) -> Result<Option<sys::ucs_memory_type_t>> {
    let mut types = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| part.length > 0)
        .map(|(index, part)| (index, memory_type::to_ucx(&worker.context, part.memory_type)));
    let Some((_, first)) = types.next() else {
        return memory_type::to_ucx(&worker.context, params.memory_type);
    };
    let first = first?;
    for (index, other) in types {
        if other? != first {
            let text = format!(
                "buffers: number {index} has another memory type than those before it; all buffers \
                of a call must have the same"
            );
            return Err(Error::new(Status::UNSUPPORTED, text));
        }
    }
    Ok(first)
}

/// Buffer and count for UCP: a list in the slot's own memory (true), or the only part. Parts of
/// length 0 are left out.
#[inline(always)]
pub(crate) fn describe_parts(slot: &Slot, parts: &[Part]) -> (*mut c_void, usize, bool) {
    match parts {
        [part] => (part.data, part.length, false),
        _ => list_parts(slot, parts),
    }
}

fn list_parts(slot: &Slot, parts: &[Part]) -> (*mut c_void, usize, bool) {
    let mut filled = parts.iter().filter(|part| part.length > 0);
    match (filled.next(), filled.next()) {
        (None, _) => return (std::ptr::null_mut(), 0, false),
        (Some(only), None) => return (only.data, only.length, false),
        _ => {}
    }
    // SAFETY: the slot was just taken: nothing else uses the list.
    let list = unsafe { &mut *slot.iov.get() };
    list.clear();
    list.extend(
        parts
            .iter()
            .filter(|part| part.length > 0)
            .map(|part| sys::ucp_dt_iov_t { buffer: part.data, length: part.length }),
    );
    (list.as_mut_ptr().cast(), list.len(), true)
}
