//! Both ends of RDMA connections in one process, over the addresses of a device of this machine: everything that `reactor::rdma` can do.
//!
//! ```text
//!   rdma_loop ADDRESS...        all claims on each address, with both backends of the reactor
//!   rdma_loop locked ADDRESS    that the limit of locked memory is met, and explained
//!   rdma_loop removed ADDRESS   that a device can be removed (by `rdma link delete rxe0`) under connections
//! ```
//!
//! A guest with a device of software (rxe) runs it (`tests/rdma_guest.rs`). Its loopback has 192.0.2.1 as well. One line says that a claim held; a panic, that one did not.

use reactor::rdma::{
    Access, AnswerData, CmChannel, CmEvent, CmListener, CmNumber, ConnectRequest, Domain, NotPosted, Queue,
    QueueDone, QueueOptions, Rdma, RemoteMemory, Work,
};
use reactor::{Backend, BufferPool, Clock, Event, IoBuffer, Reactor, Token};
use std::collections::{HashSet, VecDeque};
use std::env;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use units::{Bytes, Nanos};

/// Much longer than an emulated kernel on a busy machine needs.
const PATIENCE: Nanos = Nanos::secs(60);
/// The private data of a request, an acceptance and a rejection.
const ASKED: [u8; 32] = [0xa5; 32];
const ACCEPTED: [u8; 32] = [0x5a; 32];
const REJECTED: [u8; 4] = [0, 0, 5, 0];
/// An address of the machine that no device has, and one of another machine.
const DEVICELESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FOREIGN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// READs that a target may have in flight.
const READS: u8 = 4;
const TARGET: QueueOptions = QueueOptions { receives: 8, sends: 16, capsules: 0 };
const INITIATOR: QueueOptions = QueueOptions { receives: 4, sends: 8, capsules: 4 };
const PAGE: usize = 4096;

/// Takes the next end of work, which must be of a pattern.
macro_rules! comes {
    ($world:ident, $end:ident, $pattern:pat $(if $guard:expr)?) => {
        match $world.done(&mut $end) {
            $pattern $(if $guard)? => {}
            other => panic!("{other:?}"),
        }
    };
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let rdma = Rdma::load().unwrap_or_else(|error| panic!("{error}"));
    println!("devices: {:?}", rdma.devices().unwrap_or_else(|error| panic!("{error}")));
    let address = |argument: &String| -> IpAddr { argument.parse().expect("an address") };
    match arguments.split_first() {
        Some((first, [of])) if first == "locked" => {
            the_limit_of_locked_memory_is_explained(&mut World::new(rdma, Backend::Epoll, address(of)));
        }
        Some((first, [of])) if first == "removed" => {
            a_removed_device_ends_its_connections(World::new(rdma, Backend::Auto, address(of)));
        }
        Some(_) => {
            for of in &arguments {
                for backend in [Backend::IoUring, Backend::Epoll] {
                    all_claims(&mut World::new(rdma, backend, address(of)));
                }
            }
        }
        None => panic!("give an address of an RDMA device"),
    }
    println!("all claims hold");
}

