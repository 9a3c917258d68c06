//! Calls functions that the program gave us: callbacks, handlers, allocators.
//!
//! Such a function must return. If it throws an exception or ends its thread, the unwinder would
//! have to unwind frames of Rust and UCX, which is undefined. So each call goes through a small
//! assembly thunk whose frame refuses to be unwound:
//!
//! - An exception: the unwinder searches for a handler before it unwinds any frame, reaches the
//!   thunk and gives up. C++ then calls `std::terminate` inside `throw`, so the debugger shows the
//!   whole stack.
//! - `pthread_exit`, or a cancellation: the unwinder stops at the thunk and the C library aborts.
//!
//! `longjmp` does not use the unwinder, and is not detected.

use crate::engine::base::log;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// A function pointer that the program gave us.
pub(crate) trait CallOut<Arguments> {
    type Output;

    /// # Safety
    /// The function may be called with these arguments.
    unsafe fn call_out(self, arguments: Arguments) -> Self::Output;
}

/// Bit of `actions`: a forced unwind, without a search for a handler (`_UA_FORCE_UNWIND`).
const FORCED: c_int = 8;
/// Answers to the unwinder: a fatal error in the search phase, or in the cleanup phase.
const STOP_AT_ONCE: c_int = 3;
const STOP: c_int = 2;

/// Personality routine of the thunks: the unwinder calls it for their frames.
unsafe extern "C" fn refuse_to_unwind(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // Only once: the callback that does not return may be the log's own.
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let text = format_args!(
            "a callback does not return: an exception, pthread_exit or pthread_cancel leaves it; \
            the process ends"
        );
        log::write(log::ERROR, log::Component::Callback, &(), text);
    }
    if actions & FORCED != 0 {
        STOP
    } else {
        STOP_AT_ONCE
    }
}

/// The thunk's frame: keeps the stack aligned, calls the function and returns.
#[cfg(target_arch = "x86_64")]
macro_rules! frame {
    ($called:literal) => {
        concat!(
            "sub rsp, 8\n.cfi_adjust_cfa_offset 8\ncall ",
            $called,
            "\nadd rsp, 8\n.cfi_adjust_cfa_offset -8"
        )
    };
}

/// The same for aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! frame {
    ($called:literal) => {
        concat!(
            "stp x29, x30, [sp, -16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset \
            x30, -8\n",
            "mov x29, sp\nblr ",
            $called,
            "\nldp x29, x30, [sp], 16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30",
        )
    };
}

/// Defines the thunks, one for each number of arguments. All arguments are in registers, and the
/// function to call follows as the last argument.
macro_rules! thunks {
    ($($thunk:ident: $called:literal, [$($Argument:ident $argument:ident),+];)+) => {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        extern "C" {
            $(fn $thunk();)+
        }

        $(
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            std::arch::global_asm!(
                concat!(".pushsection .text.", stringify!($thunk), ", \"ax\", @progbits"),
                concat!(".hidden ", stringify!($thunk)),
                concat!(".globl ", stringify!($thunk)),
                concat!(".type ", stringify!($thunk), ", @function"),
                concat!(stringify!($thunk), ":"),
                ".cfi_startproc",
                ".cfi_personality 0x1b, {}",
                frame!($called),
                "ret",
                ".cfi_endproc",
                concat!(".size ", stringify!($thunk), ", . - ", stringify!($thunk)),
                ".popsection",
                sym refuse_to_unwind,
            );

            impl<R, $($Argument),+> CallOut<($($Argument,)+)>
                for unsafe extern "C" fn($($Argument),+) -> R
            {
                type Output = R;

                #[inline(always)]
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                unsafe fn call_out(self, ($($argument,)+): ($($Argument,)+)) -> R {
                    const { $(assert!(in_a_register::<$Argument>());)+ }
                    // SAFETY: the arguments are integers and pointers only. One more argument at
                    // the end does not move them, and the thunk passes registers and the result on
                    // unchanged.
                    let thunk = unsafe {
                        std::mem::transmute::<
                            unsafe extern "C" fn(),
                            unsafe extern "C" fn($($Argument,)+ Self) -> R,
                        >($thunk)
                    };
                    // SAFETY: the caller's contract: the function may be called with these
                    // arguments.
                    unsafe { thunk($($argument,)+ self) }
                }

                #[inline(always)]
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                unsafe fn call_out(self, ($($argument,)+): ($($Argument,)+)) -> R {
                    // SAFETY: the caller's contract: the function may be called with these
                    // arguments.
                    unsafe { self($($argument),+) }
                }
            }
        )+
    };
}

