//! What this process may do with its own memory, as the kernel tells, so that no signal comes of
//! it.
//!
//! Two questions. Is memory open, that is readable and writable as a whole? And: copy this, as far
//! as it may be read or written.
//!
//! Cost: some microseconds for each, and more where a process has very many mappings.

use rustix::pipe::{pipe_with, PipeFlags};
use std::fs::File;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::AsRawFd;

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// Are so many bytes from there on readable and writable? Not if the kernel does not tell.
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

/// Where a mapping begins and ends, and whether it is readable and writable.
fn parse(line: &str) -> Option<(u64, u64, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?, rest.starts_with("rw")))
}

/// Copies between memory that the caller may read or write, `here`, and memory at which the kernel
/// looks: EFAULT where that may not be read or written, or is not there. For processes in which
/// process_vm_readv is forbidden.
///
/// # Safety
/// So many bytes may be read or written here.
pub(crate) unsafe fn copy(way: Way, mut here: *mut u8, there: u64, length: usize) -> Result<()> {
    let mut there: *mut u8 = std::ptr::with_exposed_provenance_mut(there as usize);
    // Which takes as much as it has room for, and does not wait.
    let (from_pipe, to_pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut left = length;
    while left > 0 {
        let (from, to) = if way == Way::Write { (here, there) } else { (there, here) };
        // SAFETY: the kernel looks at what is there; as for this function.
        let taken = done(unsafe { libc::write(to_pipe.as_raw_fd(), from.cast(), left) })?;
        let mut given = 0;
        while given < taken {
            let (to, more) = (to.wrapping_add(given), taken - given);
            // SAFETY: as above.
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

#[cfg(all(test, not(loom)))]
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
        // More than a pipe takes at a time.
        const OPEN: usize = 32 * PAGE;
        let (length, access) = (OPEN + PAGE, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: new memory.
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
        // SAFETY: as many bytes here.
        let mut copy = |way, there, length| unsafe { copy(way, data.as_mut_ptr(), there, length) };
        copy(Way::Write, begin, OPEN).unwrap();
        let refused =
            |result: Result<()>| assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        refused(copy(Way::Write, begin + OPEN as u64, 1));
        copy(Way::Read, begin + OPEN as u64, PAGE).unwrap();
        // SAFETY: of the memory above.
        assert_eq!(unsafe { libc::mprotect(base.byte_add(OPEN), PAGE, libc::PROT_NONE) }, 0);
        refused(copy(Way::Read, begin + OPEN as u64, 1));
        copy(Way::Read, begin, OPEN).unwrap();
        // What was read last but one was a page of zeros, in front.
        assert_eq!(data, expected);
        // SAFETY: as above.
        unsafe { libc::munmap(base, length) };
    }
}
