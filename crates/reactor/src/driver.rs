//! The interface between the reactor and a backend.

use crate::disk::Owner;
use crate::event::Events;
use crate::refused::Refused;
use crate::ring::Unregistered;
use crate::{DiskAccess, DiskOp, SendBatch, Token};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use units::Instant;

/// One backend. The methods have the meaning of the public methods of the same name on [`Reactor`](crate::Reactor);
/// requests for a token that is not open are ignored unless the method can refuse them.
pub(crate) trait Driver {
    fn listen(&mut self, listener: TcpListener) -> io::Result<Token>;
    fn resume_accept(&mut self, listener: Token);
    fn connect(&mut self, address: SocketAddr, events: &mut Events) -> io::Result<Token>;
    fn add_socket(&mut self, socket: TcpStream) -> io::Result<Token>;
    fn detach(&mut self, token: Token, events: &mut Events);
    fn pause_receive(&mut self, token: Token, events: &mut Events);
    fn resume_receive(&mut self, token: Token, events: &mut Events);
    fn pull_receive(&mut self, token: Token);
    fn push_receive(&mut self, token: Token);
    fn read(&mut self, token: Token, places: [&mut [u8]; 2], events: &mut Events) -> Option<usize>;
    fn read_later(&mut self, token: Token);
    fn expect(&mut self, token: Token, count: usize);
    fn send(&mut self, token: Token, batch: SendBatch, events: &mut Events)
    -> Result<(), Refused<SendBatch>>;
    fn shutdown_write(&mut self, token: Token);
    fn add_channel(&mut self, descriptor: OwnedFd) -> io::Result<Token>;
    fn watch_channel(&mut self, token: Token) -> io::Result<()>;
    fn add_disk(&mut self, file: OwnedFd, access: DiskAccess) -> io::Result<Token>;
    fn take_unregistered(&mut self) -> Option<Unregistered>;
    fn submit_disk(&mut self, owner: Owner, op: DiskOp, events: &mut Events) -> Result<(), Refused<DiskOp>>;
    fn close(&mut self, token: Token, events: &mut Events);

    /// Hands all requests over to the kernel and collects the events, without waiting.
    fn poll(&mut self, events: &mut Events) -> io::Result<()>;

    /// Whether `poll` may find something: cheap, for busy polling. A false yes is allowed.
    fn may_have_events(&mut self) -> bool;

    /// Hands all requests over, sleeps until an event or the deadline, and collects. It may come back early with
    /// nothing, as when a signal was handled.
    fn block(&mut self, deadline: Option<Instant>, events: &mut Events) -> io::Result<()>;
}
