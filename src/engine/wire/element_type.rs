//! Element types of windows and operations of accumulates: their numbers, their sizes, and which
//! operation is defined for which type. `window/data/reduce` executes them.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};

/// `UCXX_TYPE_*`. Pairs are a value and its index, a C struct of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum ElementType {
    Byte = 0,
    Int8 = 1,
    Uint8 = 2,
    Int16 = 3,
    Uint16 = 4,
    Int32 = 5,
    Uint32 = 6,
    Int64 = 7,
    Uint64 = 8,
    Float = 9,
    Double = 10,
    ComplexFloat = 11,
    ComplexDouble = 12,
    Bool = 13,
    FloatInt = 14,
    DoubleInt = 15,
    Int16Int = 16,
    Int32Int = 17,
    Int64Int = 18,
    LongDouble = 19,
    ComplexLongDouble = 20,
    LongDoubleInt = 21,
}

/// `UCXX_REDUCE_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reduce {
    Sum = 0,
    Prod = 1,
    Min = 2,
    Max = 3,
    Land = 4,
    Lor = 5,
    Lxor = 6,
    Band = 7,
    Bor = 8,
    Bxor = 9,
    Replace = 10,
    NoOp = 11,
    Minloc = 12,
    Maxloc = 13,
}

/// Decides which operations a type has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Byte,
    Integer,
    Float,
    Complex,
    Bool,
    Pair,
}

/// How two accumulates on one element exclude each other. All accumulates on an element have to use
/// the same way: a read-modify-write under the lock would lose an atomic operation in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// By the CPU's atomic operations.
    Element,
    /// By a lock of the window, held during the update.
    Lock,
}

impl ElementType {
    /// All types, in the order of their numbers.
    pub const ALL: [ElementType; 22] = {
        use ElementType::*;
        [
            Byte,
            Int8,
            Uint8,
            Int16,
            Uint16,
            Int32,
            Uint32,
            Int64,
            Uint64,
            Float,
            Double,
            ComplexFloat,
            ComplexDouble,
            Bool,
            FloatInt,
            DoubleInt,
            Int16Int,
            Int32Int,
            Int64Int,
            LongDouble,
            ComplexLongDouble,
            LongDoubleInt,
        ]
    };

    /// Converts a number from the C interface or from a message.
    #[inline]
    pub fn from_number(number: i32) -> Result<Self> {
        let found = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        found.copied().ok_or_else(|| {
            Error::new(Status::RMA_TYPE, format!("type: {number} is no UCXX_TYPE_* value"))
        })
    }

    /// Size in bytes, padding included.
    #[inline]
    pub const fn size(self) -> usize {
        use ElementType::*;
        match self {
            Byte | Int8 | Uint8 | Bool => 1,
            Int16 | Uint16 => 2,
            Int32 | Uint32 | Float => 4,
            Int64 | Uint64 | Double | ComplexFloat | FloatInt | Int16Int | Int32Int => 8,
            ComplexDouble | DoubleInt | Int64Int | LongDouble => 16,
            ComplexLongDouble | LongDoubleInt => 32,
        }
    }

    /// Alignment in C: half the size if it has two parts.
    #[inline]
    pub const fn alignment(self) -> usize {
        match self.class() {
            Class::Complex | Class::Pair => self.size() / 2,
            _ => self.size(),
        }
    }

    const fn class(self) -> Class {
        use ElementType::*;
        match self {
            Byte => Class::Byte,
            Int8 | Uint8 | Int16 | Uint16 | Int32 | Uint32 | Int64 | Uint64 => Class::Integer,
            Float | Double | LongDouble => Class::Float,
            ComplexFloat | ComplexDouble | ComplexLongDouble => Class::Complex,
            Bool => Class::Bool,
            FloatInt | DoubleInt | Int16Int | Int32Int | Int64Int | LongDoubleInt => Class::Pair,
        }
    }

