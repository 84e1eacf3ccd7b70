//! The payers for memory: a host that the configuration names, or an address for all other hosts that connect from it.
//!
//! A named host has a *floor*: memory reserved for this host alone. Floors together are at most half of a stock.
//!
//! Holds: `no_number_of_others_takes_a_floor` (`account::tests`).

use super::threshold::{Request, Thresholds};
use super::{ACCOUNTS, Account, Count, Counts};
use crate::quota::Origin;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Instant, Nanos};

/// Upper bound for the floors of all named hosts together: one part in this many of a stock.
const FLOORS_PART: u64 = 2;
/// A floor is a whole number of these, so that a buffer of a power of two can be had from it.
const FLOOR_UNIT: u64 = 4096;
/// Of memory: one payer alone has half of it, and one host half of what its address may have.
const MEMORY: Thresholds = Thresholds { payer: 1, host: 1 };
/// One resource of a thread.
#[derive(Debug, Default)]
pub(super) struct Pool {
    limit: Count,
    held: Count,
    /// Of floors, what their hosts do not hold.
    pub(super) promised: Count,
    /// Each named host's floor.
    floor: Count,
    /// Memory that every payer may have, although others have most.
    first: Count,
}

impl Pool {
    fn free(&self) -> u64 {
        self.limit.get().saturating_sub(self.held.get()).saturating_sub(self.promised.get())
    }
}

pub(super) type Pools = [Pool; ACCOUNTS];

/// A payer for the memory that a host holds.
#[derive(Debug)]
pub(crate) struct Payer {
    pools: Arc<Pools>,
    held: Counts,
    is_named: AtomicBool,
    /// For replies: the time until which recent replies are paid off, in nanoseconds. See [`Payer::pays_reply`].
    replies_until: Count,
}

impl Payer {
    fn new(pools: &Arc<Pools>, is_named: bool) -> Arc<Payer> {
        let (held, replies_until) = (Counts::default(), Count::default());
        Arc::new(Payer { pools: Arc::clone(pools), held, is_named: is_named.into(), replies_until })
    }

    /// Whether the replies that it had lately are paid off at `rate` bytes per second, but for `burst` bytes; if so, one of `size`
    /// bytes is charged. Otherwise, when that will be so.
    pub(crate) fn pays_reply(&self, now: Instant, size: u64, rate: u64, burst: u64) -> Result<(), Instant> {
        let span = |bytes: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        let until = self.replies_until.get().max(now.0);
        let allowed = until.saturating_sub(span(burst));
        if allowed > now.0 {
            return Err(Instant(allowed));
        }
        self.replies_until.set(until.saturating_add(span(size)));
        Ok(())
    }

    fn is_named(&self) -> bool {
        self.is_named.load(Ordering::Relaxed)
    }

    pub(super) fn floor(&self, index: usize) -> u64 {
        if self.is_named() { self.pools[index].floor.get() } else { 0 }
    }

    pub(super) fn may_take(&self, index: usize, size: u64, held_by_host: u64) -> bool {
        let (held, floor) = (self.held[index].get(), self.floor(index));
        let request = Request {
            thresholds: MEMORY,
            limit: self.pools[index].limit.get(),
            first: self.pools[index].first.get(),
            free: self.pools[index].free(),
            floor_left: floor.saturating_sub(held),
            held: held.saturating_sub(floor),
            held_by_host: (!self.is_named()).then_some(held_by_host),
            size,
        };
        request.is_granted()
    }

    pub(super) fn add(&self, index: usize, size: u64) {
        let (pool, floor) = (&self.pools[index], self.floor(index));
        let before = self.held[index].add(size);
        pool.held.add(size);
        if before < floor {
            pool.promised.subtract((before + size).min(floor) - before);
        }
    }

    pub(super) fn subtract(&self, index: usize, size: u64) {
        let (pool, floor) = (&self.pools[index], self.floor(index));
        let after = self.held[index].subtract(size) - size;
        if after < floor {
            pool.promised.add((after + size).min(floor) - after);
        }
        pool.held.subtract(size);
    }
}

