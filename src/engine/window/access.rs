//! How a process reaches the memory of a member of its window: by a mapping, or by the kernel,
//! which copies from process to process.
//!
//! The kernel's way (process_vm_readv, process_vm_writev) costs a system call each, and needs the
//! permission to trace the other process: the same user, and no security module (Yama's
//! ptrace_scope) that forbids it. Whether it works, and that the number stands for the right
//! process, is proved when the window is made; from then on a descriptor tells whether that process
//! is there before the kernel is asked.

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

/// Pieces of one system call. The kernel takes 1024.
pub(crate) const PIECES: usize = 256;

/// The ways to the memory of a member: `create.rs` chooses one for each, in `reach`, when the
/// window is made. Within the ways by the kernel and by messages each call looks for a shorter one:
/// a target that serves (`window::delegation`), or one piece that UCX moves
/// (`window::remote::rendezvous`).
pub(crate) enum Reach {
    /// Here, from this address on.
    Mapped(*mut u8),
    /// In that process, from that address on there. Or in this one, where the kernel is to look
    /// whether memory may be read and written.
    Process(Process, u64),
    /// There as well, wherever the target has attached memory.
    Attached(Process),
    /// The same in this process.
    AttachedHere,
    /// In a process that is to be asked, by messages: from the beginning of its window on, or by
    /// address in dynamic ones.
    Messages(Box<Remote>),
}

/// Room for what is fetched from another process: kept, for as many threads as are mostly there at
/// a time.
#[derive(Default)]
pub(crate) struct Rooms(Mutex<Vec<Box<[u64]>>>);

impl Rooms {
    const KEPT: usize = 8;

    /// With room for so many bytes, which are always the same.
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

/// Another process of this host.
pub(crate) struct Process {
    rank: u32,
    pid: i32,
    /// Readable when it has ended. None where the kernel has no such descriptors.
    ended: Option<OwnedFd>,
    is_own: bool,
}

/// A piece: where it is here, where it is there, and its bytes.
pub(crate) type Piece = (*mut u8, u64, usize);

impl Process {
    /// The one that made this segment, and proves it: what the segment begins with is read where
    /// that process has it.
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
            let text = format!(
                "window: process {} is not the one that has made its segment",
                identity.pid
            );
            return Err(Error::new(Status::INVALID_ADDR, text));
        }
        Ok(process)
    }

    /// This one, for memory that may have gone, or may not be written: the kernel says so, and no
    /// signal comes of it. A system call each way, where a load or a store would do.
    pub(crate) fn own(rank: u32) -> Self {
        Process { rank, pid: std::process::id() as i32, ended: None, is_own: true }
    }

    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Where a container forbids the calls that copy from process to process, also to the one that
    /// makes them. Not by /proc/self/mem, which writes into what may only be read.
    pub(crate) fn copy_by_pipe(&self, way: Way, pieces: &[Piece]) -> Result<()> {
        for (here, there, length) in pieces {
            // SAFETY: the caller's memory here, as for `copy`.
            unsafe { own_memory::copy(way, *here, *there, *length) }
                .map_err(|cause| self.refused_by(&cause))?;
        }
        Ok(())
    }

    /// Copies the pieces, which the caller may read or write here; there the kernel looks.
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
        // The two lists have the same pieces, so that both are cut in the same place.
        let mut first = 0;
        while first < pieces.len() {
            let left = (pieces.len() - first) as libc::c_ulong;
            let (from_here, from_there) = (&here[first..], &there[first..]);
            // SAFETY: the caller's memory here, as for `copy`; there the kernel looks.
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
            // Less than all, where there are some gigabytes, or at a page that is not there: the
            // next call says so.
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
                format!("window: memory of process {}: {cause}", self.pid),
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