#[cfg(target_arch = "aarch64")]
thunks! {
    ucxx_rs_call_out_1: "x1", [A a];
    ucxx_rs_call_out_2: "x2", [A a, B b];
    ucxx_rs_call_out_3: "x3", [A a, B b, C c];
    ucxx_rs_call_out_4: "x4", [A a, B b, C c, D d];
    ucxx_rs_call_out_5: "x5", [A a, B b, C c, D d, E e];
    ucxx_rs_call_out_6: "x6", [A a, B b, C c, D d, E e, F f];
}

// The sixth argument takes the last register. So the function is on the stack, above the return
// address and the thunk's padding.
#[cfg(not(target_arch = "aarch64"))]
thunks! {
    ucxx_rs_call_out_1: "rsi", [A a];
    ucxx_rs_call_out_2: "rdx", [A a, B b];
    ucxx_rs_call_out_3: "rcx", [A a, B b, C c];
    ucxx_rs_call_out_4: "r8", [A a, B b, C c, D d];
    ucxx_rs_call_out_5: "r9", [A a, B b, C c, D d, E e];
    ucxx_rs_call_out_6: "qword ptr [rsp + 16]", [A a, B b, C c, D d, E e, F f];
}

/// True for integers and pointers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const fn in_a_register<T>() -> bool {
    size_of::<T>() <= size_of::<usize>() && size_of::<T>() == align_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn two(a: u64, b: i32) -> i64 {
        a as i64 * 10 + i64::from(b)
    }

    unsafe extern "C" fn three(a: *mut u32, b: u32, c: u8) {
        // SAFETY: a valid pointer to the test's variable.
        unsafe { *a = b * 10 + u32::from(c) }
    }

    unsafe extern "C" fn four(a: u64, b: u64, c: u64, d: u64) -> u64 {
        [a, b, c, d].into_iter().fold(0, |sum, digit| sum * 10 + digit)
    }

    unsafe extern "C" fn five(a: u64, b: u64, c: u64, d: u64, e: u64) -> u64 {
        [a, b, c, d, e].into_iter().fold(0, |sum, digit| sum * 10 + digit)
    }

    unsafe extern "C" fn six(a: u64, b: u64, c: u64, d: u64, e: u64, f: i32) -> i64 {
        [a, b, c, d, e].into_iter().fold(0, |sum, digit| sum * 10 + digit as i64) * 10
            + i64::from(f)
    }

    #[test]
    fn arguments_and_results_come_through() {
        let mut one = 0;
        let two: unsafe extern "C" fn(u64, i32) -> i64 = two;
        let three: unsafe extern "C" fn(*mut u32, u32, u8) = three;
        let four: unsafe extern "C" fn(u64, u64, u64, u64) -> u64 = four;
        let five: unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64 = five;
        let six: unsafe extern "C" fn(u64, u64, u64, u64, u64, i32) -> i64 = six;
        // SAFETY: functions of this file, called with arguments of their types.
        unsafe {
            assert_eq!(two.call_out((7, -3)), 67);
            three.call_out((&raw mut one, 4, 5));
            assert_eq!(four.call_out((1, 2, 3, 4)), 1234);
            assert_eq!(five.call_out((1, 2, 3, 4, 5)), 12345);
            assert_eq!(six.call_out((1, 2, 3, 4, 5, -6)), 123_444);
        }
        assert_eq!(one, 45);
    }
}
