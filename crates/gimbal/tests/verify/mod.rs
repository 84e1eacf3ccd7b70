//! A workload that knows what every block may contain, also after kills, stops and reloads of the target.
//!
//! ```text
//!   Verifier ── Engine (our own initiator, which reconnects) ══ target, which is killed, stopped, reloaded
//!      └── Model per tenant: the versions that each block may have
//! ```
//!
//! Everything is drawn from a seed. The order in which IOs end depends on the machine, so a run does not replay exactly. Its checks
//! hold for every order.

// Each test binary uses a part of this.
#![allow(dead_code)]

mod block;
mod model;

use host::{
    Backend, Backoff, Class, Completion, ControllerId, ControllerOptions, Engine, Event, HostId, IoBuffer,
    IoError, Nqn, Operation, Request, RetryPolicy,
};
use model::{Model, Version};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use units::{Bytes, Lba, Nanos};

pub(crate) use block::BLOCK;

/// Blocks that each tenant uses.
const BLOCKS: u64 = 2048;
/// Blocks of the longest IO.
const LENGTH_MAX: u64 = 8;
/// Outstanding IOs of each tenant.
const DEPTH: usize = 24;
/// One in this many IOs is a flush.
const FLUSH_EVERY: u32 = 40;
/// Memory for all outstanding IOs.
const MEMORY: Bytes = Bytes::mib(64);

/// Counts of events so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    /// IOs that ended without a response, because their connection was lost too often.
    pub(crate) lost: u64,
    /// Blocks read back by complete checks, over all checks.
    pub(crate) swept: u64,
    /// Writes that were acknowledged, not flushed, and lost with the target.
    pub(crate) unflushed_and_gone: u64,
    /// Time from each loss of a connection to the next response of the target, longest last.
    pub(crate) reconnects: Vec<Duration>,
}

impl Figures {
    /// Number of IOs with a response.
    pub(crate) fn ios(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }
}

/// One host, and its model of its blocks.
struct Tenant {
    controller: ControllerId,
    nsid: u32,
    first: u64,
    model: Model,
    /// Outstanding IOs.
    under_way: usize,
    /// Time when its connection was lost; set until the next response of the target.
    lost_at: Option<Instant>,
    /// Whether the host has noticed the loss. Before that, responses that were already sent still arrive.
    has_noticed: bool,
    is_ready: bool,
}

/// An outstanding IO.
struct Asked {
    tenant: usize,
    /// The first block, in the numbering of the model.
    block: u64,
    kind: Kind,
}

enum Kind {
    Read(model::Reading),
    Write(Vec<Version>),
    Flush(model::Flushing),
}

/// The workload of all tenants; see the module.
pub(crate) struct Verifier {
    engine: Engine,
    tenants: Vec<Tenant>,
    asked: HashMap<u64, Asked>,
    next_tag: u64,
    random: Xoshiro256PlusPlus,
    seed: u64,
    figures: Figures,
}

impl Verifier {
    /// `tenants` hosts, each with its own `BLOCKS` blocks in namespace 1 of `subsystem`; all blocks are zero.
    pub(crate) fn connect(
        address: SocketAddr,
        subsystem: &str,
        seed: u64,
        tenants: u64,
        retry: RetryPolicy,
    ) -> Verifier {
        let mut engine = Engine::new(Backend::Auto, MEMORY).expect("an engine");
        let tenants = (0..tenants).map(|number| {
            let options = ControllerOptions {
                io_queues: 2,
                queue_depth: 64,
                retry,
                backoff: Backoff { first: Nanos::millis(4), longest: Nanos::millis(100), tries_max: None },
                seed: seed ^ number,
                ..ControllerOptions::new(
                    address,
                    Nqn::new(subsystem).expect("a name"),
                    Nqn::new(&host_nqn(number)).expect("a name"),
                    HostId([number as u8 + 1; 16]),
                )
            };
            let controller = engine.connect(options);
            let model = Model::new(BLOCKS);
            let (nsid, first) = (1, number * BLOCKS);
            Tenant {
                controller,
                nsid,
                first,
                model,
                under_way: 0,
                lost_at: None,
                has_noticed: false,
                is_ready: false,
            }
        });
        let tenants = tenants.collect();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (asked, figures) = (HashMap::new(), Figures::default());
        let mut verifier = Verifier { engine, tenants, asked, next_tag: 0, random, seed, figures };
        while !verifier.tenants.iter().all(|tenant| tenant.is_ready) {
            verifier.turn();
        }
        verifier
    }