    /// An integer, for which the CPU has an atomic addition.
    #[inline]
    pub(crate) const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Integer)
    }

    /// Has this architecture no instructions to compute with the type? Then it can only be copied.
    const fn is_only_moved(self) -> bool {
        use ElementType::*;
        !cfg!(target_arch = "x86_64")
            && matches!(self, LongDouble | ComplexLongDouble | LongDoubleInt)
    }

    /// Is the operation defined for the type?
    #[inline]
    pub const fn has(self, op: Reduce) -> bool {
        use Reduce::*;
        match op {
            Replace | NoOp => true,
            Sum | Prod => matches!(self.class(), Class::Integer | Class::Float | Class::Complex),
            Min | Max => matches!(self.class(), Class::Integer | Class::Float),
            Land | Lor | Lxor => matches!(self.class(), Class::Integer | Class::Bool),
            Band | Bor | Bxor => matches!(self.class(), Class::Integer | Class::Byte),
            Minloc | Maxloc => matches!(self.class(), Class::Pair),
        }
    }

    /// Errors: RMA_OP if the operation is not defined for the type, or is NO_OP and nothing is
    /// fetched. UNSUPPORTED if this architecture has no instruction for it.
    #[inline]
    pub fn check_reduce(self, op: Reduce, fetches: bool) -> Result<()> {
        if !self.has(op) {
            return Err(Error::new(
                Status::RMA_OP,
                format!("op: {op:?} is not defined for elements of type {self:?}"),
            ));
        }
        if self.is_only_moved() && !matches!(op, Reduce::Replace | Reduce::NoOp) {
            return Err(Error::new(
                Status::UNSUPPORTED,
                format!(
                    "op: {op:?} of {self:?} is for x86-64; no instruction of this processor \
                    calculates with long double"
                ),
            ));
        }
        if op == Reduce::NoOp && !fetches {
            return Err(Error::new(
                Status::RMA_OP,
                "op: NO_OP only fetches, so it needs a call that returns a result",
            ));
        }
        Ok(())
    }

    /// Error: RMA_TYPE if compare-and-swap is not defined for the type. It is not for floating
    /// point: equal numbers may have different bytes.
    #[inline]
    pub fn check_compare_and_swap(self) -> Result<()> {
        match self.class() {
            Class::Integer | Class::Byte | Class::Bool => Ok(()),
            _ => Err(Error::new(
                Status::RMA_TYPE,
                format!(
                    "type: compare-and-swap is for integers, bytes and logical values, not \
                    {self:?}"
                ),
            )),
        }
    }

    /// How accumulates on an element at this address exclude each other. Address and type alone
    /// decide, so all processes come to the same answer. Mappings begin at a page in each process,
    /// so an offset in one is as good as an address.
    #[inline]
    pub fn domain(self, address: usize) -> Result<Domain> {
        if address & (self.alignment() - 1) != 0 {
            return Err(Error::invalid(format!(
                "disp: accumulates need elements of type {self:?} aligned to {} bytes",
                self.alignment()
            )));
        }
        // A word of 8 bytes that C aligns to 4 may cross a cache line, where no atomic operation
        // works.
        let is_word = self.size() <= 8 && address & (self.size() - 1) == 0;
        Ok(if is_word { Domain::Element } else { Domain::Lock })
    }
}

/// Size of an element; 0 if the type does not exist.
pub fn type_size(number: i32) -> usize {
    ElementType::from_number(number).map_or(0, ElementType::size)
}

impl Reduce {
    /// All operations, in the order of their numbers.
    pub const ALL: [Reduce; 14] = {
        use Reduce::*;
        [Sum, Prod, Min, Max, Land, Lor, Lxor, Band, Bor, Bxor, Replace, NoOp, Minloc, Maxloc]
    };

    /// Converts a number from the C interface or from a message.
    #[inline]
    pub fn from_number(number: i32) -> Result<Self> {
        let found = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        found.copied().ok_or_else(|| {
            Error::new(Status::RMA_OP, format!("op: {number} is no UCXX_REDUCE_* value"))
        })
    }
}

#[cfg(test)]
#[path = "element_type_tests.rs"]
mod tests;
