//! Queue pairs: from an address to a connection, and its work.
//!
//! ```text
//!   address ─► route ─► queue pair, its receives ─► request ─► accepted: the session sends its first command
//!                                                      └─ rejected, with the reason in its private data
//!   session ──poll_work──► receives, capsules          completions ──on_done──► session
//! ```
//!
//! Memory is lent with the keys of one domain per controller, to that controller only: its device may read and write it as long as there is a
//! queue pair.
//!
//! Holds: a queue pair is destroyed before a buffer of its commands leaves the session (`Output::Close` comes before every output with such
//!        a buffer: `a_buffer_is_handed_back_when_its_queue_pair_is_gone`).

use super::{Engine, Slot};
use crate::connection::{Done, Lend};
use crate::fault::Fault;
use crate::options::ControllerOptions;
use nvme::rdma::{Accepted, RdmaHostWork, Rejection, Remote};
use reactor::rdma::{
    Access, CmChannel, CmEvent, CmId, CmNumber, CmStep, Domain, NotPosted, Queue, QueueDone, QueueOptions,
    Rdma, RdmaDevice, Work,
};
use reactor::{Clock, IoBuffer, Reactor, Token};
use std::collections::HashMap;
use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use units::Instant;

/// Reads of this host's memory that a controller may have in flight on a queue: more make none faster.
const READS_MAX: u8 = 16;
/// The reason of the connection manager for a rejection by the target itself, which its private data explains.
const REJECTED_BY_TARGET: i32 = 28;
/// And that for a port where nobody listens.
const REJECTED_BY_NOBODY: i32 = 8;

/// See the module.
pub(super) struct QueuePairs {
    rdma: Rdma,
    channel: CmChannel,
    /// The connection manager's events.
    token: Token,
    pairs: HashMap<CmNumber, Pair>,
    by_token: HashMap<Token, CmNumber>,
    /// Completions of a turn, and what they are for the session; kept for their memory.
    completions: Vec<QueueDone>,
    done: Vec<Done>,
}

/// A queue pair, or an attempt at one, of a connection of a session.
struct Pair {
    slot: usize,
    connection: usize,
    state: State,
}

enum State {
    /// Its address or its route is being resolved.
    Attempt(CmId),
    /// Its queue pair could not be made.
    Failed,
    /// There is a queue pair, and a channel on the reactor for its completions.
    Made(Box<Queue>, Token),
}

/// The memory that one controller may reach.
#[derive(Debug)]
pub(super) struct Lender {
    domain: Domain,
}

impl Lend for Lender {
    fn lend(&self, buffer: &mut IoBuffer) -> io::Result<Remote> {
        let place = self.domain.register(buffer)?.expect("the domain is for both ends");
        Ok(Remote { address: place.address, key: place.key, invalidates: false })
    }
}

