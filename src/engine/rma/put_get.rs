//! Put, get and atomic operations on a peer's registered memory.
//!
//! If this process has the memory mapped, the processor executes the operation inside the call:
//! without a message, and without progress on either side. Otherwise UCX does put and get, and an
//! atomic operation is a fetch request that the peer's library answers (see `atomic`).
//!
//! Cost if mapped: the checks, one load for fork, one for the endpoint's status, and the copy. No
//! allocation, lock, system call or gate. Any thread.

use crate::engine::base::log::Component;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::{Out, Submission};
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::request::submit::Sending;
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::fetch::request::RequestType;
use crate::engine::messaging::fetch::request::Room;
use crate::engine::rma::atomic::Atomic;
use crate::engine::rma::remote_key::Rkey;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::ucx::runtime;
use crate::sys::{self, Posted};
use std::ffi::c_void;
use std::sync::atomic::{fence, AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// Longer copies are made in pieces.
const LARGE: usize = 512 << 10;
const PIECE: usize = 256 << 10;

impl Rkey {
    /// Writes `length` bytes at `offset` of the memory.
    ///
    /// # Safety
    /// `buffer` is readable for `length` bytes until the operation has completed, and `out` is
    /// valid.
    pub unsafe fn put(
        self: &Arc<Self>,
        buffer: *const c_void,
        length: usize,
        offset: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.endpoint.worker().context, "put", flag::NO_WAIT)?;
        self.check_writable()?;
        if let Some(place) = self.begin(feature::RMA, length as u64, offset, params)? {
            // SAFETY: inside the memory, which this process has mapped; the caller guarantees the
            // buffer.
            unsafe { copy(buffer.cast(), place, place, length) };
            // Ordered before later sends, including those of another thread that synchronises with
            // this one.
            fence(Ordering::Release);
            let mapped = self.endpoint.worker().mapped();
            mapped.puts.add(1);
            mapped.put_bytes.add(length as u64);
            out.store_null();
            return Ok(Submitted::Done);
        }
        self.transfer(Kind::Put, buffer.cast_mut(), length, offset, params, out)
    }

    /// Reads `length` bytes from `offset` of the memory.
    ///
    /// # Safety
    /// `buffer` is writable for `length` bytes until the operation has completed, and `out` is
    /// valid.
    pub unsafe fn get(
        self: &Arc<Self>,
        buffer: *mut c_void,
        length: usize,
        offset: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.endpoint.worker().context, "get", flag::NO_WAIT)?;
        if let Some(place) = self.begin(feature::RMA, length as u64, offset, params)? {
            // SAFETY: inside the memory, which this process has mapped; the caller guarantees the
            // buffer.
            unsafe { copy(place, buffer.cast(), place, length) };
            // Ordered before later reads.
            fence(Ordering::Acquire);
            let mapped = self.endpoint.worker().mapped();
            mapped.gets.add(1);
            mapped.get_bytes.add(length as u64);
            out.store_null();
            return Ok(Submitted::Done);
        }
        self.transfer(Kind::Get, buffer, length, offset, params, out)
    }

    /// An atomic operation on `size` bytes at `offset`. The previous value goes to `result`, unless
    /// that is null.
    ///
    /// # Safety
    /// `result` is null or writable for `size` bytes until the operation has completed, and `out`
    /// is valid.
    pub unsafe fn atomic(
        self: &Arc<Self>,
        mut atomic: Atomic,
        result: *mut c_void,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.endpoint.worker().context, "atomic operation", flag::NO_WAIT)?;
        self.check_writable()?;
        if memory_type::is_device(self.header.memory_type)
            || memory_type::is_device(params.memory_type)
        {
            return Err(Error::new(
                Status::UNSUPPORTED,
                "rkey: atomic operations need host memory, at the peer and for the result",
            ));
        }
        let Atomic { size, offset, .. } = atomic;
        let length = if result.is_null() { 0 } else { usize::from(size) };
        if self.header.base.wrapping_add(offset) % u64::from(size) != 0 {
            return Err(Error::invalid(format!(
                "offset: the address at {offset} is not aligned to the operation's {size} bytes"
            )));
        }
        if let Some(place) = self.begin(feature::ATOMIC, size.into(), offset, params)? {
            // SAFETY: inside the memory, which this process has mapped, and aligned.
            let bytes = unsafe { atomic.execute(place) }.to_le_bytes();
            // SAFETY: the caller guarantees `result`. For 4 bytes the value is in the lower half.
            unsafe { bytes.as_ptr().copy_to_nonoverlapping(result.cast(), length) };
            self.endpoint.worker().mapped().atomics.add(1);
            out.store_null();
            return Ok(Submitted::Done);
        }
        atomic.number = self.header.number;
        let part = Part { data: result, length, memory_type: memory_type::HOST };
        let params = OpParams { memory_type: memory_type::HOST, ..*params };
        // A callback may destroy the key and the endpoint before this thread has counted.
        let worker = self.endpoint.worker().clone();
        // SAFETY: the caller guarantees `result` and `out`.
        let submitted = unsafe {
            self.endpoint.ask_for(
                RequestType::ATOMIC,
                &atomic.encode(),
                Room::Parts(&[part]),
                &params,
                out,
            )
        };
        worker.note_unordered();
        submitted
    }

    /// If the memory is read-only, a write would kill its process with a signal: UCX does not
    /// check.
    #[inline]
    fn check_writable(&self) -> Result<()> {
        if !self.header.read_only {
            return Ok(());
        }
        let text = "rkey: is read-only, because the peer could not write to all of the memory";
        Err(Error::new(Status::INVALID_ADDR, text))
    }

    /// Checks an operation. Returns its address if it can be executed inside the call.
    #[inline]
    fn begin(
        &self,
        wanted: u64,
        length: u64,
        offset: u64,
        params: &OpParams,
    ) -> Result<Option<*mut u8>> {
        let endpoint = &self.endpoint;
        let context = &endpoint.worker().context;
        context.check_fork()?;
        self.check_usable()?;
        if !endpoint.is_open() {
            endpoint.check_open_outside()?;
        }
        endpoint.worker().need(wanted)?;
        if offset.checked_add(length).is_none_or(|end| end > self.header.length) {
            let text = format!(
                "offset: {length} bytes at {offset} are not in the {} bytes of the peer's memory",
                self.header.length
            );
            return Err(Error::new(Status::OUT_OF_RANGE, text));
        }
        let at_once = !self.local.is_null()
            && params.flags & (flag::ALWAYS_CALLBACK | flag::DELAYED) == 0
            && !memory_type::may_be_device(context, params.memory_type);
        // SAFETY: within the memory, as was checked above.
        Ok(at_once.then(|| unsafe { self.local.add(offset as usize) }))
    }

    /// A put or a get by UCX.
    fn transfer(
        self: &Arc<Self>,
        kind: Kind,
        buffer: *mut c_void,
        length: usize,
        offset: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let endpoint = &*self.endpoint;
        let worker = endpoint.worker();
        let memory_type = memory_type::to_ucx(&worker.context, params.memory_type)?;
        let address = self.header.base + offset;
        request_wait::submit(params, out, |params, out| {
            let describe = |_slot: &Slot| Queued {
                buffer,
                count: length,
                tag: address,
                memory_type,
                endpoint,
                rkey: Arc::into_raw(self.clone()).cast(),
                ..Queued::NOTHING
            };
            let sending = Sending { kind, need: Need::of(length), tag: address };
            if worker.must_submit_remotely(params) {
                // A callback may destroy the key and the endpoint before this thread has counted.
                let worker = worker.clone();
                let submitted = endpoint.send_later(sending, params, out, describe);
                worker.note_unordered();
                return submitted;
            }
            // Up to the end no callback runs: this thread is inside.
            let inside = endpoint.enter()?;
            endpoint.check_open()?;
            if inside.must_wait() {
                let submitted = inside.send_in_turn(sending, params, out, describe);
                worker.note_unordered();
                return submitted;
            }
            let slot = inside.worker.take_slot();
            slot.prepare(kind);
            let mut param = Param::new(slot);
            param.memory_type(memory_type);
            param.let_ucx_describe(slot);
            slot.length.set(length as u64);
            slot.tag.set(address);
            trace::submitted_and_posts(slot, Some(&inside));
            let posted = self.post(&inside, slot, kind, buffer, length, address, &param);
            trace::posted(slot, Some(&inside));
            // An operation that is complete does not need the key.
            let ends = matches!(Posted::from_pointer(posted), Posted::Failed(_))
                || (posted.is_null() && params.flags & flag::ALWAYS_CALLBACK == 0);
            // SAFETY: nothing else uses the slot's description yet. Field by field, because the
            // whole is large.
            unsafe {
                (*slot.queued.as_ptr()).rkey =
                    if ends { std::ptr::null() } else { Arc::into_raw(self.clone()).cast() }
            };
            let submission =
                Submission { endpoint: Some(&inside), params, length: length as u64, tag: address };
            let submitted = inside.worker.submitted(slot, posted, submission, out);
            worker.note_unordered();
            submitted
        })
    }

    /// Gives UCX a put or a get with the slot in `param`, on the key's endpoint, which is open.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn post(
        &self,
        endpoint: &Endpoint,
        slot: &Slot,
        kind: Kind,
        buffer: *mut c_void,
        length: usize,
        address: u64,
        param: &Param,
    ) -> sys::ucs_status_ptr_t {
        if length == 0 {
            return std::ptr::null_mut();
        }
        let (ucp, key) = (endpoint.ucp.get(), self.ucp);
        if runtime::ucx_release().numbers < (1, 16, 0) {
            // UCX 1.13 does not initialise fields that it follows when it gives up a put: they
            // would have values of an earlier use of the slot.
            let size = self.endpoint.worker().context.request_size;
            // SAFETY: UCX's part of a slot, right before it, which is not in use yet.
            unsafe {
                std::ptr::from_ref(slot).cast_mut().cast::<u8>().sub(size).write_bytes(0, size)
            };
        }
        // SAFETY: a live endpoint inside its worker's gate, and one of its keys; the caller keeps
        // the buffer, and the worker the slot and the key.
        unsafe {
            if kind == Kind::Put {
                sys::ucp_put_nbx(ucp, buffer, length, address, key, param.as_ptr())
            } else {
                sys::ucp_get_nbx(ucp, buffer, length, address, key, param.as_ptr())
            }
        }
    }
}

