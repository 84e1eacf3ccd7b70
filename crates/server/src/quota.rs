//! Limits for the connections of a host, and of an address; and for the hosts of an address.
//!
//! A client can invent a new host NQN for every connection. It cannot invent IP addresses, because it has to receive the TCP
//! answers. So a connection is charged to its host if the configuration names the host, and to its address otherwise.
//!
//! Connections are granted by the same rule as memory (`account`). A named host has a guaranteed minimum that no other host can use.
//! Of the rest, an address may have up to twice as many as are still free afterwards. The last eighth is reserved for the first few
//! connections of each address, so that a new address gets some, too.
//!
//! An address is the whole IPv4 address, or the first 64 bits of an IPv6 address, because one client usually has all addresses with
//! this prefix.
//!
//! Holds: unnamed hosts never use up the quota (`a_named_host_gets_in_whatever_unnamed_hosts_do`);
//!        an address has a bounded number of unnamed hosts (`an_address_has_a_bounded_number_of_hosts`);
//!        a connection is returned to the account that it was charged to (`a_connection_returns_to_the_account_that_paid`).

use crate::account::{Request, Thresholds};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// The guaranteed minimums of all named hosts together are at most this part (one in two) of all connections.
const FLOORS_PART: u32 = 2;

/// An address that is alone gets two thirds of all connections, and one host seven eighths of these.
const THRESHOLDS: Thresholds = Thresholds { payer: 2, host: 8 };
/// Connections that an address, and a host of it, gets even when others have most: one for the admin queue and a few for IO queues.
const FIRST: u64 = 4;

/// Where connections come from: an IPv4 address, or an IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin(u128);

impl Origin {
    /// The origin of an address.
    pub(crate) fn of(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin(address.to_bits().into()),
            IpAddr::V6(address) => Origin(address.to_bits() >> 64 << 64),
        }
    }
}

/// The account that a connection is charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    /// A host that the configuration names, at this address.
    Host(Arc<str>, Origin),
    /// The address of a host that the configuration does not name.
    Address(Origin),
}

impl Charged {
    /// Where the connection comes from.
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Charged::Host(_, origin) | Charged::Address(origin) => *origin,
        }
    }
}

/// The limits of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaLimits {
    /// Connections in all.
    pub(crate) all: u32,
    /// Connections of the unnamed hosts of one address; `None`: as many as the rule of the module grants.
    pub(crate) per_address: Option<u32>,
    /// Unnamed hosts of one address.
    pub(crate) hosts_per_address: u32,
}

/// The unnamed hosts of an address.
#[derive(Default)]
struct UnnamedHosts {
    held: u32,
    /// The connections of each.
    hosts: HashMap<Arc<str>, u32>,
}

/// The connections of a named host.
#[derive(Clone, Copy, Default)]
struct OfHost {
    held: u32,
    /// Connections that are kept for where the host is, and that it does not have.
    kept: u32,
}

impl OfHost {
    /// The missing part of a guaranteed minimum of `floor`.
    fn promised(self, floor: u32) -> u32 {
        floor.saturating_sub(self.held).max(self.kept.min(floor))
    }
}

/// Counts connections by host and by address.
pub(crate) struct ConnectionQuota {
    limits: QuotaLimits,
    named: Arc<HashSet<String>>,
    held: u32,
    by_host: HashMap<Arc<str>, OfHost>,
    by_address: HashMap<Origin, UnnamedHosts>,
    /// For each number of unnamed hosts: how many addresses have that many.
    hosts_per_origin: BTreeMap<usize, usize>,
}

impl ConnectionQuota {
    /// A quota with no connections.
    pub(crate) fn new(limits: QuotaLimits) -> ConnectionQuota {
        let (by_host, by_address) = (HashMap::new(), HashMap::new());
        ConnectionQuota {
            limits,
            named: Arc::default(),
            held: 0,
            by_host,
            by_address,
            hosts_per_origin: BTreeMap::new(),
        }
    }

    /// Changes the limits, for connections from now on.
    pub(crate) fn set_limits(&mut self, limits: QuotaLimits) {
        self.limits = limits;
    }

    /// Changes the named hosts. Connections that exist stay charged as they are.
    pub(crate) fn set_named(&mut self, named: Arc<HashSet<String>>) {
        self.named = named;
    }

