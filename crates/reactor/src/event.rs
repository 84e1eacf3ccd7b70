//! The events that a reactor reports, and the queue that they wait in.

use crate::{IoBuffer, RecvBuffer, SendBatch, Token};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A listener has a new connection. The socket is not watched yet: hand it to [`Reactor::add_socket`] of this reactor or
    /// of another thread's.
    ///
    /// [`Reactor::add_socket`]: crate::Reactor::add_socket
    Accepted {
        /// The listener.
        listener: Token,
        /// The connection.
        socket: TcpStream,
        /// The other end.
        peer: SocketAddr,
    },
    /// A listener can accept no more for now (most often: too many open files). It rests until
    /// [`Reactor::resume_accept`](crate::Reactor::resume_accept).
    AcceptFailed {
        /// The listener.
        listener: Token,
        /// The error.
        error: io::Error,
    },
    /// A `connect` has ended. After an error the token is closed already.
    Connected {
        /// The token that `connect` returned.
        token: Token,
        /// Success, or the error.
        result: io::Result<()>,
    },
    /// Bytes have arrived.
    Received {
        /// The socket.
        token: Token,
        /// The bytes, at least one.
        bytes: RecvBuffer,
    },
    /// Bytes have arrived on a socket that is read: see [`Reactor::pull_receive`](crate::Reactor::pull_receive).
    Readable {
        /// The socket.
        token: Token,
    },
    /// Nothing more will arrive: the other end has finished, or the connection is broken. Sending may still work; the token
    /// stays until `close`.
    ReceiveEnded {
        /// The socket.
        token: Token,
        /// `None`: an orderly end. `Some`: the connection's error.
        error: Option<io::Error>,
    },
    /// The kernel has taken the whole batch, or sending failed. The next batch may be sent.
    Sent {
        /// The socket.
        token: Token,
        /// The batch with its buffers, for use again.
        batch: SendBatch,
        /// After an error it is unknown how much arrived, and the connection is of no further use.
        result: io::Result<()>,
    },
    /// The socket has left the reactor: every byte received before was reported before. The token is closed.
    Detached {
        /// The token that was.
        token: Token,
        /// The connection, for another reactor's `add_socket`.
        socket: TcpStream,
    },
    /// A disk operation has ended.
    Disk {
        /// The file.
        token: Token,
        /// The caller's own name for the operation.
        tag: u64,
        /// Success for the whole operation, or an error. Short reads and writes were carried on inside; a read past the
        /// end of the file is [`io::ErrorKind::UnexpectedEof`].
        result: io::Result<()>,
        /// The buffer of a read or write.
        buffer: Option<IoBuffer>,
    },
    /// The descriptor of a channel is readable. It is not watched until [`Reactor::watch_channel`](crate::Reactor::watch_channel).
    Ready {
        /// The channel.
        token: Token,
    },
    /// A [`Waker`](crate::Waker) of this reactor was used, once or more since the last time.
    Woken,
}

impl Event {
    /// The token that the event belongs to.
    pub fn token(&self) -> Option<Token> {
        match *self {
            Event::Accepted { listener: token, .. }
            | Event::AcceptFailed { listener: token, .. }
            | Event::Connected { token, .. }
            | Event::Received { token, .. }
            | Event::Readable { token }
            | Event::ReceiveEnded { token, .. }
            | Event::Sent { token, .. }
            | Event::Detached { token, .. }
            | Event::Disk { token, .. }
            | Event::Ready { token } => Some(token),
            Event::Woken => None,
        }
    }

    /// Whether this is about received bytes, and so waits while its socket is paused.
    pub(crate) fn is_inbound(&self) -> bool {
        matches!(self, Event::Received { .. } | Event::Readable { .. } | Event::ReceiveEnded { .. })
    }
}

/// Events in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Drops all queued events of a token.
    pub(crate) fn discard(&mut self, token: Token) {
        self.queue.retain(|event| event.token() != Some(token));
    }

    /// Takes out the received data of a socket, in order.
    pub(crate) fn withdraw_inbound(&mut self, token: Token) -> VecDeque<Event> {
        let is_wanted = |event: &Event| event.is_inbound() && event.token() == Some(token);
        if !self.queue.iter().any(is_wanted) {
            return VecDeque::new();
        }
        let (withdrawn, rest) = self.queue.drain(..).partition(is_wanted);
        self.queue = rest;
        withdrawn
    }
}
