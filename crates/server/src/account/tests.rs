//! Tests of granting and returning memory.

use super::*;
use std::net::Ipv4Addr;
use units::{Instant, Nanos};

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
