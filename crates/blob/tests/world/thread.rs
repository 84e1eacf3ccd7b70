//! One thread of an application: random operations, one after the other, in its own directory.

use super::World;
use super::oracle::{Change, Oracle, bytes};
use blob::{Class, Fault, OpId, Outcome, Request};
use rand::Rng;
use std::collections::BTreeMap;

/// The running operation.
#[derive(Clone, Debug)]
enum Doing {
    MakeDir,
    Change,
    Create { key: u64 },
    Append { key: u64, length: u64 },
    Flush { key: u64, upto: u64 },
    Sync { key: u64, upto: u64, mark: usize },
    Truncate { key: u64, size: u64 },
    Read { key: u64, offset: u64, length: u64, size: u64 },
    Open { key: u64 },
    Close,
    SyncNames { mark: usize },
}

pub struct Thread {
    pub directory: String,
    pub oracle: Oracle,
    doing: Option<(OpId, Doing)>,
    /// Handles for writing.
    writers: BTreeMap<u64, u64>,
    readers: BTreeMap<u64, u64>,
    next_key: u64,
    has_directory: bool,
    pub is_stopped: bool,
    pub done: u64,
    /// Number of faults seen, by name.
    pub faults: BTreeMap<String, u64>,
}

impl Thread {
    pub fn new(number: u64) -> Thread {
        Thread {
            directory: format!("t{number}"),
            oracle: Oracle::default(),
            doing: None,
            writers: BTreeMap::new(),
            readers: BTreeMap::new(),
            next_key: number * 1_000_000,
            has_directory: false,
            is_stopped: false,
            done: 0,
            faults: BTreeMap::new(),
        }
    }

