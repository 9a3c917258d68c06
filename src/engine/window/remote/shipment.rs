//! Messages in flight to a target: their lists, which are reused, and the requests whose memory UCX
//! still uses.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::Status;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::operation::flag;
use crate::engine::core::request::request::{self, Slot};
use crate::engine::group::service::Service;
use crate::engine::ucx::memory_type;
use crate::engine::window::data::data::Side;
use crate::engine::window::data::datatype_layout::Together;
use crate::engine::window::remote::origin::AT_ONCE;
use crate::engine::wire::window::{encode_piece, Piece, WindowHeader};

/// Number of lists that are kept for reuse, and their longest kept length.
const SPARE: usize = 8;
const LENGTH_KEPT: usize = 4096;

/// The extent of the whole operation, which each message carries.
pub(super) struct Extent {
    pub(super) bytes: [u8; WindowHeader::PIECE],
    /// Copied into each message, because the call returns before they are sent.
    pub(super) is_copied: bool,
}

/// The lists that a message is made of.
#[derive(Default)]
pub(super) struct Lists {
    /// Pieces at the target.
    pub(super) table: Vec<Piece>,
    /// Pieces here.
    pub(super) parts: Vec<Part>,
    /// Bytes before the data, or with a copy of the data.
    pub(super) front: Vec<u8>,
    /// Messages in flight that use the caller's memory.
    pub(super) slots: Vec<*mut Slot>,
}

// SAFETY: the lists are empty when they move to another thread.
unsafe impl Send for Lists {}

/// Lists for reuse.
#[derive(Default)]
pub(crate) struct SpareLists(Mutex<Vec<Lists>>);

/// The messages of one operation.
pub(super) struct Shipment<'a> {
    service: &'a Service,
    pub(super) lists: Lists,
    pub(super) status: Status,
    /// `flag::EAGER` or `RNDV`: whether messages carry their data or it is pulled.
    pub(super) form: u64,
}

impl<'a> Shipment<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        let lists = service.windows().spare.0.lock().pop().unwrap_or_default();
        Shipment { service, lists, status: Status::OK, form: flag::EAGER }
    }

    /// Waits until UCX has released all memory.
    pub(super) fn settle(&mut self) {
        for slot in self.lists.slots.drain(..) {
            // SAFETY: we own the request; it is destroyed below.
            let request = unsafe { &*slot };
            let _ = self.service.await_news(&|| request.has_ended(), u64::MAX);
            let _ = request.wait(u64::MAX);
            if request.status().is_error() {
                self.status = request.status();
            }
            // SAFETY: we own the request, and it is not used again.
            unsafe { request::destroy(slot) };
        }
    }
}

impl Drop for Shipment<'_> {
    fn drop(&mut self) {
        self.settle();
        let mut lists = std::mem::take(&mut self.lists);
        lists.clear();
        let Lists { table, parts, front, .. } = &mut lists;
        table.shrink_to(LENGTH_KEPT);
        parts.shrink_to(LENGTH_KEPT);
        front.shrink_to(2 * AT_ONCE as usize);
        let mut spare = self.service.windows().spare.0.lock();
        if spare.len() < SPARE {
            spare.push(lists);
        }
    }
}

pub(super) fn part(data: &[u8]) -> Part {
    part_at(data.as_ptr().cast_mut(), data.len())
}

pub(super) fn part_at(place: *mut u8, length: usize) -> Part {
    Part { data: place.cast(), length, memory_type: memory_type::HOST }
}

impl Lists {
    fn clear(&mut self) {
        self.table.clear();
        self.parts.clear();
        self.front.clear();
    }

    /// Fills the lists with the next part of an operation, of at most `most` pieces and `at_once`
    /// bytes. Returns its length.
    ///
    /// # Safety
    /// The origin is readable as its layout says.
    pub(super) unsafe fn fill(
        &mut self,
        (begin, extent): (u64, Option<&Extent>),
        origin: Option<&Side<'_>>,
        rest: &mut Together<'_, 2>,
        at_once: u64,
        most: usize,
    ) -> u64 {
        self.clear();
        let Lists { table, parts, front, .. } = self;
        let mut bytes = 0;
        while table.len() < most && bytes < at_once {
            let Some(([here, there], now)) = rest.next_up_to(at_once - bytes) else { break };
            bytes += now;
            let place = begin.wrapping_add_signed(there);
            match table.last_mut() {
                Some((at, length)) if *at + *length == place => *length += now,
                _ => table.push((place, now)),
            }
            let Some(origin) = origin else { continue };
            let data: *mut u8 = origin.place.wrapping_offset(here as isize);
            match parts.last_mut() {
                Some(last) if last.data.cast::<u8>().wrapping_add(last.length) == data => {
                    last.length += now as usize
                }
                _ => parts.push(part_at(data, now as usize)),
            }
        }
        let is_scattered = parts.len() > 1;
        let copied = |extent: &&Extent| extent.is_copied || is_scattered || table.len() > 1;
        front.extend(extent.filter(copied).iter().flat_map(|extent| extent.bytes));
        if table.len() > 1 {
            table.iter().for_each(|piece| front.extend_from_slice(&encode_piece(*piece)));
        }
        if is_scattered {
            for part in parts.drain(..) {
                // SAFETY: the part lies in the origin, which is readable by this function's
                // contract.
                front.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(part.data.cast::<u8>(), part.length)
                });
            }
        }
        if !front.is_empty() {
            parts.insert(0, part(front));
        } else if let Some(extent) = extent {
            parts.insert(0, part(&extent.bytes));
        }
        bytes
    }
}
