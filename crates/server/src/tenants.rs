//! Tenant numbers: which host NQN is which tenant.
//!
//! All queues of all controllers of one host NQN are one tenant, with the same number on every SSD. So a host gains nothing by opening
//! more connections. The acceptor numbers tenants when hosts connect, and announces them to every pipeline.
//!
//! Schedulers keep arrays by tenant number, so numbers are small and dense, and their number is limited. If there are too many, a new
//! tenant gets the number of the tenant that has been disconnected for longest.
//!
//! Holds: a tenant with connections keeps its number (`a_connected_tenant_keeps_its_number`).

use crate::config::TenantConfig;
use crate::quota::Origin;
use sched::Share;
use std::collections::HashMap;
use std::sync::Arc;
use units::{Instant, Nanos, TenantId};

/// The tenant of the target's own IOs, for example the last flush.
pub(crate) const TARGET: TenantId = TenantId(0);

/// Time that a host counts as being at the address of its oldest connection, after its last connection from there.
pub(crate) const OWN_KEPT: Nanos = Nanos::secs(600);

struct Entry {
    id: TenantId,
    connections: usize,
    /// The same by where they come from.
    by_origin: HashMap<Origin, usize>,
    /// Where the host is taken to be: see [`Registry::own_origin`].
    own: Origin,
    /// When the last connection from there ended; `None` while there is one.
    own_left: Option<Instant>,
    /// When its last connection ended, as a count of such events.
    idle_since: u64,
    /// Where its latest connection came from.
    origin: Origin,
    /// The share that was announced to the pipelines.
    announced: Share,
}

impl Entry {
    /// One more connection, from there.
    fn enter(&mut self, now: Instant, origin: Origin) {
        if self.own_left.is_some_and(|at| now >= at + OWN_KEPT) {
            // The host has moved, or has never been there.
            (self.own, self.own_left) = (origin, None);
        }
        if origin == self.own {
            self.own_left = None;
        }
        self.connections += 1;
        *self.by_origin.entry(origin).or_default() += 1;
        self.origin = origin;
    }

    /// Removes a connection from there.
    fn leave(&mut self, now: Instant, origin: Origin) {
        self.connections -= 1;
        let count = self.by_origin.get_mut(&origin).expect("a connection that ends was opened");
        *count -= 1;
        if *count == 0 {
            self.by_origin.remove(&origin);
            if origin == self.own {
                self.own_left = Some(now);
            }
        }
    }
}

/// The tenant of a new connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Its number.
    pub(crate) id: TenantId,
    /// Its name.
    pub(crate) host: Arc<str>,
    /// Whether the pipelines do not know it yet.
    pub(crate) is_new: bool,
    /// Whether its number belonged to another tenant, which the pipelines must forget first.
    pub(crate) is_reused: bool,
}

/// All tenants.
pub(crate) struct Registry {
    tenants: HashMap<Arc<str>, Entry>,
    limit: usize,
    next: u32,
    clock: u64,
}

impl Registry {
    /// A registry of at most `limit` tenants at a time.
    pub(crate) fn new(limit: usize) -> Registry {
        Registry { tenants: HashMap::new(), limit, next: TARGET.0 + 1, clock: 0 }
    }

    /// A host has opened a connection. `None` if too many tenants have connections.
    pub(crate) fn connect(&mut self, now: Instant, host: &str, origin: Origin) -> Option<Registration> {
        if let Some((name, entry)) = self.tenants.get_key_value(host) {
            let registration =
                Registration { id: entry.id, host: Arc::clone(name), is_new: false, is_reused: false };
            let entry = self.tenants.get_mut(host).expect("found above");
            entry.enter(now, origin);
            return Some(registration);
        }
        let (id, is_reused) =
            if self.tenants.len() < self.limit { (self.fresh(), false) } else { (self.evict()?, true) };
        let name: Arc<str> = host.into();
        let by_origin = HashMap::from([(origin, 1)]);
        let (announced, own, own_left) = (Share::EQUAL, origin, None);
        let entry = Entry { id, connections: 1, by_origin, own, own_left, idle_since: 0, origin, announced };
        self.tenants.insert(Arc::clone(&name), entry);
        Some(Registration { id, host: name, is_new: true, is_reused })
    }

    /// The number of connections of `host`.
    pub(crate) fn connections(&self, host: &str) -> usize {
        self.tenants.get(host).map_or(0, |entry| entry.connections)
    }

    /// Where `host` is taken to be: where its oldest connection came from, until there was none from there for [`OWN_KEPT`]. A host that
    /// resets its controller leaves for a moment; its place must not go to another one with its name meanwhile.
    pub(crate) fn own_origin(&self, now: Instant, host: &str) -> Option<Origin> {
        let entry = self.tenants.get(host)?;
        entry.own_left.is_none_or(|at| now < at + OWN_KEPT).then_some(entry.own)
    }

    /// A host that has left keeps its place for longer.
    pub(crate) fn extend(&mut self, by: Nanos) {
        let left = self.tenants.values_mut().filter_map(|entry| entry.own_left.as_mut());
        left.for_each(|at| *at += by);
    }

    /// The number of connections of `host` that come from `origin`.
    pub(crate) fn connections_from(&self, host: &str, origin: Origin) -> usize {
        self.tenants.get(host).and_then(|entry| entry.by_origin.get(&origin)).copied().unwrap_or(0)
    }