impl QueuePairs {
    fn new(reactor: &mut Reactor) -> Result<QueuePairs, Fault> {
        let rdma = Rdma::load().map_err(Fault::NoRdma)?;
        let channel = CmChannel::new(rdma).map_err(of_device)?;
        let token = reactor.add_channel(channel.as_fd()).map_err(of_device)?;
        Ok(QueuePairs {
            rdma,
            channel,
            token,
            pairs: HashMap::new(),
            by_token: HashMap::new(),
            completions: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Begins to connect a connection of a slot. The first one loads the libraries.
    pub(super) fn begin(
        pairs: &mut Option<QueuePairs>,
        reactor: &mut Reactor,
        options: &ControllerOptions,
        (slot, connection): (usize, usize),
    ) -> Result<CmNumber, Fault> {
        let pairs = match pairs {
            Some(pairs) => pairs,
            None => pairs.insert(QueuePairs::new(reactor)?),
        };
        let attempt = pairs.channel.connect(None, options.address, options.connect_timeout);
        let attempt = attempt.map_err(|error| pairs.without_device(unreachable(error)))?;
        let number = attempt.number();
        pairs.pairs.insert(number, Pair { slot, connection, state: State::Attempt(attempt) });
        Ok(number)
    }

    /// The reason why no device leads to an address: if there is none at all, that.
    fn without_device(&self, fault: Fault) -> Fault {
        self.rdma.devices().err().map_or(fault, Fault::NoRdma)
    }
}

impl Engine {
    /// There are events of the connection manager, or completions of a queue pair.
    pub(super) fn on_ready(&mut self, now: Instant, token: Token) {
        let Some(pairs) = &self.pairs else { return };
        if pairs.token == token {
            self.on_manager(now);
        } else if let Some(&number) = pairs.by_token.get(&token) {
            self.on_work(now, number);
        }
    }

    fn on_manager(&mut self, now: Instant) {
        while let Some(pairs) = &self.pairs {
            let (number, result) = match pairs.channel.next_event() {
                Ok(Some(event)) => self.on_manager_event(now, event),
                Ok(None) => match self.reactor.watch_channel(pairs.token) {
                    Ok(()) => return,
                    Err(error) => return self.lose_manager(now, error),
                },
                Err(error) => return self.lose_manager(now, error),
            };
            if let Err(fault) = result {
                self.on_pair_lost(now, number, fault);
            }
        }
    }

    /// The connection manager does not work: every queue pair ends, and the next attempt begins with another one.
    fn lose_manager(&mut self, now: Instant, error: io::Error) {
        let Some(mut pairs) = self.pairs.take() else { return };
        self.reactor.close(pairs.token);
        pairs.by_token.keys().for_each(|token| self.reactor.close(*token));
        let fault = of_device(error);
        let slots: Vec<usize> = pairs.pairs.drain().map(|(_, pair)| pair.slot).collect();
        for slot in slots {
            self.on_slot_lost(now, slot, fault.clone());
        }
    }

    /// Goes on with the connection that an event is about.
    fn on_manager_event(&mut self, now: Instant, event: CmEvent) -> (CmNumber, Result<(), Fault>) {
        match event {
            CmEvent::AddressResolved(number) => (number, self.on_address(number)),
            CmEvent::RouteResolved(number) => (number, self.on_route(number)),
            CmEvent::Accepted { id, private_data } => (id, self.on_accepted(now, id, &private_data)),
            CmEvent::Rejected { id, status, private_data } => (id, Err(rejected(status, &private_data))),
            CmEvent::Failed { id, what, status } => {
                let fault = failed(what, status);
                let pairs = self.pairs.as_ref().filter(|_| what == CmStep::Address);
                (id, Err(pairs.map_or(fault.clone(), |pairs| pairs.without_device(fault))))
            }
            CmEvent::Disconnected(number) | CmEvent::DeviceRemoved(number) => {
                // Answers may have come before.
                self.on_work(now, number);
                (number, Err(Fault::Closed))
            }
            CmEvent::Established(number) => (number, Ok(())),
            // Nobody listens here. Dropping the request rejects it.
            CmEvent::Request(request) => (request.number(), Ok(())),
        }
    }

    fn on_address(&mut self, number: CmNumber) -> Result<(), Fault> {
        let Some(Pair { slot, state: State::Attempt(attempt), .. }) =
            self.pairs.as_mut().and_then(|pairs| pairs.pairs.get_mut(&number))
        else {
            return Ok(());
        };
        let Some(session) = &self.slots[*slot].session else { return Ok(()) };
        attempt.resolve_route(session.options().connect_timeout).map_err(of_device)
    }

    /// Makes the queue pair, and sends the request for its queue.
    fn on_route(&mut self, number: CmNumber) -> Result<(), Fault> {
        let Some(pairs) = &mut self.pairs else { return Ok(()) };
        let Some(pair) = pairs.pairs.get_mut(&number) else { return Ok(()) };
        let Slot { session: Some(session), lender, .. } = &mut self.slots[pair.slot] else { return Ok(()) };
        let Some(open) = session.open_queue(pair.connection) else { return Ok(()) };
        let State::Attempt(attempt) = mem::replace(&mut pair.state, State::Failed) else { return Ok(()) };
        let device = attempt.device().map_err(of_device)?;
        let domain = &lender_of(lender, pairs.rdma, &device).map_err(of_device)?.domain;
        let reads = domain.limits().reads_answered.min(READS_MAX);
        let options = QueueOptions { receives: open.entries, sends: open.entries, capsules: open.entries };
        let mut queue = attempt.open(domain, &options).map_err(of_device)?;
        queue.arm().map_err(of_device)?;
        let token = self.reactor.add_channel(queue.as_fd()).map_err(of_device)?;
        pairs.by_token.insert(token, number);
        pair.state = State::Made(Box::new(queue), token);
        // The receives, before an answer can come.
        self.post(number)?;
        let Some((queue, ..)) = self.pair(number) else { return Ok(()) };
        queue.connect(&open.to_bytes(), reads).map_err(of_device)
    }

    fn on_accepted(&mut self, now: Instant, number: CmNumber, private_data: &[u8]) -> Result<(), Fault> {
        let Some((_, slot, connection)) = self.pair(number) else { return Ok(()) };
        if Accepted::parse(private_data).is_none() {
            return Err(Fault::NotAccepted);
        }
        let Slot { session: Some(session), lender: Some(lender), .. } = &mut self.slots[slot] else {
            return Ok(());
        };
        session.on_connected(now, connection, Some(Arc::clone(lender) as Arc<dyn Lend>));
        self.after_input(now, slot);
        Ok(())
    }

    /// Takes the completions of a queue pair, and gives it more work.
    fn on_work(&mut self, now: Instant, number: CmNumber) {
        let Some(pairs) = &mut self.pairs else { return };
        let Some(Pair { slot, connection, state: State::Made(queue, token) }) = pairs.pairs.get_mut(&number)
        else {
            return;
        };
        let (slot, connection) = (*slot, *connection);
        let mut fault =
            collect(queue, &mut self.reactor, *token, &mut pairs.completions).err().map(of_device);
        pairs.done.extend(pairs.completions.drain(..).filter_map(|completion| match completion {
            QueueDone::Received { header, length, .. } => Some(Done::Answer(header, length)),
            QueueDone::Sent { tag, .. } => tag.map(|tag| Done::Sent(tag as u16)),
            QueueDone::Read { .. } => None,
            QueueDone::Failed { what, status, reason, .. } => {
                let is_flushed = completion.is_flushed();
                // The first reason counts; what was flushed has none.
                if fault.is_none() || (!is_flushed && matches!(fault, Some(Fault::Closed))) {
                    fault = Some(if is_flushed { Fault::Closed } else { broken(what, status, reason) });
                }
                None
            }
        }));
        if let Some(session) = &mut self.slots[slot].session {
            session.on_done(now, connection, &pairs.done);
            if let Some(fault) = fault {
                session.on_closed(now, fault);
            }
        }
        pairs.done.clear();
        self.after_input(now, slot);
        self.flush(number);
    }

    /// Gives a queue pair all work that it has room for.
    pub(super) fn flush(&mut self, number: CmNumber) {
        if let Err(fault) = self.post(number) {
            self.on_pair_lost(Clock.now(), number, fault);
        }
    }

    fn post(&mut self, number: CmNumber) -> Result<(), Fault> {
        let Some(Pair { slot, connection, state: State::Made(queue, _) }) =
            self.pairs.as_mut().and_then(|pairs| pairs.pairs.get_mut(&number))
        else {
            return Ok(());
        };
        let Some(session) = &mut self.slots[*slot].session else { return Ok(()) };
        while let Some(work) = session.poll_work(*connection, queue.capsules_free() > 0)? {
            let posted = match work {
                RdmaHostWork::Receive => queue.post_receive(None),
                RdmaHostWork::Send { tag, command } => queue.send_capsule(u32::from(tag), &command, None),
            };
            posted.map_err(|NotPosted { error, .. }| {
                let what = format!("the RDMA device takes no more work: {error}");
                of_device(io::Error::new(error.kind(), what))
            })?;
        }
        Ok(())
    }

    /// A connection that is made, with its place.
    fn pair(&mut self, number: CmNumber) -> Option<(&mut Queue, usize, usize)> {
        match self.pairs.as_mut()?.pairs.get_mut(&number)? {
            Pair { slot, connection, state: State::Made(queue, _) } => {
                Some((&mut **queue, *slot, *connection))
            }
            Pair { state: State::Attempt(_) | State::Failed, .. } => None,
        }
    }

    fn on_pair_lost(&mut self, now: Instant, number: CmNumber, fault: Fault) {
        let pair = self.pairs.as_ref().and_then(|pairs| pairs.pairs.get(&number));
        if let Some(slot) = pair.map(|pair| pair.slot) {
            self.on_slot_lost(now, slot, fault);
        }
    }

    fn on_slot_lost(&mut self, now: Instant, slot: usize, fault: Fault) {
        if let Some(session) = &mut self.slots[slot].session {
            session.on_closed(now, fault);
            self.after_input(now, slot);
        }
    }

    /// Ends a connection, or an attempt at one. Afterwards the other end reaches none of this host's memory by it.
    pub(super) fn close_pair(&mut self, number: CmNumber) {
        let Some(pairs) = &mut self.pairs else { return };
        let Some(pair) = pairs.pairs.remove(&number) else { return };
        if let State::Made(queue, token) = pair.state {
            pairs.by_token.remove(&token);
            self.reactor.close(token);
            drop(queue);
        }
    }
}

/// The domain of a controller on a device, which is another one if the device was removed and has come back.
fn lender_of<'l>(
    lender: &'l mut Option<Arc<Lender>>,
    rdma: Rdma,
    device: &RdmaDevice,
) -> io::Result<&'l Arc<Lender>> {
    if !lender.as_ref().is_some_and(|lender| lender.domain.is_of(device)) {
        *lender = Some(Arc::new(Lender { domain: Domain::new(rdma, device, Access::Remote)? }));
    }
    Ok(lender.as_ref().expect("just made"))
}

/// Takes all completions, and asks for the next event.
fn collect(
    queue: &mut Queue,
    reactor: &mut Reactor,
    token: Token,
    completions: &mut Vec<QueueDone>,
) -> io::Result<()> {
    queue.arm()?;
    reactor.watch_channel(token)?;
    queue.poll(completions)
}

fn of_device(error: io::Error) -> Fault {
    Fault::Device(Arc::new(error))
}

fn unreachable(error: io::Error) -> Fault {
    Fault::Unreachable(Arc::new(error))
}

/// A rejection, by the target or by its machine.
fn rejected(status: i32, private_data: &[u8]) -> Fault {
    let by_machine = |kind, what| unreachable(io::Error::new(kind, what));
    match (status, Rejection::from_bytes(private_data)) {
        (REJECTED_BY_TARGET, Some(rejection)) => Fault::Rejected(rejection),
        (REJECTED_BY_NOBODY, _) => {
            by_machine(io::ErrorKind::ConnectionRefused, "nobody listens there for RDMA".to_owned())
        }
        (status, _) => by_machine(
            io::ErrorKind::ConnectionRefused,
            format!("the other end rejected the queue pair without a reason of NVMe (status {status})"),
        ),
    }
}

/// A step on the way to a connection that has failed.
fn failed(what: CmStep, status: i32) -> Fault {
    let step = match what {
        CmStep::Address => "no RDMA device of this machine leads to the address (see `rdma link`)",
        CmStep::Route => "no way to the address was found",
        CmStep::Connect => "connecting by RDMA has failed",
        CmStep::Reach => "nobody answers by RDMA",
    };
    // A negative error number, or a reason of the connection manager.
    let reason = if status < 0 {
        io::Error::from_raw_os_error(-status)
    } else {
        io::Error::other(format!("status {status}"))
    };
    unreachable(io::Error::new(reason.kind(), format!("{step}: {reason}")))
}

/// Work that has failed, and the connection with it.
fn broken(what: Work, status: u32, reason: &str) -> Fault {
    let work = match what {
        Work::Receive => "the receive of an answer",
        Work::Capsule | Work::Answer | Work::Read | Work::Write => "the sending of a command",
    };
    Fault::Broken(Arc::new(io::Error::other(format!("{work} failed: {reason} (status {status})"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectError, Nqn};

    fn text(fault: Fault) -> String {
        let name = |text| Nqn::new(text).expect("a name");
        let (subsystem, host) = (name("nqn.test:disk"), name("nqn.test:me"));
        ConnectError { address: ([10, 0, 0, 1], 4420).into(), subsystem, host, tries: 1, fault }.to_string()
    }

    #[test]
    fn a_rejection_says_the_reason_and_what_to_do() {
        let fault = rejected(28, &Rejection::HostSends.to_bytes());
        assert!(!fault.may_pass());
        assert_eq!(
            text(fault),
            "nqn.test:disk at 10.0.0.1:4420: the target rejected the queue pair: the queue's size is not supported; use a \
             smaller queue depth here (gimbal bench: --iodepth), or allow a larger one at the target"
        );
        assert!(rejected(28, &Rejection::NoResources.to_bytes()).may_pass());
        let fault = rejected(8, &[]);
        assert!(fault.may_pass() && text(fault.clone()).contains("nobody listens there for RDMA"), "{fault}");
        assert!(text(rejected(28, &[])).contains("status 28"));
    }

    #[test]
    fn a_step_that_failed_says_which() {
        let fault = failed(CmStep::Address, -19);
        assert!(fault.may_pass());
        assert!(text(fault).contains("no RDMA device of this machine leads to the address"));
        assert!(text(failed(CmStep::Reach, -110)).contains("nobody answers by RDMA"));
    }
}
