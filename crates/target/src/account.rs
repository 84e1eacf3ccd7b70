//! Whose memory it is: everything that a host makes a thread hold is charged to somebody before it is held.
//!
//! ```text
//!   Permit ──► connection ──► host (NQN) ──► payer ──► stock of the thread
//!                                            │
//!                                            ├ a host that the configuration names: has a floor of its own
//!                                            └ an address, for all other hosts that come from it
//! ```
//!
//! A *permit* is the right to hold so many bytes of one account. It is taken before the memory is, travels with it, and dropping it
//! gives the bytes back at every level: no count can drift, whoever drops the memory and why.
//!
//! How much a payer may hold is not fixed, but goes by what is free (a *dynamic threshold*, Choudhury and Hahne, "Dynamic queue
//! length thresholds for shared-memory packet switches", 1998): a payer may go on while it holds no more than would still be free
//! afterwards. One alone gets half of the stock, the next half of the rest; as memory comes and goes, n get an (n+1)th each.
//! The last eighth is not for this: it is for the *first* few buffers of those who have next to nothing, so that whoever comes
//! after any number of greedy ones can work all the same. Among the hosts of one address the same holds for what the
//! address may have. A named host besides has a *floor*, which nobody else can take and which it can always have; floors together
//! are at most half of a stock.
//!
//! Holds: what the others hold never reaches a named host's floor (`no_number_of_others_takes_a_floor`); a payer, and a host of an
//!        address, finds its first memory after many greedy ones (`the_next_payer_finds_room`,
//!        `hosts_of_one_address_leave_room_for_each_other`); nothing is counted after it has gone
//!        (`permits_come_back_whatever_happens`, `absorbed_permits_come_back_with_the_one_that_took_them`).
//! Elsewhere: places for connections go by the same rule, in `quota`; buffers are `payload`.

use crate::quota::Origin;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use units::{Bytes, Instant, Nanos};

/// What memory is held for. Each has a stock of its own, so that none waits for another (see `payload`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Data that came with its command.
    Capsule,
    /// Data that a host was asked for.
    Transfer,
    /// Data that was read for a host.
    Read,
    /// What a controller says of itself: log pages, Identify, reports.
    Reply,
}

const ACCOUNTS: usize = 4;

impl Account {
    const ALL: [Account; ACCOUNTS] = [Account::Capsule, Account::Transfer, Account::Read, Account::Reply];
}

/// Floors of all named hosts together take at most one part of so many of a stock.
const FLOORS_PART: u64 = 2;
/// A floor is a whole number of these, so that a buffer of a power of two can be had from it.
const FLOOR_UNIT: u64 = 4096;
/// Of memory: one payer alone has half of it, and one host half of what its address may have.
const MEMORY: Thresholds = Thresholds { payer: 1, host: 1 };
/// One part of so many is for the first of those who have next to nothing.
const FIRST_PART: u64 = 8;

/// A number of bytes that several threads may drop permits of. Each is changed by one thread at a time.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds, and tells what it was.
    fn add(&self, size: u64) -> u64 {
        self.0.fetch_add(size, Ordering::Relaxed)
    }

    /// Subtracts, and tells what it was.
    fn subtract(&self, size: u64) -> u64 {
        let before = self.0.fetch_sub(size, Ordering::Relaxed);
        debug_assert!(before >= size, "{size} bytes come back of {before}");
        before
    }
}

/// One resource of a thread.
#[derive(Debug, Default)]
struct Pool {
    limit: Count,
    held: Count,
    /// Of floors, what their hosts do not hold.
    promised: Count,
    /// Each named host's floor.
    floor: Count,
    /// What everybody may have although others have most.
    first: Count,
}

impl Pool {
    fn free(&self) -> u64 {
        self.limit.get().saturating_sub(self.held.get()).saturating_sub(self.promised.get())
    }
}

type Pools = [Pool; ACCOUNTS];
type Counts = [Count; ACCOUNTS];

/// Who pays for what a host holds.
#[derive(Debug)]
pub(crate) struct Payer {
    pools: Arc<Pools>,
    held: Counts,
    is_named: AtomicBool,
    /// Of replies: when what was sent lately is paid off, in nanoseconds. See [`Payer::pays_reply`].
    replies_until: Count,
}

