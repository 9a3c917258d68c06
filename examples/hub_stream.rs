//! A hub as a stream: one task fills envelopes in place, another one reads the chunks, and neither
//! copies or allocates anything for them.
//!
//! ```text
//! cargo run --example hub_stream
//! ```

use futures_core::Stream;
use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use ucxx_rs::{Context, Hub, Producer};

const CHUNKS: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        // Four envelopes: the producer waits while all are full.
        let hub = Hub::new(&Context::new()?, 4096, 4)?;
        let (producer, mut consumer) = (hub.produce()?, hub.consume()?);
        let producing = tokio::spawn(produce(hub, producer));
        let (mut count, mut sum) = (0, 0);
        while let Some(chunk) = next(&mut consumer).await {
            let chunk = chunk?;
            sum += u64::from(chunk[0]);
            count += 1;
            // Dropping the chunk makes its envelope free.
        }
        producing.await??;
        println!("{count} chunks, sum of their first bytes {sum}");
        Ok(())
    })
}

async fn produce(hub: Hub, producer: Producer) -> Result<(), ucxx_rs::Error> {
    for number in 0..CHUNKS {
        let mut envelope = producer.lease().await?;
        envelope.fill(number as u8);
        let length = envelope.len();
        envelope.commit(length)?;
    }
    // The consumer's stream ends when the queue is empty.
    hub.end()
}

/// `StreamExt::next` of the crate `futures`.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}
