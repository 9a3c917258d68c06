//! Two processes pass a message to and fro, with tokio.
//!
//! ```text
//! cargo run --example ping_pong                  a server, which prints its port
//! cargo run --example ping_pong -- HOST PORT     the client
//! ```

use std::error::Error;
use std::time::{Duration, Instant};
use ucxx_rs::{Context, Endpoint, Match, Worker};

const ROUNDS: u32 = 10_000;
const PING: u64 = 1;
const PONG: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let worker = Worker::new(&Context::new()?)?;
        match &arguments[..] {
            [] => serve(&worker).await?,
            [host, port] => measure(&worker, worker.connect(host, port.parse()?)?).await?,
            _ => return Err("usage: ping_pong [HOST PORT]".into()),
        }
        worker.close().await;
        Ok(())
    })
}

/// Sends back what the first client sends.
async fn serve(worker: &Worker) -> Result<(), Box<dyn Error>> {
    let listener = worker.listen("0.0.0.0", 0)?;
    println!("{}", listener.port());
    let client = listener.accept().await?;
    let mut buffer = vec![0; 8];
    for _ in 0..ROUNDS {
        // The buffer goes into each operation, and comes back with its result.
        let (received, back) = worker.tag_recv(buffer, Match::tag(PING).source(&client)).await;
        received?;
        let (sent, back) = client.tag_send(back, PONG).await;
        sent?;
        buffer = back;
    }
    // The client closes when it has the last answer.
    client.closed().await;
    Ok(())
}

async fn measure(worker: &Worker, server: Endpoint) -> Result<(), Box<dyn Error>> {
    // A time limit: the future is dropped, and the operation cancelled.
    tokio::time::timeout(Duration::from_secs(10), server.flush()).await??;
    let (mut buffer, start) = (vec![0; 8], Instant::now());
    for round in 0..ROUNDS {
        // The receive is started first; both are in progress before either is awaited.
        let answer = worker.tag_recv(vec![0; 8], Match::tag(PONG).source(&server));
        buffer.copy_from_slice(&u64::from(round).to_le_bytes());
        let (sent, back) = server.tag_send(buffer, PING).await;
        sent?;
        let (received, answer) = answer.await;
        received?;
        assert_eq!(answer, back);
        buffer = back;
    }
    println!("{:?} for each round trip", start.elapsed() / ROUNDS);
    server.close().await?;
    Ok(())
}
