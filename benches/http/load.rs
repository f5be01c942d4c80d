//! Clients over raw connections: they do no more with an answer than to find its end, so that the
//! machine is left to the server.

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

/// The end of a body in chunks.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// A text that is another one in each request, as prompts are.
pub(crate) const NEW: &str = "What is ################?";

/// A request as bytes, with marks in the place of what is new in each.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    (head + &body).into_bytes()
}

/// What a number of clients did.
#[derive(Default)]
pub(crate) struct Load {
    took: Duration,
    /// From sending a request until its whole answer was there, shortest first.
    latencies: Vec<Duration>,
    /// Frames of server-sent events in all answers.
    pub(crate) frames: u64,
}

impl Load {
    pub(crate) fn answers(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn answers_per_s(&self) -> f64 {
        self.answers() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn frames_per_s(&self) -> f64 {
        self.frames as f64 / self.took.as_secs_f64()
    }

    /// The latency that this share of the answers does not exceed.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        let latency = self.latencies.get(at);
        latency.map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    }
}

/// Lets clients ask for a time, on this thread. All of it counts until the last has its answer.
pub(crate) async fn run(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    time: Duration,
) -> Result<Load> {
    let end = Instant::now() + time;
    ask_while(address, request, clients, move |_| Instant::now() < end).await
}

/// Lets clients ask so many times together, or a few less.
pub(crate) async fn run_many(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    times: u64,
) -> Result<Load> {
    let each = times as usize / clients;
    ask_while(address, request, clients, move |asked| asked < each).await
}

/// Lets clients ask while `goes_on` says so of the number of times that one has asked.
async fn ask_while(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    goes_on: impl Fn(usize) -> bool + Copy + 'static,
) -> Result<Load> {
    let start = Instant::now();
    let local = LocalSet::new();
    let tasks: Vec<_> = (0..clients)
        .map(|_| local.spawn_local(client(address, request.clone(), goes_on)))
        .collect();
    local.await;
    let mut all = Load::default();
    for task in tasks {
        let load = task.await??;
        all.latencies.extend(load.latencies);
        all.frames += load.frames;
    }
    all.took = start.elapsed();
    all.latencies.sort_unstable();
    Ok(all)
}

async fn client(
    address: SocketAddr,
    mut request: Vec<u8>,
    goes_on: impl Fn(usize) -> bool,
) -> Result<Load> {
    let mut connection = Connection::open(address).await?;
    let mut load = Load::default();
    let marks = request.windows(16).position(|part| part == [b'#'; 16]);
    let marks = marks.context("a request without marks")?;
    while goes_on(load.latencies.len()) {
        let new = format!("{:016x}", rand::random::<u64>());
        request[marks..marks + 16].copy_from_slice(new.as_bytes());
        let start = Instant::now();
        load.frames += connection.ask(&request, |_| {}).await?;
        load.latencies.push(start.elapsed());
    }
    Ok(load)
}

/// A connection that is kept between requests.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Where a body ends.
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

    /// Sends a request and reads its answer, which must be a success; shows the body as it comes and
    /// counts the frames in it.
    pub(crate) async fn ask(&mut self, request: &[u8], mut show: impl FnMut(&[u8])) -> Result<u64> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (length, head) = loop {
            self.more().await?;
            if let Some(head) = head(&self.buffer)? {
                break head;
            }
        };
        self.buffer.drain(..head);
        let mut frames = Frames::default();
        let mut read = 0;
        loop {
            show(&self.buffer);
            frames.count(&self.buffer);
            read += self.buffer.len();
            match length {
                Length::Bytes(bytes) if read >= bytes => break,
                Length::Chunks if frames.tail.ends_with(LAST_CHUNK) => break,
                _ => {}
            }
            self.buffer.clear();
            self.more().await?;
        }
        Ok(frames.count)
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection ends early");
        Ok(())
    }
}

/// Reads the head of an answer: how long the body is, and where it begins. Nothing if the head is not
/// all there.
fn head(bytes: &[u8]) -> Result<Option<(Length, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).context("a head that is no text")?;
    ensure!(text.starts_with("HTTP/1.1 200 "), "{text}");
    for line in text.lines() {
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            return Ok(Some((Length::Bytes(bytes.parse()?), end + 4)));
        }
        if line == "transfer-encoding: chunked" {
            return Ok(Some((Length::Chunks, end + 4)));
        }
    }
    bail!("a body without an end: {text}")
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
        let kept = bytes.len().saturating_sub(LAST_CHUNK.len());
        self.tail.extend_from_slice(&bytes[kept..]);
        let too_many = self.tail.len().saturating_sub(LAST_CHUNK.len());
        self.tail.drain(..too_many);
    }
}
