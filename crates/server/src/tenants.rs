//! Tenant numbers: which host NQN, or which namespace, is which tenant.
//!
//! All queues of all controllers of one host NQN are one tenant, with the same number on every SSD. So a host gains nothing by opening
//! more connections. The acceptor numbers these tenants when hosts connect, and announces them to every pipeline. IOs in a namespace that is a tenant
//! itself count for the namespace, whichever host sends them. The acceptor numbers such a tenant when the configuration has it, and announces it to the
//! pipeline of its SSD alone.
//!
//! Schedulers keep arrays by tenant number, so numbers are small and dense, and their number is limited. If there are too many hosts, a new
//! one gets the number of the one that has been disconnected for longest. A namespace gives its number back when it is no tenant any more and the last IO that began
//! while it was one has ended.
//!
//! A namespace is known by its subsystem's NQN and its NSID, as the operator writes them and as another target of the same subsystem has them. A UUID would not do: it may be left
//! out, and the one that is derived then comes from these two. The names of hosts and of namespaces are of different types ([`TenantName`]), so a host cannot
//! choose an NQN that makes it a namespace.
//!
//! Holds: a tenant with connections keeps its number (`a_connected_tenant_keeps_its_number`); a namespace keeps its number as long as IOs may count for it
//!        (`a_namespace_gives_its_number_back_when_its_last_io_has_ended`).

use crate::config::TenantConfig;
use crate::mailbox::Mailbox;
use crate::pipeline::message::ToAcceptor;
use crate::quota::Origin;
use sched::Share;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use units::{Instant, Nanos, TenantId};

/// The tenant of the target's own IOs, for example the last flush.
pub(crate) const TARGET: TenantId = TenantId(0);

/// Time that a host counts as being at the address of its oldest connection, after its last connection from there.
pub(crate) const OWN_KEPT: Nanos = Nanos::secs(600);

/// The name of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TenantName {
    /// A host, by its NQN.
    Host(Arc<str>),
    /// A namespace, whichever hosts use it.
    Namespace {
        /// The NQN of its subsystem.
        subsystem: Arc<str>,
        /// Its number.
        nsid: u32,
    },
}

impl TenantName {
    /// A namespace.
    pub fn of_namespace(subsystem: &str, nsid: u32) -> TenantName {
        TenantName::Namespace { subsystem: subsystem.into(), nsid }
    }

    /// The NQN, if it is a host.
    pub fn host(&self) -> Option<&str> {
        match self {
            TenantName::Host(nqn) => Some(nqn),
            TenantName::Namespace { .. } => None,
        }
    }
}

/// For people: a host may choose an NQN that reads like a namespace.
impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantName::Host(nqn) => f.write_str(nqn),
            TenantName::Namespace { subsystem, nsid } => write!(f, "namespace {nsid} of {subsystem}"),
        }
    }
}

/// A namespace that is a tenant, by the configuration.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceTenant {
    /// Its name.
    pub(crate) name: TenantName,
    /// The slot of its SSD's pipeline.
    pub(crate) device: usize,
    /// The promises to it, in real time.
    pub(crate) share: Share,
}

/// All namespaces that are tenants, and those that are not any more.
#[derive(Default)]
pub(crate) struct Numbered {
    /// Their numbers, with whether it was no tenant before.
    pub(crate) tenants: HashMap<TenantName, (TenantId, bool)>,
    /// To be dropped when the last of their IOs has ended.
    pub(crate) left: Vec<Leave>,
}

/// A namespace that is no tenant any more. As long as this exists, IOs may count for it; dropping it gives its number back.
pub(crate) struct Leave {
    name: TenantName,
    acceptor: Mailbox<ToAcceptor>,
}

