//! Executes operations from messages on this process's memory, after `window::remote::target` has
//! identified their sender.
//!
//! An operation is executed as if this process had called for it, with one difference. Attached
//! memory may have been unmapped, and the caller's memory may be read-only. A process must not get
//! a signal because another one requested an operation. So in dynamic windows, and for caller's
//! memory that was not completely accessible when the window was created, the kernel copies and
//! checks the access. That costs a system call for a put or get, and two and the lock for an
//! accumulate. For all other memory the owner has promised that it stays accessible, so there is no
//! extra cost.

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

/// Most bytes that are updated as a whole, even if the window is smaller: an element may occur
/// several times, and members do not know the size of each other's dynamic windows.
const MOST_WHOLE: u64 = 1 << 31;

impl Target {
    /// Most bytes that are updated as a whole.
    pub(crate) fn most_whole(&self) -> u64 {
        MOST_WHOLE.max(self.size)
    }
}

impl Window {
    /// Executes an operation on this process's memory, and returns the fetched data. BUSY means
    /// that nothing was done, see `under_lock_as_service`.
    pub(crate) fn perform(
        &self,
        header: &WindowHeader,
        data: &[u8],
        granted: bool,
    ) -> Result<Vec<u8>> {
        let WindowHeader { what, op, kind, bytes, .. } = *header;
        let strange = || {
            Error::new(
                Status::INVALID_PARAM,
                "window: a message whose data does not match its header",
            )
        };
        let Content { extent, pieces, data } = content_of(header, data).ok_or_else(strange)?;
        let size = kind.size();
        let expected = match what {
            What::Get => 0,
            What::Fetch if op == Reduce::NoOp => 0,
            What::Swap => 2 * size as u64,
            _ => bytes,
        };
        // Compare-and-swap is of one element, at one place.
        let one = what != What::Swap || (header.pieces == 0 && bytes == size as u64);
        if data.len() as u64 != expected || bytes > self.most_at_once(what, header.pieces) || !one {
            return Err(strange());
        }
        // First: nothing is done if a part of the operation is outside.
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
        // The kernel checks accesses, at the cost of its calls.
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
                // SAFETY: inside this process's window memory, as `place_here` checked; `data` and
                // `fetched` have as many bytes as all places together.
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
            // All pieces have to need the same exclusion. Those of one layout do.
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
                    // SAFETY: the operands are one element in `data` and `fetched`, and the lock is
                    // held.
                    unsafe { swap_there(own, at.addr() as u64, size, operands) }
                }),
                (None, Domain::Lock) => self.under_lock_as_service(granted, || {
                    let (operand, compare, result) = operands;
                    // SAFETY: one element inside this process's memory, operands in `data` and
                    // `fetched`, and the lock is held.
                    unsafe { reduce::swap_locked(size, at, operand, compare, result) };
                    Ok(())
                }),
                // SAFETY: one element inside this process's memory, with the exclusion of `domain`,
                // and operands in `data` and `fetched`.
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
                // SAFETY: operands and results are in `data` and `fetched`, and the lock is held.
                unsafe { self.combine_own(own, &updates) }
            }),
            // SAFETY: targets are inside this process's memory, operands and results in `data` and
            // `fetched`, and `domain` is theirs.
            None => unsafe { self.apply(domain, &updates, granted) },
        }?;
        Ok(fetched)
    }

    /// Most bytes that one message may concern.
    fn most_at_once(&self, what: What, pieces: u32) -> u64 {
        match what {
            // The data came with the message, so its length is limited already.
            What::Put if pieces == 0 => u64::MAX,
            _ if self.granularity.load(Ordering::Relaxed) > 0 => self.own().most_whole(),
            _ => AT_ONCE,
        }
    }

    /// Address of a piece, if it is completely inside the memory that this process offers.
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