impl Worker {
    /// Executes a peer's request, and replies. After UCP's pass.
    pub(crate) fn answer_atomic(&self, slot: &Slot, from: &Endpoint) {
        let inbound = slot.inbound();
        // SAFETY: it belongs to the message, until the message is destroyed.
        let header =
            unsafe { std::slice::from_raw_parts(inbound.header, inbound.user_header.into()) };
        let atomic = match Atomic::decode(header) {
            Ok(atomic) => atomic,
            Err(why) => {
                complain(Component::Rma, from, why);
                return from.answer_now(slot.number.get(), Status::INVALID_PARAM);
            }
        };
        if !self.context.has(feature::ATOMIC) {
            return from.answer_now(slot.number.get(), Status::UNSUPPORTED);
        }
        // SAFETY: inside registered memory, which stays registered meanwhile; aligned host memory.
        let execute = |place| unsafe { atomic.execute(place) };
        match self.context.exposed.act_on(atomic.number, (atomic.offset, atomic.size), execute) {
            Ok(before) => {
                let before = before.to_le_bytes();
                let wanted = inbound.capacity >= u64::from(atomic.size);
                let length = if wanted { atomic.size.into() } else { 0 };
                from.answer_with(slot.number.get(), Status::OK, &before[..length]);
            }
            Err(status) => from.answer_now(slot.number.get(), status),
        }
    }
}

