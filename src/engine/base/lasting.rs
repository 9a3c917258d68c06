//! Storage of each thread that lasts as long as the thread.
//!
//! Rust destroys thread-local storage that has a destructor before other code of the thread has
//! ended. On the main thread, functions of `atexit` and static destructors follow; on any thread,
//! destructors of thread-locals that the program made before its first call of the library. That
//! code may call the library. What `lasting!` declares has no destructor, so it is there for them.
//! What a thread remembers in it lives elsewhere: on its stack (`Frames`), or in tables of the
//! process.

use std::cell::Cell;
use std::thread::LocalKey;

/// A variable of each thread, declared by `lasting!`.
pub(crate) struct Lasting<T: 'static>(LocalKey<T>);

impl<T: 'static> Lasting<T> {
    /// For `lasting!`.
    pub(crate) const fn new(key: LocalKey<T>) -> Self {
        const { assert!(!std::mem::needs_drop::<T>(), "what has a destructor does not last") };
        Lasting(key)
    }

    /// The calling thread's.
    #[inline(always)]
    #[expect(
        clippy::disallowed_methods,
        reason = "without a destructor the storage is always there"
    )]
    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.0.with(f)
    }
}

/// As `thread_local!`, for types without destructors.
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

/// What calls on a thread's stack have left for the calls that they make, innermost first.
pub(crate) struct Frames<T>(Cell<*const Frame<T>>);

struct Frame<T> {
    value: T,
    outer: *const Frame<T>,
}

impl<T> Frames<T> {
    pub(crate) const fn new() -> Self {
        Frames(Cell::new(std::ptr::null()))
    }

    /// Those that are there, innermost first.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        let mut next = self.0.get();
        std::iter::from_fn(move || {
            // SAFETY: null, or in the frame of a call of `during` that has not returned: the list
            // belongs to one thread, as it is not Sync.
            let frame = unsafe { next.as_ref() }?;
            next = frame.outer;
            Some(&frame.value)
        })
    }
}

impl<T: 'static> Lasting<Frames<T>> {
    /// Runs `f` while the value is there; gives it back.
    pub(crate) fn during<R>(&'static self, value: T, f: impl FnOnce() -> R) -> (R, T) {
        /// Also if `f` panics.
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

    /// A destructor that runs after those of everything that the thread came to use later.
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
