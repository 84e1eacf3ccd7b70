//! The client of the API: one request, one answer.
//!
//! Both the time and the size of an answer are bounded, so a target that hangs, or another program at the socket, cannot keep the command.

use crate::tls::client_tls;
use axum::http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The largest answer.
const ANSWER_MAX: usize = 64 << 20;
/// The time for an answer: longer than the target takes for any.
const PATIENCE: Duration = Duration::from_secs(60);

/// A target.
#[derive(Clone, Debug)]
pub struct Client {
    place: Place,
    patience: Duration,
}

#[derive(Clone, Debug)]
enum Place {
    Socket(PathBuf),
    Address(Secured),
}

/// A target at an address.
#[derive(Clone)]
pub struct Secured {
    /// `HOST:PORT`.
    host: String,
    name: ServerName<'static>,
    token: String,
    /// `None`: plain text.
    tls: Option<Arc<ClientConfig>>,
}

impl Secured {
    /// The target at `https://HOST:PORT`, or `http://HOST:PORT`; trusts the CAs of a file, or of this system.
    ///
    /// # Errors
    /// The URL is none of these, or the CAs cannot be used.
    pub fn new(url: &str, token: &str, ca: Option<&Path>) -> Result<Secured, String> {
        let parts = url.strip_prefix("https://").map(|host| (host, true));
        let parts = parts.or_else(|| url.strip_prefix("http://").map(|host| (host, false)));
        let wrong = || format!("{url:?} is no URL of a target; write https://HOST:PORT");
        let (host, is_secured) = parts.ok_or_else(wrong)?;
        let host = host.trim_end_matches('/');
        let (name, _) =
            host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).ok_or_else(wrong)?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| wrong())?;
        let tls = is_secured.then(|| client_tls(ca)).transpose()?;
        Ok(Secured { host: host.to_owned(), name, token: token.to_owned(), tls })
    }
}

impl fmt::Debug for Secured {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("host", &self.host).finish_non_exhaustive()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => path.display().fmt(f),
            Place::Address(secured) => f.write_str(&secured.host),
        }
    }
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
    #[error("no target answers at {0}: {1}; start one, or name its socket with --socket")]
    Unreachable(String, String),
    /// The target has not answered in time.
    #[error("the target at {0} has not answered within {1:?}")]
    Late(String, Duration),
}

impl Client {
    /// The target at this socket.
    pub fn new(socket: &Path) -> Client {
        Client { place: Place::Socket(socket.to_owned()), patience: PATIENCE }
    }

    /// The target at this address.
    pub fn at(target: Secured) -> Client {
        Client { place: Place::Address(target), patience: PATIENCE }
    }

    /// The same target, waited for this long at most for each answer.
    #[must_use]
    pub fn within(self, patience: Duration) -> Client {
        Client { patience, ..self }
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
        let request = self.request(method, path, headers, body)?;
        let exchange = async { exchange(self.connect().await?, request).await };
        let answered = self.runtime()?.block_on(async { timeout(self.patience, exchange).await });
        match answered {
            Err(_) => Err(ClientError::Late(self.place.to_string(), self.patience)),
            Ok(answered) => answered.map_err(|error| self.unreachable(&*error)),
        }
    }

    /// Follows a stream of events: has `on_event` take each, until it says to end, or the stream ends.
    ///
    /// # Errors
    /// The target cannot be reached, or says that it gives no events.
    pub fn follow(
        &self,
        path: &str,
        on_event: impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let request = self.request("GET", path, &[], Vec::new())?;
        let follow = async { follow(self.connect().await?, request, on_event).await };
        self.runtime()?.block_on(follow).map_err(|error| self.unreachable(&*error))
    }

    fn unreachable(&self, error: &dyn fmt::Display) -> ClientError {
        ClientError::Unreachable(self.place.to_string(), error.to_string())
    }

    fn runtime(&self) -> Result<Runtime, ClientError> {
        Builder::new_current_thread().enable_all().build().map_err(|error| self.unreachable(&error))
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder().method(method).uri(path);
        request = match &self.place {
            Place::Socket(_) => request.header(header::HOST, "gimbal"),
            Place::Address(target) => request
                .header(header::HOST, &target.host)
                .header(header::AUTHORIZATION, format!("Bearer {}", target.token)),
        };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| self.unreachable(&error))
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, Failure> {
        Ok(match &self.place {
            Place::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Place::Address(target) => {
                let stream = TcpStream::connect(&target.host).await?;
                match &target.tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let tls = TlsConnector::from(Arc::clone(tls));
                        Box::new(tls.connect(target.name.clone(), stream).await?)
                    }
                }
            }
        })
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection, whatever it is made of.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

async fn exchange(stream: Box<dyn Wire>, request: Request<Full<Bytes>>) -> Result<Reply, Failure> {
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

async fn follow(
    stream: Box<dyn Wire>,
    request: Request<Full<Bytes>>,
    mut on_event: impl FnMut(Value) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let path = request.uri().clone();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let _connection = tokio::spawn(connection);
    let mut answer = timeout(PATIENCE, sender.send_request(request)).await??;
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
    Ok(())
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