/// All connections of one host, whoever pays for each.
#[derive(Debug, Default)]
pub(crate) struct HostAccount {
    held: Counts,
    /// Of arriving data and of what was read: `limits.memory_per_host`.
    limit: Count,
}

impl HostAccount {
    /// A host that may hold at most `limit` of IO buffers, if there is one.
    pub(crate) fn new(limit: Option<Bytes>) -> Arc<HostAccount> {
        let account = HostAccount::default();
        account.set_limit(limit);
        Arc::new(account)
    }

    /// Changes the limit. What is held beyond a smaller one comes back in its own time.
    pub(crate) fn set_limit(&self, limit: Option<Bytes>) {
        self.limit.set(limit.map_or(u64::MAX, Bytes::get));
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct ConnectionAccount {
    payer: Arc<Payer>,
    host: Arc<HostAccount>,
    held: Counts,
    limit: u64,
}

/// One part of so many of a connection's and a host's memory is for capsules: they are small.
const CAPSULES_PART: u64 = 8;
/// Replies of one connection that wait to be sent, in bytes; one longer one may always be alone.
pub(crate) const REPLIES_MAX: u64 = 64 << 10;

impl ConnectionAccount {
    /// A connection of `host` that may hold at most `limit` of IO buffers.
    pub(crate) fn new(limit: Bytes, host: Arc<HostAccount>, payer: Arc<Payer>) -> Arc<ConnectionAccount> {
        Arc::new(ConnectionAccount { payer, host, held: Counts::default(), limit: limit.get() })
    }

    /// Who pays for it.
    pub(crate) fn payer(&self) -> &Payer {
        &self.payer
    }

    /// The right to hold `size` bytes, unless that is too much for the connection, its host, its payer or the thread.
    pub(crate) fn take(self: &Arc<Self>, account: Account, size: u64) -> Option<Permit> {
        let index = account as usize;
        let fits = is_within(self.sum(&self.held, account), size, part_of(self.limit, account))
            && is_within(self.sum(&self.host.held, account), size, part_of(self.host.limit.get(), account))
            && self.payer.may_take(index, size, self.host.held[index].get());
        if !fits {
            return None;
        }
        self.held[index].add(size);
        self.host.held[index].add(size);
        self.payer.add(index, size);
        Some(Permit { connection: Arc::clone(self), account, size })
    }

    /// What is held of the accounts that share a limit with `account`.
    fn sum(&self, held: &Counts, account: Account) -> u64 {
        match account {
            Account::Transfer | Account::Read => {
                held[Account::Transfer as usize].get() + held[Account::Read as usize].get()
            }
            _ => held[account as usize].get(),
        }
    }
}

/// Whether `size` more keep within `limit`. Whoever holds nothing may always have one.
fn is_within(held: u64, size: u64, limit: u64) -> bool {
    held == 0 || held.saturating_add(size) <= limit
}

fn part_of(limit: u64, account: Account) -> u64 {
    match account {
        Account::Capsule => limit / CAPSULES_PART,
        Account::Transfer | Account::Read => limit - limit / CAPSULES_PART,
        Account::Reply => REPLIES_MAX,
    }
}

/// How many times what is still free may be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// By a payer, of what is free for all. One alone has `payer / (payer + 1)` of everything.
    pub(crate) payer: u64,
    /// By a host, of what its address may still take.
    pub(crate) host: u64,
}

/// What a payer may hold by the rule of the module, as places and bytes have it in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) thresholds: Thresholds,
    /// Of everything.
    pub(crate) limit: u64,
    /// What may be had although others have most.
    pub(crate) first: u64,
    /// What is free and promised to nobody.
    pub(crate) free: u64,
    /// What of the payer's floor it does not hold.
    pub(crate) floor_left: u64,
    /// What the payer holds beyond its floor.
    pub(crate) held: u64,
    /// What the host that asks holds of that, if the payer is an address and not the host.
    pub(crate) held_by_host: Option<u64>,
    /// How much more it asks for.
    pub(crate) size: u64,
}

