//! What messages ask for, executed at this process's memory, once `window::remote::target` knows
//! whose they are.
//!
//! An operation is executed as if this process had called for it, with one difference. Memory that
//! was attached may have gone, and memory of the caller's may be read-only: a process is not to end
//! by a signal since another one asked for something there. So the kernel copies, as it does from
//! process to process, in dynamic windows, and at memory of the caller's that was not readable and
//! writable as a whole when the window was made. It costs a system call for a put or get, and two
//! and the lock for an accumulate. All other memory stays as it is, as its owner has promised, and
//! costs nothing.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::own_memory::Way;
use crate::engine::rma::put_get;
use crate::engine::window::access::{Piece, Process, Reach};
use crate::engine::window::data::data::{check_attached, swap_there, Place};
use crate::engine::window::data::datatype_layout::Layout;
use crate::engine::window::data::reduce::{self, Update};
use crate::engine::window::remote::origin::AT_ONCE;
use crate::engine::window::window::{Target, Window};
use crate::engine::wire::element_type::{Domain, Reduce};
use crate::engine::wire::window::{content_of, Content, What, WindowHeader};
use std::sync::atomic::Ordering;

/// Bytes that are updated as one, also where the window has less: an element may be named often,
/// and members do not know of each other how much a dynamic window has.
const MOST_WHOLE: u64 = 1 << 31;

impl Target {
    /// Bytes that are updated as one.
    pub(crate) fn most_whole(&self) -> u64 {
        MOST_WHOLE.max(self.size)
    }
}

