//! The Rust interface: two workers of one process over shared memory and over TCP, futures that are
//! dropped, cancelled and forgotten, and a peer that dies: this program starts itself again, with
//! its task in the environment.
#![allow(missing_docs)]

use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::task::{Context as Waking, Waker};
use std::thread;
use std::time::{Duration, Instant};
use ucxx_rs::{Context, Endpoint, Feature, Hub, Match, Memory, Progress, Request, Status, Worker};

mod executor;
use executor::{next, run, run_slowly, status};

const TASK: &str = "UCXX_TEST_TASK";
const SHORT: Duration = Duration::from_millis(20);
const LONG: usize = 4 << 20;

/// Two workers, connected by addresses in both directions.
struct Pair {
    here: Worker,
    there: Worker,
    to_there: Endpoint,
    to_here: Endpoint,
}

fn context(tls: &str) -> Context {
    let builder = Context::builder().feature(Feature::Rma).feature(Feature::Atomic);
    builder.config("TLS", tls).build().unwrap()
}

fn pair_of(tls: &str, progress: Progress) -> Pair {
    let context = context(tls);
    let worker = || Worker::builder(&context).progress(progress).build().unwrap();
    let (here, there) = (worker(), worker());
    let to_there = here.connect_to(&there.address().unwrap()).unwrap();
    let to_here = there.connect_to(&here.address().unwrap()).unwrap();
    Pair { here, there, to_there, to_here }
}

fn pairs() -> impl Iterator<Item = Pair> {
    ["sm,self", "tcp"].into_iter().map(|tls| pair_of(tls, Progress::Adaptive))
}

#[test]
fn handles_and_futures_may_move_between_threads() {
    fn moves<T: Send>(_: &T) {}
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    let pair = pair_of("sm,self", Progress::Adaptive);
    shared(&pair.here);
    shared(&pair.to_there);
    moves(&pair.here.tag_recv(vec![0; 4], 1));
    moves(&pair.to_there.closed());
    let hub = Hub::new(&Context::new().unwrap(), 64, 1).unwrap();
    let producer = hub.produce().unwrap();
    shared(&producer);
    moves(&producer.lease());
    moves(&pair.here.listen("127.0.0.1", 0).unwrap().accept());
    moves(&pair.here.clone().close());
}

#[test]
fn tag_messages_bring_their_buffers_back() {
    for pair in pairs() {
        for length in [0, 1, 5000, LONG] {
            let sent: Vec<u8> = (0..length).map(|index| index as u8).collect();
            run(async {
                let receive = pair.there.tag_recv(vec![9; length + 1], 7);
                let send = pair.to_there.tag_send(sent.clone(), 7);
                let (received, buffer) = receive.await;
                let received = received.unwrap();
                assert_eq!((received.length, received.tag), (length, 7));
                assert!(buffer[..length] == sent && buffer[length] == 9);
                let (result, back) = send.await;
                result.unwrap();
                assert!(back == sent);
            });
        }
        let (result, buffer) = pair.to_there.tag_send("twelve", 8).wait();
        result.unwrap();
        assert_eq!(buffer, "twelve");
        let (result, buffer) = pair.there.tag_recv([0u8; 3], 8).wait();
        assert_eq!((status(result), buffer.len()), (Status::MESSAGE_TRUNCATED, 3));
    }
}

#[test]
fn blocking_calls_borrow_their_buffers() {
    for pair in pairs() {
        let Pair { here, to_here, .. } = pair;
        let receiver = thread::spawn(move || {
            let mut buffer = vec![0; LONG];
            let any_even = Match::tag(0).mask(1);
            let received = here.tag_recv_wait(&mut buffer, any_even).unwrap();
            (received, buffer[LONG - 1])
        });
        to_here.tag_send_wait(&vec![3; LONG], 42).unwrap();
        to_here.flush_wait().unwrap();
        let (received, last) = receiver.join().unwrap();
        assert_eq!((received.length, received.tag, last), (LONG, 42, 3));
    }
}

#[test]
fn operations_start_in_the_order_of_their_calls() {
    for pair in pairs() {
        let receives: Vec<_> = (0..10).map(|_| pair.there.tag_recv([0; 1], 1)).collect();
        let sends: Vec<_> = (0..10).map(|index| pair.to_there.tag_send([index], 1)).collect();
        run(async {
            for send in sends.into_iter().rev() {
                send.await.0.unwrap();
            }
            for (index, receive) in receives.into_iter().enumerate() {
                assert_eq!(receive.await.1[0], index as u8);
            }
        });
    }
}

