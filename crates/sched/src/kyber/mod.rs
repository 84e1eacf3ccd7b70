//! Kyber: reads and writes have tokens, and a domain that is in time has fewer of them while another is late.
//!
//! ```text
//!   domain     tokens at most   batch   target        an IO needs a token of its domain until it ends; domains take turns by batches,
//!   reads                 256      16     2 ms        and within a domain IOs go in order of arrival
//!   writes                128       8    10 ms
//!   others                 16       1        –
//!
//!   every 100 ms while IOs end:  is the 90th percentile of a domain's latency in the SSD beyond its target?     congestion
//!      if so, or if the 99th percentile of its whole latency is beyond its target, a domain's tokens
//!      become  tokens × (that percentile, in quarters of the target, rounded up) / 4                             at least one
//! ```
//!
//! So a domain that is in time is throttled while the SSD is congested, and one that is late gets more. It disregards
//! tenants, weights and sizes: all reads are one queue.
//!
//! Holds: it is idle only if nothing is queued or every domain with queued IOs has no token left; tokens are at least
//!        one and at most the number in the table; each decision is that of a naive model
//!        (`tests/policies/kyber_naive.rs`).
//! Source: Linux's documentation of the scheduler's targets, and its behaviour in 6.x. Ours: there is one queue, where Linux has one for each hardware
//!         queue; deallocations are among the others (Linux: a domain of their own with a target of 5 s). Left out: merges, and the limit for asynchronous
//!         IOs, because a target's are synchronous. An IO that failed is not measured.

mod latency;

use crate::marks::Marks;
use crate::requests::Requests;
use crate::{Backlog, Credit, Done, Io, IoKind, Next, Order, Outcome, Policy, Share, Ticket};
use latency::{LATE, Latencies};
use units::{Instant, Nanos, TenantId};

/// Reads, writes, others.
const DOMAINS: usize = 3;
const OTHERS: usize = 2;
const BATCHES: [u32; DOMAINS] = [16, 8, 1];
/// Time from the first IO that ends to the next look at the measurements.
const PERIOD: Nanos = Nanos::millis(100);

/// Kyber's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KyberConfig {
    /// Requests of the queue. Never zero.
    pub nr_requests: u32,
    /// IOs that the drive takes at a time. Never zero.
    pub depth: u32,
    /// The most tokens of reads, writes and others. Never zero.
    pub tokens: [u32; DOMAINS],
    /// Latency target of reads.
    pub read_target: Nanos,
    /// Latency target of writes.
    pub write_target: Nanos,
}

impl KyberConfig {
    /// As Linux sets it up for an NVMe drive.
    pub const NVME: KyberConfig = KyberConfig {
        nr_requests: 256,
        depth: 1023,
        tokens: [256, 128, 16],
        read_target: Nanos::millis(2),
        write_target: Nanos::millis(10),
    };
}

/// One SSD's Kyber.
#[derive(Clone, Debug)]
pub struct Kyber {
    config: KyberConfig,
    requests: Requests<DOMAINS>,
    domains: [Domain; DOMAINS],
    /// The domain that has its turn.
    turn: usize,
    /// IOs of its batch so far.
    batched: u32,
    /// The time of the next look at the measurements.
    look: Option<Instant>,
    /// When the IOs in flight got their requests.
    since: Marks<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Domain {
    tokens: u32,
    in_flight: u32,
    /// Latencies in the SSD.
    device: Latencies,
    /// Latencies since the IOs got their requests.
    whole: Latencies,
    asked: Option<Instant>,
    /// The whole latency's 99th percentile, not yet acted upon.
    p99: Option<usize>,
}

impl Default for Kyber {
    fn default() -> Kyber {
        Kyber::new(KyberConfig::NVME)
    }
}

fn domain(kind: IoKind) -> usize {
    match kind {
        IoKind::Read => 0,
        IoKind::Write => 1,
        IoKind::Management => OTHERS,
    }
}

impl Kyber {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If a constant is zero that must not be.
    pub fn new(config: KyberConfig) -> Kyber {
        assert!(
            config.depth > 0 && config.tokens.iter().all(|&tokens| tokens > 0),
            "{config:?} lets nothing through"
        );
        let domain = |tokens| Domain {
            tokens,
            in_flight: 0,
            device: Latencies::default(),
            whole: Latencies::default(),
            asked: None,
            p99: None,
        };
        Kyber {
            config,
            requests: Requests::new(config.nr_requests),
            domains: config.tokens.map(domain),
            turn: 0,
            batched: 0,
            look: None,
            since: Marks::default(),
        }
    }

