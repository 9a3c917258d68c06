//! How a process accesses the memory of a member of its window: by a mapping, by the kernel, which
//! copies from process to process, or by messages.
//!
//! The kernel's calls (process_vm_readv, process_vm_writev) need the permission to trace the other
//! process: the same user, and no security module (Yama's ptrace_scope) that forbids it. Whether
//! they work, and whether the pid belongs to the right process, is checked when the window is
//! created. Before each later call a pidfd shows whether that process still lives.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::process_watch::{self, Found};
use crate::engine::os::own_memory;
use crate::engine::os::own_memory::Way;
use crate::engine::os::process_identity::Identity;
use crate::engine::os::readable::is_readable;
use crate::engine::os::shared_segment::Segment;
use crate::engine::window::remote::remote::Remote;
use std::os::fd::OwnedFd;

/// Most pieces in one system call. The kernel allows 1024.
pub(crate) const PIECES: usize = 256;

/// How a member's memory is accessed. `create.rs` chooses it when the window is created, in
/// `reach`. Operations by the kernel and by messages look for a faster way each time: a target that
/// serves delegated operations (`window::delegation`), or UCX moving one piece
/// (`window::remote::rendezvous`).
pub(crate) enum Reach {
    /// Mapped here, at this address.
    Mapped(*mut u8),
    /// In that process, at that address. Also this process, if the kernel has to check whether its
    /// memory is accessible.
    Process(Process, u64),
    /// In that process, wherever it has attached memory.
    Attached(Process),
    /// In this process, wherever it has attached memory.
    AttachedHere,
    /// By messages. Places are offsets in the window, or addresses in dynamic windows.
    Messages(Box<Remote>),
}

/// Reused buffers for data fetched from another process; as many are kept as there are threads at a
/// time, usually.
#[derive(Default)]
pub(crate) struct Rooms(Mutex<Vec<Box<[u64]>>>);

impl Rooms {
    const KEPT: usize = 8;

    /// Calls `work` with a buffer. All calls have to pass the same `bytes`.
    pub(crate) fn with<T>(&self, bytes: usize, work: impl FnOnce(&mut [u64]) -> T) -> T {
        let kept = self.0.lock().pop();
        let mut room = kept.unwrap_or_else(|| vec![0; bytes.div_ceil(8)].into_boxed_slice());
        let result = work(&mut room);
        let mut rooms = self.0.lock();
        if rooms.len() < Self::KEPT {
            rooms.push(room);
        }
        result
    }
}

/// A process of this host.
pub(crate) struct Process {
    rank: u32,
    pid: i32,
    /// A pidfd, readable when the process has ended. `None` if the kernel has no pidfds.
    ended: Option<OwnedFd>,
    is_own: bool,
}

/// A piece: local address, remote address, length.
pub(crate) type Piece = (*mut u8, u64, usize);

impl Process {
    /// The process that created this segment. Verifies it by reading the segment's header through
    /// the kernel from that process.
    pub(crate) fn meet(
        rank: u32,
        identity: &Identity,
        segment: &Segment,
        header: u64,
    ) -> Result<Self> {
        let (found, ended) = process_watch::open(identity);
        let process = Process { rank, pid: identity.pid as i32, ended, is_own: false };
        if found == Found::Gone {
            return Err(process.gone());
        }
        let mut read = [0; Segment::PROOF];
        process.copy(Way::Read, &[(read.as_mut_ptr(), header, read.len())])?;
        if read != segment.proof() {
            let text =
                format!("window: process {} is not the one that created its segment", identity.pid);
            return Err(Error::new(Status::INVALID_ADDR, text));
        }
        Ok(process)
    }

    /// This process, for memory that may be unmapped or not writable: the kernel returns an error
    /// where a load or store would raise a signal. Costs a system call for each copy.
    pub(crate) fn own(rank: u32) -> Self {
        Process { rank, pid: std::process::id() as i32, ended: None, is_own: true }
    }

    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// For containers that forbid these system calls even on the own process. Not by
    /// /proc/self/mem, which also writes read-only memory.
    pub(crate) fn copy_by_pipe(&self, way: Way, pieces: &[Piece]) -> Result<()> {
        for (here, there, length) in pieces {
            // SAFETY: the callers pass local memory that may be read or written, as for `copy`.
            unsafe { own_memory::copy(way, *here, *there, *length) }
                .map_err(|cause| self.refused_by(&cause))?;
        }
        Ok(())
    }

