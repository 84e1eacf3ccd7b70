//! What share of an SSD each host is told to have: its own if the configuration names it, else a part of its address's.
//!
//! A share belongs to whoever cannot be made up. A named host has the weight that the configuration gives it, or one. All unnamed
//! hosts of one address have a weight of one together, however many names they use. Weights are whole numbers, so all are
//! multiplied by a *scale* that the largest crowd of names at one address can be divided by: 64 names make it 64. It is a power of
//! two, and shrinks only when a quarter of it would do, so that names that come and go change it rarely. Where each address is
//! one host, it is one, and nothing differs from before.
//!
//! Holds: the names of an address together weigh no more than one named host (`an_address_has_one_share_however_many_names_it_uses`
//!        in `tests/bad_peers/strangers.rs`).

use super::Acceptor;
use crate::pipeline::change::Change;
use crate::pipeline::message::ToPipeline;
use crate::quota::Origin;
use crate::tenants::share_of;
use sched::Share;
use std::sync::Arc;

/// The scale shrinks when so many times less would do.
const SHRINK: u32 = 4;

/// The scale after `before` when at most `most` unnamed hosts are at one address.
fn scale_for(before: u32, most: u32) -> u32 {
    let needed = most.max(1).next_power_of_two();
    if needed > before || needed <= before / SHRINK { needed } else { before }
}

impl Acceptor {
    /// The share of `host`.
    pub(super) fn share(&self, host: &str) -> Share {
        let share = share_of(&self.tenants, host);
        let part = match self.registry.origin(host) {
            Some(origin) if !self.quota.is_named(host) => {
                self.scale / (self.quota.hosts_at(origin) as u32).max(1)
            }
            _ => self.scale,
        };
        Share { weight: share.weight.saturating_mul(part.max(1)), ..share }
    }

    /// The number of unnamed hosts at `origin` has changed.
    pub(super) fn weigh(&mut self, origin: Origin) {
        let scale = scale_for(self.scale, self.quota.most_hosts() as u32);
        if scale != self.scale {
            self.scale = scale;
            return self.weigh_all();
        }
        let hosts = self.quota.hosts_of(origin);
        self.tell_shares(&hosts);
    }

    /// Any share may have changed.
    pub(super) fn weigh_all(&mut self) {
        let hosts: Vec<Arc<str>> = self.registry.iter().map(|(host, _)| Arc::clone(host)).collect();
        self.tell_shares(&hosts);
    }

    /// Tells the pipelines those shares that have changed.
    fn tell_shares(&mut self, hosts: &[Arc<str>]) {
        for host in hosts {
            let share = self.share(host);
            if let Some(tenant) = self.registry.tell(host, share) {
                for pipeline in self.pipelines.iter() {
                    pipeline.tell(ToPipeline::Change(Box::new(Change::Share { tenant, share })));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_large_enough_and_changes_rarely() {
        let scales = [1, 2, 3, 5, 64, 33, 17, 16, 5, 4, 2, 1].iter().scan(1, |scale, most| {
            *scale = scale_for(*scale, *most);
            Some(*scale)
        });
        assert_eq!(scales.collect::<Vec<_>>(), [1, 2, 4, 8, 64, 64, 64, 16, 16, 4, 4, 1]);
    }
}
