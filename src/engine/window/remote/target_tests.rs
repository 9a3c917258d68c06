//! Malicious messages of a member: a process executes operations only on the memory that it offers.

use super::*;
use crate::engine::base::seed::Random;
use crate::engine::core::worker::test_workers::new_worker;
use crate::engine::group::bootstrap::bootstrap::{BootstrapKind, BootstrapParams};
use crate::engine::group::group::{Group, GroupParams};
use crate::engine::os::own_memory::Way;
use crate::engine::ucx::context::{Context, ContextParams};
use crate::engine::window::access::Process;
use crate::engine::window::create::Wanted;
use crate::engine::window::window::{Flavor, WindowParams};
use crate::engine::wire::element_type::{ElementType, Reduce};
use crate::engine::wire::window::encode_piece;

const REGION: usize = 256;
/// Bytes before and after the region.
const AROUND: usize = 256;
const UNTOUCHED: u8 = 0xa5;

/// A dynamic window of one member, and memory of which the middle is attached.
struct Alone {
    window: Arc<Window>,
    memory: Box<[u64]>,
}

impl Alone {
    fn new() -> Self {
        let context =
            ContextParams { features: 0, config: Vec::new(), local_network: true, name: None };
        let context = Context::new(&context).unwrap();
        let worker = new_worker(&context);
        let bootstrap = BootstrapParams {
            kind: BootstrapKind::Tcp,
            rank: 0,
            size: 1,
            allgather: None,
            root: None,
            secret: None,
            timeout_ns: 0,
        };
        let group =
            Group::new(&worker, &GroupParams { bootstrap, collective_timeout_ns: 0 }, &WINDOWS)
                .unwrap();
        let wanted = Wanted { flavor: Flavor::Dynamic, base: 0, size: 0, unit: 1 };
        let window = Window::new(&group, Ok(wanted), None, &WindowParams::default()).unwrap();
        let words = (REGION + 2 * AROUND) / 8;
        let mut memory = vec![u64::from_ne_bytes([UNTOUCHED; 8]); words].into_boxed_slice();
        let region = memory.as_mut_ptr().cast::<u8>().wrapping_add(AROUND);
        window.attach(region.cast(), REGION).unwrap();
        Alone { window, memory }
    }

    /// Address of the region.
    fn region(&mut self) -> u64 {
        self.memory.as_mut_ptr().expose_provenance() as u64 + AROUND as u64
    }

    fn bytes(&self, from: usize, length: usize) -> &[u8] {
        // SAFETY: inside the memory, which nobody else uses.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<u8>().add(from), length) }
    }

    fn is_untouched_around(&self) -> bool {
        let both = [self.bytes(0, AROUND), self.bytes(AROUND + REGION, AROUND)];
        both.iter().all(|side| side.iter().all(|byte| *byte == UNTOUCHED))
    }

    fn perform(
        &self,
        what: What,
        op: Reduce,
        kind: ElementType,
        pieces: &[(u64, u64)],
        data: &[u8],
    ) -> Result<Vec<u8>> {
        let bytes = pieces.iter().fold(0_u64, |sum, (_, bytes)| sum.wrapping_add(*bytes));
        let header = WindowHeader {
            op,
            kind,
            bytes,
            pieces: pieces.len() as u32,
            ..self.window.header(what)
        };
        let mut body: Vec<u8> = pieces.iter().flat_map(|piece| encode_piece(*piece)).collect();
        body.extend_from_slice(data);
        self.window.perform(&header, &body, false)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.window.leave();
    }
}

#[test]
fn a_swap_is_of_one_place_which_is_the_one_that_was_checked() {
    let mut alone = Alone::new();
    let region = alone.region();
    let both = [[1_u8; 8], [UNTOUCHED; 8]].concat();
    for outside in [region - 8, region + REGION as u64] {
        let pieces = [(outside, 0), (region, 8)];
        let refused = alone.perform(What::Swap, Reduce::NoOp, ElementType::Uint64, &pieces, &both);
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_PARAM);
    }
    assert!(alone.is_untouched_around());
    assert_eq!(alone.bytes(AROUND, 8), [UNTOUCHED; 8]);
}

#[test]
fn who_takes_no_answers_is_not_owed_without_end() {
    let windows = Windows::default();
    assert!(windows.may_owe(3, u64::MAX));
    windows.owe(3, MOST_OWED - 1);
    assert!(windows.may_owe(3, 1) && !windows.may_owe(3, 2) && !windows.may_owe(3, u64::MAX));
    assert!(windows.may_owe(4, u64::MAX));
    windows.has_paid(3, MOST_OWED - 1);
    assert!(windows.may_owe(3, u64::MAX));
}

