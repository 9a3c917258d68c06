//! Put, get and atomic operations on a peer's registered memory.
//!
//! Where this process sees the memory they are done in the call, by the processor: no message, no
//! progress on either side. Elsewhere put and get are UCX's, and atomic operations are questions
//! that the peer's library answers (see `atomic`).
//!
//! Cost of the first: the checks, one load for fork, one for the endpoint's status, and the copy.
//! No allocation, no lock, no system call, no gate.

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
            // SAFETY: inside the memory, which this process sees; and as for this function.
            unsafe { copy(buffer.cast(), place, place, length) };
            // What is sent after it, of another thread too that knows of it, comes after it.
            fence(Ordering::Release);
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
            // SAFETY: inside the memory, which this process sees; and as for this function.
            unsafe { copy(place, buffer.cast(), place, length) };
            // What is read after it is not older.
            fence(Ordering::Acquire);
            out.store_null();
            return Ok(Submitted::Done);
        }
        self.transfer(Kind::Get, buffer, length, offset, params, out)
    }

    /// An atomic operation on `size` bytes at `offset`; what was there goes to `result`, unless
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
                "rkey: atomic operations are for memory of the host alone",
            ));
        }
        let Atomic { size, offset, .. } = atomic;
        let length = if result.is_null() { 0 } else { usize::from(size) };
        if self.header.base.wrapping_add(offset) % u64::from(size) != 0 {
            return Err(Error::invalid(format!(
                "offset: {offset} is not aligned to the {size} bytes of the operation"
            )));
        }
        if let Some(place) = self.begin(feature::ATOMIC, size.into(), offset, params)? {
            // SAFETY: inside the memory, which this process sees, and aligned.
            let bytes = unsafe { atomic.execute(place) }.to_le_bytes();
            // SAFETY: as for this function. Of 4 bytes it is the lower half.
            unsafe { bytes.as_ptr().copy_to_nonoverlapping(result.cast(), length) };
            out.store_null();
            return Ok(Submitted::Done);
        }
        atomic.number = self.header.number;
        let part = Part { data: result, length, memory_type: memory_type::HOST };
        let params = OpParams { memory_type: memory_type::HOST, ..*params };
        // SAFETY: as for this function.
        let submitted = unsafe {
            self.endpoint.ask_for(
                RequestType::ATOMIC,
                &atomic.encode(),
                Room::Parts(&[part]),
                &params,
                out,
            )
        };
        self.endpoint.worker().note_unordered();
        submitted
    }

    /// Where it is not, its process would end by a signal: UCX writes without looking.
    #[inline]
    fn check_writable(&self) -> Result<()> {
        if !self.header.read_only {
            return Ok(());
        }
        let text = "rkey: the peer could not write all of the memory when it made the key";
        Err(Error::new(Status::INVALID_ADDR, text))
    }

    /// What is wrong with an operation; and where it can be done at once, if it can.
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
                "offset: {length} bytes at {offset} are not within the {} of the peer's memory",
                self.header.length
            );
            return Err(Error::new(Status::OUT_OF_RANGE, text));
        }
        let at_once = !self.local.is_null()
            && params.flags & (flag::ALWAYS_CALLBACK | flag::DELAYED) == 0
            && !memory_type::may_be_device(context, params.memory_type);
        // SAFETY: within the memory, as was looked at above.
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
        let submitted = request_wait::submit(params, out, |params, out| {
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
                return endpoint.send_later(sending, params, out, describe);
            }
            let inside = endpoint.enter()?;
            endpoint.check_open()?;
            if inside.must_wait() {
                return inside.send_in_turn(sending, params, out, describe);
            }
            let slot = inside.worker.take_slot();
            slot.prepare(kind);
            let mut param = Param::new(slot);
            param.memory_type(memory_type);
            let posted = self.post(&inside, slot, kind, buffer, length, address, &param);
            // One that is over has no use for the key.
            let ends = matches!(Posted::from_pointer(posted), Posted::Failed(_))
                || (posted.is_null() && params.flags & flag::ALWAYS_CALLBACK == 0);
            // SAFETY: nobody else has the slot's description yet. Piece by piece, as the whole is
            // large.
            unsafe {
                (*slot.queued.as_ptr()).rkey =
                    if ends { std::ptr::null() } else { Arc::into_raw(self.clone()).cast() }
            };
            let submission =
                Submission { endpoint: Some(&inside), params, length: length as u64, tag: address };
            inside.worker.submitted(slot, posted, submission, out)
        });
        worker.note_unordered();
        submitted
    }

    /// Hands UCX a put or a get, whose slot the param names, on an open endpoint: the key's.
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
            // UCX 1.13 leaves fields as they were that it follows when it gives up a put: what an
            // earlier use of the slot has left there.
            let size = self.endpoint.worker().context.request_size;
            // SAFETY: UCX's part of a slot, right before it, which nobody uses yet.
            unsafe {
                std::ptr::from_ref(slot).cast_mut().cast::<u8>().sub(size).write_bytes(0, size)
            };
        }
        // SAFETY: a live endpoint inside its worker's gate, and a key of it; the caller keeps the
        // buffer, the worker the slot and the key.
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
    /// Does what a peer asks for, and answers it. After UCP's pass.
    pub(crate) fn answer_atomic(&self, slot: &Slot, from: &Endpoint) {
        let inbound = slot.inbound();
        // SAFETY: the message's own, until it goes.
        let header =
            unsafe { std::slice::from_raw_parts(inbound.header, inbound.user_header.into()) };
        let atomic = match Atomic::decode(header) {
            Ok(atomic) => atomic,
            Err(why) => {
                complain(why);
                return from.answer_now(slot.number.get(), Status::INVALID_PARAM);
            }
        };
        if !self.context.has(feature::ATOMIC) {
            return from.answer_now(slot.number.get(), Status::UNSUPPORTED);
        }
        // SAFETY: inside memory that is registered, which it stays meanwhile; aligned; and the
        // host's.
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

/// Copies between the caller's buffer and shared memory, of which `shared` is the address: what is
/// aligned there and as long as a word is one load or store, so that nobody sees half of it.
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, shared: *const u8, length: usize) {
    macro_rules! word {
        ($atomic:ty, $word:ty) => {
            // SAFETY: as for this function; one of the two is aligned, the other need not be.
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
        // SAFETY: as for this function; the two may overlap in a process that puts into its own
        // memory.
        ..=LARGE => unsafe { from.copy_to(to, length) },
        // SAFETY: as above.
        _ => unsafe { copy_large(from, to, length) },
    }
}

/// In pieces, which are copied as what fits into the second cache: of more at a time the C library
/// makes loops that take longer.
///
/// # Safety
/// As for `copy`.
#[inline(never)]
unsafe fn copy_large(from: *const u8, to: *mut u8, length: usize) {
    let pieces = if from.addr().abs_diff(to.addr()) < length { length } else { PIECE };
    for at in (0..length).step_by(pieces) {
        // SAFETY: as for this function; pieces of what does not overlap are in any order.
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
            // SAFETY: as many bytes on both sides.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), to.as_ptr(), length) };
            assert_eq!(to[..length], from);
            assert_eq!(to[length], 0);
        }
        for distance in [1, PIECE - 1, PIECE, PIECE + 1, LENGTH - 1] {
            for (from, to) in [(0, distance), (distance, 0)] {
                let mut memory = numbers(LENGTH + distance);
                let expected = memory[from..from + LENGTH].to_vec();
                let base = memory.as_mut_ptr();
                // SAFETY: both inside the memory.
                unsafe { copy(base.add(from), base.add(to), base.add(to), LENGTH) };
                assert_eq!(memory[to..to + LENGTH], expected, "from {from} to {to}");
            }
        }
    }
}
