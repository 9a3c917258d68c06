//! Memory of the library's own that processes of a host share.
//!
//! A segment has no name that could be left over, taken by somebody else, or guessed: it is a
//! descriptor (memfd) of the process that made it, and other processes open it through that
//! process's `/proc/PID/fd`, which the kernel permits to those that could as well trace it: the
//! same user, who sees the process. It goes when the last one that has it open or mapped has closed
//! it or died.
//!
//! What another process tells is not believed. Its descriptor is looked at before it is opened, and
//! opened only if it is such a segment; sealed, so that no page of it can be taken away under a
//! reader; of the size that was told; and with the nonce in its header that was told with the size,
//! which is read, not mapped, as the last step before the mapping. So a number that has come to
//! mean another process, or another file, is found out.
//!
//! All memory is there from the beginning: a lack of it is an error here, and no SIGBUS on the
//! first access. As the kernel rather ends processes than refuse such memory, what it has left, for
//! the machine and for the control group, is asked for first; that is a look and no reservation.
//!
//! What it costs is the kernel's zeroing of pages; `cargo test --release --lib
//! engine::os::shared_segment -- --ignored --nocapture figures`: 1 MiB takes 0.4 ms to make, 1 GiB
//! 0.3 to 1.3 s; opening takes some 50 us; the first write to each page of a mapping takes 1.5 to 6
//! us on top (AMD EPYC, Zen 5, a virtual machine, busy).

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::os::random::random;
use rustix::fs::{
    fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create, FallocateFlags,
    MemfdFlags, Mode, OFlags, SealFlags,
};
use rustix::io::{retry_on_intr, Errno};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

const MAGIC: [u8; 8] = *b"ucxxseg1";
/// Where what a segment holds begins: larger than any page of the machines that are supported, and
/// a whole number of them.
const HEADER: usize = 65_536;
/// No file can be longer.
const MOST: usize = 1 << 46;
/// The kernel starts an allocation over from its beginning when a signal comes: in pieces it gets
/// on.
const AT_ONCE: usize = 64 << 20;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// What another process of the host needs to open a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentName {
    /// Of the process that made it.
    pub pid: u32,
    /// Its descriptor there.
    pub descriptor: u32,
    /// Bytes of control words.
    pub control: u64,
    /// Bytes behind them.
    pub data: u64,
    /// At random.
    pub nonce: [u8; 16],
}

impl SegmentName {
    /// Bytes as it travels.
    pub const LENGTH: usize = 40;

    /// As it travels: pid, descriptor, control, data, nonce; little endian.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.descriptor.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.control.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_le_bytes());
        bytes[24..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Reads one that came in. Whether there is such a segment is for `Segment::open` to find out.
    pub fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        SegmentName {
            pid: word(0),
            descriptor: word(4),
            control: long(8),
            data: long(16),
            nonce: std::array::from_fn(|byte| bytes[24 + byte]),
        }
    }

    fn lengths(&self) -> Result<Lengths> {
        let lengths = usize::try_from(self.control).ok().zip(usize::try_from(self.data).ok());
        lengths.and_then(|(control, data)| Lengths::new(control, data)).ok_or_else(|| {
            Error::new(
                Status::INVALID_ADDR,
                format!("segment: of {} and {} bytes", self.control, self.data),
            )
        })
    }

    /// At the beginning of a segment.
    fn header(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.encode()[8..]);
        bytes
    }
}

/// How a segment is divided: header, control words, data, each from a whole page on.
#[derive(Clone, Copy)]
struct Lengths {
    control: usize,
    data: usize,
    data_at: usize,
    whole: usize,
}

impl Lengths {
    fn new(control: usize, data: usize) -> Option<Self> {
        let pages = |bytes: usize| bytes.checked_next_multiple_of(HEADER);
        let data_at = pages(control)?.checked_add(HEADER)?;
        let whole = pages(data)?.checked_add(data_at).filter(|whole| *whole <= MOST)?;
        Some(Lengths { control, data, data_at, whole })
    }
}

