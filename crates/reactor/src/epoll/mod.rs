//! The epoll backend.

use crate::disk::Owner;
use crate::driver::{Awakening, Driver};
use crate::event::Events;
use crate::{DiskOp, Options, Refused, SendBatch, Token, Waker};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use units::Instant;

pub(crate) struct EpollDriver;

impl EpollDriver {
    pub(crate) fn new(_options: &Options, _waker: Waker) -> io::Result<EpollDriver> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Driver for EpollDriver {
    fn listen(&mut self, _: TcpListener) -> io::Result<Token> {
        unreachable!()
    }
    fn resume_accept(&mut self, _: Token) {}
    fn connect(&mut self, _: SocketAddr, _: &mut Events) -> io::Result<Token> {
        unreachable!()
    }
    fn add_socket(&mut self, _: TcpStream) -> io::Result<Token> {
        unreachable!()
    }
    fn detach(&mut self, _: Token, _: &mut Events) {}
    fn pause_receive(&mut self, _: Token, _: &mut Events) {}
    fn resume_receive(&mut self, _: Token, _: &mut Events) {}
    fn send(&mut self, _: Token, _: SendBatch, _: &mut Events) -> Result<(), Refused<SendBatch>> {
        unreachable!()
    }
    fn shutdown_write(&mut self, _: Token) {}
    fn add_file(&mut self, _: OwnedFd) -> io::Result<Token> {
        unreachable!()
    }
    fn submit_disk(&mut self, _: Owner, _: DiskOp, _: &mut Events) -> Result<(), Refused<DiskOp>> {
        unreachable!()
    }
    fn close(&mut self, _: Token, _: &mut Events) {}
    fn poll(&mut self, _: &mut Events) -> io::Result<()> {
        unreachable!()
    }
    fn may_have_events(&mut self) -> bool {
        unreachable!()
    }
    fn block(&mut self, _: Option<Instant>, _: &mut Events) -> io::Result<Awakening> {
        unreachable!()
    }
}
