//! Communication over UCX: tag messages, active messages, streams, fetches, remote memory and hubs,
//! between processes of one host or of many.
//!
//! A [`Context`] sets UCX up, a [`Worker`] sends and receives, an [`Endpoint`] is a connection to a
//! peer. Operations are futures for any executor: [`Request`] has the rules for buffers, dropping
//! and waiting.
//!
//! ```
//! use ucxx_rs::{Context, Worker};
//!
//! # async fn both() -> Result<(), ucxx_rs::Error> {
//! let worker = Worker::new(&Context::new()?)?;
//! let endpoint = worker.connect_to(&worker.address()?)?; // or: connect("host", 7000)
//!
//! let receive = worker.tag_recv(vec![0; 1024], 7);
//! let (sent, _) = endpoint.tag_send("hello", 7).await;
//! sent?;
//! let (received, buffer) = receive.await;
//! assert_eq!(&buffer[..received?.length], b"hello");
//! # Ok(())
//! # }
//! # struct Unpark(std::thread::Thread);
//! # impl std::task::Wake for Unpark { fn wake(self: std::sync::Arc<Self>) { self.0.unpark() } }
//! # let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
//! # let mut future = std::pin::pin!(both());
//! # loop {
//! #     use std::{future::Future, task::{Context, Poll}};
//! #     match future.as_mut().poll(&mut Context::from_waker(&waker)) {
//! #         Poll::Ready(result) => break result,
//! #         Poll::Pending => std::thread::park(),
//! #     }
//! # }
//! # .unwrap();
//! ```
//!
//! The library has a C interface as well, which offers more: groups, windows, memory of GPUs,
//! notifiers and multi-buffer messages. Its reference is `include/ucxx_rs.h`.

#[cfg(not(target_os = "linux"))]
compile_error!("ucxx_rs supports Linux");

mod api;
mod engine;
/// The C interface. Rust programs use the types of this crate's root.
#[doc(hidden)]
pub mod ffi;
#[doc(hidden)]
pub mod internals;
mod sys;

pub use api::context::{Context, ContextBuilder, Feature};
pub use api::endpoint::Endpoint;
pub use api::fetch::{Fetch, Fetches};
pub use api::hub::{Chunk, Consumer, Envelope, Hub, HubBuilder, Producer};
pub use api::listener::{ConnectionRequest, Listener};
pub use api::memory::{AtomicNumber, Memory, Remote};
pub use api::message::{Message, Messages};
pub use api::request::{Operation, Received, Request};
pub use api::tag::Match;
pub use api::worker::{Address, Progress, WeakWorker, Worker, WorkerBuilder};
pub use engine::base::status::{Error, Status};