impl Leave {
    /// That of `name`, told to `acceptor`.
    pub(crate) fn new(name: TenantName, acceptor: Mailbox<ToAcceptor>) -> Leave {
        Leave { name, acceptor }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &TenantName {
        &self.name
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.acceptor.tell(ToAcceptor::TenantLeft(self.name.clone()));
    }
}

/// A namespace that has a number.
struct OfNamespace {
    id: TenantId,
    device: usize,
    /// Whether it is a tenant by the configuration.
    is_tenant: bool,
    /// How often it has ceased to be one, with IOs that may not have ended.
    leaving: usize,
    /// The promises to it, in real time.
    share: Share,
    /// The share that was announced to the pipeline; `None` if the pipeline does not know it.
    announced: Option<Share>,
}

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
    /// Hosts.
    tenants: HashMap<Arc<str>, Entry>,
    /// Most hosts.
    limit: usize,
    namespaces: HashMap<TenantName, OfNamespace>,
    /// Numbers that were given back.
    free: Vec<TenantId>,
    next: u32,
    clock: u64,
}

/// The share of a namespace, for the pipeline of its SSD.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamespaceShare {
    /// The slot of the pipeline.
    pub(crate) device: usize,
    /// Its number.
    pub(crate) id: TenantId,
    /// Its name.
    pub(crate) name: TenantName,
    /// The share.
    pub(crate) share: Share,
    /// Whether the pipeline does not know it yet.
    pub(crate) is_new: bool,
}

/// The outcome of other namespaces being tenants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Renumbered {
    /// They were no tenants before.
    pub(crate) come: HashSet<TenantName>,
    /// They are no tenants any more; [`Registry::left`] follows for each.
    pub(crate) left: Vec<TenantName>,
    /// Slots of pipelines, and the numbers of namespaces that were removed there, have no IOs left, and are on other SSDs now.
    pub(crate) moved: Vec<(usize, TenantId)>,
}

impl Registry {
    /// A registry of at most `limit` tenants at a time.
    pub(crate) fn new(limit: usize) -> Registry {
        let (tenants, namespaces) = (HashMap::new(), HashMap::new());
        Registry { tenants, limit, namespaces, free: Vec::new(), next: TARGET.0 + 1, clock: 0 }
    }

    /// These are all namespaces that are tenants from now on.
    pub(crate) fn set_namespaces(&mut self, now: Vec<NamespaceTenant>) -> Renumbered {
        let mut renumbered = Renumbered::default();
        let wanted: HashMap<TenantName, NamespaceTenant> =
            now.into_iter().map(|tenant| (tenant.name.clone(), tenant)).collect();
        for (name, entry) in &mut self.namespaces {
            if entry.is_tenant && !wanted.contains_key(name) {
                (entry.is_tenant, entry.leaving) = (false, entry.leaving + 1);
                renumbered.left.push(name.clone());
            }
        }
        for (name, NamespaceTenant { device, share, .. }) in wanted {
            if let Some(entry) = self.namespaces.get_mut(&name) {
                if entry.device == device {
                    if !std::mem::replace(&mut entry.is_tenant, true) {
                        renumbered.come.insert(name);
                    }
                    entry.share = share;
                    continue;
                }
                renumbered.moved.push((entry.device, entry.id));
                self.free.push(entry.id);
            }
            let id = self.fresh();
            let entry = OfNamespace { id, device, is_tenant: true, leaving: 0, share, announced: None };
            self.namespaces.insert(name.clone(), entry);
            renumbered.come.insert(name);
        }
        renumbered
    }

    /// The pipeline of a slot has ended, and no IO is left there.
    pub(crate) fn on_device_gone(&mut self, device: usize) {
        let gone = self.namespaces.extract_if(|_, entry| entry.device == device);
        self.free.extend(gone.map(|(_, entry)| entry.id));
    }