    /// Whether the configuration names `host`.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        self.named.contains(host)
    }

    /// Connections that exist.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Of the connections of a named host, `kept` are for where the host is, and are not in use.
    pub(crate) fn keep(&mut self, host: &str, kept: u32) {
        if let Some(of_host) = self.by_host.get_mut(host) {
            of_host.kept = kept;
        }
    }

    /// Charges one connection of `host` at `address`; of its connections `kept` are kept for where the host is, this one not counted. The
    /// error is the limit that is reached.
    pub(crate) fn acquire(
        &mut self,
        host: &Arc<str>,
        address: IpAddr,
        kept: u32,
    ) -> Result<Charged, &'static str> {
        let free = self.limits.all.saturating_sub(self.held).saturating_sub(self.promised());
        if self.is_named(host) {
            let before = self.by_host.get(host).copied().unwrap_or_default();
            let after = OfHost { held: before.held + 1, kept };
            let floor = self.floor();
            if free == 0 && before.promised(floor) <= after.promised(floor) {
                return Err(match kept {
                    0 => "limits.connections is reached",
                    _ => "limits.connections is reached, except for what is kept for the host's own address",
                });
            }
            self.held += 1;
            self.by_host.insert(Arc::clone(host), after);
            return Ok(Charged::Host(Arc::clone(host), Origin::of(address)));
        }
        let origin = Origin::of(address);
        let strangers = self.by_address.entry(origin).or_default();
        let is_new = !strangers.hosts.contains_key(host);
        let of_host = strangers.hosts.get(host).copied().unwrap_or(0);
        let request = Request {
            thresholds: THRESHOLDS,
            limit: self.limits.all.into(),
            first: FIRST,
            free: free.into(),
            floor_left: 0,
            held: strangers.held.into(),
            held_by_host: Some(of_host.into()),
            size: 1,
        };
        let refusal = match self.limits.per_address {
            _ if free == 0 => Some("limits.connections is reached"),
            _ if is_new && strangers.hosts.len() >= self.limits.hosts_per_address as usize => {
                Some("limits.hosts_per_address is reached")
            }
            Some(limit) => (strangers.held >= limit).then_some("limits.connections_per_address is reached"),
            None => (!request.is_granted()).then_some("its address has its share of limits.connections"),
        };
        if let Some(why) = refusal {
            self.forget(origin);
            return Err(why);
        }
        let before = strangers.hosts.len();
        strangers.held += 1;
        *strangers.hosts.entry(Arc::clone(host)).or_default() += 1;
        let after = strangers.hosts.len();
        self.held += 1;
        self.count_hosts(before, after);
        Ok(Charged::Address(origin))
    }

    /// Returns a connection of `host`.
    pub(crate) fn release(&mut self, host: &Arc<str>, charged: &Charged) {
        self.held -= 1;
        match charged {
            Charged::Host(host, _) => {
                let of_host = self.by_host.get_mut(host).expect("a connection is returned once");
                of_host.held -= 1;
                if of_host.held == 0 {
                    self.by_host.remove(host);
                }
            }
            Charged::Address(origin) => {
                let strangers = self.by_address.get_mut(origin).expect("a connection is returned once");
                let before = strangers.hosts.len();
                strangers.held -= 1;
                take_one(&mut strangers.hosts, host);
                let after = strangers.hosts.len();
                self.count_hosts(before, after);
                self.forget(*origin);
            }
        }
    }

    /// The number of unnamed hosts with connections from `origin`.
    pub(crate) fn hosts_at(&self, origin: Origin) -> usize {
        self.by_address.get(&origin).map_or(0, |strangers| strangers.hosts.len())
    }

    /// The names of the unnamed hosts with connections from `origin`.
    pub(crate) fn hosts_of(&self, origin: Origin) -> Vec<Arc<str>> {
        self.by_address.get(&origin).map_or(Vec::new(), |strangers| strangers.hosts.keys().cloned().collect())
    }

    /// The largest number of unnamed hosts of any address.
    pub(crate) fn most_hosts(&self) -> usize {
        self.hosts_per_origin.last_key_value().map_or(0, |(most, _)| *most)
    }

    /// An address had `before` unnamed hosts and now has `after`.
    fn count_hosts(&mut self, before: usize, after: usize) {
        if before == after {
            return;
        }
        if let Some(addresses) = self.hosts_per_origin.get_mut(&before) {
            *addresses -= 1;
            if *addresses == 0 {
                self.hosts_per_origin.remove(&before);
            }
        }
        if after > 0 {
            *self.hosts_per_origin.entry(after).or_default() += 1;
        }
    }

    /// Removes an address without connections.
    fn forget(&mut self, origin: Origin) {
        if self.by_address.get(&origin).is_some_and(|strangers| strangers.held == 0) {
            self.by_address.remove(&origin);
        }
    }

    /// Connections that each named host is guaranteed.
    fn floor(&self) -> u32 {
        (self.limits.all / FLOORS_PART).checked_div(self.named.len() as u32).unwrap_or(0)
    }

    /// The part of all guarantees that is not in use.
    fn promised(&self) -> u32 {
        let floor = self.floor();
        let held = self.by_host.iter().filter(|(host, _)| self.is_named(host));
        let used = held.map(|(_, of_host)| floor - of_host.promised(floor));
        floor * self.named.len() as u32 - used.sum::<u32>()
    }
}

