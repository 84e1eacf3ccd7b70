//! Hosts that break the rules of NVMe/RDMA: what each of them gets.
//!
//! ```text
//!   rdma_strangers ADDRESS:PORT REQUESTS    REQUESTS queue pairs are opened and left alone; the target has to take fewer at a time
//! ```
//!
//! A walk in a guest runs it against a target with short time limits. One line says what a host has got; a panic, that it was another.

use nvme::rdma::{Accepted, OpenQueue, Rejection};
use nvme::spec::connect::ConnectData;
use nvme::spec::{ConnectCommand, HostId, Nqn, Sgl, Sqe};
use reactor::rdma::{Access, CmChannel, CmEvent, CmNumber, Domain, Queue, QueueDone, QueueOptions, Rdma};
use reactor::{BufferPool, IoBuffer};
use std::env;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use units::{Bytes, Nanos};
use zerocopy::IntoBytes;

/// Much longer than an emulated kernel on a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(2);
const ADMIN: OpenQueue = OpenQueue { queue_id: 0, host_receives: 32, entries: 32 };
const OPTIONS: QueueOptions = QueueOptions { receives: 4, sends: 8, capsules: 4 };
const READS: u8 = 16;

fn main() {
    let mut arguments = env::args().skip(1);
    let target = arguments.next().expect("an address").parse().expect("an address");
    let requests: usize = arguments.next().expect("a number of requests").parse().expect("a number");
    let rdma = Rdma::load().unwrap_or_else(|error| panic!("{error}"));
    let channel = CmChannel::new(rdma).expect("the connection manager works");
    let mut host = Host { rdma, channel, target, pool: BufferPool::new(Bytes::mib(16)) };
    host.is_rejected_with_a_reason();
    host.sends_what_is_no_command();
    host.names_memory_that_it_does_not_have();
    host.never_takes_its_answer();
    host.opens_many(requests);
    println!("all strangers got what they deserve");
}

struct Host {
    rdma: Rdma,
    channel: CmChannel,
    target: SocketAddr,
    pool: BufferPool,
}

/// An open queue pair.
struct Open {
    queue: Queue,
    domain: Domain,
}

impl Host {
    /// Asks for a queue pair. An error is the reason of the reject.
    fn open(&self, private_data: &[u8], reads: u8, receives: usize) -> Result<Open, Option<Rejection>> {
        let timeout = Nanos::secs(30);
        let mut id = self.channel.connect(None, self.target, timeout).expect("begins");
        let number = id.number();
        self.await_event(number, |event| matches!(event, CmEvent::AddressResolved(_)));
        id.resolve_route(timeout).expect("begins");
        self.await_event(number, |event| matches!(event, CmEvent::RouteResolved(_)));
        let domain =
            Domain::new(self.rdma, &id.device().expect("resolved"), Access::Remote).expect("a domain");
        let mut queue = id.open(&domain, &OPTIONS).expect("a queue");
        for _ in 0..receives {
            queue.post_receive(None).expect("there is room");
        }
        queue.connect(private_data, reads).expect("begins");
        match self.next_event(number) {
            CmEvent::Accepted { private_data, .. } => {
                assert!(Accepted::parse(&private_data).is_some(), "{private_data:x?}");
                Ok(Open { queue, domain })
            }
            CmEvent::Rejected { private_data, .. } => Err(Rejection::from_bytes(&private_data)),
            other => panic!("{other:?}"),
        }
    }

    fn await_event(&self, number: CmNumber, is_it: impl Fn(&CmEvent) -> bool) {
        let event = self.next_event(number);
        assert!(is_it(&event), "{event:?}");
    }

