//! Registered memory, and the memory of peers.
//!
//! Peers read and write registered memory at any time, like a device. So it is never lent as a
//! slice: this process reads and writes it by calls, too.

use crate::api::calling;
use crate::api::context::Context;
use crate::api::endpoint::Endpoint;
use crate::api::opaque;
use crate::api::request::{Keep, Operation, Outcome, Request};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::operation::RecvInfo;
use crate::engine::rma::atomic::{Atomic, AtomicOp};
use crate::engine::rma::remote_key::Rkey;
use crate::engine::ucx::memory_type;
use crate::engine::ucx::packed_key::KeyHeader;
use crate::engine::ucx::registered_memory;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Memory that peers with its key read and write by [`Remote`], without a call on this side.
///
/// Clones are the same memory, which is freed with the last of them. It begins as zeros.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    memory: registered_memory::Memory,
    /// Its number, once there is a key.
    number: OnceLock<u64>,
}

/// The memory of this process for which there is a key. A [`Remote`] to it keeps it alive, until
/// what it has put there has arrived: between two workers of one process safe code could write to
/// memory that was freed otherwise.
static OWN: Mutex<BTreeMap<u64, Weak<Inner>>> = Mutex::new(BTreeMap::new());

/// A peer's [`Memory`], reached through an endpoint.
///
/// Clones are the same. Operations may overtake each other: [`Endpoint::flush`] waits until those
/// before have happened at the peer.
#[derive(Clone)]
pub struct Remote(Arc<Reached>);

struct Reached {
    key: Option<Arc<Rkey>>,
    endpoint: Endpoint,
    /// The memory itself, if it is of this process.
    own: Option<Memory>,
}

/// A number that atomic operations work on: `u32` or `u64`.
pub trait AtomicNumber: word::Word + Outcome {}

mod word {
    pub trait Word: Copy {
        const SIZE: u8;
        fn widen(self) -> u64;
    }
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl AtomicNumber for $word {}

        impl word::Word for $word {
            const SIZE: u8 = size_of::<$word>() as u8;
            fn widen(self) -> u64 {
                self.into()
            }
        }

        impl Outcome for $word {
            const RECEIVES: bool = false;
            /// The number before. The engine has written it, in the order of the wire, to the place
            /// where receives have a length.
            fn of(info: RecvInfo) -> Self {
                let bytes = info.length.to_ne_bytes();
                <$word>::from_le_bytes(std::array::from_fn(|byte| bytes[byte]))
            }
        }
    )*};
}

words! { u32 u64 }

impl Memory {
    /// Allocates registered memory, for contexts with [`Feature::Rma`](crate::Feature::Rma) or
    /// [`Feature::Atomic`](crate::Feature::Atomic).
    ///
    /// # Errors
    ///
    /// `NO_MEMORY`; `INVALID_PARAM` for no bytes.
    pub fn allocate(context: &Context, length: usize) -> Result<Self> {
        let memory = registered_memory::Memory::allocate(&context.0, length, memory_type::HOST)?;
        Ok(Memory(Arc::new(Inner { memory, number: OnceLock::new() })))
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.memory.length()
    }

    /// The key, to be sent to peers: about a hundred bytes.
    ///
    /// A peer with the key can write to this memory until it is freed, so agree with the peers
    /// before you drop it. Networks do not check what comes later: a context with
    /// [`Feature::Rma`](crate::Feature::Rma) trusts its peers, as it would if it shared memory with
    /// them.
    ///
    /// # Errors
    ///
    /// `UNSUPPORTED` if the context has neither feature.
    pub fn key(&self) -> Result<Vec<u8>> {
        let packed = self.0.memory.packed()?;
        if let (None, Ok((header, _))) = (self.0.number.get(), KeyHeader::decode(packed)) {
            OWN.lock().insert(header.number, Arc::downgrade(&self.0));
            let _ = self.0.number.set(header.number);
        }
        Ok(packed.to_vec())
    }

