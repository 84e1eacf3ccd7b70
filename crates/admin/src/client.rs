//! The client of the API: one request, one answer.
//!
//! Both the time and the size of an answer are bounded, so a target that hangs, or another program at the socket, cannot keep the command.

use axum::http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The largest answer.
const ANSWER_MAX: usize = 64 << 20;
/// The time for an answer: longer than the target takes for any.
const PATIENCE: Duration = Duration::from_secs(60);

/// A target, by its socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// The generation of the document, without quotes.
    pub generation: Option<String>,
    /// The body.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no target.
    #[error("no target answers at {}: {}; start one, or name its socket with --socket", .0.display(), .1)]
    Unreachable(PathBuf, String),
    /// The target has not answered in time.
    #[error("the target at {} has not answered within 60 s", .0.display())]
    Late(PathBuf),
}

impl Client {
    /// The target at this socket.
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned() }
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// No answer comes.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Reply, ClientError> {
        let unreachable = |error: String| ClientError::Unreachable(self.socket.clone(), error);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "gimbal");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|error| unreachable(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
        let answered = runtime.block_on(async { timeout(PATIENCE, self.exchange(request)).await });
        match answered {
            Err(_) => Err(ClientError::Late(self.socket.clone())),
            Ok(answered) => answered.map_err(|error| unreachable(error.to_string())),
        }
    }

    /// Follows a stream of events: has `on_event` take each, until it says to end, or the stream ends.
    ///
    /// # Errors
    /// The target cannot be reached, or says that it gives no events.
    pub fn follow(
        &self,
        path: &str,
        mut on_event: impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let unreachable = |error: String| ClientError::Unreachable(self.socket.clone(), error);
        let request = Request::get(path).header(header::HOST, "gimbal").body(Full::new(Bytes::new()));
        let request = request.map_err(|error| unreachable(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
        let followed = runtime.block_on(async {
            let stream = UnixStream::connect(&self.socket).await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let _connection = tokio::spawn(connection);
            let mut answer = sender.send_request(request).await?;
            if !answer.status().is_success() {
                return Err(format!("it answers {} to {path}", answer.status()).into());
            }
            let mut begun = Vec::new();
            // An error of the stream is its end: the target has closed it, or is gone.
            while let Some(Ok(frame)) = timeout(PATIENCE, answer.frame()).await.ok().flatten() {
                let Some(bytes) = frame.data_ref() else { continue };
                begun.extend_from_slice(bytes);
                if begun.len() > ANSWER_MAX {
                    return Err("an event is larger than 64 MiB".into());
                }
                while let Some(end) = begun.windows(2).position(|bytes| bytes == b"\n\n") {
                    let event: Vec<u8> = begun.drain(..end + 2).collect();
                    let data = event.strip_prefix(b"data: ").unwrap_or_default();
                    if let Ok(event) = serde_json::from_slice(data)
                        && on_event(event).is_break()
                    {
                        return Ok(());
                    }
                }
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
        followed.map_err(|error| unreachable(error.to_string()))
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
        let generation = tag.map(|tag| tag.trim_matches('"').to_owned());
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await?.to_bytes();
        connection.abort();
        Ok(Reply { status, generation, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

impl Reply {
    /// Whether the target has done it, or has begun it.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body, if it is JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}
