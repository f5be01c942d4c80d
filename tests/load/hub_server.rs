//! A hub on loopback: enough of its HTTP for a client to list and download repositories.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The repositories of a hub: files by path, by repository.
pub(crate) type Repositories = HashMap<&'static str, HashMap<&'static str, Vec<u8>>>;

/// A running hub. Its thread ends with the test's process.
pub(crate) struct HubServer {
    pub(crate) endpoint: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl HubServer {
    pub(crate) fn start(repositories: Repositories) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let hub = Arc::new(Hub {
            endpoint: endpoint.clone(),
            repositories,
            log: log.clone(),
        });
        thread::spawn(move || {
            for stream in listener.incoming() {
                let hub = hub.clone();
                thread::spawn(move || hub.serve(&stream.expect("a connection")));
            }
        });
        Self { endpoint, log }
    }

    /// The paths asked for since the last look, without those that only ask for a first byte.
    pub(crate) fn downloads(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("no panic"))
    }
}

struct Hub {
    endpoint: String,
    repositories: Repositories,
    log: Arc<Mutex<Vec<String>>>,
}

struct Request {
    path: String,
    headers: HashMap<String, String>,
}

impl Hub {
    fn serve(&self, stream: &TcpStream) {
        let mut lines = BufReader::new(stream).lines();
        while let Some(request) = read_request(&mut lines) {
            let response = self.respond(&request);
            if (&mut &*stream).write_all(&response).is_err() {
                return;
            }
        }
    }

    fn respond(&self, request: &Request) -> Vec<u8> {
        let private = request.path.contains("/private");
        let token = request.headers.get("authorization").map(String::as_str);
        if private && token != Some("Bearer secret") {
            return response("401 Unauthorized", &[], b"");
        }
        if request.headers.get("range").map(String::as_str) != Some("bytes=0-0") {
            self.log
                .lock()
                .expect("no panic")
                .push(request.path.clone());
        }
        self.listing(&request.path)
            .or_else(|| self.file(request))
            .unwrap_or_else(|| response("404 Not Found", &[], b""))
    }

    /// `/api/models/ORGANISATION/NAME/revision/main`
    fn listing(&self, path: &str) -> Option<Vec<u8>> {
        let name = path
            .strip_prefix("/api/models/")?
            .strip_suffix("/revision/main")?;
        let files = self.repositories.get(name)?.keys();
        let siblings: Vec<_> = files.map(|file| json!({ "rfilename": file })).collect();
        let listing = json!({ "sha": COMMIT, "siblings": siblings }).to_string();
        Some(response("200 OK", &[], listing.as_bytes()))
    }

    /// `/ORGANISATION/NAME/resolve/COMMIT/FILE`; large files lie elsewhere, as on the real one.
    fn file(&self, request: &Request) -> Option<Vec<u8>> {
        let stored = request.path.strip_prefix("/large");
        let path = stored.unwrap_or(&request.path);
        let (name, file) = path
            .strip_prefix('/')?
            .split_once(&format!("/resolve/{COMMIT}/"))?;
        let content = self.repositories.get(name)?.get(file)?;
        let etag = format!("\"{}-{}\"", name.replace('/', "-"), file);
        let is_large = file.ends_with(".safetensors") || file.ends_with(".gguf");
        if is_large && stored.is_none() {
            let location = format!("{}/large{path}", self.endpoint);
            let headers = [
                ("x-repo-commit", COMMIT),
                ("x-linked-etag", &etag),
                ("location", &location),
            ];
            return Some(response("302 Found", &headers, b""));
        }
        let (first, last) = range(request.headers.get("range")?, content.len())?;
        let range = format!("bytes {first}-{}/{}", last.wrapping_sub(1), content.len());
        let headers = [
            ("x-repo-commit", COMMIT),
            ("etag", &etag),
            ("content-range", &range),
        ];
        Some(response(
            "206 Partial Content",
            &headers,
            &content[first..last],
        ))
    }
}

fn read_request(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> Option<Request> {
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    for line in lines {
        match line.ok()?.split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => return Some(Request { path, headers }),
        }
    }
    None
}

/// First byte and end of `bytes=FIRST-` or `bytes=FIRST-LAST`.
fn range(header: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let end = if last.is_empty() {
        length
    } else {
        last.parse::<usize>().ok()? + 1
    };
    Some((first.parse().ok()?, end.min(length)))
}

fn response(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        response.push_str(&format!("{name}: {value}\r\n"));
    }
    response.push_str("\r\n");
    let mut response = response.into_bytes();
    response.extend(body);
    response
}