/// A claim, and the function that fails unless it holds.
type Claim = (&'static str, fn(&mut World));

fn all_claims(world: &mut World) {
    println!("on {}, {:?}", world.listener.local_addr(), world.reactor.backend());
    let claims: [Claim; 12] = [
        ("capsules arrive with their data", capsules_arrive_with_their_data),
        ("a read brings the other end's memory", a_read_brings_the_other_ends_memory),
        ("an answer comes after its data and zeros", an_answer_comes_after_its_data_and_zeros),
        ("a sender waits until a receive is posted", a_sender_waits_until_a_receive_is_posted),
        ("a wrong key ends the connection", a_wrong_key_ends_the_connection),
        ("a key that cannot be invalidated is an error", a_key_that_cannot_be_invalidated_is_an_error),
        ("a message that is too long is an error", a_message_that_is_too_long_is_an_error),
        ("more than there is room for is refused", more_than_there_is_room_for_is_refused),
        ("a rejection says why", a_rejection_says_why),
        ("disconnecting flushes all work", disconnecting_flushes_all_work),
        ("dropping a queue returns every buffer", dropping_a_queue_returns_every_buffer),
        ("a queue moves to another thread", a_queue_moves_to_another_thread),
    ];
    for (claim, holds) in claims {
        holds(world);
        assert!(world.ready.len() <= 1, "only the channel of events is left: {:?}", world.ready);
        println!("  {claim}");
    }
    addresses_are_judged(world);
    println!("  addresses are judged");
}

/// Events of the connection manager and of both ends' queues, through one reactor.
struct World {
    rdma: Rdma,
    channel: CmChannel,
    listener: CmListener,
    reactor: Reactor,
    events: Token,
    /// Channels that were reported readable and not looked at since.
    ready: HashSet<Token>,
}

impl World {
    fn new(rdma: Rdma, backend: Backend, address: IpAddr) -> World {
        let channel = CmChannel::new(rdma).expect("the connection manager works");
        let listener = channel.listen(SocketAddr::new(address, 0), 16).expect("listens");
        let mut reactor = Reactor::new(backend).expect("a reactor");
        let events = reactor.add_channel(channel.as_fd()).expect("watched");
        World { rdma, channel, listener, reactor, events, ready: HashSet::new() }
    }

    /// Sleeps until a channel is readable.
    #[track_caller]
    fn wait(&mut self, token: Token) {
        let give_up = Clock.now() + PATIENCE;
        while !self.ready.remove(&token) {
            assert!(Clock.now() < give_up, "nothing happened in {PATIENCE}");
            self.reactor.wait(Some(give_up)).expect("waits");
            while let Some(event) = self.reactor.next_event() {
                match event {
                    Event::Ready { token } => assert!(self.ready.insert(token), "reported once"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[track_caller]
    fn event(&mut self) -> CmEvent {
        loop {
            if let Some(event) = self.channel.next_event().expect("the channel works") {
                return event;
            }
            self.wait(self.events);
            self.reactor.watch_channel(self.events).expect("watched");
        }
    }

    /// The next event, after those that say only that an accepted connection is complete.
    #[track_caller]
    fn event_of(&mut self, id: CmNumber) -> CmEvent {
        loop {
            match self.event() {
                CmEvent::Established(other) => assert_ne!(other, id, "said already"),
                event => return event,
            }
        }
    }

    fn watched(&mut self, queue: Queue, domain: Domain) -> End {
        End::new(&mut self.reactor, queue, domain)
    }

    /// An attempt at a connection, up to its request here.
    fn attempt(&mut self, to: SocketAddr) -> (Queue, Domain) {
        let from = self.listener.local_addr().ip();
        let mut id = self.channel.connect(Some(from), to, PATIENCE).expect("begins");
        let number = id.number();
        assert!(matches!(self.event(), CmEvent::AddressResolved(of) if of == number));
        id.resolve_route(PATIENCE).expect("begins");
        assert!(matches!(self.event(), CmEvent::RouteResolved(of) if of == number));
        let device = id.device().expect("resolved");
        let domain = Domain::new(self.rdma, &device, Access::Remote).expect("a domain");
        assert!(domain.is_of(&device));
        let mut queue = id.open(&domain, &INITIATOR).expect("a queue");
        assert_eq!(queue.number(), number);
        let limit = domain.limits().reads_answered;
        queue.connect(&ASKED, READS.min(limit)).expect("begins");
        (queue, domain)
    }

    fn request(&mut self) -> ConnectRequest {
        let event = self.event();
        let CmEvent::Request(request) = event else { panic!("{event:?}") };
        assert!(request.private_data().starts_with(&ASKED), "{:x?}", request.private_data());
        assert!(request.private_data()[ASKED.len()..].iter().all(|&byte| byte == 0), "padded with zeros");
        assert_eq!(request.listener(), self.listener.number());
        assert_eq!(request.local(), self.listener.local_addr());
        assert_eq!(request.peer().ip(), self.listener.local_addr().ip());
        assert_eq!(request.reads(), READS);
        assert!(request.device_limits().expect("a device").sends_with_invalidate);
        request
    }

    /// Both ends of a connection. `receives` are posted by the target, with buffers, before it accepts.
    fn connection(&mut self, receives: usize) -> (End, End) {
        let (initiator, its_domain) = self.attempt(self.listener.local_addr());
        let request = self.request();
        let domain =
            Domain::new(self.rdma, &request.device().expect("a device"), Access::Local).expect("a domain");
        let queue = request.open(&domain, &TARGET).expect("a queue");
        let (number, its_number) = (queue.number(), initiator.number());
        let mut target = self.watched(queue, domain);
        for _ in 0..receives {
            let buffer = target.buffer(PAGE, 0);
            target.queue.post_receive(Some(buffer)).expect("room for a receive");
        }
        target.queue.accept(&ACCEPTED, READS).expect("accepts");
        let (mut is_established, mut is_accepted) = (false, false);
        while !(is_established && is_accepted) {
            match self.event() {
                CmEvent::Established(id) if id == number => is_established = true,
                CmEvent::Accepted { id, private_data } if id == its_number => {
                    assert!(private_data.starts_with(&ACCEPTED), "{private_data:x?}");
                    is_accepted = true;
                }
                other => panic!("{other:?}"),
            }
        }
        (target, self.watched(initiator, its_domain))
    }

    /// The next end of work of an end.
    #[track_caller]
    fn done(&mut self, end: &mut End) -> QueueDone {
        loop {
            if let Some(done) = end.polled() {
                return done;
            }
            self.wait(end.token);
            end.queue.arm().expect("armed");
            self.reactor.watch_channel(end.token).expect("watched");
        }
    }

    /// Lets an end go, with all of its memory.
    #[track_caller]
    fn end(&mut self, mut end: End) {
        self.reactor.close(end.token);
        self.ready.remove(&end.token);
        drop(end.queue);
        drop((end.done, end.opened));
        assert_eq!(end.pool.lent(), Bytes::ZERO, "every buffer came back");
        drop(end.pool);
        assert_eq!(end.domain.registered(), Bytes::ZERO, "freed memory is not registered");
    }

    /// Ends a connection in the middle, from the target.
    #[track_caller]
    fn part(&mut self, target: End, initiator: End) {
        let id = initiator.queue.number();
        self.end(target);
        let event = self.event_of(id);
        assert!(matches!(event, CmEvent::Disconnected(of) if of == id), "{event:?}");
        self.end(initiator);
    }
}

/// One end of a connection.
struct End {
    queue: Queue,
    domain: Domain,
    token: Token,
    pool: BufferPool,
    /// Buffers that the other end may use.
    opened: Vec<IoBuffer>,
    done: VecDeque<QueueDone>,
}

impl End {
    fn new(reactor: &mut Reactor, mut queue: Queue, domain: Domain) -> End {
        queue.arm().expect("armed");
        let token = reactor.add_channel(queue.as_fd()).expect("watched");
        let pool = BufferPool::new(Bytes::mib(16));
        End { queue, domain, token, pool, opened: Vec::new(), done: VecDeque::new() }
    }

    /// A buffer of bytes that differ from their neighbours; `seed` zero: of zeros.
    fn buffer(&mut self, length: usize, seed: usize) -> IoBuffer {
        let mut buffer = self.pool.take(length).expect("the pool has room");
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = byte_at(seed, index);
        }
        buffer
    }

    /// A buffer that the other end may use.
    fn open_buffer(&mut self, length: usize, seed: usize) -> RemoteMemory {
        let mut buffer = self.buffer(length, seed);
        let place = self.domain.register(&mut buffer).expect("registered").expect("a domain for both ends");
        assert_eq!(place.address, buffer.as_ptr().addr() as u64);
        self.opened.push(buffer);
        place
    }

    fn polled(&mut self) -> Option<QueueDone> {
        if self.done.is_empty() {
            let mut done = Vec::new();
            self.queue.poll(&mut done).expect("the queue works");
            self.done.extend(done);
        }
        self.done.pop_front()
    }
}

fn byte_at(seed: usize, index: usize) -> u8 {
    (seed * (index / 3 + 7 * seed + index % 251)) as u8
}

fn is_pattern(bytes: &[u8], seed: usize) -> bool {
    bytes.iter().enumerate().all(|(index, &byte)| byte == byte_at(seed, index))
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

fn is_full<T>(result: Result<T, NotPosted>, has_buffer: bool) -> bool {
    matches!(result, Err(refused)
        if refused.error.kind() == io::ErrorKind::WouldBlock && refused.buffer.is_some() == has_buffer)
}

fn capsules_arrive_with_their_data(world: &mut World) {
    let (mut target, mut initiator) = world.connection(2);
    for (tag, length) in [(7, 0), (8, PAGE)] {
        let header = [tag as u8; 64];
        let data = initiator.buffer(PAGE, 3);
        initiator.queue.send_capsule(tag, &header, Some((data, length))).expect("room");
        comes!(world, initiator, QueueDone::Sent { tag: Some(of), buffer: Some(_) } if of == tag);
        match world.done(&mut target) {
            QueueDone::Received { header: came, length: whole, data: Some(data), invalidated: None } => {
                assert_eq!((came, whole as usize), (header, 64 + length));
                assert!(is_pattern(&data[..length], 3) && is_zero(&data[length..]));
            }
            other => panic!("{other:?}"),
        }
    }
    // A receive without a buffer, and a message shorter than the header.
    target.queue.post_receive(None).expect("room");
    initiator.queue.send_capsule(9, &[9; 64], None).expect("room");
    comes!(world, initiator, QueueDone::Sent { tag: Some(9), buffer: None });
    comes!(world, target, QueueDone::Received { header: [9, ..], length: 64, data: None, .. });
    initiator.queue.post_receive(None).expect("room");
    target.queue.answer(None, &[6; 16], None).expect("room");
    let done = world.done(&mut initiator);
    let QueueDone::Received { header, length: 16, .. } = done else { panic!("{done:?}") };
    assert!(header[..16] == [6; 16] && is_zero(&header[16..]));
    comes!(world, target, QueueDone::Sent { tag: None, buffer: None });
    world.part(target, initiator);
}

fn a_read_brings_the_other_ends_memory(world: &mut World) {
    let (mut target, mut initiator) = world.connection(1);
    let place = initiator.open_buffer(3 * PAGE, 5);
    for tag in 0..u32::from(READS) {
        let buffer = target.buffer(3 * PAGE, 0);
        target.queue.read(tag, buffer, 2 * PAGE + 8, place).expect("room");
    }
    for tag in 0..u32::from(READS) {
        let done = world.done(&mut target);
        let QueueDone::Read { tag: of, buffer } = done else { panic!("{done:?}") };
        assert_eq!(of, tag, "in order");
        assert!(is_pattern(&buffer[..2 * PAGE + 8], 5) && is_zero(&buffer[2 * PAGE + 8..]));
    }
    let buffer = target.buffer(PAGE, 0);
    let refused = target.queue.read(1, buffer, PAGE + 1, place).expect_err("longer than the buffer");
    assert!(refused.error.kind() == io::ErrorKind::InvalidInput && refused.buffer.is_some());
    let mut buffer = target.buffer(PAGE, 0);
    assert_eq!(target.domain.register(&mut buffer).expect("registered"), None, "no key leaves the target");
    assert!(target.domain.registered() >= Bytes(PAGE as u64));
    drop((refused, buffer));
    world.part(target, initiator);
}

fn an_answer_comes_after_its_data_and_zeros(world: &mut World) {
    let (mut target, mut initiator) = world.connection(1);
    let whole = 1 << 20;
    // Data only, with zeros after it in one and in two WRITEs, and zeros only.
    for (held, length, cost) in [(PAGE, PAGE, 2), (5000, 300_000, 2), (5000, 700_000, 3), (0, 777, 2)] {
        let to = initiator.open_buffer(whole, 11);
        initiator.queue.post_receive(None).expect("room");
        let buffer = target.buffer(2 * PAGE, 13);
        assert_eq!(target.queue.cost(held, length), cost, "{held} of {length}");
        let room = target.queue.room();
        let data = AnswerData { buffer, held, length, to };
        target.queue.answer(Some(data), &[1; 16], None).expect("room");
        assert_eq!(target.queue.room(), room - cost);
        comes!(world, initiator, QueueDone::Received { length: 16, .. });
        let theirs = initiator.opened.pop().expect("opened above");
        assert!(is_pattern(&theirs[..held], 13), "the data");
        assert!(is_zero(&theirs[held..length]), "zeros");
        let after: Vec<u8> = (length..whole).map(|index| byte_at(11, index)).collect();
        assert!(theirs[length..] == after, "what was there before");
        comes!(world, target, QueueDone::Sent { tag: None, buffer: Some(_) });
        assert_eq!(target.queue.room(), room);
    }
    world.part(target, initiator);
}

fn a_sender_waits_until_a_receive_is_posted(world: &mut World) {
    let (mut target, mut initiator) = world.connection(1);
    let to = initiator.open_buffer(PAGE, 1);
    let buffer = target.buffer(PAGE, 2);
    let data = AnswerData { buffer, held: PAGE, length: PAGE, to };
    target.queue.answer(Some(data), &[2; 16], None).expect("room");
    // Meanwhile the other direction works.
    initiator.queue.send_capsule(1, &[1; 64], None).expect("room");
    comes!(world, initiator, QueueDone::Sent { tag: Some(1), .. });
    comes!(world, target, QueueDone::Received { .. });
    let done = target.polled();
    assert!(done.is_none(), "nobody has posted a receive: {done:?}");
    initiator.queue.post_receive(None).expect("room");
    comes!(world, target, QueueDone::Sent { buffer: Some(_), .. });
    comes!(world, initiator, QueueDone::Received { header: [2, ..], .. });
    // And a capsule.
    initiator.queue.send_capsule(2, &[2; 64], None).expect("room");
    initiator.queue.post_receive(None).expect("room");
    target.queue.answer(None, &[3; 16], None).expect("room");
    comes!(world, target, QueueDone::Sent { .. });
    comes!(world, initiator, QueueDone::Received { header: [3, ..], .. });
    let done = initiator.polled();
    assert!(done.is_none(), "nobody has posted a receive: {done:?}");
    target.queue.post_receive(None).expect("room");
    comes!(world, initiator, QueueDone::Sent { tag: Some(2), .. });
    comes!(world, target, QueueDone::Received { header: [2, ..], .. });
    world.part(target, initiator);
}

/// Takes what is left of a connection that has failed: receives with their buffers, all flushed.
#[track_caller]
fn expect_flushed(world: &mut World, end: &mut End, receives: usize) {
    for _ in 0..receives {
        let done = world.done(end);
        assert!(done.is_flushed(), "{done:?}");
        assert!(matches!(done, QueueDone::Failed { what: Work::Receive, .. }), "{done:?}");
    }
}

fn a_wrong_key_ends_the_connection(world: &mut World) {
    let (mut target, mut initiator) = world.connection(3);
    let to = initiator.open_buffer(PAGE, 1);
    initiator.queue.post_receive(None).expect("room");
    let buffer = target.buffer(PAGE, 2);
    let wrong = RemoteMemory { key: to.key ^ 0x5500, ..to };
    let data = AnswerData { buffer, held: PAGE, length: PAGE, to: wrong };
    target.queue.answer(Some(data), &[2; 16], None).expect("room");
    let done = world.done(&mut target);
    let QueueDone::Failed { what: Work::Write, status: 10, reason, buffer: None, .. } = done else {
        panic!("{done:?}")
    };
    println!("    the device says: {reason}");
    let mut receives = 0;
    let mut has_answer = false;
    while receives < 3 || !has_answer {
        let done = world.done(&mut target);
        assert!(done.is_flushed(), "{done:?}");
        match done {
            QueueDone::Failed { what: Work::Receive, buffer: Some(_), .. } => receives += 1,
            QueueDone::Failed { what: Work::Answer, buffer: Some(_), .. } => has_answer = true,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(target.pool.lent(), Bytes::ZERO, "every buffer came back");
    // The end whose memory was misused: the device may say more than that the connection has ended.
    comes!(world, initiator, QueueDone::Failed { what: Work::Receive, .. });
    world.part(target, initiator);
}

fn a_key_that_cannot_be_invalidated_is_an_error(world: &mut World) {
    let (mut target, mut initiator) = world.connection(1);
    let to = initiator.open_buffer(PAGE, 1);
    initiator.queue.post_receive(None).expect("room");
    // User space has no memory regions whose keys a message may invalidate, only memory windows, which nothing here makes. So this
    // shows only that the device is asked to.
    target.queue.answer(None, &[2; 16], Some(to.key)).expect("room");
    let done = world.done(&mut initiator);
    let QueueDone::Failed { what: Work::Receive, reason, .. } = done else { panic!("{done:?}") };
    println!("    the device says: {reason}");
    world.part(target, initiator);
}

fn a_message_that_is_too_long_is_an_error(world: &mut World) {
    let (mut target, mut initiator) = world.connection(0);
    target.queue.post_receive(None).expect("room");
    let data = initiator.buffer(PAGE, 1);
    initiator.queue.send_capsule(4, &[4; 64], Some((data, 8))).expect("room");
    let done = world.done(&mut target);
    assert!(!done.is_flushed() && matches!(done, QueueDone::Failed { what: Work::Receive, .. }), "{done:?}");
    let done = world.done(&mut initiator);
    let has_failed =
        matches!(done, QueueDone::Failed { what: Work::Capsule, tag: Some(4), buffer: Some(_), .. });
    assert!(has_failed, "{done:?}");
    drop(done);
    world.part(target, initiator);
}

fn more_than_there_is_room_for_is_refused(world: &mut World) {
    let (mut target, mut initiator) = world.connection(TARGET.receives as usize);
    let buffer = target.buffer(PAGE, 0);
    assert_eq!(target.queue.receives_free(), 0);
    assert!(is_full(target.queue.post_receive(Some(buffer)), true));
    assert!(is_full(target.queue.send_capsule(1, &[0; 64], None), false), "a target has none");
    for tag in 0..INITIATOR.capsules {
        initiator.queue.send_capsule(tag, &[0; 64], None).expect("room");
    }
    assert_eq!(initiator.queue.capsules_free(), 0);
    let data = initiator.buffer(PAGE, 0);
    assert!(is_full(initiator.queue.send_capsule(9, &[0; 64], Some((data, 1))), true));
    for _ in 0..INITIATOR.capsules {
        comes!(world, initiator, QueueDone::Sent { .. });
        comes!(world, target, QueueDone::Received { .. });
    }
    // The initiator has posted no receive, so the answers stay.
    let to = initiator.open_buffer(PAGE, 1);
    for left in (0..TARGET.sends as usize).rev().step_by(2) {
        let buffer = target.buffer(PAGE, 2);
        let data = AnswerData { buffer, held: 1, length: 1, to };
        target.queue.answer(Some(data), &[0; 16], None).expect("room");
        assert_eq!(target.queue.room() + 1, left);
    }
    assert!(is_full(target.queue.answer(None, &[0; 16], None), false));
    let buffer = target.buffer(PAGE, 2);
    assert!(is_full(target.queue.read(1, buffer, 1, to), true));
    let buffer = target.buffer(PAGE, 2);
    let data = AnswerData { buffer, held: 2, length: 1, to };
    assert!(target.queue.answer(Some(data), &[0; 16], None).is_err(), "more than asked for");
    world.part(target, initiator);
}

fn a_rejection_says_why(world: &mut World) {
    let (queue, _domain) = world.attempt(world.listener.local_addr());
    world.request().reject(&REJECTED).expect("rejects");
    match world.event() {
        CmEvent::Rejected { id, status: 28, private_data } => {
            assert_eq!(id, queue.number());
            assert!(private_data.starts_with(&REJECTED), "{private_data:x?}");
        }
        other => panic!("{other:?}"),
    }
    // Forgotten, or opened and dropped: rejected as well.
    for is_opened in [false, true] {
        let (queue, domain) = world.attempt(world.listener.local_addr());
        let request = world.request();
        if is_opened {
            drop(request.open(&domain, &TARGET).expect("a queue"));
        } else {
            drop(request);
        }
        let event = world.event();
        assert!(matches!(event, CmEvent::Rejected { id, .. } if id == queue.number()), "{event:?}");
    }
    // Opened on too much: the request comes back.
    let (queue, domain) = world.attempt(world.listener.local_addr());
    let too_much = QueueOptions { sends: domain.limits().entries + 1, ..TARGET };
    let (error, request) = world.request().open(&domain, &too_much).expect_err("too much");
    println!("    too much: {error}");
    request.reject(&REJECTED).expect("rejects");
    let event = world.event();
    assert!(matches!(event, CmEvent::Rejected { id, status: 28, .. } if id == queue.number()), "{event:?}");
    // Nobody listens.
    let mut nowhere = world.listener.local_addr();
    nowhere.set_port(9);
    let (queue, _domain) = world.attempt(nowhere);
    let event = world.event();
    assert!(matches!(event, CmEvent::Rejected { id, status: 8, .. } if id == queue.number()), "{event:?}");
}

fn disconnecting_flushes_all_work(world: &mut World) {
    let (mut target, mut initiator) = world.connection(3);
    initiator.queue.post_receive(None).expect("room");
    initiator.queue.disconnect();
    expect_flushed(world, &mut initiator, 1);
    let ids = [target.queue.number(), initiator.queue.number()];
    let event = world.event();
    assert!(matches!(event, CmEvent::Disconnected(id) if id == ids[0]), "{event:?}");
    target.queue.disconnect();
    expect_flushed(world, &mut target, 3);
    assert_eq!(target.pool.lent(), Bytes::ZERO, "every buffer came back");
    let event = world.event();
    assert!(matches!(event, CmEvent::Disconnected(id) if id == ids[1]), "{event:?}");
    // What is posted after the end may be flushed at once, or (rxe of Linux 6.1) only when the queue is dropped.
    let buffer = target.buffer(PAGE, 0);
    drop(target.queue.post_receive(Some(buffer)));
    world.end(target);
    world.end(initiator);
}

fn dropping_a_queue_returns_every_buffer(world: &mut World) {
    let (mut target, mut initiator) = world.connection(5);
    let to = initiator.open_buffer(PAGE, 1);
    for tag in 0..3 {
        // Without a receive the answers stay; READs after them wait.
        let buffer = target.buffer(PAGE, 2);
        let data = AnswerData { buffer, held: PAGE, length: PAGE, to };
        target.queue.answer(Some(data), &[0; 16], None).expect("room");
        let buffer = target.buffer(PAGE, 0);
        target.queue.read(tag, buffer, PAGE, to).expect("room");
    }
    assert_eq!(target.pool.lent(), Bytes(11 * PAGE as u64));
    world.part(target, initiator);
}

fn a_queue_moves_to_another_thread(world: &mut World) {
    let (target, mut initiator) = world.connection(1);
    world.reactor.close(target.token);
    world.ready.remove(&target.token);
    let backend = world.reactor.backend();
    initiator.queue.send_capsule(1, &[1; 64], None).expect("room");
    initiator.queue.post_receive(None).expect("room");
    let (rdma, address) = (world.rdma, world.listener.local_addr().ip());
    let moved = thread::spawn(move || {
        let mut there = World::new(rdma, backend, address);
        let End { queue, domain, pool, done, .. } = target;
        let mut target = End { pool, done, ..End::new(&mut there.reactor, queue, domain) };
        comes!(there, target, QueueDone::Received { header: [1, ..], .. });
        target.queue.answer(None, &[3; 16], None).expect("room");
        comes!(there, target, QueueDone::Sent { .. });
        there.end(target);
    });
    moved.join().expect("the thread's claims hold");
    comes!(world, initiator, QueueDone::Sent { tag: Some(1), .. });
    comes!(world, initiator, QueueDone::Received { header: [3, ..], .. });
    let id = initiator.queue.number();
    let event = world.event_of(id);
    assert!(matches!(event, CmEvent::Disconnected(of) if of == id), "{event:?}");
    world.end(initiator);
}

fn addresses_are_judged(world: &mut World) {
    for deviceless in [Ipv4Addr::LOCALHOST, DEVICELESS] {
        let address = SocketAddr::new(deviceless.into(), 0);
        let error = world.channel.listen(address, 1).expect_err("no device has it");
        assert!(error.to_string().contains("no RDMA device"), "{error}");
    }
    let foreign = SocketAddr::new(FOREIGN.into(), 0);
    let error = world.channel.listen(foreign, 1).expect_err("not an address of this machine");
    assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable, "{error}");
    println!("    a foreign address: {error}");
    let error = world.channel.listen(world.listener.local_addr(), 1).expect_err("in use");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let listener = world.channel.listen(everywhere, 1).expect("listens everywhere");
    assert_ne!(listener.local_addr().port(), 0);
}

fn the_limit_of_locked_memory_is_explained(world: &mut World) {
    let (mut target, initiator) = world.connection(1);
    let mut held = Vec::new();
    let error = loop {
        let mut buffer = target.pool.take(1 << 20).expect("the limit comes before the pool's");
        match target.domain.register(&mut buffer) {
            Ok(_) => held.push(buffer),
            Err(error) => break error,
        }
    };
    println!("  {} registered, then: {error}", target.domain.registered());
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("LimitMEMLOCK="), "{error}");
    drop(held);
    world.part(target, initiator);
}

fn a_removed_device_ends_its_connections(mut world: World) {
    let (target, initiator) = world.connection(3);
    let mut expected =
        HashSet::from([world.listener.number(), target.queue.number(), initiator.queue.number()]);
    let removal = Command::new("rdma").args(["link", "delete", "rxe0"]).spawn();
    let mut removal = removal.expect("the tool is there");
    while !expected.is_empty() {
        match world.event() {
            CmEvent::DeviceRemoved(id) => assert!(expected.remove(&id), "said once"),
            // The other end may be removed first.
            CmEvent::Disconnected(_) => {}
            other => panic!("{other:?}"),
        }
    }
    println!("  all are told that it is removed");
    world.end(target);
    world.end(initiator);
    println!("  nothing of the connections is left");
    let ended = removal.try_wait().expect("our own child");
    assert_eq!(
        ended, None,
        "librdmacm keeps a device open that it has used: it is removed when this process has ended"
    );
}
