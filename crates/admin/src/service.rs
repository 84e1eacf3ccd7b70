//! The thread of the API: connections, and their bounds.
//!
//! | bound | beyond it |
//! |---|---|
//! | 64 connections of a kind | 503 with Retry-After, closed |
//! | 16 KiB for the head of a request | 431, closed |
//! | 30 s for a head, a body, or a write without progress | closed, or 408 |
//!
//! The thread has a lower priority than those of hosts, and none of them waits for it.

use crate::access::{Access, Peer};
use crate::board::Board;
use crate::guarded::Guarded as Patient;
use crate::order::Source;
use crate::routes;
use crate::sight::Sight;
use crate::socket::Listener;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use server::AdminTokens;
use std::future::{Future, ready};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service as _;
use tracing::warn;

const CONNECTIONS_MAX: usize = 64;
const HEAD_MAX: usize = 16 << 10;
/// The time for the head of a request, for its body, and for a write that makes no progress.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The thread gets less of a busy processor than the threads of hosts.
const NICENESS: i32 = 10;
/// Pause after a failure to accept a connection, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The whole answer to a connection beyond the bound.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// The running API. Dropping it ends it and removes the socket.
#[derive(Debug)]
pub struct Service {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _socket: Option<Listener>,
}

/// Where the API is reached.
#[derive(Debug, Default)]
pub struct Doors {
    /// Everything, for whoever may use the socket.
    pub socket: Option<Listener>,
    /// Everything, for whoever has a token.
    pub guarded: Option<Guarded>,
    /// The address for reading without permission.
    pub open: Option<TcpListener>,
}

/// An address at which a token is needed.
#[derive(Debug)]
pub struct Guarded {
    /// The address.
    pub listener: TcpListener,
    /// Its end of TLS; `None`: plain text.
    pub tls: Option<Arc<ServerConfig>>,
    /// The tokens.
    pub tokens: AdminTokens,
}

impl Service {
    /// Answers requests in a thread of its own. Metrics have series of at most `pairs_max` pairs of device and tenant.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        doors: Doors,
        source: Arc<dyn Source>,
        board: Arc<Board>,
        pairs_max: usize,
    ) -> io::Result<Service> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Doors { socket, guarded, open } = doors;
        let sight = Arc::new(Sight::new(pairs_max));
        let all = |access| routes::all(&source, &board, &sight, access);
        {
            let _inside = runtime.enter();
            runtime.spawn(sight.events.clone().run(Arc::clone(&source)));
            if let Some(socket) = &socket {
                let listener = UnixListener::from_std(socket.listener.try_clone()?)?;
                runtime.spawn(accept(listener, all(None)));
            }
            if let Some(Guarded { listener, tls, tokens }) = guarded {
                let (listener, router) = (of_std(listener)?, all(Some(Arc::new(Access::new(tokens)))));
                match tls {
                    Some(tls) => drop(runtime.spawn(accept(Tls { listener, end: tls.into() }, router))),
                    None => drop(runtime.spawn(accept(listener, router))),
                }
            }
            if let Some(open) = open {
                runtime.spawn(accept(of_std(open)?, routes::open(&source, &board, &sight)));
            }
        }
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                warn!(%error, "the admin thread runs at the usual priority");
            }
            // It is sent, or its sender was dropped: both are the end.
            drop(runtime.block_on(ended));
        })?;
        Ok(Service { end: Some(end), thread: Some(thread), _socket: socket })
    }
}

/// A listener of the runtime that is entered.
fn of_std(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

/// Accepts connections of one kind.
trait Accept: Sync {
    /// A connection as it arrives.
    type Raw: Send + 'static;
    /// A connection on which requests come.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and its other end.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Raw, Peer)>> + Send;

    /// Makes it ready for requests.
    fn opened(&self, raw: Self::Raw) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;
}

impl Accept for UnixListener {
    type Raw = UnixStream;
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let credentials = stream.peer_cred()?;
        Ok((stream, Peer::Local { uid: credentials.uid(), pid: credentials.pid() }))
    }

    fn opened(&self, raw: UnixStream) -> impl Future<Output = io::Result<UnixStream>> + Send + 'static {
        ready(Ok(raw))
    }
}