/// A segment that is mapped. Of the process that made it: it can be opened by others as long as
/// this lives.
pub struct Segment {
    memory: *mut u8,
    lengths: Lengths,
    name: SegmentName,
    /// Of the process that made it.
    _descriptor: Option<OwnedFd>,
}

// SAFETY: it owns its mapping, and hands out pointers, whose users are bound by what they have
// agreed on.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// What went wrong in the kernel.
fn failed(what: &str, cause: impl Into<std::io::Error>, status_of_others: Status) -> Error {
    let cause = cause.into();
    let status = match Errno::from_io_error(&cause) {
        Some(Errno::NOMEM | Errno::NOSPC | Errno::FBIG) => Status::NO_MEMORY,
        Some(Errno::MFILE | Errno::NFILE) => Status::NO_RESOURCE,
        _ => status_of_others,
    };
    Error::new(status, format!("segment: {what}: {cause}"))
}

/// Bytes that the kernel could still give, as far as it tells.
fn room() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let field = |name: &str| -> Option<u64> {
        let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let machine = field("MemAvailable:")
        .map_or(u64::MAX, |bytes| bytes.saturating_add(field("SwapFree:").unwrap_or(0)));
    // Each group is held to the limits of those that it is in, too.
    let groups = read("/proc/self/cgroup");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or("");
    let groups = std::path::Path::new("/sys/fs/cgroup").join(own);
    let in_group = |group: &std::path::Path| {
        let number =
            |name| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        number("memory.max")?
            .checked_sub(number("memory.current")?.saturating_sub(reclaimable(group)))
    };
    groups
        .ancestors()
        .take_while(|group| group.starts_with("/sys/fs/cgroup"))
        .filter_map(in_group)
        .fold(machine, u64::min)
}

/// What a control group could give back: pages of files that it has read.
fn reclaimable(group: &std::path::Path) -> u64 {
    let statistics = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        statistics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    field("inactive_file ").unwrap_or(0) + field("active_file ").unwrap_or(0)
}

fn make(length: usize) -> Result<OwnedFd> {
    if length as u64 > room() {
        return Err(Error::new(
            Status::NO_MEMORY,
            format!("segment: there is no memory for {length} bytes"),
        ));
    }
    if length as u64 > crate::engine::os::resource_limits::longest_file() {
        let text = format!(
            "segment: {length} bytes are more than the limit of the length of files (ulimit -f)"
        );
        return Err(Error::new(Status::NO_RESOURCE, text));
    }
    // A kernel that knows that flag may insist on it; one that does not refuses it. (Linux 6.3.)
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let open = |flags| memfd_create(c"ucxx_rs", flags);
    let file = open(flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| open(flags))
        .map_err(|cause| failed("it could not be made", cause, Status::UNSUPPORTED))?;
    ftruncate(&file, length as u64)
        .map_err(|cause| failed("it could not be given its size", cause, Status::IO_ERROR))?;
    for begin in (0..length).step_by(AT_ONCE) {
        let (begin, bytes) = (begin as u64, AT_ONCE.min(length - begin) as u64);
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), begin, bytes)).map_err(
            |cause| {
                failed(&format!("there is no memory for {length} bytes"), cause, Status::NO_MEMORY)
            },
        )?;
    }
    fcntl_add_seals(&file, SEALS)
        .map_err(|cause| failed("its size could not be made final", cause, Status::UNSUPPORTED))?;
    Ok(file)
}

fn map(file: &OwnedFd, length: usize) -> Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping, wherever there is room.
    let memory = unsafe { mmap(null_mut(), length, access, MapFlags::SHARED, file, 0) };
    memory.map(|memory| memory.cast()).map_err(|cause| {
        failed(&format!("{length} bytes could not be mapped"), cause, Status::NO_MEMORY)
    })
}