    /// The next event of an attempt or connection; those of others are dropped.
    fn next_event(&self, number: CmNumber) -> CmEvent {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match self.channel.next_event().expect("the channel works") {
                Some(event) if number_of(&event) == Some(number) => return event,
                Some(_) => {}
                None => {
                    assert!(Instant::now() < give_up, "nothing happened");
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn is_rejected_with_a_reason(&self) {
        let mut unknown_format = ADMIN.to_bytes();
        unknown_format[0] = 1;
        let with = |change: OpenQueue| change.to_bytes();
        let cases = [
            (unknown_format, READS, Rejection::Format),
            (with(OpenQueue { queue_id: u16::MAX, ..ADMIN }), READS, Rejection::QueueId),
            (with(OpenQueue { entries: 65536, ..ADMIN }), READS, Rejection::HostSends),
            (with(OpenQueue { entries: 1, ..ADMIN }), READS, Rejection::HostSends),
            (with(OpenQueue { host_receives: 0, ..ADMIN }), READS, Rejection::HostReceives),
            (ADMIN.to_bytes(), 0, Rejection::InboundReads),
        ];
        for (private_data, reads, expected) in cases {
            let rejection = self.open(&private_data, reads, 1).err().expect("it is rejected");
            assert_eq!(rejection, Some(expected));
            println!("rejected: {expected}");
        }
    }

    fn sends_what_is_no_command(&mut self) {
        let mut open = self.open(&ADMIN.to_bytes(), READS, 1).expect("accepted");
        let data = self.pool.take(4096).expect("room");
        open.queue.send_capsule(1, &[0; 64], Some((data, 1000))).expect("room");
        self.await_end(open);
        println!("ended: a message that is no command");
    }

    fn names_memory_that_it_does_not_have(&mut self) {
        let mut open = self.open(&ADMIN.to_bytes(), READS, 1).expect("accepted");
        let (mut data, place) = self.connect_data(&open);
        let sgl = Sgl::Keyed { address: place.0, length: 1024, key: place.1 ^ 0x5500, invalidates: false };
        send(&mut open, connect_command().with_sgl(sgl));
        self.await_end(open);
        data.fill(0);
        println!("ended: a key that opens nothing");
    }

    /// Without a receive, the answer to Connect waits for ever.
    fn never_takes_its_answer(&mut self) {
        let mut open = self.open(&ADMIN.to_bytes(), READS, 0).expect("accepted");
        let (_data, place) = self.connect_data(&open);
        let sgl = Sgl::Keyed { address: place.0, length: 1024, key: place.1, invalidates: false };
        send(&mut open, connect_command().with_sgl(sgl));
        self.await_end(open);
        println!("ended: an answer that is never taken");
    }

    /// Opens queue pairs and sends nothing. Those that the target has evicted have ended; the last one is always taken.
    fn opens_many(&mut self, requests: usize) {
        let mut open = Vec::new();
        let mut rejected = 0;
        for _ in 0..requests {
            match self.open(&ADMIN.to_bytes(), READS, 1) {
                Ok(one) => open.push(one),
                Err(_) => rejected += 1,
            }
        }
        println!("of {requests} requests {rejected} were rejected");
        let last = open.pop().expect("the last one is taken");
        drop(open);
        drop(last);
    }

    /// The data of a Connect to discovery, and its place.
    fn connect_data(&mut self, open: &Open) -> (IoBuffer, (u64, u32)) {
        let host = Nqn::new("nqn.2024-06.io.gimbal:stranger").expect("a good name");
        let data = ConnectData::new(HostId([7; 16]), &host, &Nqn::discovery(), 0xffff);
        let mut buffer = self.pool.take(1024).expect("room");
        buffer.copy_from_slice(data.as_bytes());
        let place = open.domain.register(&mut buffer).expect("registered").expect("it may be reached");
        (buffer, (place.address, place.key))
    }

    /// Waits until the target has ended the connection.
    fn await_end(&self, mut open: Open) {
        let (give_up, number) = (Instant::now() + PATIENCE, open.queue.number());
        let mut done = Vec::new();
        loop {
            open.queue.poll(&mut done).expect("the queue works");
            let is_broken = done.drain(..).any(|done| matches!(done, QueueDone::Failed { .. }));
            let event = self.channel.next_event().expect("the channel works");
            let is_gone =
                event.is_some_and(|event| matches!(event, CmEvent::Disconnected(of) if of == number));
            if is_broken || is_gone {
                return;
            }
            assert!(Instant::now() < give_up, "the target keeps the connection");
            thread::sleep(PAUSE);
        }
    }
}

fn send(open: &mut Open, sqe: Sqe) {
    let command = sqe.as_bytes().try_into().expect("64 bytes");
    open.queue.send_capsule(1, &command, None).expect("there is room");
}

fn connect_command() -> Sqe {
    let command =
        ConnectCommand { record_format: 0, queue_id: 0, sqsize: 31, attributes: 0, keep_alive_timeout: 5000 };
    command.to_sqe().with_cid(1)
}

fn number_of(event: &CmEvent) -> Option<CmNumber> {
    match event {
        CmEvent::AddressResolved(id)
        | CmEvent::RouteResolved(id)
        | CmEvent::Established(id)
        | CmEvent::Disconnected(id)
        | CmEvent::DeviceRemoved(id)
        | CmEvent::Accepted { id, .. }
        | CmEvent::Rejected { id, .. }
        | CmEvent::Failed { id, .. } => Some(*id),
        CmEvent::Request(_) => None,
    }
}
