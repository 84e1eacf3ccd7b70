//! A host: the resources that its tenants share. The link to the switch, the window, and the order of IOs within the
//! window.
//!
//! With credits, every tenant has its own host. With PARDA, tenants that name the same host are VMs on it: they share
//! one window, and the host's own fair queue decides which VM sends next.

use crate::network::Link;
use crate::results::{WindowPoint, Windows};
use crate::world::{ClientChoice, TenantSpec};
use sched::{ClientWindow, Credit, CreditWindow, LatencySample, LocalQueue, PardaWindow, VmShares};
use std::collections::BTreeMap;
use units::{Instant, Nanos, TenantId};

pub(crate) struct Host {
    pub(crate) to_switch: Link,
    pub(crate) from_switch: Link,
    window: ClientWindow,
    takes_credit: bool,
    queue: LocalQueue,
    /// Used only by PARDA.
    shares: VmShares,
    vms: Vec<TenantId>,
    points: Vec<WindowPoint>,
}

/// The host of a tenant, and its index among the VMs of that host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) vm: usize,
}

/// The hosts of all tenants, and the place of each tenant. `credit` is the initial credit of a tenant.
pub(crate) fn hosts(
    choice: &ClientChoice,
    tenants: &[TenantSpec],
    credit: impl Fn(TenantId) -> Credit,
) -> (Vec<Host>, Vec<Place>) {
    let mut members: Vec<Vec<TenantId>> = Vec::new();
    let mut named: BTreeMap<u32, usize> = BTreeMap::new();
    let mut places = Vec::with_capacity(tenants.len());
    for (index, spec) in tenants.iter().enumerate() {
        let shared = match choice {
            ClientChoice::Parda { .. } if spec.obeys_credit => spec.host,
            _ => None,
        };
        let own = members.len();
        let host = shared.map_or(own, |name| *named.entry(name).or_insert(own));
        if host == own {
            members.push(Vec::new());
        }
        places.push(Place { host, vm: members[host].len() });
        members[host].push(TenantId(index as u32));
    }
    let host = |vms: Vec<TenantId>| {
        let first = &tenants[vms[0].index()];
        let window = match choice {
            _ if !first.obeys_credit => ClientWindow::Credits(CreditWindow::new(Credit(u32::MAX))),
            ClientChoice::Credits => ClientWindow::Credits(CreditWindow::new(credit(vms[0]))),
            ClientChoice::Parda { config, .. } => ClientWindow::Parda(PardaWindow::new(*config)),
        };
        Host::new(vms, tenants, window, first.obeys_credit)
    };
    (members.into_iter().map(host).collect(), places)
}

impl Host {
    fn new(vms: Vec<TenantId>, tenants: &[TenantSpec], window: ClientWindow, takes_credit: bool) -> Host {
        let shares: Vec<u32> = vms.iter().map(|vm| tenants[vm.index()].share.weight).collect();
        Host {
            to_switch: Link::default(),
            from_switch: Link::default(),
            window,
            takes_credit,
            queue: LocalQueue::new(&shares),
            shares: VmShares::new(Instant::ZERO, &shares),
            vms,
            points: Vec::new(),
        }
    }

    /// The application of a VM requests one more IO.
    pub(crate) fn on_ask(&mut self, now: Instant, vm: usize) {
        self.queue.push(vm);
        self.shares.on_ask(now, vm);
    }

    /// The tenant that sends the next IO, if one waits and the window has room.
    pub(crate) fn next(&mut self) -> Option<TenantId> {
        if self.queue.is_empty() || !self.window.try_submit() {
            return None;
        }
        self.queue.pop().map(|vm| self.vms[vm])
    }

    /// A completion arrived, with its credit.
    pub(crate) fn on_answer(&mut self, now: Instant, vm: usize, credit: Credit, latency: Nanos) {
        _ = self.window.on_completion(self.takes_credit.then_some(credit), Some(latency));
        self.shares.on_end(now, vm);
    }

    /// The latencies since the last call; empty if the host does not use PARDA.
    pub(crate) fn publish(&mut self) -> LatencySample {
        self.window.parda().map(PardaWindow::publish).unwrap_or_default()
    }

    /// The end of a period in which the hosts saw `aggregate`.
    pub(crate) fn on_period(&mut self, now: Instant, aggregate: LatencySample) {
        let Some(parda) = self.window.parda() else { return };
        let beta = self.shares.on_period(now, parda.window(), parda.config().beta_per_share);
        parda.on_period(aggregate, beta);
        self.points.push(WindowPoint { at: now, window: parda.window(), latency: parda.latency(), beta });
    }

    /// The window over time.
    pub(crate) fn into_windows(self) -> Windows {
        Windows { tenants: self.vms, points: self.points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Pattern, Workload};
    use crate::world::LatencyScope;
    use sched::PardaConfig;
    use units::Bytes;

    fn tenants() -> Vec<TenantSpec> {
        let workload = Workload::closed(1, Bytes::kib(4), 100, Pattern::Random);
        let on =
            |host, obeys_credit| TenantSpec { host, obeys_credit, ..TenantSpec::new("vm", workload.clone()) };
        vec![on(Some(7), true), on(None, true), on(Some(7), true), on(Some(7), false)]
    }

    fn places(choice: &ClientChoice) -> Vec<(usize, usize)> {
        let (hosts, places) = hosts(choice, &tenants(), |_| Credit(3));
        assert_eq!(hosts.len(), 1 + places.iter().map(|place| place.host).max().expect("tenants"));
        places.iter().map(|place| (place.host, place.vm)).collect()
    }

    #[test]
    fn with_parda_tenants_of_a_host_share_it_unless_they_ignore_the_window() {
        let config = PardaConfig::new(Nanos::millis(1), Nanos::millis(10));
        let choice = ClientChoice::Parda { config, scope: LatencyScope::AllHosts };
        assert_eq!(places(&choice), [(0, 0), (1, 0), (0, 1), (2, 0)]);
    }

    #[test]
    fn with_credits_every_tenant_is_a_host() {
        assert_eq!(places(&ClientChoice::Credits), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    }
}
