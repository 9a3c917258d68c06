//! Layouts: which elements of a buffer an operation uses, on both sides.
//!
//! A layout is checked when it is created: all its offsets, and the sum of its bytes, fit an `i64`,
//! so nothing below can overflow. Positions are bytes from the address that the operation names,
//! and may be negative.
//!
//! Costs (AMD EPYC, Zen 5, a busy machine, the best of seven rounds; `cargo test --release --lib
//! engine::window::data::datatype_layout -- --ignored --nocapture figures`): creating two
//! contiguous layouts, checking them against the window and finding that they are one piece 3 ns;
//! each piece of a vector 1.3 ns, of a list 4.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::wire::element_type::ElementType;
use std::ops::Range;

/// `ucxx_block_t`: a block of an explicit list, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Block {
    /// Offset from the address that the operation names.
    pub offset: i64,
    /// Number of contiguous elements.
    pub length: u64,
}

/// `ucxx_layout_t`, checked.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    kind: ElementType,
    shape: Shape<'a>,
    bytes: u64,
    /// Offset of the first byte, and of the end of the last.
    extent: (i64, i64),
}

#[derive(Clone, Copy, Debug)]
enum Shape<'a> {
    /// One piece, at offset 0.
    Contiguous,
    /// `count` pieces of `length` bytes, which begin `stride` bytes apart. Neither is 0.
    Vector {
        count: u64,
        length: u64,
        stride: i64,
    },
    Blocks(&'a [Block]),
}

#[cold]
fn too_large() -> Error {
    Error::invalid("layout: it reaches beyond the end of the address space")
}

impl<'a> Layout<'a> {
    /// `count` contiguous elements.
    #[inline]
    pub fn contiguous(kind: ElementType, count: u64) -> Result<Self> {
        let bytes =
            (kind.size() as u64).checked_mul(count).filter(|bytes| *bytes <= i64::MAX as u64);
        let bytes = bytes.ok_or_else(too_large)?;
        Ok(Layout { kind, shape: Shape::Contiguous, bytes, extent: (0, bytes as i64) })
    }

    /// `count` blocks of `block_length` elements, which begin `stride` elements apart; negative
    /// goes backwards.
    pub fn vector(kind: ElementType, count: u64, block_length: u64, stride: i64) -> Result<Self> {
        let elements = count.checked_mul(block_length).ok_or_else(too_large)?;
        let whole = Self::contiguous(kind, elements)?;
        if count <= 1 || block_length == 0 || u64::try_from(stride) == Ok(block_length) {
            return Ok(whole);
        }
        let size = kind.size() as i64;
        let length = block_length * kind.size() as u64;
        let stride = stride.checked_mul(size).ok_or_else(too_large)?;
        let last = i64::try_from(count - 1)
            .ok()
            .and_then(|steps| steps.checked_mul(stride))
            .ok_or_else(too_large)?;
        let end = last.max(0).checked_add(length as i64).ok_or_else(too_large)?;
        Ok(Layout {
            shape: Shape::Vector { count, length, stride },
            extent: (last.min(0), end),
            ..whole
        })
    }

    /// Blocks in the order of the list.
    pub fn blocks(kind: ElementType, blocks: &'a [Block]) -> Result<Self> {
        let size = kind.size() as i64;
        let (mut bytes, mut extent) = (0_i64, (i64::MAX, i64::MIN));
        for block in blocks.iter().filter(|block| block.length > 0) {
            let length =
                i64::try_from(block.length).ok().and_then(|length| length.checked_mul(size));
            let begin = block.offset.checked_mul(size);
            let (begin, length) = begin.zip(length).ok_or_else(too_large)?;
            let end = begin.checked_add(length).ok_or_else(too_large)?;
            bytes = bytes.checked_add(length).ok_or_else(too_large)?;
            extent = (extent.0.min(begin), extent.1.max(end));
        }
        if bytes == 0 {
            return Self::contiguous(kind, 0);
        }
        Ok(Layout { kind, shape: Shape::Blocks(blocks), bytes: bytes as u64, extent })
    }

    /// Type of the elements.
    #[inline]
    pub fn kind(&self) -> ElementType {
        self.kind
    }

    /// Number of elements; an element counts as often as it occurs.
    #[inline]
    pub fn elements(&self) -> u64 {
        self.bytes / self.kind.size() as u64
    }

    /// Their length in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Offsets of the first byte and of the end of the last. Empty, and at 0, if there are no
    /// elements.
    #[inline]
    pub fn extent(&self) -> Range<i64> {
        self.extent.0..self.extent.1
    }

    /// Is it one piece at offset 0?
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        matches!(self.shape, Shape::Contiguous)
    }

    /// The range that it covers in a window of `size` bytes, from `displacement` units of `unit`
    /// bytes. Error: RMA_RANGE if it is not inside. A layout without elements covers nothing, at
    /// any displacement.
    #[inline]
    pub fn range_in(&self, displacement: i64, unit: u32, size: u64) -> Result<Range<u64>> {
        if self.bytes == 0 {
            return Ok(0..0);
        }
        let place = |edge: i64| displacement.checked_mul(unit.into())?.checked_add(edge);
        let range = place(self.extent.0).zip(place(self.extent.1));
        match range
            .and_then(|(begin, end)| Some(u64::try_from(begin).ok()?..u64::try_from(end).ok()?))
        {
            Some(range) if range.end <= size => Ok(range),
            _ => Err(self.outside(displacement, unit, size)),
        }
    }

    #[cold]
    fn outside(&self, displacement: i64, unit: u32, size: u64) -> Error {
        let (begin, end) = self.extent;
        let message = format!(
            "disp: bytes {begin} to {end} from {displacement} units of {unit} bytes on are not \
            inside {size} bytes"
        );
        Error::new(Status::RMA_RANGE, message)
    }

    /// Its pieces, in order.
    #[inline]
    pub fn runs(&self) -> Runs<'a> {
        match self.shape {
            Shape::Contiguous => Runs { now: (0, self.bytes), rest: Rest::Nothing },
            Shape::Vector { count, length, stride } => Runs {
                now: (0, length),
                rest: Rest::Vector { left: count - 1, next: stride, length, stride },
            },
            Shape::Blocks(blocks) => {
                let mut runs =
                    Runs { now: (0, 0), rest: Rest::Blocks(blocks, self.kind.size() as u32) };
                runs.turn();
                runs
            }
        }
    }
}