    /// Removes a connection of `host` from `origin`, after the end of its IOs.
    pub(crate) fn disconnect(&mut self, now: Instant, host: &str, origin: Origin) {
        let entry = self.tenants.get_mut(host).expect("a connection that ends was opened");
        entry.leave(now, origin);
        self.clock += 1;
        entry.idle_since = self.clock;
    }

    /// Where the latest connection of `host` came from.
    pub(crate) fn origin(&self, host: &str) -> Option<Origin> {
        self.tenants.get(host).map(|entry| entry.origin)
    }

    /// The share of `host` that the pipelines know.
    pub(crate) fn announced(&self, host: &str) -> Share {
        self.tenants.get(host).map_or(Share::EQUAL, |entry| entry.announced)
    }

    /// Notes the share that is announced to the pipelines. Returns the tenant's number if the share has changed.
    pub(crate) fn announce(&mut self, host: &str, share: Share) -> Option<TenantId> {
        let entry = self.tenants.get_mut(host)?;
        (std::mem::replace(&mut entry.announced, share) != share).then_some(entry.id)
    }

    /// All known tenants.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, TenantId)> {
        self.tenants.iter().map(|(host, entry)| (host, entry.id))
    }

    fn fresh(&mut self) -> TenantId {
        let id = TenantId(self.next);
        self.next += 1;
        id
    }

    fn evict(&mut self) -> Option<TenantId> {
        let idle = self.tenants.iter().filter(|(_, entry)| entry.connections == 0);
        let (name, _) = idle.min_by_key(|(_, entry)| entry.idle_since)?;
        let name = Arc::clone(name);
        self.tenants.remove(&name).map(|entry| entry.id)
    }
}

/// The share that the configuration (`tenants`) gives to `host`, in real time.
pub(crate) fn share_of(tenants: &[TenantConfig], host: &str) -> Share {
    tenants.iter().find(|tenant| tenant.host == host).map_or(Share::EQUAL, |tenant| Share {
        weight: tenant.weight,
        limit_iops: tenant.limit_iops,
        limit_rate: tenant.limit_rate,
        reservation: tenant.reservation,
        slo: tenant.slo,
        ..Share::EQUAL
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn here() -> Origin {
        Origin::of(std::net::Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn all_connections_of_a_host_are_one_tenant() {
        let mut registry = Registry::new(4);
        let first = registry.connect(NOW, "nqn.a", here()).expect("room");
        assert!(first.is_new && !first.is_reused);
        let second = registry.connect(NOW, "nqn.a", here()).expect("room");
        assert_eq!((second.id, second.is_new), (first.id, false));
        assert_ne!(registry.connect(NOW, "nqn.b", here()).expect("room").id, first.id);
        assert_ne!(first.id, TARGET);
    }

    #[test]
    fn a_connected_tenant_keeps_its_number() {
        let mut registry = Registry::new(2);
        let a = registry.connect(NOW, "nqn.a", here()).expect("room");
        let b = registry.connect(NOW, "nqn.b", here()).expect("room");
        assert_eq!(registry.connect(NOW, "nqn.c", here()), None, "both are connected");
        registry.disconnect(NOW, "nqn.b", here());
        let c = registry.connect(NOW, "nqn.c", here()).expect("b is gone");
        assert_eq!((c.id, c.is_new, c.is_reused), (b.id, true, true));
        assert_eq!(registry.connect(NOW, "nqn.a", here()).expect("still there").id, a.id);
    }

    #[test]
    fn the_tenant_that_is_disconnected_longest_loses_its_number() {
        let mut registry = Registry::new(3);
        let ids =
            ["nqn.a", "nqn.b", "nqn.c"].map(|host| registry.connect(NOW, host, here()).expect("room").id);
        for host in ["nqn.b", "nqn.a", "nqn.c"] {
            registry.disconnect(NOW, host, here());
        }
        registry.connect(NOW, "nqn.b", here()).expect("back again");
        assert_eq!(registry.connect(NOW, "nqn.d", here()).expect("a loses its number").id, ids[0]);
    }

    #[test]
    fn a_host_is_where_its_oldest_connection_came_from_and_stays_there_while_it_is_away_for_a_moment() {
        let there = Origin::of(std::net::Ipv4Addr::new(10, 0, 0, 2).into());
        let mut registry = Registry::new(2);
        registry.connect(NOW, "nqn.a", here()).expect("room");
        registry.connect(NOW, "nqn.a", there).expect("room");
        assert_eq!(registry.own_origin(NOW, "nqn.a"), Some(here()));
        registry.disconnect(NOW, "nqn.a", here());
        registry.connect(NOW, "nqn.a", there).expect("room");
        assert_eq!(registry.own_origin(NOW, "nqn.a"), Some(here()), "it is expected back");
        assert_eq!(
            (registry.connections_from("nqn.a", here()), registry.connections_from("nqn.a", there)),
            (0, 2)
        );
        let later = NOW + OWN_KEPT;
        assert_eq!(registry.own_origin(later, "nqn.a"), None, "it was away for too long");
        registry.connect(later, "nqn.a", there).expect("room");
        assert_eq!(registry.own_origin(later, "nqn.a"), Some(there));
    }
}