    /// Continues until this many more IOs have a response.
    pub(crate) fn run(&mut self, ios: u64) {
        let until = self.figures.ios() + ios;
        while self.figures.ios() < until {
            self.submit_all();
            self.turn();
        }
    }

    /// Waits until all outstanding IOs have ended.
    pub(crate) fn settle(&mut self) {
        while !self.asked.is_empty() {
            self.turn();
        }
    }

    /// Waits for all outstanding IOs, and reads every block.
    pub(crate) fn sweep(&mut self) {
        self.settle();
        for tenant in 0..self.tenants.len() {
            for block in (0..BLOCKS).step_by(LENGTH_MAX as usize) {
                while self.tenants[tenant].under_way >= DEPTH || !self.tenants[tenant].is_ready {
                    self.turn();
                }
                self.submit_read(tenant, block, LENGTH_MAX, Class::Normal);
                self.figures.swept += LENGTH_MAX;
            }
        }
        self.settle();
    }

    /// Announces that the connections will be lost, and the unflushed data with them.
    pub(crate) fn expect_loss(&mut self) {
        for tenant in &mut self.tenants {
            (tenant.lost_at, tenant.has_noticed) = (Some(Instant::now()), false);
            tenant.model.on_crash();
        }
    }

    /// A random number for a decision of the test, such as when to kill.
    pub(crate) fn draw(&mut self, range: std::ops::Range<u64>) -> u64 {
        self.random.random_range(range)
    }

    pub(crate) fn figures(&self) -> Figures {
        let mut figures = self.figures.clone();
        figures.unflushed_and_gone =
            self.tenants.iter().map(|tenant| tenant.model.unflushed_and_gone()).sum();
        figures.reconnects.sort_unstable();
        figures
    }

    fn submit_all(&mut self) {
        for tenant in 0..self.tenants.len() {
            while self.tenants[tenant].is_ready && self.tenants[tenant].under_way < DEPTH {
                let blocks = self.random.random_range(1..=LENGTH_MAX);
                let block = self.random.random_range(0..=BLOCKS - blocks);
                let class = Class::ALL[self.random.random_range(0..Class::ALL.len())];
                if self.random.random_range(0..FLUSH_EVERY) == 0 {
                    let flushing = self.tenants[tenant].model.on_flush_submitted();
                    self.submit(tenant, (0, 0), Operation::Flush, None, Kind::Flush(flushing), class);
                } else if self.random.random_bool(0.5) {
                    self.submit_read(tenant, block, blocks, class);
                } else if !self.submit_write(tenant, block, blocks, class) {
                    // Another write to these blocks is outstanding.
                    break;
                }
            }
        }
    }

    fn submit_read(&mut self, tenant: usize, block: u64, blocks: u64, class: Class) {
        let reading = self.tenants[tenant].model.on_read_submitted(block, blocks);
        let buffer = self.buffer(tenant, blocks);
        self.submit(tenant, (block, blocks), Operation::Read, Some(buffer), Kind::Read(reading), class);
    }

    fn submit_write(&mut self, tenant: usize, block: u64, blocks: u64, class: Class) -> bool {
        let Some(versions) = self.tenants[tenant].model.on_write_submitted(block, blocks) else {
            return false;
        };
        let mut buffer = self.buffer(tenant, blocks);
        let first = self.tenants[tenant].first + block;
        for ((bytes, version), lba) in buffer.chunks_exact_mut(BLOCK).zip(&versions).zip(first..) {
            block::fill(bytes, self.seed, lba, *version);
        }
        let durable = self.random.random_range(0..20) == 0;
        let operation = Operation::Write { durable };
        self.submit(tenant, (block, blocks), operation, Some(buffer), Kind::Write(versions), class);
        true
    }

