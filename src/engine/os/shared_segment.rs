//! Memory of the library that processes of one host share.
//!
//! - **No name.** A segment is a memfd of the process that made it. No name can be left over, taken
//!   by another process, or guessed. Other processes open it by `/proc/PID/fd`, which the kernel
//!   permits to those that could also trace that process: the same user, if `/proc` shows the
//!   process. The memory is freed when the last process that has it open or mapped closes it or
//!   dies.
//! - **No trust.** A `SegmentName` from a peer is checked. `open` inspects the descriptor before it
//!   opens it. It opens only a memfd of the right name, which is sealed so that no page can
//!   disappear under a reader, and which has the stated size. As the last step before mapping it
//!   reads the header and compares the nonce. So a reused pid or descriptor is detected.
//! - **Memory is allocated at once**, so a lack of it is an error here, not a SIGBUS at the first
//!   access. The kernel tends to kill processes rather than refuse such memory, so `make` first
//!   asks what the machine and the control group have left. That is a check, not a reservation.
//! - **Cost**, mostly the kernel's zeroing of pages. `cargo test --release --lib
//!   engine::os::shared_segment -- --ignored --nocapture figures`: 1 MiB takes 0.4 ms to make, 1
//!   GiB 0.3 to 1.3 s. Opening takes some 50 us. The first write to each page of a mapping adds 1.5
//!   to 6 us (AMD EPYC, Zen 5, a virtual machine, busy).

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
/// Offset of the contents: a multiple of the page size of all supported machines.
const HEADER: usize = 65_536;
/// Upper bound of a segment: no file can be longer.
const MOST: usize = 1 << 46;
/// When a signal arrives, the kernel restarts the whole allocation. In pieces of this size it makes
/// progress.
const AT_ONCE: usize = 64 << 20;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// What another process of the host needs to open a segment. Sent to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentName {
    /// Process that made it.
    pub pid: u32,
    /// The memfd's number in that process.
    pub descriptor: u32,
    /// Length of the control words.
    pub control: u64,
    /// Length of the data after them.
    pub data: u64,
    /// Random: proves that the segment is the one that is meant.
    pub nonce: [u8; 16],
}

impl SegmentName {
    /// Encoded length.
    pub const LENGTH: usize = 40;

    /// Encodes pid, descriptor, control, data and nonce, little endian.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.descriptor.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.control.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_le_bytes());
        bytes[24..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Decodes a received name. `Segment::open` checks whether there is such a segment.
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
                format!(
                    "segment: lengths of {} and {} bytes are not possible",
                    self.control, self.data
                ),
            )
        })
    }

    /// First bytes of the segment: the magic number, and the name without process and descriptor.
    fn header(&self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.encode()[8..]);
        bytes
    }
}

/// Layout of a segment: header, control words and data, each padded to `HEADER`.
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

/// A mapped segment. Others can open it while the `Segment` of the process that made it lives.
pub struct Segment {
    memory: *mut u8,
    lengths: Lengths,
    name: SegmentName,
    /// The memfd, in the process that made it.
    _descriptor: Option<OwnedFd>,
}

// SAFETY: it owns its mapping and only hands out raw pointers. Their users have to follow the
// protocol for the memory.
unsafe impl Send for Segment {}
// SAFETY: shared access only reads the fields and returns raw pointers.
unsafe impl Sync for Segment {}

/// An error with the kernel's reason.
fn failed(what: &str, cause: impl Into<std::io::Error>, status_of_others: Status) -> Error {
    let cause = cause.into();
    let status = match Errno::from_io_error(&cause) {
        Some(Errno::NOMEM | Errno::NOSPC | Errno::FBIG) => Status::NO_MEMORY,
        Some(Errno::MFILE | Errno::NFILE) => Status::NO_RESOURCE,
        _ => status_of_others,
    };
    Error::new(status, format!("segment: {what}: {cause}"))
}

/// Bytes that the kernel could still provide, as far as it reports.
fn room() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let field = |name: &str| -> Option<u64> {
        let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let machine = field("MemAvailable:")
        .map_or(u64::MAX, |bytes| bytes.saturating_add(field("SwapFree:").unwrap_or(0)));
    // A control group is also bound by the limits of all groups above it.
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

/// Bytes of the file cache that a control group could give up.
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
            format!("segment: not enough memory for {length} bytes"),
        ));
    }
    if length as u64 > crate::engine::os::resource_limits::longest_file() {
        let text = format!(
            "segment: {length} bytes are more than the limit on the size of files (ulimit -f)"
        );
        return Err(Error::new(Status::NO_RESOURCE, text));
    }
    // Linux 6.3 and later may insist on this flag; older kernels refuse it.
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let open = |flags| memfd_create(c"ucxx_rs", flags);
    let file = open(flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| open(flags))
        .map_err(|cause| failed("its file could not be created", cause, Status::UNSUPPORTED))?;
    ftruncate(&file, length as u64)
        .map_err(|cause| failed("its size could not be set", cause, Status::IO_ERROR))?;
    for begin in (0..length).step_by(AT_ONCE) {
        let (begin, bytes) = (begin as u64, AT_ONCE.min(length - begin) as u64);
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), begin, bytes)).map_err(
            |cause| {
                failed(&format!("not enough memory for {length} bytes"), cause, Status::NO_MEMORY)
            },
        )?;
    }
    fcntl_add_seals(&file, SEALS)
        .map_err(|cause| failed("its size could not be sealed", cause, Status::UNSUPPORTED))?;
    Ok(file)
}

