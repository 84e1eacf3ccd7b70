//! Claims about the catalogue, on the model of a store.

use super::*;
use crate::store::{LeaseId, ModelStore};
use crate::{Geometry, SsdId};
use std::collections::BTreeSet;
use units::{Instant, Nanos};

const GEOMETRY: Geometry = Geometry { block: 512, micro: 4096, mega: 65_536, slots: 4 };
const TTL: Nanos = Nanos::secs(10);

fn ssd(number: u32, megas: u64) -> SsdRecord {
    SsdRecord {
        uuid: format!("uuid-{number}"),
        domain: format!("target-{}", number % 2),
        address: format!("127.0.0.1:{number}"),
        rdma_address: None,
        subsystem: "nqn.2025-01.com.example:x".to_owned(),
        nsid: 1,
        block_size: 512,
        capacity: megas * GEOMETRY.mega,
        mega: GEOMETRY.mega,
    }
}

fn rack(megas: u64) -> (ModelStore, Vec<SsdId>, LeaseId) {
    let mut store = ModelStore::default();
    let lease = store.grant(Nanos::secs(1000)).expect("the model answers");
    let ids = (0..4).map(|n| start(&mut store, &ssd(n, megas), lease).expect("registered")).collect();
    (store, ids, lease)
}

/// Registers an SSD of a target that has just started.
fn start(store: &mut ModelStore, record: &SsdRecord, lease: LeaseId) -> Result<SsdId, RegisterError> {
    register(store, record, lease, Standing::Started)
}

fn acquire(store: &mut ModelStore, name: &str, who: &str) -> Result<Acquired, OrderError> {
    let order = Order::Acquire { name: name.to_owned(), who: who.to_owned(), ttl: TTL };
    execute(store, &order).map(|reply| match reply {
        Reply::Acquired(acquired) => *acquired,
        other => panic!("not an answer to Acquire: {other:?}"),
    })
}

#[test]
fn an_ssd_keeps_its_number_when_its_target_starts_again() {
    let (mut store, ids, lease) = rack(8);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(ssd(2, 8).addresses(), "127.0.0.1:2");
    let rdma_address = Some("192.0.2.1:4420".to_owned());
    let by_both = SsdRecord { rdma_address, ..ssd(2, 8) };
    assert_eq!(by_both.addresses(), "127.0.0.1:2 rdma://192.0.2.1:4420");
    assert_eq!(SsdRecord { address: String::new(), ..by_both }.addresses(), "rdma://192.0.2.1:4420");
    let moved = SsdRecord { address: "127.0.0.1:9999".to_owned(), ..ssd(2, 8) };
    assert_eq!(start(&mut store, &moved, lease), Ok(ids[2]));
    assert_eq!(ssds(&mut store).expect("listed")[2].record.address, "127.0.0.1:9999");
}

#[test]
fn two_live_targets_never_register_the_same_ssd() {
    let (mut store, ids, _) = rack(8);
    let (short, other) = (store.grant(TTL).expect("granted"), store.grant(TTL).expect("granted"));
    start(&mut store, &ssd(1, 8), short).expect("its own target may register it again");
    let stranger = SsdRecord { domain: "stranger".to_owned(), ..ssd(1, 8) };
    let refused = Err(taken("target-1", "127.0.0.1:1"));
    assert_eq!(start(&mut store, &stranger, other), refused);
    store.revoke(short).expect("revoked");
    assert_eq!(start(&mut store, &stranger, other), Ok(ids[1]), "the SSD was carried to another target");
}

fn taken(domain: &str, address: &str) -> RegisterError {
    RegisterError::Taken { domain: domain.to_owned(), address: address.to_owned() }
}

