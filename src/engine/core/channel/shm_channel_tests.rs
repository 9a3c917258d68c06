//! Fast boxes between two workers of this process: what goes through them, and what a hostile peer
//! may put into them.

use crate::engine::base::membarrier::take_part;
use crate::engine::base::seed::Random;
use crate::engine::base::status::Status;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::channel::shm_ring::{Put, LEAST, LONGEST, MOST};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::worker::test_workers::{connect, new_worker};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::context::{feature, Context, ContextParams};
use crate::engine::ucx::memory_type::HOST;
use crate::engine::wire::compact_header::{MARK_OF_ANSWER, MARK_OF_MESSAGE, MARK_OF_QUESTION};
use crate::engine::wire::header::{self, Kind, HEADER, VERSION};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

const ID: u16 = 7;

struct Pair {
    _context: Arc<Context>,
    attacker: Arc<SharedWorker>,
    worker: Arc<SharedWorker>,
    to_worker: Arc<SharedEndpoint>,
    to_attacker: Arc<SharedEndpoint>,
    /// Number of messages that the worker's handler has received.
    came: Box<Cell<u32>>,
}

unsafe extern "C" fn on_message(came: *mut c_void, message: *mut Message) {
    // SAFETY: it belongs to the pair, which outlives its workers.
    let came = unsafe { &*came.cast::<Cell<u32>>() };
    came.set(came.get() + 1);
    // SAFETY: the message belongs to the handler.
    unsafe { message::destroy(message) };
}

fn send(to: &SharedEndpoint) {
    let data = [1_u64];
    let part = [Part { data: data.as_ptr().cast_mut().cast(), length: 8, memory_type: HOST }];
    // SAFETY: so short that it is copied inside the call.
    unsafe { to.am_send(ID, &[], &part, &OpParams::DEFAULT, Out::NOWHERE) }.unwrap();
}

impl Pair {
    /// Connected, and busy enough to have boxes. None if the kernel lacks what they need.
    fn new() -> Option<Self> {
        take_part().then_some(())?;
        let params = ContextParams { features: feature::AM, ..ContextParams::default() };
        let context = Context::new(&params).unwrap();
        let (attacker, worker) = (new_worker(&context), new_worker(&context));
        let (to_worker, to_attacker) = (connect(&attacker, &worker), connect(&worker, &attacker));
        let came = Box::new(Cell::new(0));
        let arg = (&raw const *came).cast_mut().cast::<c_void>();
        for side in [&worker, &attacker] {
            side.set_am_handler(ID, Some(on_message), arg, None).unwrap();
        }
        let pair = Pair { _context: context, attacker, worker, to_worker, to_attacker, came };
        for sent in 1..=2000 {
            send(if sent % 2 == 0 { &pair.to_worker } else { &pair.to_attacker });
            while pair.came.get() < sent {
                pair.pass(1);
            }
        }
        pair.pass(1000);
        for endpoint in [&pair.to_worker, &pair.to_attacker] {
            assert!(endpoint.enter().unwrap().fast_box.writer().is_some());
        }
        Some(pair)
    }

    fn pass(&self, passes: u32) {
        for _ in 0..passes {
            self.attacker.progress().unwrap();
            self.worker.progress().unwrap();
        }
    }

    /// Puts any bytes into the worker's box.
    fn put(&self, piece: &[u8]) -> Put {
        let inside = self.to_worker.enter().unwrap();
        let writer = inside.fast_box.writer().unwrap();
        // SAFETY: the slice has this length.
        unsafe { writer.put(piece.as_ptr(), piece.len()) }
    }

    /// The same with data beside it.
    fn put_beside(&self, piece: &[u8], data: &[u8]) -> Put {
        let inside = self.to_worker.enter().unwrap();
        let writer = inside.fast_box.writer().unwrap();
        // SAFETY: the slices have these lengths.
        unsafe { writer.put_beside((piece.as_ptr(), piece.len()), (data.as_ptr(), data.len())) }
    }

    /// The worker's number of the connection.
    fn number(&self) -> [u8; 4] {
        self.to_attacker.enter().unwrap().peering.number.get().to_le_bytes()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.worker.clone().destroy();
        self.attacker.clone().destroy();
    }
}