    /// Reads bytes from `offset`. While a peer writes them they may be old or new, each for itself.
    ///
    /// # Errors
    ///
    /// `OUT_OF_RANGE`.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = self.place(offset, to.len())?;
        copy(from, to.as_mut_ptr(), to.len(), |from, to| {
            // SAFETY: both are inside what `copy` was given.
            unsafe { to.write((*from.cast::<AtomicU8>()).load(Ordering::Acquire)) }
        });
        Ok(())
    }

    /// Writes bytes at `offset`.
    ///
    /// # Errors
    ///
    /// `OUT_OF_RANGE`.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.place(offset, from.len())?;
        copy(from.as_ptr().cast_mut(), to, from.len(), |from, to| {
            // SAFETY: both are inside what `copy` was given.
            unsafe { (*to.cast::<AtomicU8>()).store(from.read(), Ordering::Release) }
        });
        Ok(())
    }

    /// Loads a number of 8 bytes at an offset that is a multiple of 8. Atomic to what peers do with
    /// it.
    ///
    /// # Errors
    ///
    /// `OUT_OF_RANGE`; `INVALID_PARAM` for another offset.
    pub fn load(&self, offset: usize) -> Result<u64> {
        Ok(self.word(offset)?.load(Ordering::SeqCst))
    }

    /// Stores a number: see [`load`](Self::load).
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn store(&self, offset: usize, number: u64) -> Result<()> {
        self.word(offset)?.store(number, Ordering::SeqCst);
        Ok(())
    }

    fn place(&self, offset: usize, length: usize) -> Result<*mut u8> {
        if offset.checked_add(length).is_none_or(|end| end > self.len()) {
            let text = format!("offset: {length} bytes at {offset} are not in {}", self.len());
            return Err(Error::new(Status::OUT_OF_RANGE, text));
        }
        Ok(self.0.memory.base().cast::<u8>().wrapping_add(offset))
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64> {
        let place = self.place(offset, 8)?;
        if place.addr() % 8 != 0 {
            return Err(Error::invalid(format!("offset: {offset} is not a multiple of 8")));
        }
        // SAFETY: inside the memory, which lives as long as this, and aligned.
        Ok(unsafe { AtomicU64::from_ptr(place.cast()) })
    }
}

/// Byte by byte, as peers may use one of the two sides meanwhile.
fn copy(from: *mut u8, to: *mut u8, length: usize, one: impl Fn(*mut u8, *mut u8)) {
    (0..length).for_each(|index| one(from.wrapping_add(index), to.wrapping_add(index)));
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(number) = self.number.get() {
            OWN.lock().remove(number);
        }
    }
}

impl Endpoint {
    /// The peer's memory with this key. The endpoint must be connected: one that was made by host
    /// and port has to be flushed once before.
    ///
    /// ```
    /// # use ucxx_rs::{Context, Feature, Memory, Worker};
    /// let context = Context::builder().feature(Feature::Rma).build()?;
    /// # let (here, there) = (Worker::new(&context)?, Worker::new(&context)?);
    /// let memory = Memory::allocate(&context, 4096)?;
    /// // At the peer, which was sent the key and the address:
    /// let endpoint = there.connect_to(&here.address()?)?;
    /// let remote = endpoint.remote(&memory.key()?)?;
    /// remote.put("hello", 100).wait().0?;
    /// endpoint.flush_wait()?;
    /// # let mut bytes = [0; 5];
    /// # memory.read(100, &mut bytes)?;
    /// # assert_eq!(&bytes, b"hello");
    /// # Ok::<(), ucxx_rs::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` for bytes that are no key of this peer; `NO_ELEM` for memory that was freed;
    /// `NOT_CONNECTED`.
    pub fn remote(&self, key: &[u8]) -> Result<Remote> {
        let invalid = |why| Error::invalid(format!("key: is none: {why}"));
        let (header, _) = KeyHeader::decode(key).map_err(invalid)?;
        let own = if header.owner.is_process(&self.worker().shared().identity) {
            let own = OWN.lock().get(&header.number).and_then(Weak::upgrade);
            let gone = || Error::new(Status::NO_ELEM, "key: its memory was freed");
            Some(Memory(own.ok_or_else(gone)?))
        } else {
            None
        };
        let key = calling(|| Rkey::unpack(self.shared(), key))?;
        Ok(Remote(Arc::new(Reached { key: Some(key), endpoint: self.clone(), own })))
    }
}

