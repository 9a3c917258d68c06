//! Data operations of windows: put, get, and the accumulates (MPI-4.1, 12.3). This is the general
//! path, for all layouts and all errors. Contiguous operations on mapped memory mostly use
//! `window::data::fast_path`.
//!
//! - **Mapped memory**: this thread reads and writes it.
//! - **By the kernel**: the kernel copies. An accumulate reads, combines and writes under the
//!   target's lock. In both cases the operation is done when the call returns.
//! - **By messages**: the target executes the operation (see `window::remote::remote`).
//!
//! How accumulates exclude each other (see `window::data::atomicity`) depends only on the element
//! and the window, so it is the same for all members: atomic operations for mapped memory and
//! elements that the CPU can change at once, and the lock for everything else.
//!
//! Very many elements would need as many atomic operations. Instead, the origin gets exclusive
//! access to the target's memory for a while (see `window::data::exclusive_bulk`).
//!
//! Costs of a contiguous operation on mapped memory: the checks (some ten loads), and the copy or
//! atomic operation itself. No allocation, no lock, no system call. By the kernel: two system
//! calls; an accumulate needs three and the lock.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::own_memory::Way;
use crate::engine::os::process_identity;
use crate::engine::rma::put_get;
use crate::engine::window::access::{Piece, Process, Reach, PIECES};
use crate::engine::window::counts::DataCall;
use crate::engine::window::data::datatype_layout::{one_piece, together, Layout};
use crate::engine::window::data::gather::AT_ONCE;
use crate::engine::window::data::reduce::{self, Update};
use crate::engine::window::epoch::Call;
use crate::engine::window::remote::origin::Ask;
use crate::engine::window::remote::outstanding::Call as Asking;
use crate::engine::window::store_fence;
use crate::engine::window::window::{Flavor, Target, Window};
use crate::engine::wire::element_type::{Domain, Reduce};
use crate::engine::wire::window::{What, WindowHeader};
use std::sync::atomic::Ordering;

/// Buffer on the stack for short operations, in words.
const FEW_WORDS: usize = 32;

/// Most bytes of one period of exclusive access, so that others do not wait long.
const ALONE_AT_ONCE: u64 = 64 << 10;

/// The epochs in which a call is legal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All epochs in which the target may be accessed.
    Plain,
    /// An operation with a request: passive target epochs only.
    Request(Asking),
}

impl Access {
    fn call(self) -> Asking {
        match self {
            Access::Plain => Asking::NONE,
            Access::Request(call) => call,
        }
    }
}

/// The caller's buffer and its layout.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its address.
    pub place: *mut u8,
    /// Its layout.
    pub layout: Layout<'a>,
}

impl Side<'_> {
    fn check(&self, argument: &str) -> Result<()> {
        if self.place.is_null() && self.layout.bytes() > 0 {
            return Err(Error::invalid(format!(
                "{argument}: is NULL, and its layout is not empty"
            )));
        }
        Ok(())
    }
}

/// A target, a place in its memory, and the layout there.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The target's rank.
    pub rank: u32,
    /// Displacement in the target's units.
    pub disp: i64,
    /// The layout there.
    pub layout: Layout<'a>,
}

/// A place in a target's memory.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Here(*mut u8),
    There(&'a Process, u64),
    /// The target resolves it: an offset in its window, or an address in dynamic windows; and its
    /// address in the target, as far as it is known.
    Asked(u64, u64),
}

impl Window {
    #[inline]
    pub(super) fn target(&self, rank: u32) -> Result<&Target> {
        self.check_usable()?;
        self.epoch.check_rank(rank)?;
        Ok(&self.targets[rank as usize])
    }

    #[inline]
    fn check_epoch(&self, rank: u32, access: Access) -> Result<()> {
        match access {
            Access::Plain => self.epoch.check_access(rank),
            Access::Request(_) => self.epoch.check_passive(Call::Request(rank), rank),
        }
    }