/// The remaining pieces of a layout: offset and length.
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    /// The current piece, or what is left of it. Empty only at the end.
    now: (i64, u64),
    rest: Rest<'a>,
}

#[derive(Clone, Debug)]
enum Rest<'a> {
    Nothing,
    /// `next` wraps around after the last piece, where it is not used.
    Vector {
        left: u64,
        next: i64,
        length: u64,
        stride: i64,
    },
    Blocks(&'a [Block], u32),
}

impl Runs<'_> {
    /// Advances to the next piece.
    fn turn(&mut self) {
        self.now.1 = 0;
        match &mut self.rest {
            Rest::Nothing => {}
            Rest::Vector { left, next, length, stride } => {
                if *left > 0 {
                    self.now = (*next, *length);
                    *left -= 1;
                    *next = next.wrapping_add(*stride);
                }
            }
            Rest::Blocks(blocks, size) => {
                // Blocks that are adjacent in memory form one piece.
                while let Some((block, rest)) = blocks.split_first() {
                    let (begin, length) = (
                        block.offset.wrapping_mul((*size).into()),
                        block.length * u64::from(*size),
                    );
                    if self.now.1 == 0 {
                        self.now = (begin, length);
                    } else if length > 0 && self.now.0.wrapping_add_unsigned(self.now.1) == begin {
                        self.now.1 += length;
                    } else if length > 0 {
                        return;
                    }
                    *blocks = rest;
                }
            }
        }
    }

    /// Skips bytes of the current piece, which has at least as many.
    #[inline]
    fn consume(&mut self, bytes: u64) {
        self.now.0 += bytes as i64;
        self.now.1 -= bytes;
        if self.now.1 == 0 {
            self.turn();
        }
    }

    /// Skips bytes, or all there are: for operations that are done in parts.
    pub fn skip_bytes(&mut self, mut bytes: u64) {
        while bytes > 0 && self.now.1 > 0 {
            if let Rest::Vector { left, next, length, stride } = &mut self.rest {
                // Skips whole blocks at once, as there may be very many.
                let blocks = (bytes.saturating_sub(self.now.1) / *length).min(*left);
                if blocks > 0 {
                    bytes -= blocks * *length;
                    *left -= blocks;
                    *next = next.wrapping_add(stride.wrapping_mul(blocks as i64));
                }
            }
            let step = bytes.min(self.now.1);
            self.consume(step);
            bytes -= step;
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = (i64, u64);

    #[inline]
    fn next(&mut self) -> Option<(i64, u64)> {
        let now = self.now;
        if now.1 == 0 {
            return None;
        }
        self.turn();
        Some(now)
    }
}

/// Several layouts of equal length side by side: pieces that are contiguous in each of them. Two
/// for put and get, a third for fetched data.
#[derive(Clone, Debug)]
pub struct Together<'a, const N: usize>([Runs<'a>; N]);

/// Combines layouts. Error: INVALID_PARAM if their lengths differ.
#[inline]
pub fn together<'a, const N: usize>(layouts: [&Layout<'a>; N]) -> Result<Together<'a, N>> {
    check_bytes(&layouts)?;
    Ok(Together(layouts.map(Layout::runs)))
}

/// Length of layouts that are all contiguous, as nearly all are: one piece at offset 0. `None` if
/// there may be more pieces.
#[inline]
pub fn one_piece<const N: usize>(layouts: [&Layout<'_>; N]) -> Result<Option<u64>> {
    check_bytes(&layouts)?;
    Ok(layouts.iter().all(|layout| layout.is_contiguous()).then_some(layouts[0].bytes))
}

#[inline]
fn check_bytes(layouts: &[&Layout<'_>]) -> Result<()> {
    match layouts.iter().find(|layout| layout.bytes != layouts[0].bytes) {
        None => Ok(()),
        Some(other) => Err(differ(layouts[0].bytes, other.bytes)),
    }
}

#[cold]
fn differ(here: u64, there: u64) -> Error {
    Error::invalid(format!("layouts: of {here} bytes here and {there} there"))
}

impl<const N: usize> Together<'_, N> {
    /// See `Runs::skip_bytes`.
    pub fn skip_bytes(&mut self, bytes: u64) {
        self.0.iter_mut().for_each(|runs| runs.skip_bytes(bytes));
    }

    /// The next piece of at most `most` bytes, which is not 0.
    #[inline]
    pub fn next_up_to(&mut self, most: u64) -> Option<([i64; N], u64)> {
        let bytes = self.0.iter().fold(most, |least, runs| least.min(runs.now.1));
        if bytes == 0 {
            return None;
        }
        let places = std::array::from_fn(|which| self.0[which].now.0);
        self.0.iter_mut().for_each(|runs| runs.consume(bytes));
        Some((places, bytes))
    }
}

impl<const N: usize> Iterator for Together<'_, N> {
    type Item = ([i64; N], u64);

    #[inline]
    fn next(&mut self) -> Option<([i64; N], u64)> {
        self.next_up_to(u64::MAX)
    }
}

#[cfg(test)]
#[path = "datatype_layout_tests.rs"]
mod tests;
