//! DH-HMAC-CHAP on the queues of the small host.

use super::{ADMIN_ENTRIES, Options, Queue};
use auth::exchange::{HostExchange, Outcome};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::{AuthenticationCommand, Cqe};
use nvme::tcp::Transfer;
use std::net::SocketAddr;

/// The admin queue of a host, its Connect answered.
pub fn connected(address: SocketAddr, host: &'static str) -> (Queue, Cqe) {
    let options = Options { host, ..Options::default() };
    let mut queue = Queue::open(address, ADMIN_ENTRIES, &options);
    let cqe = queue.connect(0, ADMIN_ENTRIES, CNTLID_DYNAMIC, &options);
    (queue, cqe)
}

/// Sends a message; `None` if the connection is closed.
pub fn send(queue: &mut Queue, message: Vec<u8>) -> Option<Cqe> {
    let length = message.len() as u32;
    let sqe = AuthenticationCommand::Send { length }.to_sqe();
    queue.submit(sqe, Transfer::ToController(message, length));
    queue.next().map(|(cqe, _)| cqe)
}

/// Asks for a message; `None` if the connection is closed.
pub fn receive(queue: &mut Queue) -> Option<(Cqe, Vec<u8>)> {
    let sqe = AuthenticationCommand::Receive { length: 4096 }.to_sqe();
    queue.submit(sqe, Transfer::FromController(vec![0; 4096], 4096));
    queue.next().map(|(cqe, data)| (cqe, data.unwrap_or_default()))
}

/// Carries out an exchange on a queue. Returns its end, and all messages of the host; `None` if the connection is closed meanwhile.
pub fn prove(queue: &mut Queue, exchange: &mut HostExchange) -> Option<(Outcome, Vec<Vec<u8>>)> {
    let mut sent = Vec::new();
    loop {
        if let Some(message) = exchange.next_send() {
            sent.push(message.clone());
            assert!(send(queue, message)?.status().is_success());
        } else if exchange.wants_receive() {
            let (cqe, data) = receive(queue)?;
            assert!(cqe.status().is_success(), "{:?}", cqe.status());
            if let Some(job) = exchange.on_received(&data) {
                exchange.on_computed(job.compute());
            }
        } else {
            return Some((exchange.outcome(), sent));
        }
    }
}