    /// The place of a displacement. An error unless the whole layout is inside the target's memory.
    #[inline(always)]
    pub(super) fn locate<'a>(
        &self,
        target: &'a Target,
        disp: i64,
        layout: &Layout<'_>,
    ) -> Result<Place<'a>> {
        match &target.reach {
            Reach::Mapped(base) => {
                layout.range_in(disp, target.unit, target.size)?;
                Ok(Place::Here(
                    base.wrapping_offset((disp as isize).wrapping_mul(target.unit as isize)),
                ))
            }
            Reach::Process(process, base) => {
                layout.range_in(disp, target.unit, target.size)?;
                Ok(Place::There(
                    process,
                    base.wrapping_add_signed(disp.wrapping_mul(target.unit.into())),
                ))
            }
            Reach::AttachedHere => {
                check_attached(target, disp as u64, layout)?;
                Ok(Place::Here(std::ptr::with_exposed_provenance_mut(disp as usize)))
            }
            Reach::Attached(process) => {
                check_attached(target, disp as u64, layout)?;
                Ok(Place::There(process, disp as u64))
            }
            Reach::Messages(_) if self.flavor == Flavor::Dynamic => {
                Ok(Place::Asked(disp as u64, disp as u64))
            }
            Reach::Messages(remote) => {
                layout.range_in(disp, target.unit, target.size)?;
                let at = 0_u64.wrapping_add_signed(disp.wrapping_mul(target.unit.into()));
                // Memory that the library allocates is page-aligned, so the offset is as good as
                // the address.
                Ok(Place::Asked(at, remote.base.wrapping_add(at)))
            }
        }
    }

    /// Writes to a target.
    ///
    /// # Safety
    /// The origin is readable as its layout says.
    #[inline]
    pub unsafe fn put(
        &self,
        origin: &Side<'_>,
        to: &Destination<'_>,
        access: Access,
    ) -> Result<()> {
        // SAFETY: readable by this function's contract.
        let result = unsafe { self.transfer(Way::Write, origin, to, access) };
        self.counts.returned(result, DataCall::Put, self.there(to), to.layout.bytes())
    }

    /// Reads from a target.
    ///
    /// # Safety
    /// The origin is writable as its layout says.
    #[inline]
    pub unsafe fn get(
        &self,
        origin: &Side<'_>,
        to: &Destination<'_>,
        access: Access,
    ) -> Result<()> {
        // SAFETY: writable by this function's contract.
        let result = unsafe { self.transfer(Way::Read, origin, to, access) };
        self.counts.returned(result, DataCall::Get, self.there(to), to.layout.bytes())
    }

    #[inline(always)]
    fn there(&self, to: &Destination<'_>) -> Option<&Target> {
        self.targets.get(to.rank as usize)
    }

    #[inline]
    unsafe fn transfer(
        &self,
        way: Way,
        origin: &Side<'_>,
        to: &Destination<'_>,
        access: Access,
    ) -> Result<()> {
        let Destination { rank, disp, layout } = to;
        let (rank, disp) = (*rank, *disp);
        let target = self.target(rank)?;
        origin.check("origin")?;
        let piece = one_piece([&origin.layout, layout])?;
        let place = self.locate(target, disp, layout)?;
        self.check_epoch(rank, access)?;
        if way == Way::Write {
            store_fence::stored();
        }
        let copy = |here: *mut u8, there: *mut u8, length: usize| {
            let (from, to) = if way == Way::Write {
                (here.cast_const(), there)
            } else {
                (there.cast_const(), here)
            };
            // SAFETY: inside the target's memory, as `locate` checked; the callers promise a valid
            // origin.
            unsafe { put_get::copy(from, to, there, length) };
        };
        match (place, piece) {
            (Place::Here(at), Some(bytes)) => copy(origin.place, at, bytes as usize),
            (Place::Here(at), None) => {
                for ([here, there], bytes) in together([&origin.layout, layout])? {
                    let (here, there) = (here as isize, there as isize);
                    copy(
                        origin.place.wrapping_offset(here),
                        at.wrapping_offset(there),
                        bytes as usize,
                    );
                }
            }
            (Place::There(..) | Place::Asked(..), Some(0)) => {}
            (Place::Asked(at, _), _) => {
                let (what, origin, result) = match way {
                    Way::Write => (What::Put, Some(origin), None),
                    Way::Read => (What::Get, None, Some(origin)),
                };
                let ask = Ask {
                    header: WindowHeader { at, ..self.header(what) },
                    whole: false,
                    call: access.call(),
                };
                // SAFETY: the callers promise that the origin is valid for its layout.
                unsafe { self.operate(rank, &ask, origin, result, layout) }?;
            }
            (Place::There(process, at), Some(bytes)) => {
                let bytes = bytes as usize;
                // SAFETY: the callers promise that the origin is valid for `bytes` contiguous
                // bytes.
                if !unsafe { self.delegate_copy(rank, way, (origin.place, at), bytes) }? {
                    process.copy(way, &[(origin.place, at, bytes)])?;
                }
            }
            (Place::There(process, at), None) => {
                let mut pieces: Vec<Piece> = Vec::with_capacity(PIECES);
                let mut rest = together([&origin.layout, layout])?.peekable();
                while let Some(([here, there], bytes)) = rest.next() {
                    let here = origin.place.wrapping_offset(here as isize);
                    pieces.push((here, at.wrapping_add_signed(there), bytes as usize));
                    if pieces.len() == PIECES || rest.peek().is_none() {
                        process.copy(way, &pieces)?;
                        pieces.clear();
                    }
                }
            }
        }
        Ok(())
    }

    /// Combines the origin into a target. If there is a result, stores the old contents there.
    /// NO_OP needs no origin.
    ///
    /// # Safety
    /// The origin is readable, and the result writable, as their layouts say.
    pub unsafe fn accumulate(
        &self,
        op: Reduce,
        origin: &Side<'_>,
        result: Option<&Side<'_>>,
        to: &Destination<'_>,
        access: Access,
    ) -> Result<()> {
        // SAFETY: valid by this function's contract.
        let result = unsafe { self.combine(op, origin, result, to, access) };
        self.counts.returned(result, DataCall::Accumulate, self.there(to), to.layout.bytes())
    }

    unsafe fn combine(
        &self,
        op: Reduce,
        origin: &Side<'_>,
        result: Option<&Side<'_>>,
        to: &Destination<'_>,
        access: Access,
    ) -> Result<()> {
        let Destination { rank, disp, layout } = to;
        let (rank, disp) = (*rank, *disp);
        let target = self.target(rank)?;
        let kind = layout.kind();
        for side in [Some(origin), result].into_iter().flatten() {
            if side.layout.kind() != kind {
                let text = format!(
                    "layouts: of type {:?} here, and {kind:?} at the target",
                    side.layout.kind()
                );
                return Err(Error::new(Status::RMA_TYPE, text));
            }
        }
        kind.check_reduce(op, result.is_some())?;
        if op != Reduce::NoOp {
            origin.check("origin")?;
        }
        if let Some(result) = result {
            result.check("result")?;
        }
        let fetched = result.unwrap_or(origin);
        let piece = one_piece([&origin.layout, &fetched.layout, layout])?;
        let place = self.locate(target, disp, layout)?;
        let domain = self.domain(place, kind, layout.bytes())?;
        self.check_epoch(rank, access)?;
        if layout.bytes() == 0 {
            return Ok(());
        }
        store_fence::stored();
        if let Place::Asked(at, _) = place {
            let what = if result.is_some() { What::Fetch } else { What::Accumulate };
            let header = WindowHeader { at, op, kind, ..self.header(what) };
            // Data that is updated as a whole has to be contiguous there.
            let whole = self.granularity.load(Ordering::Relaxed) > 0;
            if whole && layout.bytes() > target.most_whole() {
                let text = format!(
                    "layouts: {} bytes cannot be updated as one by messages",
                    layout.bytes()
                );
                return Err(Error::new(Status::EXCEEDS_LIMIT, text));
            }
            let ask = Ask { header, whole, call: access.call() };
            let origin = (op != Reduce::NoOp).then_some(origin);
            // SAFETY: origin and result are valid by this function's contract.
            return unsafe { self.operate(rank, &ask, origin, result, layout) };
        }
        let size = kind.size();
        let update = |here: i64, there: *mut u8, fetched_at: i64, bytes: u64| Update {
            kind,
            op,
            target: there,
            operand: origin.place.cast_const().wrapping_offset(here as isize),
            result: result.map_or(std::ptr::null_mut(), |side| {
                side.place.wrapping_offset(fetched_at as isize)
            }),
            count: bytes as usize / size,
        };
        let mut done = 0;
        if let (Place::There(_, at), Some(bytes)) = (place, piece) {
            // SAFETY: origin and result are valid and contiguous, by this function's contract and
            // `piece`.
            done = unsafe {
                self.delegate_update(rank, at, &update(0, std::ptr::null_mut(), 0, bytes))
            }?;
            if done as u64 == bytes {
                return Ok(());
            }
        }
        let many = self.is_in_bulk(target, op, layout.elements());
        let work = || -> Result<()> {
            match (place, piece) {
                (Place::Here(at), _) if domain == Domain::Element && many => {
                    let mut pieces = together([&origin.layout, &fetched.layout, layout])?;
                    let mut left = layout.bytes();
                    while left > 0 {
                        let mut now = left.min(ALONE_AT_ONCE);
                        left -= now;
                        self.in_bulk(target, |domain| {
                            while let Some(([here, fetched, there], bytes)) = pieces.next_up_to(now)
                            {
                                let there = at.wrapping_offset(there as isize);
                                // SAFETY: inside the target's memory, with the exclusion that
                                // `domain` requires; origin and result are valid by this function's
                                // contract.
                                unsafe { update(here, there, fetched, bytes).execute(domain) };
                                now -= bytes;
                            }
                        });
                    }
                }
                // SAFETY: inside the target's memory, with the exclusion that `domain` requires;
                // origin and result are valid by this function's contract.
                (Place::Here(at), Some(bytes)) => unsafe {
                    update(0, at, 0, bytes).execute(domain)
                },
                (Place::Here(at), None) => {
                    for ([here, fetched, there], bytes) in
                        together([&origin.layout, &fetched.layout, layout])?
                    {
                        let there = at.wrapping_offset(there as isize);
                        // SAFETY: as `locate` checked, inside the target's memory; `domain`'s
                        // exclusion is held.
                        unsafe { update(here, there, fetched, bytes).execute(domain) };
                    }
                }
                (Place::There(process, at), None) => {
                    let most = AT_ONCE - AT_ONCE % size;
                    let mut pieces = together([&origin.layout, &fetched.layout, layout])?;
                    let blocks = std::iter::from_fn(|| {
                        let ([here, fetched, there], bytes) = pieces.next_up_to(most as u64)?;
                        let there = std::ptr::without_provenance_mut(
                            at.wrapping_add_signed(there) as usize
                        );
                        Some(update(here, there, fetched, bytes))
                    });
                    // SAFETY: origin and result are valid by this function's contract, and the lock
                    // is held.
                    unsafe { self.combine_many(process, blocks) }?;
                }
                (Place::There(process, at), Some(_)) => {
                    let most = AT_ONCE - AT_ONCE % size;
                    let mut pieces = together([&origin.layout, &fetched.layout, layout])?;
                    pieces.skip_bytes(done as u64);
                    while let Some(([here, fetched, there], bytes)) = pieces.next_up_to(most as u64)
                    {
                        let there = at.wrapping_add_signed(there);
                        // SAFETY: origin and result are valid by this function's contract, and the
                        // lock is held.
                        unsafe {
                            self.combine_there(
                                process,
                                there,
                                &update(here, std::ptr::null_mut(), fetched, bytes),
                            )
                        }?;
                    }
                }
                (Place::Asked(..), _) => unreachable!("asked above"),
            }
            Ok(())
        };
        match domain {
            Domain::Element if many => work(),
            Domain::Element => {
                let _single = self.single(target);
                work()
            }
            Domain::Lock => self.under_lock(target, work),
        }
    }

    /// An exclusive update of contiguous elements. By reference: a copied struct would be read back
    /// in larger words than it was written in, for which the CPU waits.
    ///
    /// # Safety
    /// As for `Update::execute_atomically`.
    #[inline(never)]
    pub(crate) unsafe fn update_in_bulk(&self, target: &Target, update: &Update) {
        let size = update.kind.size();
        let most = ALONE_AT_ONCE as usize / size;
        if update.count <= most {
            // SAFETY: valid by this function's contract, and `in_bulk` provides the exclusion of
            // `domain`.
            return self.in_bulk(target, |domain| unsafe { update.execute(domain) });
        }
        for piece in pieces_of(update, most) {
            // SAFETY: a part of `update`, which is valid by this function's contract; `in_bulk`
            // provides the exclusion.
            self.in_bulk(target, |domain| unsafe { piece.execute(domain) });
        }
    }

    /// Elements of this process whose memory the kernel has to check: handled like those of another
    /// process.
    ///
    /// # Safety
    /// As for `Update::execute_locked`, except for the targets, which are only used as addresses.
    pub(crate) unsafe fn combine_own(&self, own: &Process, updates: &[Update]) -> Result<()> {
        let blocks = |update| pieces_of(update, AT_ONCE / update.kind.size());
        // SAFETY: operand and result are valid by this function's contract.
        let one =
            |piece: Update| unsafe { self.combine_there(own, piece.target.addr() as u64, &piece) };
        match updates {
            [update] => blocks(update).try_for_each(one),
            // SAFETY: operands and results are valid by this function's contract.
            updates => unsafe { self.combine_many(own, updates.iter().flat_map(blocks)) },
        }
    }

    /// Updates elements of another process: fetches, combines and writes them back.
    ///
    /// # Safety
    /// Operand and result of the update as for `Update::execute_locked`; its target is not used.
    pub(super) unsafe fn combine_there(
        &self,
        process: &Process,
        at: u64,
        update: &Update,
    ) -> Result<()> {
        let bytes = update.count * update.kind.size();
        let combine = |room: &mut [u64]| {
            let target: *mut u8 = room.as_mut_ptr().cast();
            process.copy(Way::Read, &[(target, at, bytes)])?;
            // SAFETY: `target` is our buffer, long enough and aligned for every type; operand and
            // result are valid by this function's contract.
            unsafe { Update { target, ..*update }.execute_locked() };
            if update.op != Reduce::NoOp {
                process.copy(Way::Write, &[(target, at, bytes)])?;
            }
            Ok(())
        };
        if bytes <= 8 * FEW_WORDS {
            return combine(&mut [0; FEW_WORDS]);
        }
        self.group.service.windows().rooms.with(AT_ONCE, combine)
    }
}