    /// The numbers of all namespaces that are tenants.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&TenantName, TenantId)> {
        let tenants = self.namespaces.iter().filter(|(_, entry)| entry.is_tenant);
        tenants.map(|(name, entry)| (name, entry.id))
    }

    /// Notes the shares that are announced to the pipelines, each as `scaled` says. Returns those that have changed.
    pub(crate) fn announce_namespaces(&mut self, scaled: impl Fn(Share) -> Share) -> Vec<NamespaceShare> {
        let mut changed = Vec::new();
        for (name, entry) in self.namespaces.iter_mut().filter(|(_, entry)| entry.is_tenant) {
            let share = scaled(entry.share);
            let before = entry.announced.replace(share);
            if before != Some(share) {
                let (device, id, is_new) = (entry.device, entry.id, before.is_none());
                changed.push(NamespaceShare { device, id, name: name.clone(), share, is_new });
            }
        }
        changed
    }

    /// The last IO that counted for a namespace before it ceased to be a tenant has ended. Returns its number, with the slot of its SSD's pipeline, if it is
    /// given back.
    pub(crate) fn left(&mut self, name: &TenantName) -> Option<(usize, TenantId)> {
        let entry = self.namespaces.get_mut(name)?;
        entry.leaving = entry.leaving.saturating_sub(1);
        if entry.is_tenant || entry.leaving > 0 {
            return None;
        }
        let OfNamespace { id, device, .. } = self.namespaces.remove(name)?;
        self.free.push(id);
        Some((device, id))
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

    /// All known hosts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, TenantId)> {
        self.tenants.iter().map(|(host, entry)| (host, entry.id))
    }

    fn fresh(&mut self) -> TenantId {
        if let Some(id) = self.free.pop() {
            return id;
        }
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
    tenants.iter().find(|tenant| tenant.host == host).map_or(Share::EQUAL, |tenant| tenant.share.to_share())
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

    fn namespace(nsid: u32, device: usize, weight: u32) -> NamespaceTenant {
        let share = Share { weight, ..Share::EQUAL };
        NamespaceTenant { name: TenantName::of_namespace("nqn.s", nsid), device, share }
    }

    #[test]
    fn a_namespace_gives_its_number_back_when_its_last_io_has_ended() {
        let mut registry = Registry::new(4);
        let host = registry.connect(NOW, "namespace 1 of nqn.s", here()).expect("room").id;
        let renumbered = registry.set_namespaces(vec![namespace(1, 0, 1), namespace(2, 0, 3)]);
        assert_eq!((renumbered.come.len(), renumbered.left.len()), (2, 0));
        let ids: HashMap<TenantName, TenantId> =
            registry.namespaces().map(|(name, id)| (name.clone(), id)).collect();
        let [one, two] = [1, 2].map(|nsid| TenantName::of_namespace("nqn.s", nsid));
        assert!(ids[&one] != host && ids[&two] != host && ids[&one] != ids[&two]);
        assert_eq!(registry.announce_namespaces(|share| share).len(), 2);
        assert_eq!(registry.announce_namespaces(|share| share), [], "nothing is different");
        // It ceases to be a tenant twice, and comes back in between.
        assert_eq!(registry.set_namespaces(vec![namespace(2, 0, 3)]).left, std::slice::from_ref(&one));
        assert!(registry.set_namespaces(vec![namespace(1, 0, 1), namespace(2, 0, 3)]).come.contains(&one));
        assert_eq!(registry.set_namespaces(vec![namespace(2, 0, 4)]).left, std::slice::from_ref(&one));
        let changed = registry.announce_namespaces(|share| share);
        assert_eq!((changed.len(), changed[0].is_new, changed[0].share.weight), (1, false, 4));
        assert_eq!(registry.left(&one), None, "IOs of the second time may be under way");
        assert_eq!(registry.left(&one), Some((0, ids[&one])));
        assert_eq!(registry.connect(NOW, "nqn.a", here()).expect("room").id, ids[&one], "it is free");
        // The other was removed and is on another SSD now.
        let renumbered = registry.set_namespaces(vec![namespace(2, 1, 4)]);
        assert_eq!(renumbered.moved, [(0, ids[&two])]);
        assert!(registry.announce_namespaces(|share| share)[0].is_new);
    }
}
