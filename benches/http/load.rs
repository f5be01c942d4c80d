//! Load from raw HTTP connections. The clients only look for the end of a response, so that the server gets
//! most of the CPU.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::LocalSet,
};

const READ_BYTES: usize = 64 << 10;

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// A prompt with a mark that each request replaces by a random number.
pub(crate) const NEW: &str = "What is ################?";

/// Returns a request as bytes. `body` contains [`NEW`].
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    let header = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    (header + &body).into_bytes()
}

/// Results of concurrent clients.
#[derive(Default)]
pub(crate) struct Load {
    elapsed: Duration,
    /// Times from sending a request until the end of its response, in ascending order.
    latencies: Vec<Duration>,
    /// Server-sent events in all responses.
    pub(crate) frames: u64,
}

impl Load {
    pub(crate) fn responses(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn responses_per_s(&self) -> f64 {
        self.responses() as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn frames_per_s(&self) -> f64 {
        self.frames as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns a quantile of the latencies; `share` is 0.5 for the median.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        let latency = self.latencies.get(at);
        latency.map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// Runs clients for `time`, on this thread. The elapsed time ends with the last response.
pub(crate) async fn run(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    time: Duration,
) -> Result<Load> {
    let end = Instant::now() + time;
    run_while(address, request, clients, move |_| Instant::now() < end).await
}

/// Runs clients for `times` requests together, rounded down to a multiple of the clients.
pub(crate) async fn run_many(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    times: u64,
) -> Result<Load> {
    let each = times as usize / clients;
    run_while(address, request, clients, move |asked| asked < each).await
}

/// Runs clients, each while `continues` returns true for the client's number of requests so far.
async fn run_while(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    continues: impl Fn(usize) -> bool + Copy + 'static,
) -> Result<Load> {
    let start = Instant::now();
    let local = LocalSet::new();
    let tasks: Vec<_> = (0..clients)
        .map(|_| local.spawn_local(client(address, request.clone(), continues)))
        .collect();
    local.await;
    let mut all = Load::default();
    for task in tasks {
        let load = task.await??;
        all.latencies.extend(load.latencies);
        all.frames += load.frames;
    }
    all.elapsed = start.elapsed();
    all.latencies.sort_unstable();
    Ok(all)
}

async fn client(
    address: SocketAddr,
    mut request: Vec<u8>,
    continues: impl Fn(usize) -> bool,
) -> Result<Load> {
    let mut connection = Connection::open(address).await?;
    let mut load = Load::default();
    let mark = request.windows(16).position(|bytes| bytes == [b'#'; 16]);
    let mark = mark.context("a request without a mark")?;
    while continues(load.latencies.len()) {
        let new = format!("{:016x}", rand::random::<u64>());
        request[mark..mark + 16].copy_from_slice(new.as_bytes());
        let start = Instant::now();
        load.frames += connection.send(&request, |_| {}).await?;
        load.latencies.push(start.elapsed());
    }
    Ok(load)
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The framing of a body.
enum Length {
    Bytes(usize),
    Chunks,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::with_capacity(READ_BYTES),
        })
    }

    /// Sends a request and reads its response. Passes the body to `consume` as it arrives. Returns the
    /// number of server-sent events. A status other than 200 is an error.
    pub(crate) async fn send(
        &mut self,
        request: &[u8],
        mut consume: impl FnMut(&[u8]),
    ) -> Result<u64> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (length, head) = loop {
            self.read_more().await?;
            if let Some(head) = parse_head(&self.buffer)? {
                break head;
            }
        };
        self.buffer.drain(..head);
        let mut frames = Frames::default();
        let mut read = 0;
        loop {
            consume(&self.buffer);
            frames.count(&self.buffer);
            read += self.buffer.len();
            match length {
                Length::Bytes(bytes) if read >= bytes => break,
                Length::Chunks if frames.tail.ends_with(LAST_CHUNK) => break,
                _ => {}
            }
            self.buffer.clear();
            self.read_more().await?;
        }
        Ok(frames.count)
    }

    async fn read_more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection ends early");
        Ok(())
    }
}

/// Parses the head of a response: the framing and the offset of the body. `None` if the head is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(Length, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).context("the head is not UTF-8")?;
    ensure!(text.starts_with("HTTP/1.1 200 "), "{text}");
    for line in text.lines() {
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            return Ok(Some((Length::Bytes(bytes.parse()?), end + 4)));
        }
        if line == "transfer-encoding: chunked" {
            return Ok(Some((Length::Chunks, end + 4)));
        }
    }
    bail!("the body has no framing: {text}")
}

/// Counts frames, which end with an empty line, and keeps the last bytes.
#[derive(Default)]
struct Frames {
    count: u64,
    tail: Vec<u8>,
}

impl Frames {
    fn count(&mut self, bytes: &[u8]) {
        let last = self.tail.last().copied();
        let before = last.into_iter().chain(bytes.iter().copied());
        let pairs = before.zip(bytes.iter().skip(usize::from(last.is_none())));
        self.count += pairs.filter(|pair| *pair == (b'\n', &b'\n')).count() as u64;
        let start = bytes.len().saturating_sub(LAST_CHUNK.len());
        self.tail.extend_from_slice(&bytes[start..]);
        let excess = self.tail.len().saturating_sub(LAST_CHUNK.len());
        self.tail.drain(..excess);
    }
}
