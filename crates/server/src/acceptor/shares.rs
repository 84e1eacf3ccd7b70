//! The share of an SSD that each host has: its own if the configuration names the host, otherwise a part of the share of its address. A namespace that is a
//! tenant has the share of the configuration, whichever hosts use it.
//!
//! A client can invent host NQNs, but not IP addresses. So a named host has the weight of the configuration (or one), and all
//! unnamed hosts of one address have a weight of one together.
//!
//! Weights are whole numbers. So all weights are multiplied by a *scale*, large enough to divide one weight among the unnamed hosts
//! of any address: with 64 hosts at one address it is 64. The scale is a power of two. It shrinks only when a quarter of it is
//! enough, so that hosts that come and go change it rarely. If every address has one host, the scale is one.
//!
//! Holds: the unnamed hosts of an address together weigh no more than one named host
//!        (`an_address_has_one_share_however_many_names_it_uses` in `tests/bad_peers/strangers.rs`).

use super::Acceptor;
use crate::pipeline::change::Change;
use crate::pipeline::message::{Announcement, ToPipeline};
use crate::quota::Origin;
use crate::tenants::{NamespaceShare, share_of};
use sched::Share;
use std::sync::Arc;

/// The scale shrinks when this part of it is enough.
const SHRINK: u32 = 4;

/// The scale that follows `before` when no address has more than `most` unnamed hosts.
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
                self.weight_scale / (self.quota.hosts_at(origin) as u32).max(1)
            }
            _ => self.weight_scale,
        };
        Share { weight: share.weight.saturating_mul(part.max(1)), ..share }
    }

    /// The number of unnamed hosts at `origin` has changed.
    pub(super) fn update_shares_at(&mut self, origin: Origin) {
        let scale = scale_for(self.weight_scale, self.quota.most_hosts() as u32);
        if scale != self.weight_scale {
            self.weight_scale = scale;
            return self.update_all_shares();
        }
        let hosts = self.quota.hosts_of(origin);
        self.send_shares(&hosts);
    }

    /// Any share may have changed.
    pub(super) fn update_all_shares(&mut self) {
        let hosts: Vec<Arc<str>> = self.registry.iter().map(|(host, _)| Arc::clone(host)).collect();
        self.send_shares(&hosts);
        self.send_shares_of_namespaces();
    }

    /// Announces the shares of namespaces that have changed, and of new ones, each to the pipeline of its SSD.
    fn send_shares_of_namespaces(&mut self) {
        let scale = self.weight_scale;
        let scaled = |share: Share| Share { weight: share.weight.saturating_mul(scale), ..share };
        for NamespaceShare { device, id, name, share, is_new } in self.registry.announce_namespaces(scaled) {
            let message = match is_new {
                true => ToPipeline::Tenant(Announcement { id, name, share, is_reused: false }),
                false => ToPipeline::Change(Box::new(Change::Share { tenant: id, share })),
            };
            // A pipeline that has ended has no use for it.
            self.pipelines.post(device, message);
        }
    }

    /// Announces the shares that have changed to the pipelines.
    fn send_shares(&mut self, hosts: &[Arc<str>]) {
        for host in hosts {
            let share = self.share(host);
            if let Some(tenant) = self.registry.announce(host, share) {
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