/// Splits an update into pieces of at most `most` elements.
fn pieces_of(update: &Update, most: usize) -> impl Iterator<Item = Update> + '_ {
    (0..update.count).step_by(most).map(move |done| {
        let bytes = done * update.kind.size();
        let result =
            if update.result.is_null() { update.result } else { update.result.wrapping_add(bytes) };
        let (target, operand) =
            (update.target.wrapping_add(bytes), update.operand.wrapping_add(bytes));
        Update { target, operand, result, count: (update.count - done).min(most), ..*update }
    })
}

/// Compare-and-swap of an element of another process, as in `combine_there`.
///
/// # Safety
/// As for `reduce::swap_locked`, except for the target.
pub(crate) unsafe fn swap_there(
    process: &Process,
    at: u64,
    size: usize,
    (operand, compare, result): (*const u8, *const u8, *mut u8),
) -> Result<()> {
    let mut word = [0_u64; FEW_WORDS];
    let here: *mut u8 = word.as_mut_ptr().cast();
    process.copy(Way::Read, &[(here, at, size)])?;
    // SAFETY: `here` is our own word; the other pointers are valid by this function's contract.
    if unsafe { reduce::swap_locked(size, here, operand, compare, result) } {
        process.copy(Way::Write, &[(here, at, size)])?;
    }
    Ok(())
}

/// First and last address of a layout; `None` if they overflow.
pub(crate) fn edges_of(address: u64, layout: &Layout<'_>) -> Option<(u64, u64)> {
    let extent = layout.extent();
    address.checked_add_signed(extent.start).zip(address.checked_add_signed(extent.end))
}

pub(crate) fn check_attached(target: &Target, address: u64, layout: &Layout<'_>) -> Result<()> {
    if layout.bytes() == 0 {
        return Ok(());
    }
    let extent = layout.extent();
    let attached = match edges_of(address, layout) {
        Some((begin, end)) => target
            .control()
            .has_attached(begin, end, &|| process_identity::lives(&target.process))?,
        None => false,
    };
    if attached {
        return Ok(());
    }
    let text = format!(
        "disp: bytes {} to {} from address {address:#x} on are not attached",
        extent.start, extent.end
    );
    Err(Error::new(Status::RMA_ATTACH, text))
}