/// Copies between the caller's buffer and shared memory, which `shared` points to. A word that is
/// aligned there is copied with one load or store, so that no other process sees half of it.
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, shared: *const u8, length: usize) {
    macro_rules! word {
        ($atomic:ty, $word:ty) => {
            // SAFETY: the caller guarantees both; one of the two is aligned, and the other need not
            // be.
            unsafe {
                if std::ptr::eq(shared, to) {
                    <$atomic>::from_ptr(to.cast())
                        .store(from.cast::<$word>().read_unaligned(), Ordering::Relaxed);
                } else {
                    let word = <$atomic>::from_ptr(from.cast_mut().cast()).load(Ordering::Relaxed);
                    to.cast::<$word>().write_unaligned(word);
                }
            }
        };
    }
    match length {
        8 if shared as usize % 8 == 0 => word!(AtomicU64, u64),
        4 if shared as usize % 4 == 0 => word!(AtomicU32, u32),
        2 if shared as usize % 2 == 0 => word!(AtomicU16, u16),
        1 => word!(AtomicU8, u8),
        // SAFETY: the caller guarantees both; they may overlap if a process puts into its own
        // memory.
        ..=LARGE => unsafe { from.copy_to(to, length) },
        // SAFETY: the caller guarantees both.
        _ => unsafe { copy_large(from, to, length) },
    }
}

/// Copies in pieces that fit into the second-level cache: the C library is slower with larger
/// copies.
///
/// # Safety
/// As for `copy`.
#[inline(never)]
unsafe fn copy_large(from: *const u8, to: *mut u8, length: usize) {
    let pieces = if from.addr().abs_diff(to.addr()) < length { length } else { PIECE };
    for at in (0..length).step_by(pieces) {
        // SAFETY: the caller guarantees both; pieces of memory that does not overlap may have any
        // order.
        unsafe { from.add(at).copy_to(to.add(at), pieces.min(length - at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_copies_are_whole_whether_they_overlap_or_not() {
        const LENGTH: usize = 2 * LARGE + 4321;
        let numbers =
            |length: usize| (0..length).map(|at| (at * 31 + at / 251) as u8).collect::<Vec<_>>();
        for length in [LARGE, LARGE + 1, LARGE + PIECE, LENGTH] {
            let (from, mut to) = (numbers(length), vec![0; length + 1]);
            // SAFETY: both sides have this many bytes.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), to.as_ptr(), length) };
            assert_eq!(to[..length], from);
            assert_eq!(to[length], 0);
        }
        for distance in [1, PIECE - 1, PIECE, PIECE + 1, LENGTH - 1] {
            for (from, to) in [(0, distance), (distance, 0)] {
                let mut memory = numbers(LENGTH + distance);
                let expected = memory[from..from + LENGTH].to_vec();
                let base = memory.as_mut_ptr();
                // SAFETY: both are inside the memory.
                unsafe { copy(base.add(from), base.add(to), base.add(to), LENGTH) };
                assert_eq!(memory[to..to + LENGTH], expected, "from {from} to {to}");
            }
        }
    }
}