/// A buffer that counts how many of its kind there are.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl Counted {
    fn new(length: usize, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(vec![0; length], count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl AsMut<[u8]> for Counted {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

#[test]
fn dropped_and_cancelled_requests_free_their_buffers() {
    for pair in pairs() {
        let count = Arc::new(AtomicUsize::new(0));
        drop((0..100).map(|_| pair.there.tag_recv(Counted::new(9, &count), 1)).collect::<Vec<_>>());
        wait_until("a dropped receive keeps its buffer", || count.load(Ordering::SeqCst) == 0);
        let receive = pair.there.tag_recv(Counted::new(9, &count), 1);
        receive.cancel();
        let (result, buffer) = run(receive);
        assert_eq!(status(result), Status::CANCELED);
        drop(buffer);
        // A future that was polled, too: its waker is dropped with it.
        let mut receive = pair.there.tag_recv(Counted::new(9, &count), 1);
        let mut waking = Waking::from_waker(Waker::noop());
        assert!(Pin::new(&mut receive).poll(&mut waking).is_pending());
        assert!(!receive.wait_timeout(SHORT).unwrap());
        drop(receive);
        // It has been cancelled, and takes no message any more.
        wait_until("a dropped receive is cancelled", || count.load(Ordering::SeqCst) == 0);
        // A send that nobody receives. The worker is asked for it by its end at the latest.
        drop(pair.to_there.tag_send(vec![1; LONG], 99));
        // The next message is not taken by a dropped receive.
        pair.to_there.tag_send_wait(b"x", 1).unwrap();
        pair.there.tag_recv_wait(&mut [0], 1).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn forgotten_requests_keep_their_buffers() {
    for pair in pairs() {
        let count = Arc::new(AtomicUsize::new(0));
        std::mem::forget(pair.there.tag_recv(Counted::new(LONG, &count), 5));
        let send = pair.to_there.tag_send(vec![1; LONG], 5);
        send.wait().0.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1, "the buffer was written, and is still there");
        pair.there.tag_recv(Counted::new(9, &count), 6).detach();
        pair.to_there.tag_send_wait(b"x", 6).unwrap();
        wait_until("a detached receive ends", || count.load(Ordering::SeqCst) == 1);
    }
}

#[test]
fn a_thousand_operations_at_a_time() {
    const COUNT: usize = 1000;
    for pair in pairs() {
        let receives: Vec<Request<Vec<u8>, _>> =
            (0..COUNT).map(|tag| pair.there.tag_recv(vec![0; 100], tag as u64)).collect();
        let (to_there, to_other) = (pair.to_there.clone(), pair.to_there.clone());
        let even = thread::spawn(move || send_each(&to_there, 0));
        let odd = thread::spawn(move || send_each(&to_other, 1));
        run(async {
            for (tag, receive) in receives.into_iter().enumerate().rev() {
                let (received, buffer) = receive.await;
                assert_eq!(received.unwrap().length, 100);
                assert!(buffer.iter().all(|byte| *byte == tag as u8));
            }
        });
        even.join().unwrap();
        odd.join().unwrap();
    }

    fn send_each(endpoint: &Endpoint, first: usize) {
        let sends: Vec<_> = (first..COUNT)
            .step_by(2)
            .map(|tag| endpoint.tag_send(vec![tag as u8; 100], tag as u64))
            .collect();
        sends.into_iter().for_each(|send| send.wait().0.unwrap());
    }
}

#[test]
fn a_slow_executor_loses_nothing() {
    let pair = pair_of("sm,self", Progress::Adaptive);
    run_slowly(SHORT, async {
        for _ in 0..5 {
            let receive = pair.there.tag_recv(vec![0; LONG], 7);
            let send = pair.to_there.tag_send(vec![1; LONG], 7);
            receive.await.0.unwrap();
            send.await.0.unwrap();
        }
    });
}

#[test]
fn streams_bring_bytes_in_order() {
    for pair in pairs() {
        let sends: Vec<_> = (0..10).map(|byte| pair.to_there.stream_send([byte; 10])).collect();
        let (received, bytes) = pair.to_here.stream_recv(vec![0; 100]).wait();
        assert_eq!(received.unwrap(), 100);
        assert!(bytes.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / 10));
        sends.into_iter().for_each(|send| send.wait().0.unwrap());
    }
}

#[test]
fn active_messages_reach_handlers_and_queues() {
    for pair in pairs() {
        let (arrived, messages) = mpsc::channel();
        pair.there.on_message(1, move |message| arrived.send(message).unwrap()).unwrap();
        for length in [0, 100, LONG] {
            let data = vec![length as u8; length];
            let send = pair.to_there.am_send(1, &length.to_le_bytes(), data.clone());
            let message = messages.recv().unwrap();
            assert_eq!(message.header(), length.to_le_bytes());
            assert_eq!(message.len(), length);
            assert!(message.data().is_none_or(|here| here == data));
            let (received, buffer) = run(message.receive(vec![0; length]));
            assert_eq!(received.unwrap(), length);
            assert!(buffer == data);
            run(send).0.unwrap();
        }
        let mut queue = pair.there.messages(2).unwrap();
        pair.to_there.am_send_wait(2, b"one", b"").unwrap();
        pair.to_there.am_send_wait(2, b"two", b"").unwrap();
        assert_eq!(run(next(&mut queue)).unwrap().header(), b"one");
        assert_eq!(queue.next_wait().unwrap().header(), b"two");
        drop(queue);
        let (result, _) = pair.to_there.am_send(2, b"large", vec![0; LONG]).wait();
        assert_eq!(status(result), Status::NO_ELEM);
    }
}

#[test]
fn a_panic_of_a_handler_ends_there() {
    let pair = pair_of("sm,self", Progress::Adaptive);
    pair.there.on_message(1, |_| panic!("of the test, on purpose")).unwrap();
    pair.there.on_fetch(1, |_| panic!("of the test, on purpose")).unwrap();
    pair.to_there.am_send_wait(1, b"", b"").unwrap();
    let (result, _) = pair.to_there.fetch(1, b"", [0; 1]).wait();
    assert_eq!(status(result), Status::CANCELED);
}

#[test]
fn fetches_are_answered_rejected_and_dropped() {
    for pair in pairs() {
        pair.there
            .on_fetch(1, |fetch| match fetch.header() {
                b"reject" => fetch.reject(Status(-1001)).unwrap(),
                b"drop" => {}
                header => {
                    let reply = header.repeat(fetch.capacity() / header.len());
                    fetch.reply(reply).detach();
                }
            })
            .unwrap();
        run(async {
            for length in [4, LONG] {
                let (received, buffer) = pair.to_there.fetch(1, b"abcd", vec![0; length]).await;
                assert_eq!(received.unwrap(), length);
                assert!(buffer.chunks(4).all(|chunk| chunk == b"abcd"));
            }
            let (rejected, _) = pair.to_there.fetch(1, b"reject", [0; 4]).await;
            assert_eq!(status(rejected), Status(-1001));
            let (dropped, _) = pair.to_there.fetch(1, b"drop", [0; 4]).await;
            assert_eq!(status(dropped), Status::CANCELED);
        });
        // Answered later, by another thread.
        let mut fetches = pair.there.fetches(2).unwrap();
        let question = pair.to_there.fetch(2, b"", [0; 8]);
        let fetch = run(next(&mut fetches)).unwrap();
        thread::spawn(move || fetch.reply("late").wait().0.unwrap()).join().unwrap();
        let (length, buffer) = question.wait();
        assert_eq!(&buffer[..length.unwrap()], b"late");
    }
}

#[test]
fn remote_memory_is_read_written_and_counted() {
    for tls in ["sm,self", "tcp"] {
        let context = context(tls);
        let memory = Memory::allocate(&context, 1 << 16).unwrap();
        let (here, there) = (Worker::new(&context).unwrap(), Worker::new(&context).unwrap());
        let endpoint = there.connect_to(&here.address().unwrap()).unwrap();
        endpoint.flush_wait().unwrap();
        let remote = endpoint.remote(&memory.key().unwrap()).unwrap();
        remote.put(vec![7; 1000], 100).wait().0.unwrap();
        endpoint.flush_wait().unwrap();
        let mut bytes = [0; 1002];
        memory.read(99, &mut bytes).unwrap();
        assert!(bytes[0] == 0 && bytes[1..1001] == [7; 1000] && bytes[1001] == 0);
        memory.write(5000, b"there").unwrap();
        let (result, buffer) = remote.get([0; 5], 5000).wait();
        result.unwrap();
        assert_eq!(&buffer, b"there");
        memory.store(8, 40).unwrap();
        assert_eq!(remote.fetch_add(8, 2u64).wait().unwrap(), 40);
        assert_eq!(remote.fetch_add(12, 1u32).wait().unwrap(), 0);
        assert_eq!(remote.compare_swap(8, 42u32, 50).wait().unwrap(), 42);
        assert_eq!(run(remote.swap(8, 1u64)).unwrap(), 1 << 32 | 50);
        assert_eq!(memory.load(8).unwrap(), 1);
        let (result, _) = remote.put([0; 8], (1 << 16) - 7).wait();
        assert_eq!(status(result), Status::OUT_OF_RANGE);
        assert_eq!(status(memory.read(1 << 16, &mut [0])), Status::OUT_OF_RANGE);
        // A key of this process keeps its memory alive, or finds it gone.
        let key = memory.key().unwrap();
        drop(memory);
        remote.put([1; 8], 0).wait().0.unwrap();
        drop(remote);
        wait_until("the memory is freed", || status(endpoint.remote(&key)) == Status::NO_ELEM);
        assert_eq!(status(endpoint.remote(b"no key")), Status::INVALID_PARAM);
    }
}

#[test]
fn listeners_accept_and_reject() {
    let context = Context::new().unwrap();
    let (server, client) = (Worker::new(&context).unwrap(), Worker::new(&context).unwrap());
    let mut listener = server.listen("127.0.0.1", 0).unwrap();
    let to_server = client.connect("127.0.0.1", listener.port()).unwrap();
    let to_client = run(listener.accept()).unwrap();
    to_client.tag_send_wait(b"hi", 1).unwrap();
    client.tag_recv_wait(&mut [0; 2], Match::any().source(&to_server)).unwrap();
    let rejected = client.connect("127.0.0.1", listener.port()).unwrap();
    let request = run(next(&mut listener)).unwrap();
    assert!(request.peer().is_some());
    request.reject();
    assert_eq!(run(rejected.closed()), Status::REJECTED);
    // The end of one side is seen at the other.
    let receive = client.tag_recv([0; 2], Match::tag(2).source(&to_server));
    // OK, unless the peer's thread has had no processor for the second that a close waits for it.
    let begin = Instant::now();
    let closed = status(to_client.close_wait());
    if begin.elapsed() < Duration::from_secs(1) {
        assert_eq!(closed, Status::OK);
    } else {
        assert!([Status::OK, Status::TIMED_OUT].contains(&closed), "{closed:?}");
    }
    assert_eq!(run(to_client.closed()), closed);
    assert_eq!(run(to_server.closed()), Status::CONNECTION_RESET);
    assert_eq!(status(run(receive).0), Status::CONNECTION_RESET);
    assert_eq!(status(to_server.check()), Status::CONNECTION_RESET);
    assert_eq!(status(to_client.check()), Status::CLOSED);
    drop((listener, to_client));
    run(server.close());
}

#[test]
fn the_end_of_a_worker_ends_what_waits_for_it() {
    let pair = pair_of("sm,self", Progress::Adaptive);
    // The two know each other: a worker that has ended before says nothing to who comes later.
    pair.to_there.tag_send_wait(b"x", 1).unwrap();
    pair.there.tag_recv_wait(&mut [0], 1).unwrap();
    pair.to_here.tag_send_wait(b"x", 1).unwrap();
    pair.here.tag_recv_wait(&mut [0], 1).unwrap();
    let closed = pair.to_there.clone();
    let (done, is_done) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let status = run(closed.closed());
        done.send(()).unwrap();
        status
    });
    let Pair { here, there, to_there, to_here, .. } = pair;
    drop(to_here);
    run(there.close());
    is_done.recv().unwrap();
    assert_eq!(waiting.join().unwrap(), Status::CONNECTION_RESET);
    drop(to_there);
    run(here.close());
}

#[test]
fn a_worker_may_end_in_its_own_handler() {
    let context = Context::builder().local().build().unwrap();
    let (here, there) = (Worker::new(&context).unwrap(), Worker::new(&context).unwrap());
    let endpoint = here.connect_to(&there.address().unwrap()).unwrap();
    let last = std::sync::Mutex::new(Some(there.clone()));
    let (arrived, is_there) = mpsc::channel();
    there
        .on_message(1, move |message| {
            drop(last.lock().unwrap().take());
            drop(message);
            arrived.send(()).unwrap();
        })
        .unwrap();
    drop(there);
    endpoint.am_send_wait(1, b"", b"").unwrap();
    is_there.recv().unwrap();
    assert_eq!(run(endpoint.closed()), Status::CONNECTION_RESET);
}

#[test]
fn waiting_in_a_handler_is_refused() {
    let pair = pair_of("sm,self", Progress::Adaptive);
    let (told, result) = mpsc::channel();
    pair.there
        .on_message(1, move |message| {
            let worker = message.worker();
            told.send(status(worker.tag_recv_wait(&mut [0], 1))).unwrap();
            told.send(status(worker.messages(2).unwrap().next_wait())).unwrap();
        })
        .unwrap();
    pair.to_there.am_send_wait(1, b"", b"").unwrap();
    assert_eq!(result.recv().unwrap(), Status::BUSY);
    assert_eq!(result.recv().unwrap(), Status::BUSY);
}

#[test]
fn manual_progress_is_made_by_those_who_wait() {
    let context = Context::builder().local().build().unwrap();
    let worker = Worker::builder(&context).progress(Progress::Manual).build().unwrap();
    let endpoint = worker.connect_to(&worker.address().unwrap()).unwrap();
    let receive = worker.tag_recv(vec![0; 5], 1);
    endpoint.tag_send("hello", 1).detach();
    let (received, buffer) = receive.wait();
    assert_eq!(received.unwrap().length, 5);
    assert_eq!(buffer, b"hello");
    let queue = worker.messages(1).unwrap();
    endpoint.am_send(1, b"x", "").detach();
    assert_eq!(queue.next_wait().unwrap().header(), b"x");
    while worker.progress().unwrap() > 0 {}
    while worker.progress_wait(SHORT).unwrap() {}
    let busy = Worker::new(&context).unwrap();
    assert_eq!(status(busy.progress()), Status::BUSY);
}

#[test]
fn threads_that_wait_bring_each_other_s_messages() {
    const EACH: u64 = 2_000;
    let pair = pair_of("sm,self", Progress::Adaptive);
    let manual = Worker::builder(&context("sm,self")).progress(Progress::Manual).build().unwrap();
    let queues: Vec<_> = (0..3).map(|id| manual.messages(id).unwrap()).collect();
    let endpoint = pair.here.connect_to(&manual.address().unwrap()).unwrap();
    thread::scope(|scope| {
        let waiting: Vec<_> = queues
            .iter()
            .map(|queue| {
                scope.spawn(move || {
                    for number in 0..EACH {
                        assert_eq!(queue.next_wait().unwrap().header(), number.to_le_bytes());
                    }
                })
            })
            .collect();
        for number in 0..EACH {
            for id in 0..3 {
                endpoint.am_send_wait(id, &number.to_le_bytes(), b"").unwrap();
            }
        }
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_peer_that_dies_ends_what_waits_for_it() {
    let context = Context::new().unwrap();
    let worker = Worker::new(&context).unwrap();
    let listener = worker.listen("127.0.0.1", 0).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_peer", "--nocapture"])
        .env(TASK, listener.port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let endpoint = run(listener.accept()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("connected")));
    let receive = worker.tag_recv([0; 1], Match::tag(1).source(&endpoint));
    let send = endpoint.tag_send(vec![0; LONG], 2);
    child.kill().unwrap();
    child.wait().unwrap();
    run(async {
        assert_eq!(endpoint.closed().await, Status::PEER_FAILED);
        assert_eq!(status(receive.await.0), Status::PEER_FAILED);
        assert_eq!(status(send.await.0), Status::PEER_FAILED);
    });
}

/// Not a test by itself: the process that the test above kills.
#[test]
fn the_peer() {
    let Ok(port) = std::env::var(TASK) else { return };
    let worker = Worker::new(&Context::new().unwrap()).unwrap();
    let endpoint = worker.connect("127.0.0.1", port.parse().unwrap()).unwrap();
    endpoint.flush_wait().unwrap();
    println!("connected");
    std::io::stdout().flush().unwrap();
    thread::sleep(Duration::from_secs(60));
}