fn take_one(counts: &mut HashMap<Arc<str>, u32>, host: &Arc<str>) {
    let count = counts.get_mut(host).expect("a connection is returned once");
    *count -= 1;
    if *count == 0 {
        counts.remove(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn quota(all: u32, named: &[&str]) -> ConnectionQuota {
        let mut quota = ConnectionQuota::new(QuotaLimits { all, per_address: None, hosts_per_address: 64 });
        quota.set_named(Arc::new(named.iter().map(|host| (*host).to_owned()).collect()));
        quota
    }

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn a_named_host_gets_in_whatever_unnamed_hosts_do() {
        let mut quota = quota(1024, &["a", "b"]);
        for n in 0..10_000 {
            let _ = quota.acquire(&format!("stranger-{}", n % 7).into(), address(n / 20), 0);
        }
        assert!(quota.held() > 400, "unnamed hosts get what is not guaranteed: {}", quota.held());
        for host in ["a", "b"] {
            for _ in 0..256 {
                quota.acquire(&host.into(), address(1), 0).expect("its floor");
            }
        }
        assert!(quota.held() <= 1024);
    }

    #[test]
    fn a_new_address_gets_connections() {
        let mut quota = quota(1024, &[]);
        for n in 0..20 {
            let granted = (0..1024).filter(|_| quota.acquire(&"host".into(), address(n), 0).is_ok()).count();
            assert!(granted > 0, "address {n}");
        }
    }

    #[test]
    fn an_address_has_a_bounded_number_of_hosts() {
        let mut quota = quota(1024, &[]);
        let take =
            |quota: &mut ConnectionQuota, n| quota.acquire(&format!("stranger-{n}").into(), address(1), 0);
        assert!((0..64).all(|n| take(&mut quota, n).is_ok()));
        assert_eq!(take(&mut quota, 64), Err("limits.hosts_per_address is reached"));
        assert!(take(&mut quota, 63).is_ok(), "a host that is connected already");
        assert!(quota.acquire(&"stranger-64".into(), address(2), 0).is_ok(), "another address");
        assert_eq!((quota.most_hosts(), quota.hosts_per_origin.len()), (64, 2));
    }

    #[test]
    fn a_connection_returns_to_the_account_that_paid() {
        let mut quota = quota(8, &["a"]);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let of_a = quota.acquire(&a, address(1), 0).expect("room");
        let of_b = quota.acquire(&b, address(1), 0).expect("room");
        assert_eq!(
            (&of_a, &of_b),
            (
                &Charged::Host(Arc::clone(&a), Origin::of(address(1))),
                &Charged::Address(Origin::of(address(1)))
            )
        );
        // Meanwhile the named host becomes unnamed, and the unnamed host named.
        quota.set_named(Arc::new(["b".to_owned()].into()));
        quota.release(&a, &of_a);
        quota.release(&b, &of_b);
        assert_eq!(
            (quota.held(), quota.by_host.len(), quota.by_address.len(), quota.most_hosts()),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn an_origin_is_one_ipv4_address_or_an_ipv6_prefix() {
        let v6 = |text: &str| Origin::of(text.parse::<Ipv6Addr>().expect("an address").into());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:10.0.0.1"), Origin::of(address(1)));
    }

    #[test]
    fn what_is_kept_for_the_place_of_a_host_goes_to_no_other_place_and_to_no_other_host() {
        let mut quota = quota(16, &["a"]);
        let a: Arc<str> = "a".into();
        // Others with its name, from elsewhere, and strangers: two connections of its floor of eight are kept.
        while quota.acquire(&a, address(9), 2).is_ok() {}
        for n in 0..64 {
            let _ = quota.acquire(&format!("stranger-{n}").into(), address(n), 0);
        }
        assert!(quota.acquire(&a, address(9), 2).is_err());
        assert!(quota.acquire(&a, address(1), 1).is_ok());
        assert!(quota.acquire(&a, address(1), 0).is_ok());
        assert_eq!(quota.held(), 16);
    }
}