impl Window {
    /// Executes an operation at this process's memory. What was asked for; BUSY, with nothing done,
    /// as `under_lock_as_service` says it.
    pub(crate) fn perform(
        &self,
        header: &WindowHeader,
        data: &[u8],
        granted: bool,
    ) -> Result<Vec<u8>> {
        let WindowHeader { what, op, kind, bytes, .. } = *header;
        let strange = || {
            Error::new(Status::INVALID_PARAM, "window: a message whose data is not what it says")
        };
        let Content { extent, pieces, data } = content_of(header, data).ok_or_else(strange)?;
        let size = kind.size();
        let expected = match what {
            What::Get => 0,
            What::Fetch if op == Reduce::NoOp => 0,
            What::Swap => 2 * size as u64,
            _ => bytes,
        };
        // What is swapped is one element, at one place.
        let one = what != What::Swap || (header.pieces == 0 && bytes == size as u64);
        if data.len() as u64 != expected || bytes > self.most_at_once(what, header.pieces) || !one {
            return Err(strange());
        }
        // First: nothing is done where some of the operation is not there.
        if let Some((at, bytes)) = extent {
            self.place_here(at, bytes)?;
        }
        let places = pieces
            .iter()
            .map(|(at, bytes)| self.place_here(*at, *bytes))
            .collect::<Result<Vec<_>>>()?;
        let fetches = what.is_answered();
        let mut fetched =
            self.group.service.windows().take_buffer(if fetches { bytes as usize } else { 0 });
        if bytes == 0 {
            return Ok(fetched);
        }
        // The kernel finds out what may not be touched, at the cost of its calls.
        let by_kernel =
            (!matches!(self.own().reach, Reach::Mapped(_))).then(|| Process::own(self.rank));
        if matches!(what, What::Put | What::Get) {
            let mut done = 0;
            if let Some(own) = &by_kernel {
                let (way, here) = match what {
                    What::Put => (Way::Write, data.as_ptr().cast_mut()),
                    _ => (Way::Read, fetched.as_mut_ptr()),
                };
                let piece = |(place, length): (*mut u8, usize)| {
                    done += length;
                    (here.wrapping_add(done - length), place.addr() as u64, length)
                };
                let pieces: Vec<Piece> =
                    places.into_iter().filter(|(_, length)| *length > 0).map(piece).collect();
                own.copy(way, &pieces)?;
                return Ok(fetched);
            }
            for (place, length) in places {
                // SAFETY: inside this process's memory of the window, and as many bytes of the data
                // or of what is fetched.
                unsafe {
                    match what {
                        What::Put => put_get::copy(data.as_ptr().add(done), place, place, length),
                        _ => put_get::copy(place, fetched.as_mut_ptr().add(done), place, length),
                    }
                }
                done += length;
            }
            return Ok(fetched);
        }
        let mut domain = None;
        for (place, length) in places.iter().filter(|(_, length)| *length > 0) {
            // Elements that lie alike are updated alike: of one layout they do.
            let of_piece = self.domain(Place::Here(*place), kind, *length as u64)?;
            if length % size != 0 || domain.is_some_and(|domain| domain != of_piece) {
                return Err(strange());
            }
            domain = Some(of_piece);
        }
        let domain = domain.ok_or_else(strange)?;
        if what == What::Swap {
            kind.check_compare_and_swap()?;
            let (operand, compare) = data.split_at(size);
            let (at, operands) =
                (places[0].0, (operand.as_ptr(), compare.as_ptr(), fetched.as_mut_ptr()));
            match (&by_kernel, domain) {
                (Some(own), _) => self.under_lock_as_service(granted, || {
                    // SAFETY: one element of ours; and the lock is held.
                    unsafe { swap_there(own, at.addr() as u64, size, operands) }
                }),
                (None, Domain::Lock) => self.under_lock_as_service(granted, || {
                    let (operand, compare, result) = operands;
                    // SAFETY: one element inside this process's memory, and of ours; and the lock
                    // is held.
                    unsafe { reduce::swap_locked(size, at, operand, compare, result) };
                    Ok(())
                }),
                // SAFETY: as above, by the processor's instruction.
                (None, domain) => unsafe { self.swap_at(self.own(), kind, domain, at, operands) },
            }?;
            return Ok(fetched);
        }
        kind.check_reduce(op, fetches)?;
        let mut done = 0;
        let updates: Vec<Update> = places
            .iter()
            .map(|(target, length)| {
                let operand = if data.is_empty() {
                    std::ptr::null()
                } else {
                    data.as_ptr().wrapping_add(done)
                };
                let result = if fetches {
                    fetched.as_mut_ptr().wrapping_add(done)
                } else {
                    std::ptr::null_mut()
                };
                done += length;
                Update { kind, op, target: *target, operand, result, count: length / size }
            })
            .collect();
        match &by_kernel {
            Some(own) => self.under_lock_as_service(granted, || {
                // SAFETY: as above, with the lock held.
                unsafe { self.combine_own(own, &updates) }
            }),
            // SAFETY: as above, in the way that the window has for such elements.
            None => unsafe { self.apply(domain, &updates, granted) },
        }?;
        Ok(fetched)
    }

    /// Bytes that one message may be about.
    fn most_at_once(&self, what: What, pieces: u32) -> u64 {
        match what {
            // What has come along is as long as it may be.
            What::Put if pieces == 0 => u64::MAX,
            _ if self.granularity.load(Ordering::Relaxed) > 0 => self.own().most_whole(),
            _ => AT_ONCE,
        }
    }

    /// Where a piece is here, if all of it is inside what this process offers.
    pub(crate) fn place_here(&self, at: u64, bytes: u64) -> Result<(*mut u8, usize)> {
        let own = self.own();
        let base = match own.reach {
            Reach::Mapped(base) => base,
            Reach::Process(_, base) => std::ptr::with_exposed_provenance_mut(base as usize),
            _ => {
                let layout = Layout::contiguous(
                    crate::engine::wire::element_type::ElementType::Byte,
                    bytes,
                )?;
                check_attached(own, at, &layout)?;
                return Ok((std::ptr::with_exposed_provenance_mut(at as usize), bytes as usize));
            }
        };
        if at.checked_add(bytes).is_none_or(|end| end > own.size) {
            let text = format!(
                "window: bytes {at} to {} are not inside {}",
                at.saturating_add(bytes),
                own.size
            );
            return Err(Error::new(Status::RMA_RANGE, text));
        }
        Ok((base.wrapping_add(at as usize), bytes as usize))
    }
}
