//! Gimbal: the switch of one SSD (Min, Liu et al., SIGCOMM 2021).

mod bucket;
mod config;
mod congestion;
mod latency;
mod lists;
mod meter;
mod queue;
mod slots;
mod timers;
mod write_cost;

pub use config::{DeferredDeficit, DeviceConstants, GimbalConfig, Halvings, RateGrowth, WriteCostRule};

use crate::{Backlog, Credit, Done, Fifo, Io, Next, Policy, Share};
use units::{Instant, TenantId};

/// One SSD's Gimbal.
#[derive(Debug)]
pub struct Gimbal {
    config: GimbalConfig,
    queue: Fifo,
}

impl Gimbal {
    /// A switch with nothing queued.
    ///
    /// # Panics
    /// If [`GimbalConfig::check`] finds fault with `config`.
    pub fn new(config: GimbalConfig) -> Gimbal {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        Gimbal { config, queue: Fifo::default() }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &GimbalConfig {
        &self.config
    }
}

impl Policy for Gimbal {
    fn on_arrival(&mut self, now: Instant, io: Io) {
        self.queue.on_arrival(now, io);
    }

    fn next(&mut self, now: Instant) -> Next {
        self.queue.next(now)
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.queue.on_completion(now, done)
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.queue.withdraw(now, tenant, gone);
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.queue.forget(now, tenant);
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        self.queue.set_share(now, tenant, share);
    }

    fn credit(&self, tenant: TenantId) -> Credit {
        self.queue.credit(tenant)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}