#[test]
fn buffers_come_again_empty() {
    let windows = Windows::default();
    let mut buffer = windows.take_buffer(100);
    buffer.fill(7);
    let place = buffer.as_ptr();
    windows.keep_buffer(buffer);
    let again = windows.take_buffer(60);
    assert!(again.as_ptr() == place && again == [0; 60]);
    windows.keep_buffer(Vec::with_capacity(AT_ONCE as usize + 1));
    assert!(windows.buffers.lock().is_empty());
}

#[test]
fn elements_of_one_message_are_updated_in_one_way() {
    let mut alone = Alone::new();
    let region = alone.region();
    // The first one straddles two words.
    for pieces in [[(region + 4, 8), (region + 16, 8)], [(region + 16, 8), (region + 4, 8)]] {
        let refused = alone.perform(
            What::Accumulate,
            Reduce::Sum,
            ElementType::ComplexFloat,
            &pieces,
            &[0; 16],
        );
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_PARAM);
    }
    let alike = [(region + 4, 8), (region + 20, 8)];
    alone
        .perform(What::Accumulate, Reduce::Replace, ElementType::ComplexFloat, &alike, &[7; 16])
        .unwrap();
    assert_eq!(alone.bytes(AROUND + 4, 8), [7; 8]);
    assert_eq!(alone.bytes(AROUND + 12, 8), [UNTOUCHED; 8]);
}

/// Attached memory may have been unmapped: the origin gets an error, and this process lives.
#[test]
fn what_has_gone_is_told() {
    let alone = Alone::new();
    const PAGES: usize = 2 << 16;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // Past the end of its file there is nothing, and nothing else can be mapped there.
    // SAFETY: a new file and a new mapping, which nobody refers to.
    let base = unsafe {
        let file = libc::memfd_create(c"gone".as_ptr(), libc::MFD_CLOEXEC);
        assert!(file >= 0 && libc::ftruncate(file, PAGES as libc::off_t / 2) == 0);
        let base = libc::mmap(std::ptr::null_mut(), PAGES, access, libc::MAP_SHARED, file, 0);
        assert!(base != libc::MAP_FAILED && libc::close(file) == 0);
        base
    };
    alone.window.attach(base, PAGES).unwrap();
    let edge = (base.expose_provenance() + PAGES / 2) as u64;
    for what in [What::Put, What::Get, What::Accumulate, What::Fetch] {
        let data: &[u8] = if what == What::Get { &[] } else { &[0; 8] };
        let at = |at| alone.perform(what, Reduce::Sum, ElementType::Uint64, &[(at, 8)], data);
        assert_eq!(at(edge).unwrap_err().status(), Status::INVALID_ADDR, "{what:?}");
        at(edge - 8).unwrap();
    }
    for (way, at) in
        [(Way::Read, edge - 8), (Way::Write, edge - 8), (Way::Read, edge), (Way::Write, edge)]
    {
        let mut word = [0_u64; 1];
        let copied = Process::own(0).copy_by_pipe(way, &[(word.as_mut_ptr().cast(), at, 8)]);
        assert_eq!(
            copied.map_err(|error| error.status()),
            if at < edge { Ok(()) } else { Err(Status::INVALID_ADDR) }
        );
    }
    alone.window.detach(base).unwrap();
    // SAFETY: the mapping made above, unmapped once.
    unsafe { libc::munmap(base, PAGES) };
}

/// Whatever is requested, nothing changes outside the attached memory.
#[test]
fn nothing_is_touched_that_is_not_attached() {
    let mut random = Random::announced();
    let mut chance = |below: u64| random.below(below as usize) as u64;
    let mut alone = Alone::new();
    let (region, mut done) = (alone.region(), 0);
    for _ in 0..20_000 {
        let what =
            [What::Put, What::Get, What::Accumulate, What::Fetch, What::Swap][chance(5) as usize];
        let kind = ElementType::ALL[chance(ElementType::ALL.len() as u64) as usize];
        let op = Reduce::from_number(chance(14) as i32).unwrap();
        let size = kind.size() as u64;
        let mut pieces = Vec::new();
        for _ in 0..chance(4) {
            let bytes = match chance(16) {
                0 => u64::MAX - chance(300),
                1 => chance(600),
                _ => size * chance(5),
            };
            let at = region - 32 + chance((REGION + 64) as u64) / size * size;
            pieces.push((if chance(32) == 0 { chance(u64::MAX) } else { at }, bytes));
        }
        let sum = pieces.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes)).min(4096);
        let length = match what {
            What::Get => 0,
            What::Swap => 2 * size,
            _ => sum,
        };
        let data = vec![chance(256) as u8; (length + u64::from(chance(16) == 0)) as usize];
        done += u32::from(alone.perform(what, op, kind, &pieces, &data).is_ok());
        assert!(alone.is_untouched_around(), "{what:?} {op:?} {kind:?} {pieces:?}");
    }
    assert!(done > 100, "only {done} were sound");
}
