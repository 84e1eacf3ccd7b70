//! The thread of the API: connections, and their bounds.
//!
//! | bound | beyond it |
//! |---|---|
//! | 64 connections of a kind | 503 with Retry-After, closed |
//! | 16 KiB for the head of a request | 431, closed |
//! | 30 s for a head, a body, or a write without progress | closed, or 408 |
//!
//! The thread has a lower priority than those of hosts, and none of them waits for it.

use crate::board::Board;
use crate::guarded::Guarded;
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
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::sleep;
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

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) pid: Option<i32>,
}

impl Service {
    /// Answers requests in a thread of its own: all on the socket, and those that need no permission also at an address.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        socket: Option<Listener>,
        open: Option<TcpListener>,
        source: Arc<dyn Source>,
        board: Arc<Board>,
    ) -> io::Result<Service> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sight = Arc::new(Sight::new());
        let [all, some] = routes::all_and_open(&source, &board, &sight);
        let (on_socket, at_address) = {
            let _inside = runtime.enter();
            let on_socket =
                socket.as_ref().map(|socket| UnixListener::from_std(socket.listener.try_clone()?));
            let at_address = open.map(|open| {
                open.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(open)
            });
            (on_socket.transpose()?, at_address.transpose()?)
        };
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                warn!(%error, "the admin thread runs at the usual priority");
            }
            runtime.block_on(async {
                tokio::spawn(sight.events.clone().run(source));
                if let Some(listener) = on_socket {
                    tokio::spawn(accept(listener, all));
                }
                if let Some(listener) = at_address {
                    tokio::spawn(accept(listener, some));
                }
                // It is sent, or its sender was dropped: both are the end.
                drop(ended.await);
            });
        })?;
        Ok(Service { end: Some(end), thread: Some(thread), _socket: socket })
    }
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
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and the process at its other end if the kind of socket tells it.
    async fn next(&self) -> io::Result<(Self::Stream, Option<Peer>)>;
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Option<Peer>)> {
        let (stream, _) = self.accept().await?;
        let credentials = stream.peer_cred()?;
        let peer = Peer { uid: credentials.uid(), pid: credentials.pid() };
        Ok((stream, Some(peer)))
    }
}

impl Accept for tokio::net::TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Option<Peer>)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, None))
    }
}

async fn accept(listener: impl Accept, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        match listener.next().await {
            Ok((stream, peer)) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => drop(tokio::spawn(serve(stream, peer, router.clone(), place))),
                Err(_) => refuse(stream).await,
            },
            Err(error) => {
                warn!(%error, "the admin API cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers a connection beyond the bound. The answer fits the buffer of a new socket, so this does not wait.
async fn refuse(mut stream: impl AsyncWrite + Unpin) {
    // A peer that has gone needs no answer.
    let _ = stream.write_all(FULL).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: Option<Peer>,
    router: Router,
    _place: OwnedSemaphorePermit,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        router.clone().call(request)
    });
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_MAX);
    // Only the peer can be told of an error, and it is the cause.
    let _ = connection.serve_connection(TokioIo::new(Guarded::new(stream, PATIENCE)), answer).await;
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
            let serving = tokio::spawn(serve(far, None, router, place));
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