    /// The tokens of reads, writes and others.
    pub fn tokens(&self) -> [u32; DOMAINS] {
        self.domains.map(|domain| domain.tokens)
    }

    /// Looks at the measurements, if it is time.
    fn advance(&mut self, now: Instant) {
        let Some(look) = self.look.take_if(|look| *look <= now) else { return };
        let measured = &mut self.domains[..OTHERS];
        let mut is_congested = false;
        for domain in measured.iter_mut() {
            let p90 = domain.device.percentile(look, 90, &mut domain.asked);
            is_congested |= p90.is_some_and(|bucket| bucket >= LATE);
        }
        for (domain, most) in measured.iter_mut().zip(self.config.tokens) {
            let found = domain.whole.percentile(look, 99, &mut domain.asked);
            let p99 = found.or(domain.p99.filter(|_| is_congested));
            if is_congested {
                domain.p99 = None;
            } else if found.is_some() {
                domain.p99 = found;
            }
            if let Some(p99) = p99.filter(|&p99| is_congested || p99 >= LATE) {
                let tokens = u64::from(domain.tokens) * (p99 as u64 + 1) / LATE as u64;
                domain.tokens = tokens.clamp(1, u64::from(most)) as u32;
            }
        }
    }

    /// Whether a domain has something that may go.
    fn is_ready(&self, domain: usize) -> bool {
        let Domain { tokens, in_flight, .. } = self.domains[domain];
        in_flight < tokens && !self.requests.is_empty(domain)
    }

    fn submit(&mut self) -> Io {
        self.batched += 1;
        self.domains[self.turn].in_flight += 1;
        let request = self.requests.first(self.turn).expect("the domain has something");
        let io = self.requests.submit(request.tenant, self.turn);
        Io { mark: self.since.note(request.since), ..io }
    }
}

impl Policy for Kyber {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.advance(now);
        self.requests.on_arrival(now, io, domain(io.kind))
    }

    fn next(&mut self, now: Instant) -> Next {
        self.advance(now);
        if self.requests.in_flight() >= self.config.depth as usize {
            return Next::Idle;
        }
        if self.batched < BATCHES[self.turn] && self.is_ready(self.turn) {
            return Next::Submit(self.submit());
        }
        let others = (1..=DOMAINS).map(|step| (self.turn + step) % DOMAINS);
        if let Some(turn) = others.into_iter().find(|&domain| self.is_ready(domain)) {
            (self.turn, self.batched) = (turn, 0);
            return Next::Submit(self.submit());
        }
        self.batched = 0;
        // A look may bring tokens.
        let waits = (0..DOMAINS).any(|domain| !self.requests.is_empty(domain));
        self.look.filter(|_| waits).map_or(Next::Idle, Next::WakeAt)
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.advance(now);
        let since = self.since.take(done.io.mark);
        let index = domain(done.io.kind);
        let domain = &mut self.domains[index];
        domain.in_flight -= 1;
        if index != OTHERS
            && let Outcome::Success { latency } = done.outcome
        {
            let target = if index == 0 { self.config.read_target } else { self.config.write_target };
            domain.device.add(latency, target);
            domain.whole.add(now.since(since), target);
            self.look = Some(self.look.unwrap_or(now + PERIOD));
        }
        self.requests.on_end(now, &done);
        Credit(u32::MAX)
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.requests.withdraw_one(now, tenant, ticket)
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.requests.withdraw(now, tenant, gone);
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.requests.forget(tenant);
    }

    fn set_share(&mut self, _now: Instant, _tenant: TenantId, _share: Share) {}

    fn order(&self) -> Order {
        Order::Kind
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.requests.backlog()
    }
}
