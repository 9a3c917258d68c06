//! Keeps the shared memory that a UCX key refers to open while UCX unpacks the key.
//!
//! UCX finds memory of another process by that process: a file by `/proc/PID/fd`, a System V
//! segment by its number, which exists while a process is attached. If the owner has died, UCX 1.13
//! to 1.22 do not find it and then release what they never had (`ucp_rkey_destroy`): an invalid
//! access, or `munmap` of some address. So we open it first, and change the key to name this
//! process's descriptor, which stays open until UCX is done.
//!
//! The code searches UCX's bytes for a record that matches the key's header; the layouts of these
//! records are the same from 1.13 to 1.22. If it finds none, it holds nothing: the owner has ended
//! already, or its memory does not end with it.

use crate::engine::ucx::packed_key::KeyHeader;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// Length of `uct_posix_packed_rkey_t`: flags, descriptor and pid in 8 bytes, then address and
/// length.
const POSIX: usize = 24;
/// Flag: the file is reached by a process's descriptor.
const BY_PROCESS: u64 = 1 << 63;
const PID_BITS: u32 = 30;
const FIELD: u64 = (1 << PID_BITS) - 1;
/// Length of `uct_sysv_packed_rkey_t`: number, address.
const SYSV: usize = 12;

/// Keeps the memory available while it lives.
pub(crate) enum Held {
    Nothing,
    File { _file: File },
    Segment(*const c_void),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Segment(attached) = self {
            // SAFETY: attached in `hold`, detached once, and never accessed.
            unsafe { libc::shmdt(*attached) };
        }
    }
}

/// Opens the memory that the key refers to, and changes the key to name it. An error if the memory
/// is gone or must not be opened.
pub(crate) fn hold(ucx: &mut [u8], header: &KeyHeader) -> io::Result<Held> {
    if let Some((at, name)) = find_posix(ucx, header) {
        let path = format!("/proc/{}/fd/{}", header.owner.pid, name >> PID_BITS & FIELD);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let here = u64::from(std::process::id()) | (file.as_raw_fd() as u64) << PID_BITS;
        let flags = name & !(FIELD | FIELD << PID_BITS);
        ucx[at..at + 8].copy_from_slice(&(flags | here).to_le_bytes());
        return Ok(Held::File { _file: file });
    }
    if let Some(number) = find_sysv(ucx, header) {
        // SAFETY: the kernel picks the address, and the memory is never accessed. The result is
        // checked.
        let attached = unsafe { libc::shmat(number, std::ptr::null(), libc::SHM_RDONLY) };
        if attached as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        return Ok(Held::Segment(attached));
    }
    Ok(Held::Nothing)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// Offset of the record, and its first word.
fn find_posix(ucx: &[u8], header: &KeyHeader) -> Option<(usize, u64)> {
    let last = ucx.len().checked_sub(POSIX)?;
    let mut names = (0..=last).map(|at| (at, word(ucx, at)));
    let is_of = |(at, name): &(usize, u64)| {
        name & BY_PROCESS != 0
            && name & FIELD == u64::from(header.owner.pid)
            && word(ucx, at + 8) == header.base
            && word(ucx, at + 16) >= header.length
    };
    names.find(is_of)
}

/// Number of the System V segment that the key's owner has made.
fn find_sysv(ucx: &[u8], header: &KeyHeader) -> Option<i32> {
    let last = ucx.len().checked_sub(SYSV)?;
    let numbers = (0..=last).filter(|at| word(ucx, at + 4) == header.base);
    let mut numbers =
        numbers.map(|at| i32::from_le_bytes(std::array::from_fn(|byte| ucx[at + byte])));
    numbers.find(|number| is_made_by(*number, header))
}

fn is_made_by(number: i32, header: &KeyHeader) -> bool {
    // SAFETY: all-zero is a valid shmid_ds.
    let mut told: libc::shmid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer for the result.
    let status = unsafe { libc::shmctl(number, libc::IPC_STAT, &raw mut told) };
    status == 0
        && told.shm_cpid as u32 == header.owner.pid
        && told.shm_segsz as u64 >= header.length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::process_identity::Identity;

    fn header(base: u64) -> KeyHeader {
        let owner = Identity { pid: std::process::id(), ..Identity::default() };
        let (number, memory_type, read_only) = (1, 0, false);
        KeyHeader { base, length: 4096, number, memory_type, read_only, owner }
    }

    fn posix(fd: u64, base: u64, length: u64) -> Vec<u8> {
        let name = BY_PROCESS | 1 << 60 | u64::from(std::process::id()) | fd << PID_BITS;
        let mut bytes = vec![7; 13];
        [name, base, length].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&[9; 5]);
        bytes
    }

    #[test]
    fn a_file_is_called_by_a_descriptor_of_this_process() {
        let file = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
        let mut bytes = posix(file.as_raw_fd() as u64, 0x7000, 4096);
        let held = hold(&mut bytes, &header(0x7000)).unwrap();
        let Held::File { _file: opened } = &held else { panic!("nothing is held") };
        let name = word(&bytes, 13);
        assert_eq!(name >> PID_BITS & FIELD, opened.as_raw_fd() as u64);
        assert_eq!((name & FIELD, name >> 60), (u64::from(std::process::id()), 9));
        assert_eq!((word(&bytes, 21), word(&bytes, 29)), (0x7000, 4096));
    }

    #[test]
    fn what_has_gone_is_an_error_and_what_is_something_else_is_left_alone() {
        let mut gone = posix(FIELD, 0x7000, 4096);
        assert!(hold(&mut gone, &header(0x7000)).is_err());
        for (base, length) in [(0x8000, 4096), (0x7000, 4095)] {
            let mut other = posix(FIELD, base, length);
            let before = other.clone();
            assert!(matches!(hold(&mut other, &header(0x7000)), Ok(Held::Nothing)));
            assert_eq!(other, before);
        }
        for length in 0..POSIX {
            assert!(hold(&mut vec![0xff; length], &header(0x7000)).is_ok());
        }
    }

    #[test]
    fn a_segment_is_attached_to() {
        // SAFETY: takes numbers only; the result is checked.
        let number = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
        assert!(number >= 0);
        let attached = |number| {
            // SAFETY: all-zero is a valid shmid_ds.
            let mut told: libc::shmid_ds = unsafe { std::mem::zeroed() };
            // SAFETY: a valid pointer for the result.
            (unsafe { libc::shmctl(number, libc::IPC_STAT, &raw mut told) } == 0)
                .then_some(told.shm_nattch)
        };
        let mut bytes = vec![1];
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&0x7000_u64.to_le_bytes());
        let held = hold(&mut bytes, &header(0x7000)).unwrap();
        assert_eq!(attached(number), Some(1));
        drop(held);
        assert_eq!(attached(number), Some(0));
        // SAFETY: removes the segment made above; no pointer is passed.
        unsafe { libc::shmctl(number, libc::IPC_RMID, std::ptr::null_mut()) };
        assert!(matches!(hold(&mut bytes, &header(0x7000)), Ok(Held::Nothing)));
    }
}