#[test]
fn a_piece_that_names_another_connection_ends_this_one() {
    let Some(pair) = Pair::new() else { return };
    let mut piece = [0; 24];
    piece[0] = MARK_OF_MESSAGE;
    piece[4..8].copy_from_slice(&(u32::from_le_bytes(pair.number()) + 1).to_le_bytes());
    assert_eq!(pair.put(&piece), Put::Done);
    pair.pass(2000);
    assert_eq!(pair.to_attacker.status(), Status::IO_ERROR);
}

#[test]
fn what_goes_through_a_box_is_told_in_a_close() {
    let Some(pair) = Pair::new() else { return };
    let before = pair.came.get();
    for sent in 1..=100 {
        send(&pair.to_worker);
        assert_eq!(pair.came.get(), before, "{sent}");
    }
    pair.to_worker.enter().unwrap().begin_destroy();
    while pair.to_attacker.status() == Status::OK {
        pair.pass(1);
    }
    pair.pass(10);
    assert_eq!(pair.came.get(), before + 100);
}

#[test]
fn garbage_in_a_box_is_dropped_or_ends_the_connection() {
    let random = &mut Random::announced();
    let marks = [MARK_OF_MESSAGE, MARK_OF_QUESTION, MARK_OF_ANSWER, 1, 0x80, 0xff];
    for _ in 0..30 {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..300 {
            let mut piece: Vec<u8> =
                (0..LEAST + random.below(MOST - LEAST + 1)).map(|_| random.next() as u8).collect();
            piece[0] = marks[random.below(marks.len())];
            if piece[0] == 1 {
                piece[1] = random.below(15) as u8;
            }
            let at = if piece[0] & 0x80 == 0 { 8 } else { 4 };
            piece[at..at + 4].copy_from_slice(&pair.number());
            if random.below(2) == 0 {
                // The positions of the flags and of the sequence number.
                piece[8..12].copy_from_slice(&[random.next() as u8 & 3, 0, 0, 0]);
            }
            pair.put(&piece);
            pair.pass(random.below(3) as u32);
        }
        pair.pass(200);
    }
}

#[test]
fn garbage_with_data_beside_it_is_dropped_or_ends_the_connection() {
    let random = &mut Random::announced();
    for _ in 0..15 {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..200 {
            let length = [HEADER, LEAST + random.below(MOST - LEAST + 1)][random.below(2)];
            let mut piece: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            piece[0] = [VERSION, VERSION, VERSION, MARK_OF_MESSAGE, 7][random.below(5)];
            piece[1] = [Kind::Message, Kind::Ask, Kind::Answer, Kind::Multi][random.below(4)] as u8;
            if random.below(40) == 0 {
                piece[1] = random.below(16) as u8;
            }
            if random.below(4) != 0 && length >= HEADER {
                // A sound header of a user's message: no flags, and the length that it has.
                piece[2..8].copy_from_slice(&[7, 0, (length - HEADER) as u8, 0, 0, 0]);
                piece[20..24].copy_from_slice(&[random.below(20) as u8, 0, 0, 0]);
            }
            let at = if piece[0] & 0x80 == 0 { 8 } else { 4 };
            piece[at..at + 4].copy_from_slice(&pair.number());
            let most = [1, 300, LONGEST][random.below(3)];
            pair.put_beside(&piece, &vec![random.next() as u8; 1 + random.below(most)]);
            pair.pass(random.below(3) as u32);
        }
        pair.pass(200);
    }
}

/// Hello, Bye and their like come through UCX.
#[test]
fn a_control_message_with_data_beside_it_ends_the_connection() {
    for kind in [Kind::Hello, Kind::Bye, Kind::Ping, Kind::FastBox] {
        let Some(pair) = Pair::new() else { return };
        let number = u32::from_le_bytes(pair.number());
        let header = header::Header { connection: number, ..header::Header::of(kind) };
        while pair.put_beside(&header.encode(), &[0]) == Put::Done {}
        pair.pass(2000);
        assert_eq!(pair.to_attacker.status(), Status::IO_ERROR, "{kind:?}");
    }
}