impl Segment {
    /// Makes a segment of so many bytes of control words and of data, all zero. NO_MEMORY or
    /// NO_RESOURCE where there is not enough.
    pub fn create(control: usize, data: usize) -> Result<Self> {
        let lengths = Lengths::new(control, data).ok_or_else(|| {
            Error::new(
                Status::NO_MEMORY,
                format!("segment: {data} bytes are more than there can be"),
            )
        })?;
        let file = make(lengths.whole)?;
        let name = SegmentName {
            pid: std::process::id(),
            descriptor: file.as_raw_fd() as u32,
            control: control as u64,
            data: data as u64,
            // Not to be told by those who have not been told it.
            nonce: random()?,
        };
        let file = std::fs::File::from(file);
        file.write_all_at(&name.header(), 0)
            .map_err(|cause| failed("its header could not be written", cause, Status::IO_ERROR))?;
        let file = OwnedFd::from(file);
        let memory = map(&file, lengths.whole)?;
        Ok(Segment { memory, lengths, name, _descriptor: Some(file) })
    }

    /// Opens one that another process of this host, in the same pid namespace, has made.
    ///
    /// UNREACHABLE where this process may not, or cannot, look into that one: another user,
    /// hidepid, another namespace, no /proc, or it has gone. The two then have to reach each other
    /// by messages. INVALID_ADDR where there is something else than what was told: it has gone, and
    /// its numbers have been given out again, or the other side lies.
    pub fn open(name: &SegmentName) -> Result<Self> {
        let lengths = name.lengths()?;
        // Looked at without opening it, which could have an effect if it is something else.
        let place = format!("/proc/{}/fd/{}", name.pid, name.descriptor);
        let unreachable = |path: &str| {
            let path = path.to_owned();
            move |cause| failed(&path, cause, Status::UNREACHABLE)
        };
        let found = open_at(&place, OFlags::PATH).map_err(unreachable(&place))?;
        let here = format!("/proc/self/fd/{}", found.as_raw_fd());
        let strange =
            |what: &str| Error::new(Status::INVALID_ADDR, format!("segment: {place} is {what}"));
        match std::fs::read_link(&here) {
            Ok(target) if target.to_string_lossy().starts_with("/memfd:ucxx_rs") => {}
            Ok(_) => return Err(strange("something else")),
            Err(cause) => return Err(failed(&here, cause, Status::UNREACHABLE)),
        }
        let file = open_at(&here, OFlags::RDWR).map_err(unreachable(&place))?;
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(strange("not of a fixed size"));
        }
        let file = std::fs::File::from(file);
        if file.metadata().map_or(0, |found| found.len()) != lengths.whole as u64 {
            return Err(strange("of another size"));
        }
        let mut header = [0; 40];
        if file.read_exact_at(&mut header, 0).is_err() || header != name.header() {
            return Err(strange("another one"));
        }
        let memory = map(&file.into(), lengths.whole)?;
        Ok(Segment { memory, lengths, name: *name, _descriptor: None })
    }

    /// To tell others.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Bytes that a segment begins with, and nobody can guess.
    pub const PROOF: usize = 40;

    /// Those of this one.
    pub fn proof(&self) -> [u8; Self::PROOF] {
        self.name.header()
    }

    /// Where they stand in this process.
    pub fn proof_at(&self) -> u64 {
        self.memory as u64
    }

    /// Where the control words begin: aligned to a page, all zero at first.
    pub fn control(&self) -> *mut u8 {
        // SAFETY: inside the mapping.
        unsafe { self.memory.add(HEADER) }
    }

    /// Bytes of them.
    pub fn control_length(&self) -> usize {
        self.lengths.control
    }

    /// Where the data begins: aligned to a page, all zero at first.
    pub fn data(&self) -> *mut u8 {
        // SAFETY: inside the mapping, or at its end.
        unsafe { self.memory.add(self.lengths.data_at) }
    }

    /// Bytes of it.
    pub fn data_length(&self) -> usize {
        self.lengths.data
    }
}