impl Remote {
    fn key(&self) -> &Arc<Rkey> {
        self.0.key.as_ref().expect("taken only when it is dropped")
    }

    /// The endpoint to the peer.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.key().length() as usize
    }

    /// Writes the buffer at `offset`. It ends when the buffer may be used again, which may be
    /// before the peer can see it: flush the endpoint for that.
    ///
    /// # Errors
    ///
    /// `OUT_OF_RANGE`; the end of the endpoint.
    pub fn put<B: AsRef<[u8]> + Send + 'static>(&self, buffer: B, offset: usize) -> Request<B> {
        Request::submit(buffer, Keep::Remote(self.clone()), |buffer, params, out, _| {
            let bytes = (*buffer).as_ref();
            let data = bytes.as_ptr().cast();
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            unsafe { self.key().put(data, bytes.len(), offset as u64, params, out) }
        })
    }

    /// Fills the buffer from `offset`.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn get<B: AsMut<[u8]> + Send + 'static>(&self, buffer: B, offset: usize) -> Request<B> {
        Request::submit(buffer, Keep::Remote(self.clone()), |buffer, params, out, _| {
            let bytes = buffer.as_mut();
            let data = bytes.as_mut_ptr().cast();
            // SAFETY: the buffer stays there until the operation has completed: see `request.rs`.
            unsafe { self.key().get(data, bytes.len(), offset as u64, params, out) }
        })
    }

    /// Adds to a number, wrapping around. Returns the number before. The offset is a multiple of
    /// the number's size, for this and all other atomic operations.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put); `INVALID_PARAM` for another offset.
    pub fn fetch_add<T: AtomicNumber>(&self, offset: usize, operand: T) -> Operation<T> {
        self.atomic(AtomicOp::Add, offset, operand, operand)
    }

    /// Bitwise and. As [`fetch_add`](Self::fetch_add).
    pub fn fetch_and<T: AtomicNumber>(&self, offset: usize, operand: T) -> Operation<T> {
        self.atomic(AtomicOp::And, offset, operand, operand)
    }

    /// Bitwise or. As [`fetch_add`](Self::fetch_add).
    pub fn fetch_or<T: AtomicNumber>(&self, offset: usize, operand: T) -> Operation<T> {
        self.atomic(AtomicOp::Or, offset, operand, operand)
    }

    /// Bitwise exclusive or. As [`fetch_add`](Self::fetch_add).
    pub fn fetch_xor<T: AtomicNumber>(&self, offset: usize, operand: T) -> Operation<T> {
        self.atomic(AtomicOp::Xor, offset, operand, operand)
    }

    /// Replaces a number. As [`fetch_add`](Self::fetch_add).
    pub fn swap<T: AtomicNumber>(&self, offset: usize, number: T) -> Operation<T> {
        self.atomic(AtomicOp::Swap, offset, number, number)
    }

    /// Replaces a number if it is `current`. As [`fetch_add`](Self::fetch_add).
    pub fn compare_swap<T: AtomicNumber>(&self, offset: usize, current: T, new: T) -> Operation<T> {
        self.atomic(AtomicOp::CompareSwap, offset, new, current)
    }

    fn atomic<T: AtomicNumber>(
        &self,
        op: AtomicOp,
        offset: usize,
        operand: T,
        compare: T,
    ) -> Operation<T> {
        let atomic = Atomic {
            op,
            size: T::SIZE,
            number: 0,
            offset: offset as u64,
            operand: operand.widen(),
            compare: if op == AtomicOp::CompareSwap { compare.widen() } else { 0 },
        };
        Operation::submit(Keep::Remote(self.clone()), |params, out, info| {
            // SAFETY: the place for the result stays there until the operation has completed: see
            // `request.rs`.
            unsafe { self.key().atomic(atomic, (&raw mut (*info).length).cast(), params, out) }
        })
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            key.destroy();
        }
        if let Some(memory) = self.own.take() {
            let flush = |params: &_, out, _| self.endpoint.shared().flush(params, out);
            Operation::<()>::submit(Keep::Written(memory), flush).detach();
        }
    }
}

opaque! { Memory Remote }