impl Request {
    /// Whether it may be had.
    pub(crate) fn is_granted(self) -> bool {
        let Request { thresholds, limit, first, free, floor_left, held, held_by_host, size } = self;
        let beyond = size.saturating_sub(floor_left);
        if beyond == 0 {
            return true;
        }
        if beyond > free {
            return false;
        }
        let is_first = |held: u64| held == 0 || held + size <= first;
        let free_then = free - beyond;
        let of_payer = is_first(held)
            || held + beyond <= thresholds.payer * free_then && free_then >= limit / FIRST_PART;
        of_payer
            && held_by_host.is_none_or(|of_host| {
                is_first(of_host) || {
                    // What an address may hold at most, as things are.
                    let most = thresholds.payer * (free + held) / (thresholds.payer + 1);
                    of_host + size <= thresholds.host * most.saturating_sub(held + size)
                        && held + size <= most - most / FIRST_PART
                }
            })
    }
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

    fn floor(&self, index: usize) -> u64 {
        if self.is_named() { self.pools[index].floor.get() } else { 0 }
    }

    fn may_take(&self, index: usize, size: u64, held_by_host: u64) -> bool {
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

    fn add(&self, index: usize, size: u64) {
        let (pool, floor) = (&self.pools[index], self.floor(index));
        let before = self.held[index].add(size);
        pool.held.add(size);
        if before < floor {
            pool.promised.subtract((before + size).min(floor) - before);
        }
    }

    fn subtract(&self, index: usize, size: u64) {
        let (pool, floor) = (&self.pools[index], self.floor(index));
        let after = self.held[index].subtract(size) - size;
        if after < floor {
            pool.promised.add((after + size).min(floor) - after);
        }
        pool.held.subtract(size);
    }
}

/// The right to hold so many bytes. Dropped, it gives them back.
#[derive(Debug)]
pub(crate) struct Permit {
    connection: Arc<ConnectionAccount>,
    account: Account,
    size: u64,
}

impl Permit {
    /// Gives back all but `size`.
    pub(crate) fn shrink_to(&mut self, size: u64) {
        let back = self.size.saturating_sub(size);
        self.size -= back;
        self.give(back);
    }

    /// What it is for.
    pub(crate) fn account(&self) -> Account {
        self.account
    }

    /// Adds the right that `other` is, so that both come back in one go; `other` itself if it is of another connection or account.
    pub(crate) fn absorb(&mut self, mut other: Permit) -> Result<(), Permit> {
        if self.account != other.account || !Arc::ptr_eq(&self.connection, &other.connection) {
            return Err(other);
        }
        self.size += std::mem::take(&mut other.size);
        Ok(())
    }

    /// Whether it is for data that arrives, which the thread of the connection has; everything else is the session's.
    pub(crate) fn is_of_arrival(&self) -> bool {
        matches!(self.account, Account::Capsule | Account::Transfer)
    }

    fn give(&self, size: u64) {
        if size == 0 {
            return;
        }
        let index = self.account as usize;
        self.connection.payer.subtract(index, size);
        self.connection.host.held[index].subtract(size);
        self.connection.held[index].subtract(size);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give(self.size);
    }
}

/// How much of each account a thread has, and the largest floor that makes sense for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    /// Bytes.
    pub(crate) limit: Bytes,
    /// What one command needs.
    pub(crate) floor_max: Bytes,
    /// What everybody may have although others have most.
    pub(crate) first: Bytes,
}

/// The accounts of a thread.
pub(crate) struct Accounts {
    pools: Arc<Pools>,
    supplies: [Supply; ACCOUNTS],
    /// Hosts that the configuration names.
    named: Arc<HashSet<String>>,
    /// Those of them that have come.
    known: HashMap<String, Arc<Payer>>,
    addresses: HashMap<Origin, Arc<Payer>>,
    /// Addresses without connections are forgotten when there are more than so many.
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

    /// Other amounts. What is held beyond smaller ones comes back in its own time.
    pub(crate) fn set_supplies(&mut self, supplies: [Supply; ACCOUNTS]) {
        self.supplies = supplies;
        self.promise();
    }