/// The stock of each account on a thread, and the largest floor that makes sense for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    /// Bytes.
    pub(crate) limit: Bytes,
    /// Memory for one command.
    pub(crate) floor_max: Bytes,
    /// Memory that every payer may have, although others have most.
    pub(crate) first: Bytes,
}

/// The accounts of a thread.
pub(crate) struct Accounts {
    pub(super) pools: Arc<Pools>,
    supplies: [Supply; ACCOUNTS],
    /// Hosts that the configuration names.
    named: Arc<HashSet<String>>,
    /// Those of them that have come.
    known: HashMap<String, Arc<Payer>>,
    addresses: HashMap<Origin, Arc<Payer>>,
    /// Addresses without connections are forgotten when there are more than this many.
    addresses_max: usize,
}

/// Addresses that are remembered at least.
const ADDRESSES_MIN: usize = 64;

impl Accounts {
    /// `supplies` in the order of `Account`.
    pub(crate) fn new(supplies: [Supply; ACCOUNTS]) -> Accounts {
        let accounts = Accounts {
            pools: Arc::default(),
            supplies,
            named: Arc::default(),
            known: HashMap::new(),
            addresses: HashMap::new(),
            addresses_max: ADDRESSES_MIN,
        };
        accounts.promise();
        accounts
    }

    /// Changes the stocks. Memory beyond smaller ones stays until it is freed.
    pub(crate) fn set_supplies(&mut self, supplies: [Supply; ACCOUNTS]) {
        self.supplies = supplies;
        self.promise();
    }

    /// Other named hosts, for the connections that come from now on.
    pub(crate) fn set_named(&mut self, named: Arc<HashSet<String>>) {
        self.named = named;
        // A host that is no longer named keeps its memory, but loses its floor.
        self.known.retain(|host, payer| {
            let stays = self.named.contains(host);
            payer.is_named.store(stays, Ordering::Relaxed);
            stays
        });
        self.promise();
    }

    /// Floors as the supplies and the number of named hosts have them.
    fn promise(&self) {
        let hosts = self.named.len() as u64;
        for account in Account::ALL {
            let (pool, supply) = (&self.pools[account as usize], self.supplies[account as usize]);
            let share = (supply.limit.get() / FLOORS_PART).checked_div(hosts).unwrap_or(0);
            let floor = supply.floor_max.get().min(share) / FLOOR_UNIT * FLOOR_UNIT;
            let used =
                self.known.values().map(|payer| payer.held[account as usize].get().min(floor)).sum::<u64>();
            pool.limit.set(supply.limit.get());
            pool.floor.set(floor);
            pool.first.set(supply.first.get());
            pool.promised.set(floor * hosts - used);
        }
    }

    /// The payer for a connection of `host` from `address`.
    pub(crate) fn payer(&mut self, host: Option<&str>, address: IpAddr) -> Arc<Payer> {
        if let Some(host) = host.filter(|host| self.named.contains(*host)) {
            if let Some(payer) = self.known.get(host) {
                return Arc::clone(payer);
            }
            let payer = Payer::new(&self.pools, true);
            self.known.insert(host.to_owned(), Arc::clone(&payer));
            return payer;
        }
        if self.addresses.len() >= self.addresses_max {
            self.addresses.retain(|_, payer| Arc::strong_count(payer) > 1);
            self.addresses_max = (2 * self.addresses.len()).max(ADDRESSES_MIN);
        }
        let payer = self.addresses.entry(Origin::of(address));
        Arc::clone(payer.or_insert_with(|| Payer::new(&self.pools, false)))
    }

    /// The memory that all payers hold of an account.
    #[cfg(test)]
    pub(crate) fn held(&self, account: Account) -> u64 {
        self.pools[account as usize].held.get()
    }
}

/// Minimum pause before a payer that owes for its replies is tried again: trying costs processor time.
pub(crate) const REPLY_REST: Nanos = Nanos::millis(2);