#[test]
fn a_copied_configuration_does_not_take_ssds_over() {
    let mut store = ModelStore::default();
    let (one, two) = (store.grant(TTL).expect("granted"), store.grant(TTL).expect("granted"));
    let id = start(&mut store, &ssd(1, 8), one).expect("registered");
    assert_eq!(review(&mut store, &[id], one).expect("answered"), Review::default());

    // The same name and UUID at another address.
    let copy = SsdRecord { address: "127.0.0.1:7777".to_owned(), ..ssd(1, 8) };
    assert_eq!(start(&mut store, &copy, two), Err(taken("target-1", "127.0.0.1:1")));
    let rivals = vec![(id, "\"target-1\" at 127.0.0.1:7777".to_owned())];
    assert_eq!(review(&mut store, &[id], one).expect("answered"), Review { lost: Vec::new(), rivals });
    assert_eq!(ssds(&mut store).expect("listed")[0].record.address, "127.0.0.1:1");

    // The same address too: treated as a target that was killed and has started again. The first one notices, and does
    // not take the SSD back.
    start(&mut store, &ssd(1, 8), two).expect("it has just started");
    assert_eq!(review(&mut store, &[id], one).expect("answered").lost, [id]);
    let again = register(&mut store, &ssd(1, 8), one, Standing::Running);
    assert_eq!(again, Err(taken("target-1", "127.0.0.1:1")));

    // When the second one ends, the first is registered again.
    store.revoke(two).expect("revoked");
    assert_eq!(review(&mut store, &[id], one).expect("answered").lost, [id]);
    assert_eq!(register(&mut store, &ssd(1, 8), one, Standing::Running), Ok(id));
    assert_eq!(review(&mut store, &[id], one).expect("answered"), Review::default());
}

#[test]
fn an_ssd_is_dead_when_its_target_does_not_renew() {
    let (mut store, ids, _) = rack(8);
    let short = store.grant(TTL).expect("granted");
    start(&mut store, &ssd(1, 8), short).expect("registered");
    store.advance(Instant::ZERO + TTL);
    let live: Vec<SsdId> =
        ssds(&mut store).expect("listed").iter().filter(|ssd| ssd.is_live).map(|ssd| ssd.id).collect();
    assert_eq!(live, [ids[0], ids[2], ids[3]]);
}

#[test]
fn no_two_volumes_own_the_same_mega_blob() {
    let (mut store, ids, _) = rack(8);
    create(&mut store, "a", GEOMETRY).expect("created");
    create(&mut store, "b", GEOMETRY).expect("created");
    assert_eq!(create(&mut store, "a", GEOMETRY), Err(CreateError::Exists));
    let locks = ["a", "b"].map(|name| acquire(&mut store, name, name).expect("acquired").lock);
    let wanted: Vec<_> = ids.iter().map(|id| (*id, 8)).collect();
    loop {
        let mut got = 0;
        for lock in &locks {
            let take = Order::Take { lock: lock.clone(), ssds: wanted[..2].to_vec() };
            if let Reply::Taken(megas) = execute(&mut store, &take).expect("answered") {
                got += megas.len();
            }
        }
        if got == 0 {
            break;
        }
    }
    let all = volumes(&mut store).expect("listed");
    let owned: Vec<_> = all.iter().flat_map(|volume| &volume.megas).collect();
    assert_eq!(owned.iter().collect::<BTreeSet<_>>().len(), owned.len(), "a mega blob has two owners");
    let used: u32 = ssds(&mut store).expect("listed").iter().map(|ssd| ssd.used).sum();
    assert_eq!(used as usize, owned.len(), "used, but not owned by a volume");
}

#[test]
fn both_copies_are_taken_or_none() {
    let (mut store, ids, _) = rack(1);
    create(&mut store, "v", GEOMETRY).expect("created");
    let lock = acquire(&mut store, "v", "me").expect("acquired").lock;
    let used = |store: &mut ModelStore| ssds(store).expect("listed").iter().map(|ssd| ssd.used).sum::<u32>();
    let before = used(&mut store);
    let wanted: Vec<_> = ids.iter().map(|id| (*id, 1)).collect();
    let reply = execute(&mut store, &Order::Take { lock, ssds: wanted }).expect("answered");
    assert_eq!(reply, Reply::Full(vec![ids[0], ids[1]]), "the volume's metadata fills these");
    assert_eq!(used(&mut store), before);
}

