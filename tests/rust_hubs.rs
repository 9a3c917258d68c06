//! Hubs in the Rust interface: leases, streams of chunks, and two hubs joined by an endpoint.
#![allow(missing_docs)]

use std::thread;
use std::time::Duration;
use ucxx_rs::{Context, Hub, Status, Worker};

mod executor;
use executor::{next, run, status};

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn hubs_are_streams_of_chunks() {
    let context = Context::new().unwrap();
    let hub = Hub::new(&context, 4096, 4).unwrap();
    let (producer, mut consumer) = (hub.produce().unwrap(), hub.consume().unwrap());
    let filling = thread::spawn(move || {
        run(async {
            for number in 0..1000u32 {
                producer.push(&number.to_le_bytes()).await.unwrap();
            }
        });
        hub.end().unwrap();
    });
    run(async {
        let mut expected = 0u32;
        while let Some(chunk) = next(&mut consumer).await {
            assert_eq!(&chunk.unwrap()[..], expected.to_le_bytes());
            expected += 1;
        }
        assert_eq!(expected, 1000);
    });
    filling.join().unwrap();
    assert_eq!(status(consumer.lease_wait()), Status::CLOSED);
}

#[test]
fn leases_are_given_back() {
    let hub = Hub::new(&Context::new().unwrap(), 16, 1).unwrap();
    let (producer, consumer) = (hub.produce().unwrap(), hub.consume().unwrap());
    let envelope = producer.lease_wait().unwrap();
    assert_eq!(&envelope[..], [0; 16]);
    drop(envelope);
    let mut envelope = producer.lease_timeout(SHORT).unwrap();
    envelope[0] = 1;
    assert_eq!(status(producer.lease_timeout(SHORT)), Status::TIMED_OUT);
    envelope.commit(1).unwrap();
    consumer.lease_wait().unwrap().give_back();
    assert_eq!(run(consumer.pop()).unwrap(), [1]);
    assert_eq!(status(producer.lease_wait().unwrap().commit(17)), Status::INVALID_PARAM);
    assert_eq!(status(run(producer.push(&[0; 17]))), Status::INVALID_PARAM);
    assert_eq!(hub.len(), 0);
}

#[test]
fn hubs_are_joined_by_endpoints() {
    let context = Context::new().unwrap();
    let (here, there) = (Worker::new(&context).unwrap(), Worker::new(&context).unwrap());
    let to_there = here.connect_to(&there.address().unwrap()).unwrap();
    let to_here = there.connect_to(&here.address().unwrap()).unwrap();
    let hub = |worker| Hub::builder(&context, 64, 4).worker(worker).build().unwrap();
    let (from, to) = (hub(&here), hub(&there));
    let (producer, mut arriving) = (from.produce().unwrap(), to.consume().unwrap());
    let (leaving, entering) = (from.consume().unwrap(), to.produce().unwrap());
    entering.connect(&to_here, 3).unwrap();
    leaving.connect(&to_there, 3).unwrap();
    assert_eq!(status(leaving.lease_wait()), Status::BUSY);
    let filling = thread::spawn(move || {
        (0..100u8).for_each(|byte| run(producer.push(&[byte; 20])).unwrap());
        from.end().unwrap();
    });
    run(async {
        for byte in 0..100u8 {
            assert_eq!(next(&mut arriving).await.unwrap().unwrap()[..], [byte; 20]);
        }
        assert!(next(&mut arriving).await.is_none());
    });
    filling.join().unwrap();
    // And by single messages.
    let (one, other) = (hub(&here), hub(&there));
    let receive = other.produce().unwrap().recv(9);
    run(one.produce().unwrap().push(b"chunk")).unwrap();
    one.consume().unwrap().send(&to_there, 9).wait().unwrap();
    assert_eq!(receive.wait().unwrap().length, 5);
    assert_eq!(run(other.consume().unwrap().pop()).unwrap(), b"chunk");
}