    /// Copies the pieces. The caller may access the local sides; the kernel checks the remote ones.
    pub(crate) fn copy(&self, way: Way, pieces: &[Piece]) -> Result<()> {
        if self.ended.as_ref().is_some_and(is_readable) {
            return Err(self.gone());
        }
        match pieces.chunks(PIECES).try_for_each(|pieces| self.copy_some(way, pieces)) {
            Err(error) if self.is_own && error.status() == Status::UNSUPPORTED => {
                self.copy_by_pipe(way, pieces)
            }
            copied => copied,
        }
    }

    fn copy_some(&self, way: Way, pieces: &[Piece]) -> Result<()> {
        const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (mut here, mut there) = ([EMPTY; PIECES], [EMPTY; PIECES]);
        for (at, (place, address, length)) in pieces.iter().enumerate() {
            here[at] = libc::iovec { iov_base: place.cast(), iov_len: *length };
            there[at] = libc::iovec { iov_base: *address as usize as *mut _, iov_len: *length };
        }
        // Both lists have the same piece lengths, so they advance together.
        let mut first = 0;
        while first < pieces.len() {
            let left = (pieces.len() - first) as libc::c_ulong;
            let (from_here, from_there) = (&here[first..], &there[first..]);
            // SAFETY: the callers pass local memory that may be read or written. The kernel checks
            // the remote addresses.
            let copied = unsafe {
                match way {
                    Way::Read => libc::process_vm_readv(
                        self.pid,
                        from_here.as_ptr(),
                        left,
                        from_there.as_ptr(),
                        left,
                        0,
                    ),
                    Way::Write => libc::process_vm_writev(
                        self.pid,
                        from_here.as_ptr(),
                        left,
                        from_there.as_ptr(),
                        left,
                        0,
                    ),
                }
            };
            let Ok(mut copied) = usize::try_from(copied) else { return Err(self.refused()) };
            if copied == 0 {
                return Err(unmapped(self.pid));
            }
            // The kernel may copy a part: some gigabytes at a time, or up to a page that is
            // missing. The next call then returns the error.
            while first < pieces.len() && copied >= here[first].iov_len {
                copied -= here[first].iov_len;
                first += 1;
            }
            for list in [&mut here, &mut there] {
                if copied > 0 {
                    list[first].iov_base =
                        list[first].iov_base.cast::<u8>().wrapping_add(copied).cast();
                    list[first].iov_len -= copied;
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn gone(&self) -> Error {
        Error::new(
            Status::PEER_FAILED,
            format!("window: rank {} (process {}) has ended", self.rank, self.pid),
        )
    }

    #[cold]
    fn refused(&self) -> Error {
        self.refused_by(&std::io::Error::last_os_error())
    }

    #[cold]
    fn refused_by(&self, cause: &std::io::Error) -> Error {
        match cause.raw_os_error() {
            Some(libc::ESRCH) => self.gone(),
            Some(libc::EFAULT) => unmapped(self.pid),
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Error::new(
                Status::UNSUPPORTED,
                format!(
                    "window: the kernel does not let this process reach memory of process {} \
                     ({cause}): see kernel.yama.ptrace_scope; windows of memory that the library \
                     allocates need no such permission",
                    self.pid
                ),
            ),
            Some(libc::ENOMEM) => Error::new(
                Status::NO_MEMORY,
                format!(
                    "window: the kernel has no \
                memory: {cause}"
                ),
            ),
            _ => Error::new(
                Status::IO_ERROR,
                format!("window: memory of process {} could not be accessed: {cause}", self.pid),
            ),
        }
    }
}

#[cold]
fn unmapped(pid: i32) -> Error {
    Error::new(
        Status::INVALID_ADDR,
        format!(
            "window: process {pid} has no memory at some of these addresses, or may not write it"
        ),
    )
}