    /// Other named hosts, for the connections that come from now on.
    pub(crate) fn set_named(&mut self, named: Arc<HashSet<String>>) {
        self.named = named;
        // A host that is named no longer keeps what it has, but without a floor.
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

    /// Who pays for a connection of `host` from `address`.
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

    /// What is held of an account by everybody.
    #[cfg(test)]
    pub(crate) fn held(&self, account: Account) -> u64 {
        self.pools[account as usize].held.get()
    }
}

/// How long a payer that owes for its replies is not asked again at least: to ask costs something too.
pub(crate) const REPLY_REST: Nanos = Nanos::millis(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const KIB: u64 = 1 << 10;
    const INDEX: usize = Account::Transfer as usize;

    fn accounts(limit: u64, named: &[&str]) -> Accounts {
        let supply = Supply { limit: Bytes(limit), floor_max: Bytes::mib(1), first: Bytes::kib(256) };
        let mut accounts = Accounts::new([supply; ACCOUNTS]);
        accounts.set_named(Arc::new(named.iter().map(|host| (*host).to_owned()).collect()));
        accounts
    }

    fn connection(accounts: &mut Accounts, host: &str, address: u8) -> Arc<ConnectionAccount> {
        let payer = accounts.payer(Some(host), Ipv4Addr::new(10, 0, 0, address).into());
        ConnectionAccount::new(Bytes(u64::MAX), HostAccount::new(None), payer)
    }

    /// As many permits of `size` as `connection` gets.
    fn fill(connection: &Arc<ConnectionAccount>, size: u64) -> Vec<Permit> {
        std::iter::from_fn(|| connection.take(Account::Transfer, size)).collect()
    }

    #[test]
    fn a_connection_and_its_host_have_limits_and_always_one_buffer() {
        let mut accounts = accounts(64 << 20, &[]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let host = HostAccount::new(Some(Bytes::kib(64)));
        let connect = || ConnectionAccount::new(Bytes::kib(16), Arc::clone(&host), Arc::clone(&payer));
        let (first, second) = (connect(), connect());
        let large = first.take(Account::Transfer, 1 << 20).expect("held nothing");
        assert!(first.take(Account::Read, 1).is_none(), "reads and transfers share a limit");
        assert!(second.take(Account::Transfer, 1).is_none(), "another connection is no reason to have more");
        assert!(second.take(Account::Capsule, 4 * KIB).is_some(), "capsules have a limit of their own");
        drop(large);
        let _some = second.take(Account::Transfer, 8 * KIB).expect("it came back");
        assert!(second.take(Account::Transfer, 8 * KIB).is_none(), "14 KiB are for transfers and reads");
    }

    #[test]
    fn no_number_of_others_takes_a_floor() {
        let mut accounts = accounts(16 << 20, &["a", "b"]);
        // Strangers in any number, each as greedy as can be, and the other named host.
        let others = (0..200).map(|n| connection(&mut accounts, &format!("stranger-{n}"), n));
        let others: Vec<_> = others.collect();
        let mut greedy: Vec<Permit> = others.iter().flat_map(|other| fill(other, 64 * KIB)).collect();
        let named = connection(&mut accounts, "b", 250);
        greedy.extend(fill(&named, 64 * KIB));
        let late = connection(&mut accounts, "a", 251);
        assert!(late.take(Account::Transfer, 1 << 20).is_some(), "a whole transfer, at once");
        assert_eq!(late.payer().floor(INDEX), 1 << 20);
        drop(greedy);
        assert_eq!(accounts.held(Account::Transfer), 0);
    }

    #[test]
    fn the_next_payer_finds_room() {
        let mut accounts = accounts(224 << 20, &[]);
        let mut held = Vec::new();
        for address in 0..100 {
            let stranger = connection(&mut accounts, "stranger", address);
            let permits = fill(&stranger, 64 * KIB);
            assert!(!permits.is_empty(), "address {address}");
            held.push(permits);
        }
        // Alone, a host had half of what its address could have, and that was half of all.
        let first = held[0].len() as u64 * 64 * KIB;
        assert!((50 << 20..=56 << 20).contains(&first), "{first}");
        assert!(held.iter().all(|permits| permits.len() >= 4), "256 KiB at least");
    }

    #[test]
    fn hosts_of_one_address_leave_room_for_each_other() {
        let mut accounts = accounts(224 << 20, &[]);
        let hosts: Vec<_> = (0..50).map(|n| connection(&mut accounts, &format!("stranger-{n}"), 1)).collect();
        let held: Vec<Vec<Permit>> = hosts.iter().map(|host| fill(host, 64 * KIB)).collect();
        assert!(
            held.iter().all(|permits| !permits.is_empty()),
            "{:?}",
            held.iter().map(Vec::len).collect::<Vec<_>>()
        );
        let all: u64 = held.iter().flatten().map(|permit| permit.size).sum();
        assert!(all <= 112 << 20, "{all}: an address has no more than half, whatever its hosts are called");
    }

    #[test]
    fn permits_come_back_whatever_happens() {
        let mut accounts = accounts(8 << 20, &["a"]);
        let named = connection(&mut accounts, "a", 1);
        let stranger = connection(&mut accounts, "b", 1);
        let mut permits = fill(&named, 256 * KIB);
        permits.extend(fill(&stranger, 64 * KIB));
        permits[0].shrink_to(4 * KIB);
        // Named or not, larger or smaller meanwhile: the counts stay right.
        accounts.set_named(Arc::default());
        permits.truncate(5);
        accounts.set_named(Arc::new(["a", "b"].map(str::to_owned).into()));
        permits.extend(fill(&connection(&mut accounts, "b", 2), 4 * KIB));
        accounts.set_supplies(
            [Supply { limit: Bytes::mib(2), floor_max: Bytes::kib(64), first: Bytes::kib(256) }; ACCOUNTS],
        );
        drop((named, stranger, permits));
        assert_eq!(accounts.held(Account::Transfer), 0);
        assert_eq!(accounts.pools[INDEX].promised.get(), 2 * 64 * KIB);
    }

    #[test]
    fn absorbed_permits_come_back_with_the_one_that_took_them() {
        let mut accounts = accounts(8 << 20, &["a"]);
        let (one, other) = (connection(&mut accounts, "a", 1), connection(&mut accounts, "a", 1));
        let promised = |accounts: &Accounts| accounts.pools[INDEX].promised.get();
        let before = promised(&accounts);
        let take = |connection: &Arc<ConnectionAccount>, account| {
            connection.take(account, 256 * KIB).expect("there is plenty")
        };
        let mut permit = take(&one, Account::Transfer);
        for _ in 0..3 {
            permit.absorb(take(&one, Account::Transfer)).expect("it is of the same connection and account");
        }
        let of_other = permit.absorb(take(&other, Account::Transfer)).expect_err("of another connection");
        let of_reads = permit.absorb(take(&one, Account::Read)).expect_err("of another account");
        assert_eq!(accounts.held(Account::Transfer), 5 * 256 * KIB, "an absorbed permit holds on");
        drop((of_other, of_reads));
        assert_eq!((accounts.held(Account::Transfer), accounts.held(Account::Read)), (4 * 256 * KIB, 0));
        drop(permit);
        assert_eq!((accounts.held(Account::Transfer), promised(&accounts)), (0, before));
    }

    #[test]
    fn replies_are_paid_at_a_rate() {
        let mut accounts = accounts(8 << 20, &[]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let (rate, burst) = (1 << 20, 1 << 20);
        let start = Instant::ZERO + Nanos::secs(1);
        let granted = (0..100).filter(|_| payer.pays_reply(start, 256 * KIB, rate, burst).is_ok()).count();
        assert_eq!(granted, 5, "a burst, and one to overdraw it");
        let at = payer.pays_reply(start, 256 * KIB, rate, burst).expect_err("it is overdrawn");
        assert_eq!(at, start + Nanos::millis(250));
        assert!(payer.pays_reply(at, 256 * KIB, rate, burst).is_ok());
        assert!(payer.pays_reply(at, 4, rate, burst).is_err());
    }
}