#[test]
fn a_volume_is_mounted_once() {
    let (mut store, _, _) = rack(8);
    create(&mut store, "v", GEOMETRY).expect("created");
    let first = acquire(&mut store, "v", "one").expect("acquired").lock;
    assert_eq!(acquire(&mut store, "v", "two"), Err(OrderError::InUse("one".to_owned())));
    assert_eq!(acquire(&mut store, "w", "two"), Err(OrderError::Absent));
    assert_eq!(remove(&mut store, "v"), Err(CreateError::InUse));
    execute(&mut store, &Order::Release { lock: first, is_clean: true }).expect("released");
    let second = acquire(&mut store, "v", "two").expect("acquired");
    assert!(second.record.is_clean);
    store.advance(Instant::ZERO + TTL);
    let third = acquire(&mut store, "v", "three").expect("the lease ran out");
    assert!(!third.record.is_clean && third.lock.generation > second.lock.generation);
}

#[test]
fn who_lost_the_lock_changes_nothing() {
    let (mut store, ids, _) = rack(8);
    let record = create(&mut store, "v", GEOMETRY).expect("created");
    let old = acquire(&mut store, "v", "old").expect("acquired").lock;
    store.advance(Instant::ZERO + TTL);
    let take = Order::Take { lock: old.clone(), ssds: vec![(ids[0], 8)] };
    assert_eq!(execute(&mut store, &take), Err(OrderError::LockLost));
    assert_eq!(execute(&mut store, &Order::Renew(old.clone())), Err(OrderError::LockLost));
    let regain = Order::Regain { lock: old.clone(), who: "old".to_owned(), ttl: TTL };
    let Ok(Reply::Regained(regained)) = execute(&mut store, &regain) else {
        panic!("no other client had it")
    };
    assert!(execute(&mut store, &Order::Take { lock: regained.clone(), ssds: vec![(ids[0], 8)] }).is_ok());
    store.advance(Instant::ZERO + TTL + TTL);
    acquire(&mut store, "v", "new").expect("acquired");
    let orders = [
        Order::Take { lock: regained.clone(), ssds: vec![(ids[0], 8)] },
        Order::Publish { lock: regained.clone(), meta: Vec::new() },
        Order::GiveBack { lock: regained.clone(), megas: record.meta },
        Order::Release { lock: regained.clone(), is_clean: true },
    ];
    let before = volumes(&mut store);
    for order in &orders {
        assert_eq!(execute(&mut store, order), Err(OrderError::LockLost), "{order:?}");
    }
    assert_eq!(execute(&mut store, &regain), Err(OrderError::Fenced));
    assert_eq!(volumes(&mut store), before);
}

#[test]
fn the_slot_of_the_current_metadata_is_never_written_by_the_next_mount() {
    let (mut store, _, _) = rack(8);
    let record = create(&mut store, "v", GEOMETRY).expect("created");
    let first = acquire(&mut store, "v", "0").expect("acquired").lock;
    let publish = Order::Publish { lock: first.clone(), meta: record.meta.clone() };
    execute(&mut store, &publish).expect("published");
    let mut now = Instant::ZERO;
    for mount in 1..20 {
        now += TTL;
        store.advance(now);
        let next = acquire(&mut store, "v", &mount.to_string()).expect("acquired").lock;
        assert_ne!(next.generation.0 % GEOMETRY.slots, first.generation.0 % GEOMETRY.slots);
    }
}

#[test]
fn a_removed_volume_gives_all_its_space_back() {
    let (mut store, ids, _) = rack(8);
    create(&mut store, "v", GEOMETRY).expect("created");
    let lock = acquire(&mut store, "v", "me").expect("acquired").lock;
    execute(&mut store, &Order::Take { lock: lock.clone(), ssds: vec![(ids[2], 8)] }).expect("taken");
    execute(&mut store, &Order::Release { lock, is_clean: true }).expect("released");
    remove(&mut store, "v").expect("removed");
    assert_eq!(ssds(&mut store).expect("listed").iter().map(|ssd| ssd.used).sum::<u32>(), 0);
    assert_eq!(remove(&mut store, "v"), Err(CreateError::Absent));
}
