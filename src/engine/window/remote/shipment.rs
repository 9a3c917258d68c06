//! What leaves for a target: the lists that messages are made of, which are kept for later ones,
//! and the messages whose memory UCX has not let go of.

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

/// Lists that are kept for later messages, and their length.
const SPARE: usize = 8;
const LENGTH_KEPT: usize = 4096;

/// What each message tells of the whole operation.
pub(super) struct Extent {
    pub(super) bytes: [u8; WindowHeader::PIECE],
    /// With each message: the call returns before they have left.
    pub(super) is_copied: bool,
}

/// The lists that messages are made of.
#[derive(Default)]
pub(super) struct Lists {
    /// At the target.
    pub(super) table: Vec<Piece>,
    /// Here.
    pub(super) parts: Vec<Part>,
    /// What goes in front of the data, or with it in a copy.
    pub(super) front: Vec<u8>,
    /// Messages under way whose memory is the caller's.
    pub(super) slots: Vec<*mut Slot>,
}

// SAFETY: empty when they change hands.
unsafe impl Send for Lists {}

/// Those that nobody uses.
#[derive(Default)]
pub(crate) struct SpareLists(Mutex<Vec<Lists>>);

/// Messages on their way.
pub(super) struct Shipment<'a> {
    service: &'a Service,
    pub(super) lists: Lists,
    pub(super) status: Status,
    /// `flag::EAGER`, or `RNDV`: whether the data goes along.
    pub(super) form: u64,
}

impl<'a> Shipment<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        let lists = service.windows().spare.0.lock().pop().unwrap_or_default();
        Shipment { service, lists, status: Status::OK, form: flag::EAGER }
    }

    /// Waits until UCX has let go of everything.
    pub(super) fn settle(&mut self) {
        for slot in self.lists.slots.drain(..) {
            // SAFETY: ours until it is destroyed.
            let request = unsafe { &*slot };
            let _ = self.service.await_news(&|| request.has_ended(), u64::MAX);
            let _ = request.wait(u64::MAX);
            if request.status().is_error() {
                self.status = request.status();
            }
            // SAFETY: ours, and not used afterwards.
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

    /// The next part of an operation, of so many pieces and bytes at most: its bytes.
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
                // SAFETY: as for this function.
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
