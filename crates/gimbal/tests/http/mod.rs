//! A client of the admin API that writes its requests itself.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The ETag, as it was sent.
    pub tag: String,
    pub body: String,
}

/// Sends a request on a connection of its own.
pub fn send(socket: &Path, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(socket).expect("the target listens");
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("the target reads");
    // A body that is refused is not read to its end.
    let _ = stream.write_all(body);
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    answer(&String::from_utf8(text).expect("text"))
}

/// Splits an answer.
pub fn answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_default();
    Answer { status, tag: tag.to_owned(), body: body.to_owned() }
}
