//! Checks what this process may do with its own memory, by asking the kernel, so that no access
//! ends in a signal.
//!
//! - `is_open`: is a whole range readable and writable?
//! - `copy`: copy between two ranges, as far as one of them may be read or written.
//!
//! Cost: some microseconds each; more if the process has very many mappings.

use rustix::pipe::{pipe_with, PipeFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::AsRawFd;

/// Direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// Is the range readable and writable? False if the kernel does not show it.
pub(crate) fn is_open(begin: u64, size: u64) -> bool {
    let Ok(maps) = File::open("/proc/self/maps") else { return size == 0 };
    is_open_in(BufReader::new(maps), begin, size)
}

fn is_open_in(maps: impl BufRead, begin: u64, size: u64) -> bool {
    let Some(end) = begin.checked_add(size) else { return false };
    let mut next = begin;
    for line in maps.lines().map_while(Result::ok) {
        if next >= end {
            break;
        }
        let Some((from, to, is_open)) = parse(&line) else { return false };
        if to <= next {
            continue;
        }
        if from > next || !is_open {
            return false;
        }
        next = to;
    }
    next >= end
}

/// Start and end of a mapping, and whether it is readable and writable.
fn parse(line: &str) -> Option<(u64, u64, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?, rest.starts_with("rw")))
}

/// Copies between `here`, which the caller may access, and `there`, which the kernel checks: EFAULT
/// if it is not mapped or not accessible. By a pipe, for processes in which process_vm_readv is
/// forbidden.
///
/// # Safety
/// `length` bytes at `here` may be read (`Way::Write`) or written (`Way::Read`).
pub(crate) unsafe fn copy(way: Way, mut here: *mut u8, there: u64, length: usize) -> Result<()> {
    let mut there: *mut u8 = std::ptr::with_exposed_provenance_mut(there as usize);
    // Nonblocking: the pipe takes as much as it has room for.
    let (from_pipe, to_pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut left = length;
    while left > 0 {
        let (from, to) = if way == Way::Write { (here, there) } else { (there, here) };
        // SAFETY: the kernel checks `there` and returns EFAULT. `here` is valid by this function's
        // contract.
        let taken = done(unsafe { libc::write(to_pipe.as_raw_fd(), from.cast(), left) })?;
        let mut given = 0;
        while given < taken {
            let (to, more) = (to.wrapping_add(given), taken - given);
            // SAFETY: the kernel checks `there`, and `here` is valid for `taken` bytes by this
            // function's contract.
            given += done(unsafe { libc::read(from_pipe.as_raw_fd(), to.cast(), more) })?;
        }
        (here, there) = (here.wrapping_add(taken), there.wrapping_add(taken));
        left -= taken;
    }
    Ok(())
}

fn done(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_open_where_all_of_it_is() {
        let maps = "1000-3000 rw-p 00000000 00:00 0\n3000-4000 rw-s 00000000 00:01 7 /dev/zero\n\
                    4000-5000 r--p 00000000 00:00 0 [heap]\n7000-8000 rw-p 00000000 00:00 0\n";
        let is_open = |begin, size| is_open_in(maps.as_bytes(), begin, size);
        for (begin, size) in
            [(0x1000, 0x3000), (0x1001, 0x2fff), (0x2fff, 2), (0x7000, 0x1000), (9, 0)]
        {
            assert!(is_open(begin, size), "{begin:x} {size:x}");
        }
        for (begin, size) in
            [(0xfff, 2), (0x3fff, 2), (0x4000, 1), (0x5000, 1), (0x6fff, 2), (0x7fff, 2)]
        {
            assert!(!is_open(begin, size), "{begin:x} {size:x}");
        }
        assert!(!is_open(u64::MAX, 2) && !is_open(0x8000, 1));
        assert!(!is_open_in(&b"what is this"[..], 1, 1));
    }

    #[test]
    fn the_kernel_copies_what_it_may_and_tells_of_the_rest() {
        const PAGE: usize = 4096;
        // More than a pipe holds.
        const OPEN: usize = 32 * PAGE;
        let (length, access) = (OPEN + PAGE, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, whose last page is made read-only.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0);
            assert!(base != libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.byte_add(OPEN), PAGE, libc::PROT_READ), 0);
            base
        };
        let begin = base.expose_provenance() as u64;
        assert!(is_open(begin, OPEN as u64) && !is_open(begin, length as u64));
        let mut data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let expected = data.clone();
        // SAFETY: `data` has `length` bytes, and no call asks for more.
        let mut copy = |way, there, length| unsafe { copy(way, data.as_mut_ptr(), there, length) };
        copy(Way::Write, begin, OPEN).unwrap();
        let refused =
            |result: Result<()>| assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        refused(copy(Way::Write, begin + OPEN as u64, 1));
        copy(Way::Read, begin + OPEN as u64, PAGE).unwrap();
        // SAFETY: the last page of the mapping made above.
        assert_eq!(unsafe { libc::mprotect(base.byte_add(OPEN), PAGE, libc::PROT_NONE) }, 0);
        refused(copy(Way::Read, begin + OPEN as u64, 1));
        copy(Way::Read, begin, OPEN).unwrap();
        // The last read but one put a page of zeros at the front, and the last one the data again.
        assert_eq!(data, expected);
        // SAFETY: exactly the mapping made above, not used afterwards.
        unsafe { libc::munmap(base, length) };
    }
}