    /// Starts again with another client, after the first one is gone.
    pub fn restart(&mut self) {
        self.doing = None;
        self.writers.clear();
        self.readers.clear();
        self.is_stopped = false;
        self.has_directory = false;
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Takes the outcome of the running operation, if there is one, and begins the next.
    pub fn turn(&mut self, world: &mut World, client: usize, lost_power: bool) {
        if let Some((op, doing)) = self.doing.take() {
            match world.clients[client].outcomes.remove(&op) {
                Some(outcome) => self.on_outcome(&doing, outcome, lost_power),
                None => self.doing = Some((op, doing)),
            }
        }
        if self.doing.is_none() && !self.is_stopped {
            let (doing, request) = self.choose(world);
            let op = world.submit(client, request);
            self.doing = Some((op, doing));
        }
    }

    fn on_outcome(&mut self, doing: &Doing, outcome: Outcome, lost_power: bool) {
        self.done += 1;
        if matches!(doing, Doing::MakeDir)
            && matches!(outcome, Outcome::Done | Outcome::Failed(Fault::Exists))
        {
            self.has_directory = true;
            return;
        }
        if let Outcome::Failed(fault) = outcome {
            *self.faults.entry(format!("{fault:?}")).or_default() += 1;
            match doing {
                // Whether the change happened is not known before the next mount.
                Doing::Change | Doing::Create { .. } | Doing::Truncate { .. } | Doing::MakeDir => {
                    self.is_stopped = true
                }
                Doing::Append { key, length } => {
                    let entry = self.oracle.lengths.get_mut(key).expect("the file exists");
                    entry.appended -= length;
                }
                Doing::Read { .. } => {
                    assert!(
                        fault == Fault::Unreachable
                            || lost_power
                            || fault == Fault::LeaseUnsure
                            || fault == Fault::NoSpace,
                        "a read failed: {fault:?}"
                    );
                }
                _ => {}
            }
            if matches!(fault, Fault::Fenced | Fault::NotMounted | Fault::LeaseUnsure) {
                self.is_stopped = true;
            }
            return;
        }
        let lengths = &mut self.oracle.lengths;
        match (doing, outcome) {
            (Doing::Change, Outcome::Done) => self.oracle.acknowledge(),
            (Doing::Create { key }, Outcome::Opened { handle, .. }) => {
                self.oracle.acknowledge();
                self.writers.insert(*key, handle);
            }
            (Doing::Open { key }, Outcome::Opened { handle, .. }) => drop(self.readers.insert(*key, handle)),
            (Doing::Flush { key, upto }, Outcome::Done) => {
                let entry = lengths.get_mut(key).expect("the file exists");
                entry.flushed = entry.flushed.max(*upto);
            }
            (Doing::Sync { key, upto, mark }, Outcome::Done) => {
                let entry = lengths.get_mut(key).expect("the file exists");
                entry.flushed = entry.flushed.max(*upto);
                entry.synced = entry.synced.max(*upto);
                self.oracle.is_durable(*mark);
            }
            (Doing::Truncate { key, size }, Outcome::Done) => {
                lengths.get_mut(key).expect("the file exists").appended = *size;
            }
            (Doing::Read { key, offset, length, size }, Outcome::Bytes(read)) => {
                let end = (offset + length).min(*size);
                let expected = bytes(*key, *offset, end.saturating_sub(*offset));
                assert!(
                    read == expected,
                    "{length} bytes at {offset} of file {key} ({size} bytes) are wrong"
                );
            }
            (Doing::SyncNames { mark }, Outcome::Done) => self.oracle.is_durable(*mark),
            (Doing::Append { .. } | Doing::Close | Doing::MakeDir, _) => {}
            (doing, outcome) => panic!("{doing:?} ended with {outcome:?}"),
        }
    }

    fn choose(&mut self, world: &mut World) -> (Doing, Request) {
        let random = &mut world.random;
        if !self.has_directory {
            return (Doing::MakeDir, Request::MakeDir { path: self.directory.clone() });
        }
        let names = self.oracle.names();
        let name = format!("f{}", random.random_range(0..4));
        let other = format!("f{}", random.random_range(0..4));
        let pick = random.random_range(0..100);
        let keys: Vec<u64> = self.writers.keys().copied().collect();
        if keys.is_empty() || pick < 8 {
            if keys.len() >= 3 {
                let key = keys[random.random_range(0..keys.len())];
                let handle = self.writers.remove(&key).expect("it is open");
                return (Doing::Close, Request::Close { handle });
            }
            self.next_key += 1;
            self.oracle.ask(Change::Create(name.clone(), self.next_key));
            return (Doing::Create { key: self.next_key }, Request::Create { path: self.path(&name) });
        }
        let key = keys[random.random_range(0..keys.len())];
        let handle = self.writers[&key];
        let length = self.oracle.lengths[&key];
        match pick {
            8..40 => {
                let most = if random.random_ratio(1, 8) { 1500 } else { 150 };
                let count = random.random_range(1..most);
                let entry = self.oracle.lengths.get_mut(&key).expect("the file exists");
                entry.appended += count;
                entry.longest = entry.longest.max(entry.appended);
                let bytes = bytes(key, length.appended, count);
                (Doing::Append { key, length: count }, Request::Append { handle, bytes })
            }
            40..52 => (Doing::Flush { key, upto: length.appended }, Request::Flush { handle }),
            52..64 => {
                let mark = self.oracle.mark_of(key);
                (Doing::Sync { key, upto: length.appended, mark }, Request::Sync { handle })
            }
            64..66 if length.appended > 0 => {
                let size = random.random_range(0..length.appended);
                let entry = self.oracle.lengths.get_mut(&key).expect("the file exists");
                entry.flushed = entry.flushed.min(size);
                entry.synced = entry.synced.min(size);
                (Doing::Truncate { key, size }, Request::Truncate { handle, size })
            }
            66..68 if length.appended > 0 => {
                // The end of the file again, and a little more.
                let offset = random.random_range(length.appended.saturating_sub(300)..length.appended);
                let count = length.appended - offset + random.random_range(0..100);
                let entry = self.oracle.lengths.get_mut(&key).expect("the file exists");
                let more = offset + count - length.appended;
                entry.appended += more;
                entry.longest = entry.longest.max(entry.appended);
                let bytes = bytes(key, offset, count);
                (Doing::Append { key, length: more }, Request::WriteAt { handle, offset, bytes })
            }
            68..76 if names.contains_key(&name) && names.get(&name) != names.get(&other) => {
                self.oracle.ask(Change::Rename(name.clone(), other.clone()));
                (Doing::Change, Request::Rename { from: self.path(&name), to: self.path(&other) })
            }
            76..80 if names.contains_key(&name) => {
                self.oracle.ask(Change::Unlink(name.clone()));
                (Doing::Change, Request::Unlink { path: self.path(&name) })
            }
            80..84 if names.contains_key(&name) && !names.contains_key(&other) => {
                self.oracle.ask(Change::Link(name.clone(), other.clone()));
                (Doing::Change, Request::Link { from: self.path(&name), to: self.path(&other) })
            }
            84..87 => {
                self.writers.remove(&key);
                (Doing::Close, Request::Close { handle })
            }
            87..90 if names.contains_key(&name) && self.readers.len() < 4 => {
                (Doing::Open { key: names[&name] }, Request::Open { path: self.path(&name) })
            }
            90..92 => (Doing::SyncNames { mark: self.oracle.mark() }, Request::SyncNames),
            _ => {
                let (key, handle) = match self.readers.iter().next() {
                    Some((key, handle)) if random.random() => (*key, *handle),
                    _ => (key, handle),
                };
                let size = self.oracle.lengths.get(&key).map_or(0, |length| length.appended);
                let offset = random.random_range(0..size + 10);
                let length = random.random_range(0..1000);
                (
                    Doing::Read { key, offset, length, size },
                    Request::Read { handle, offset, length, class: Class::Normal },
                )
            }
        }
    }

    /// Everything in the thread's directory, as a client reads it. `None` while some of it cannot be reached.
    pub fn look(&self, world: &mut World, client: usize) -> Option<BTreeMap<String, (u64, Vec<u8>)>> {
        let names = match world.call(client, Request::List { path: self.directory.clone() }) {
            Outcome::Names(names) => names,
            Outcome::Failed(Fault::NotFound) => Vec::new(),
            other => panic!("{} cannot be listed: {other:?}", self.directory),
        };
        let mut found = BTreeMap::new();
        for name in names {
            let path = self.path(&name);
            let Outcome::Stat(stat) = world.call(client, Request::Stat { path: path.clone() }) else {
                panic!("{path} is listed but has no status")
            };
            let (handle, size) = world.open(client, &path);
            match world.call(client, Request::Read { handle, offset: 0, length: size, class: Class::Normal })
            {
                Outcome::Bytes(bytes) => {
                    assert_eq!(bytes.len() as u64, size, "{path} is shorter than its size");
                    found.insert(name, (stat.file.0, bytes));
                }
                Outcome::Failed(Fault::Unreachable) => return None,
                other => panic!("{path} cannot be read: {other:?}"),
            }
            world.done(client, Request::Close { handle });
        }
        Some(found)
    }
}