fn map(file: &OwnedFd, length: usize) -> Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel picks.
    let memory = unsafe { mmap(null_mut(), length, access, MapFlags::SHARED, file, 0) };
    memory.map(|memory| memory.cast()).map_err(|cause| {
        failed(&format!("{length} bytes could not be mapped"), cause, Status::NO_MEMORY)
    })
}

impl Segment {
    /// Makes a segment with `control` bytes of control words and `data` bytes of data, all zero.
    /// Errors: NO_MEMORY, NO_RESOURCE.
    pub fn create(control: usize, data: usize) -> Result<Self> {
        let lengths = Lengths::new(control, data).ok_or_else(|| {
            Error::new(
                Status::NO_MEMORY,
                format!("segment: {data} bytes are more than a segment can have"),
            )
        })?;
        let file = make(lengths.whole)?;
        let name = SegmentName {
            pid: std::process::id(),
            descriptor: file.as_raw_fd() as u32,
            control: control as u64,
            data: data as u64,
            // Unguessable for processes that were not given the name.
            nonce: random()?,
        };
        let file = std::fs::File::from(file);
        file.write_all_at(&name.header(), 0)
            .map_err(|cause| failed("its header could not be written", cause, Status::IO_ERROR))?;
        let file = OwnedFd::from(file);
        let memory = map(&file, lengths.whole)?;
        Ok(Segment { memory, lengths, name, _descriptor: Some(file) })
    }

    /// Opens a segment that another process of this host and pid namespace has made.
    ///
    /// Errors:
    /// - UNREACHABLE: this process may not or cannot look into that one: another user, hidepid,
    ///   another namespace, no `/proc`, or it has ended. The two then have to exchange messages.
    /// - INVALID_ADDR: the descriptor is something else. The segment is gone and its numbers were
    ///   reused, or the peer lied.
    pub fn open(name: &SegmentName) -> Result<Self> {
        let lengths = name.lengths()?;
        // Inspected by O_PATH: opening some other kind of file could have an effect.
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
            Ok(_) => return Err(strange("not a segment of this library")),
            Err(cause) => return Err(failed(&here, cause, Status::UNREACHABLE)),
        }
        let file = open_at(&here, OFlags::RDWR).map_err(unreachable(&place))?;
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(strange("not of a fixed size"));
        }
        let file = std::fs::File::from(file);
        if file.metadata().map_or(0, |found| found.len()) != lengths.whole as u64 {
            return Err(strange("not of the expected size"));
        }
        let mut header = [0; 40];
        if file.read_exact_at(&mut header, 0).is_err() || header != name.header() {
            return Err(strange("another segment than the one that was named"));
        }
        let memory = map(&file.into(), lengths.whole)?;
        Ok(Segment { memory, lengths, name: *name, _descriptor: None })
    }

    /// For sending to peers.
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Length of the unguessable bytes at the beginning of each segment.
    pub const PROOF: usize = 40;

    /// The unguessable bytes of this segment.
    pub fn proof(&self) -> [u8; Self::PROOF] {
        self.name.header()
    }

    /// Their address in this process.
    pub fn proof_at(&self) -> u64 {
        self.memory as u64
    }

    /// Beginning of the control words: page-aligned, zero at first.
    pub fn control(&self) -> *mut u8 {
        // SAFETY: the header is followed by the control words, inside the mapping.
        unsafe { self.memory.add(HEADER) }
    }

    /// Length of the control words.
    pub fn control_length(&self) -> usize {
        self.lengths.control
    }

    /// Beginning of the data: page-aligned, zero at first.
    pub fn data(&self) -> *mut u8 {
        // SAFETY: inside the mapping, or at its end if there is no data.
        unsafe { self.memory.add(self.lengths.data_at) }
    }

    /// Length of the data.
    pub fn data_length(&self) -> usize {
        self.lengths.data
    }
}

fn open_at(path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; drop runs once.
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
        // SAFETY: inside both mappings; one thread uses them.
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
        // Whoever has it mapped keeps it; nobody can open it any more.
        let name = *made.name();
        drop(made);
        assert!(matches!(status(&name), Status::UNREACHABLE | Status::INVALID_ADDR));
        // SAFETY: `opened` is still mapped.
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
        // A pipe, which a careless open would block on, and a file.
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for other in [reader.as_raw_fd(), file.as_raw_fd()] {
            assert_eq!(
                status(&SegmentName { descriptor: other as u32, ..name }),
                Status::INVALID_ADDR
            );
        }
        // A memfd of the right name whose size may change.
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
            // SAFETY: inside the mapping; one thread uses it.
            unsafe { opened.data().write_bytes(1, megabytes << 20) };
            println!(
                "{megabytes} MiB: made {created:?}, opened {took:?}, first written {:?}",
                start.elapsed()
            );
        }
    }
}
