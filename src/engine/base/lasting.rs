//! Thread-local storage that lasts as long as its thread.
//!
//! Rust destroys a thread-local that has a destructor before all code of the thread has run. On the
//! main thread, `atexit` functions and static destructors run later. On any thread, so do
//! destructors of thread-locals that the program made before its first call of the library. That
//! code may call the library. So `lasting!` accepts only types without a destructor: their storage
//! stays valid. Larger values live elsewhere, on the thread's stack (`Frames`) or in tables of the
//! process.

use std::cell::Cell;
use std::thread::LocalKey;

/// A thread-local variable, declared by `lasting!`.
pub(crate) struct Lasting<T: 'static>(LocalKey<T>);

impl<T: 'static> Lasting<T> {
    pub(crate) const fn new(key: LocalKey<T>) -> Self {
        const { assert!(!std::mem::needs_drop::<T>(), "what has a destructor does not last") };
        Lasting(key)
    }

    #[inline(always)]
    #[expect(
        clippy::disallowed_methods,
        reason = "without a destructor the storage is always there"
    )]
    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.0.with(f)
    }
}

/// Like `thread_local!`, for types without destructors.
macro_rules! lasting {
    ($($(#[$note:meta])* static $name:ident: $type:ty = const $value:block;)+) => {$(
        $(#[$note])*
        const $name: $crate::engine::base::lasting::Lasting<$type> = {
            std::thread_local! {
                static KEY: $type = const $value;
            }
            $crate::engine::base::lasting::Lasting::new(KEY)
        };
    )+};
}
pub(crate) use lasting;

/// A stack of values that calls in progress on this thread left for the calls inside them,
/// innermost first.
pub(crate) struct Frames<T>(Cell<*const Frame<T>>);

struct Frame<T> {
    value: T,
    outer: *const Frame<T>,
}

impl<T> Frames<T> {
    pub(crate) const fn new() -> Self {
        Frames(Cell::new(std::ptr::null()))
    }

    /// The values, innermost first.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        let mut next = self.0.get();
        std::iter::from_fn(move || {
            // SAFETY: the pointer is null or points into the stack frame of a call of `during` that
            // has not returned, and that call removes it before it returns. Only this thread uses
            // the list, as it is not Sync.
            let frame = unsafe { next.as_ref() }?;
            next = frame.outer;
            Some(&frame.value)
        })
    }
}

impl<T: 'static> Lasting<Frames<T>> {
    /// Pushes `value`, runs `f`, pops `value` and returns it with the result of `f`.
    pub(crate) fn during<R>(&'static self, value: T, f: impl FnOnce() -> R) -> (R, T) {
        /// Pops the value even if `f` panics.
        struct Ending<T: 'static>(&'static Lasting<Frames<T>>, *const Frame<T>);
        impl<T: 'static> Drop for Ending<T> {
            fn drop(&mut self) {
                self.0.with(|frames| frames.0.set(self.1));
            }
        }
        let frame = Frame { value, outer: self.with(|frames| frames.0.get()) };
        let ending = Ending(self, frame.outer);
        self.with(|frames| frames.0.set(&raw const frame));
        let result = f();
        drop(ending);
        (result, frame.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::mpsc;

    lasting! {
        static NUMBERS: Frames<u32> = const { Frames::new() };
        static WORDS: Frames<RefCell<Vec<&'static str>>> = const { Frames::new() };
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    fn numbers() -> Vec<u32> {
        NUMBERS.with(|frames| frames.each().copied().collect())
    }

    #[test]
    fn frames_are_there_while_their_calls_are() {
        assert!(numbers().is_empty());
        let (seen, first) = NUMBERS.during(1, || {
            let (seen, second) = NUMBERS.during(2, numbers);
            (seen, numbers(), second)
        });
        assert_eq!((seen, first), ((vec![2, 1], vec![1], 2), 1));
        let panicked = std::panic::catch_unwind(|| NUMBERS.during(3, || panic!("in a call")));
        assert!(panicked.is_err() && numbers().is_empty());
        let add = |word| {
            WORDS.with(|frames| frames.each().next().map(|words| words.borrow_mut().push(word)))
        };
        assert!(add("before").is_none());
        let words = WORDS.during(RefCell::default(), || add("meanwhile")).1;
        assert_eq!(words.into_inner(), ["meanwhile"]);
    }

    /// A thread-local made first, whose destructor therefore runs after all others.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "this one has a destructor")]
    fn is_there_in_destructors_of_the_thread() {
        struct Late(mpsc::Sender<(u32, Vec<u32>)>);
        impl Drop for Late {
            fn drop(&mut self) {
                let seen = NUMBERS.during(7, numbers).0;
                let _ = self.0.send((COUNT.with(Cell::get), seen));
            }
        }
        std::thread_local! {
            static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
        }
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            LATE.set(Some(Late(sender)));
            COUNT.with(|count| count.set(5));
        });
        assert_eq!(receiver.recv(), Ok((5, vec![7])));
    }
}