fn open_at(path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped.
        let _ = unsafe { munmap(self.memory.cast(), self.lengths.whole) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &SegmentName) -> Status {
        Segment::open(name).err().expect("refused").status()
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        let made = Segment::create(100, 70_000).unwrap();
        let opened = Segment::open(&SegmentName::decode(&made.name().encode())).unwrap();
        assert_eq!((opened.control_length(), opened.data_length()), (100, 70_000));
        assert_ne!(made.data(), opened.data());
        assert!(opened.data() as usize % 65_536 % 4096 == 0);
        // SAFETY: inside both; one thread.
        unsafe {
            assert!(
                (0..100).all(|at| *opened.control().add(at) == 0)
                    && (0..70_000).all(|at| *opened.data().add(at) == 0)
            );
            made.control().write(1);
            made.data().write(2);
            made.data().add(69_999).write(3);
            assert_eq!([*opened.control(), *opened.data(), *opened.data().add(69_999)], [1, 2, 3]);
        }
        // It stays for who has it, and cannot be opened any more.
        let name = *made.name();
        drop(made);
        assert!(matches!(status(&name), Status::UNREACHABLE | Status::INVALID_ADDR));
        // SAFETY: as above.
        assert_eq!(unsafe { *opened.data() }, 2);
    }

    #[test]
    fn empty_ones() {
        let made = Segment::create(0, 0).unwrap();
        assert_eq!(Segment::open(made.name()).unwrap().data_length(), 0);
    }

    #[test]
    fn what_is_not_what_was_told_is_refused() {
        let made = Segment::create(64, 4096).unwrap();
        let name = *made.name();
        let mut nonce = name.nonce;
        nonce[15] ^= 1;
        for lie in [
            SegmentName { nonce, ..name },
            SegmentName { data: 4095, ..name },
            SegmentName { data: 1 << 20, ..name },
            SegmentName { control: 63, ..name },
            SegmentName { data: u64::MAX, ..name },
            SegmentName { control: u64::MAX - 5, data: 10, ..name },
        ] {
            assert_eq!(status(&lie), Status::INVALID_ADDR, "{lie:?}");
        }
        for gone in
            [SegmentName { descriptor: 1_000_000, ..name }, SegmentName { pid: u32::MAX, ..name }]
        {
            assert_eq!(status(&gone), Status::UNREACHABLE, "{gone:?}");
        }
        // A pipe, which nobody opens by mistake and then waits for, and a file.
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for other in [reader.as_raw_fd(), file.as_raw_fd()] {
            assert_eq!(
                status(&SegmentName { descriptor: other as u32, ..name }),
                Status::INVALID_ADDR
            );
        }
        // One of the right name whose size may change.
        let loose = memfd_create(c"ucxx_rs", MemfdFlags::ALLOW_SEALING).unwrap();
        let loose = std::fs::File::from(loose);
        loose.set_len(made.lengths.whole as u64).unwrap();
        loose.write_all_at(&name.header(), 0).unwrap();
        assert_eq!(
            status(&SegmentName { descriptor: loose.as_raw_fd() as u32, ..name }),
            Status::INVALID_ADDR
        );
    }

    #[test]
    fn its_size_is_final() {
        let made = Segment::create(1, 1).unwrap();
        let file = std::fs::File::from(made._descriptor.as_ref().unwrap().try_clone().unwrap());
        assert!(file.set_len(10).is_err() && file.set_len(1 << 30).is_err());
        let flags = rustix::io::fcntl_getfd(&file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        for too_much in [1 << 45, usize::MAX] {
            assert_eq!(Segment::create(0, too_much).err().unwrap().status(), Status::NO_MEMORY);
        }
    }

    #[test]
    #[ignore = "measures: see the top of the file"]
    fn figures() {
        for megabytes in [0, 1, 64, 1024] {
            let start = std::time::Instant::now();
            let made = Segment::create(4096, megabytes << 20).unwrap();
            let created = start.elapsed();
            let start = std::time::Instant::now();
            let opened = Segment::open(made.name()).unwrap();
            let took = start.elapsed();
            let start = std::time::Instant::now();
            // SAFETY: inside.
            unsafe { opened.data().write_bytes(1, megabytes << 20) };
            println!(
                "{megabytes} MiB: made {created:?}, opened {took:?}, first written {:?}",
                start.elapsed()
            );
        }
    }
}