    fn buffer(&mut self, tenant: usize, blocks: u64) -> IoBuffer {
        let controller = self.tenants[tenant].controller;
        self.engine
            .take_buffer(controller, blocks as usize * BLOCK)
            .expect("the depth bounds what is under way")
    }

    fn submit(
        &mut self,
        tenant: usize,
        (block, blocks): (u64, u64),
        operation: Operation,
        buffer: Option<IoBuffer>,
        kind: Kind,
        class: Class,
    ) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let Tenant { controller, nsid, first, under_way, .. } = &mut self.tenants[tenant];
        let lba = if blocks == 0 { Lba(0) } else { Lba(*first + block) };
        let mut request = Request::new(tag, *nsid, operation, lba, blocks as u32);
        request.buffer = buffer;
        request.class = class;
        *under_way += 1;
        self.engine.submit(*controller, request).unwrap_or_else(|refused| panic!("{}", refused.why));
        self.asked.insert(tag, Asked { tenant, block, kind });
    }

    /// Waits for events and handles them.
    fn turn(&mut self) {
        self.engine.wait(None).expect("the engine works");
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Completed { completion, .. } => self.on_completed(completion),
                Event::Ready { controller, .. } => self.tenant_of(controller).is_ready = true,
                Event::Down { controller, .. } => {
                    let tenant = self.tenant_of(controller);
                    (tenant.is_ready, tenant.has_noticed) = (false, true);
                    tenant.lost_at.get_or_insert_with(Instant::now);
                }
                Event::GaveUp { error, .. } => panic!("seed {}: {error}", self.seed),
                Event::NamespacesChanged { .. } => {}
                other => panic!("seed {}: {other:?}", self.seed),
            }
        }
    }

    fn tenant_of(&mut self, controller: ControllerId) -> &mut Tenant {
        let found = self.tenants.iter_mut().find(|tenant| tenant.controller == controller);
        found.expect("the engine names controllers of ours")
    }

    fn on_completed(&mut self, completion: Completion) {
        let Completion { tag, result, buffer, .. } = completion;
        let Asked { tenant: number, block, kind } =
            self.asked.remove(&tag).expect("every IO ends exactly once");
        let tenant = &mut self.tenants[number];
        tenant.under_way -= 1;
        match result {
            Ok(()) => {
                if let Some(lost_at) = tenant.lost_at.take_if(|_| tenant.is_ready && tenant.has_noticed) {
                    self.figures.reconnects.push(lost_at.elapsed());
                }
            }
            Err(IoError::ConnectionLost) => self.figures.lost += 1,
            Err(error) => panic!("seed {}: tenant {number}, block {block}: {error}", self.seed),
        }
        let is_answered = result.is_ok();
        match kind {
            Kind::Write(versions) => {
                tenant.model.on_write_ended(block, &versions, is_answered);
                self.figures.writes += u64::from(is_answered);
            }
            Kind::Flush(flushing) => {
                if is_answered {
                    tenant.model.on_flushed(flushing);
                    self.figures.flushes += 1;
                }
            }
            Kind::Read(reading) => {
                let buffer = buffer.expect("a read returns its buffer");
                let found = is_answered.then(|| {
                    let lbas = tenant.first + block..;
                    let read = |(bytes, lba)| block::read(bytes, self.seed, lba);
                    let versions: Result<Vec<Version>, String> =
                        buffer.chunks_exact(BLOCK).zip(lbas).map(read).collect();
                    versions.unwrap_or_else(|wrong| panic!("seed {}: tenant {number}: {wrong}", self.seed))
                });
                if let Err(wrong) = tenant.model.on_read_ended(reading, found.as_deref()) {
                    panic!("seed {}: tenant {number}: {wrong}", self.seed);
                }
                self.figures.reads += u64::from(is_answered);
                self.engine.give_buffer(buffer);
            }
        }
    }
}

/// The name of a tenant.
pub(crate) fn host_nqn(number: u64) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-{number:012}")
}
