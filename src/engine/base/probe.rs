//! Static probes (USDT) for bpftrace, perf, SystemTap and gdb.
//!
//! A probe is one `nop`, and a note in the library that names it and tells where its arguments are.
//! A tracer replaces the `nop` by a breakpoint while it is attached.
//!
//! Arguments in memory stay there: the note has the offset, and the tracer reads it. So a probe
//! that nobody uses loads nothing. The crate `probe` makes the same notes, with arguments in
//! registers alone. On a fast path of 80 instructions these would be loaded for each probe.

/// A probe of the provider `ucxx_rs`: its name, its arguments as `field!`, `register!` and
/// `constant!` describe them, and the operands of `asm!` that they name.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! probe {
    ($name:literal, $arguments:expr, $($operands:tt)+) => {
        // SAFETY: a `nop`. The note is data of another section, which the program does not load.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            $crate::engine::base::probe::note!(
                $name, $arguments, options(readonly, nostack, preserves_flags, att_syntax),
                $($operands)+
            );
            #[cfg(target_arch = "aarch64")]
            $crate::engine::base::probe::note!(
                $name, $arguments, options(readonly, nostack, preserves_flags), $($operands)+
            );
        }
    };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! probe {
    ($name:literal, $arguments:expr, $($operands:tt)+) => {};
}

/// The `nop` and its note, in the format of systemtap's `sys/sdt.h`, without a semaphore.
macro_rules! note {
    ($name:literal, $arguments:expr, options($($option:ident),+), $($operands:tt)+) => {
        std::arch::asm!(
            concat!(
                "990: nop\n",
                ".pushsection .note.stapsdt,\"?\",\"note\"\n",
                ".balign 4\n",
                ".4byte 992f-991f, 994f-993f, 3\n",
                "991: .asciz \"stapsdt\"\n",
                "992: .balign 4\n",
                "993: .8byte 990b\n",
                ".8byte _.stapsdt.base\n",
                ".8byte 0\n",
                ".asciz \"ucxx_rs\"\n",
                ".asciz \"", $name, "\"\n",
                ".asciz \"", $arguments, "\"\n",
                "994: .balign 4\n",
                ".popsection\n",
                ".ifndef _.stapsdt.base\n",
                ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat\n",
                ".weak _.stapsdt.base\n",
                ".hidden _.stapsdt.base\n",
                "_.stapsdt.base: .space 1\n",
                ".size _.stapsdt.base, 1\n",
                ".popsection\n",
                ".endif\n",
            ),
            $($operands)+,
            options($($option),+)
        )
    };
}

/// An argument in memory: its size (negative: signed), the operand with the address of the object,
/// and the operand with the offset in it.
#[cfg(not(target_arch = "aarch64"))]
macro_rules! field {
    ($size:literal, $base:literal, $offset:literal) => {
        concat!($size, "@{", $offset, "}({", $base, "}) ")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! field {
    ($size:literal, $base:literal, $offset:literal) => {
        concat!($size, "@[{", $base, "}, {", $offset, "}] ")
    };
}

/// An argument in a register.
macro_rules! register {
    ($size:literal, $operand:literal) => {
        concat!($size, "@{", $operand, "} ")
    };
}

/// An argument that is always the same.
#[cfg(not(target_arch = "aarch64"))]
macro_rules! constant {
    ($size:literal, $value:literal) => {
        concat!($size, "@$", $value, " ")
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! constant {
    ($size:literal, $value:literal) => {
        concat!($size, "@", $value, " ")
    };
}

#[allow(unused_imports)]
pub(crate) use {constant, field, note, probe, register};