impl Accept for tokio::net::TcpListener {
    type Raw = TcpStream;
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = self.accept().await?;
        Ok((stream, Peer::Remote(address)))
    }

    fn opened(&self, raw: TcpStream) -> impl Future<Output = io::Result<TcpStream>> + Send + 'static {
        ready(Ok(raw))
    }
}

/// Connections with TLS.
struct Tls {
    listener: tokio::net::TcpListener,
    end: TlsAcceptor,
}

impl Accept for Tls {
    type Raw = TcpStream;
    type Stream = TlsStream<TcpStream>;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        self.listener.next().await
    }

    fn opened(
        &self,
        raw: TcpStream,
    ) -> impl Future<Output = io::Result<TlsStream<TcpStream>>> + Send + 'static {
        self.end.accept(raw)
    }
}

async fn accept<A: Accept>(listener: A, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Those that are refused are bounded, too; beyond it they get no answer.
    let refusals = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match listener.next().await {
            Ok((raw, peer)) => {
                let own = Arc::clone(&places).try_acquire_owned();
                let is_served = own.is_ok();
                let Ok(place) = own.or_else(|_| Arc::clone(&refusals).try_acquire_owned()) else { continue };
                let opening = listener.opened(raw);
                let router = router.clone();
                tokio::spawn(async move {
                    // A peer that does not speak TLS, or not in time, gets no answer.
                    let Ok(Ok(stream)) = timeout(PATIENCE, opening).await else { return };
                    if is_served {
                        serve(stream, peer, router, place).await;
                    } else {
                        refuse(stream, place).await;
                    }
                });
            }
            Err(error) => {
                warn!(%error, "the admin API cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers a connection beyond the bound.
async fn refuse(mut stream: impl AsyncWrite + Unpin, _place: OwnedSemaphorePermit) {
    // A peer that has gone, or does not read, needs no answer.
    let _ = timeout(PATIENCE, stream.write_all(FULL)).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: Peer,
    router: Router,
    _place: OwnedSemaphorePermit,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        router.clone().call(request)
    });
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_MAX);
    // Only the peer can be told of an error, and it is the cause.
    let _ = connection.serve_connection(TokioIo::new(Patient::new(stream, PATIENCE)), answer).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    /// Answers `bytes` on one end of a pair, and runs the test on the other one. Time passes only while nothing else happens.
    fn with<F: Future<Output = ()>>(bytes: usize, test: impl FnOnce(UnixStream) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (near, far) = UnixStream::pair().expect("a pair");
            let router = Router::new().route("/", get(move || async move { vec![b'x'; bytes] }));
            let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("it is free");
            let serving = tokio::spawn(serve(far, Peer::Local { uid: 0, pid: None }, router, place));
            test(near).await;
            serving.await.expect("it ends");
        });
    }

    #[test]
    fn a_head_that_does_not_end_is_not_waited_for() {
        with(1, |mut stream| async move {
            let before = Instant::now();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.expect("it reads");
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(before.elapsed() >= PATIENCE);
        });
    }

    #[test]
    fn a_peer_that_does_not_read_is_not_waited_for() {
        with(64 << 20, |mut stream| async move {
            let before = Instant::now();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it reads");
            tokio::time::sleep(2 * PATIENCE).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.len() < 64 << 20, "the rest was not sent");
            assert!(before.elapsed() >= PATIENCE);
        });
    }

    #[test]
    fn a_head_beyond_the_bound_is_refused() {
        with(1, |mut stream| async move {
            let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Large: {}\r\n\r\n", "x".repeat(2 * HEAD_MAX));
            let _ = stream.write_all(large.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
        });
    }
}
