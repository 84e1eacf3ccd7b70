//! The oracle: a naive model of the operations of one application thread, and of the states that a crash may leave.
//!
//! Names change in order, so after a crash the directory has the state after some prefix of the changes: at least the
//! acknowledged ones (or, after a power loss, those before the last sync), at most all requested ones. A file has the
//! appended bytes up to some length: at least the flushed (synced) bytes, at most the appended ones.

use std::collections::BTreeMap;

/// Byte `at` of file `key`.
pub fn byte(key: u64, at: u64) -> u8 {
    let mixed = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 56) as u8
}

/// Bytes of file `key`.
pub fn bytes(key: u64, from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(|at| byte(key, at)).collect()
}

/// A change of names in the thread's directory.
#[derive(Clone, Debug)]
pub enum Change {
    Create(String, u64),
    Rename(String, String),
    Unlink(String),
    Link(String, String),
}

/// The possible lengths of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    pub flushed: u64,
    pub synced: u64,
    /// Bytes that the application has appended.
    pub appended: u64,
    /// The greatest length that the file ever had.
    pub longest: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The names at the last complete check.
    base: BTreeMap<String, u64>,
    changes: Vec<Change>,
    /// Number of changes that were acknowledged.
    acknowledged: usize,
    /// Number of changes that survive a power loss.
    durable: usize,
    pub lengths: BTreeMap<u64, Length>,
}

fn apply(names: &mut BTreeMap<String, u64>, change: &Change) {
    match change {
        Change::Create(name, key) => drop(names.insert(name.clone(), *key)),
        Change::Rename(from, to) => {
            let key = names.remove(from).expect("only what exists is renamed");
            names.insert(to.clone(), key);
        }
        Change::Unlink(name) => drop(names.remove(name)),
        Change::Link(from, to) => {
            let key = names[from];
            names.insert(to.clone(), key);
        }
    }
}

impl Oracle {
    /// The names after this number of changes.
    fn after(&self, count: usize) -> BTreeMap<String, u64> {
        let mut names = self.base.clone();
        self.changes[..count].iter().for_each(|change| apply(&mut names, change));
        names
    }

    pub fn names(&self) -> BTreeMap<String, u64> {
        self.after(self.changes.len())
    }

    /// Notes a requested change.
    pub fn ask(&mut self, change: Change) {
        if let Change::Create(_, key) = change {
            self.lengths.insert(key, Length::default());
        }
        self.changes.push(change);
    }

    /// Notes that the last change was acknowledged.
    pub fn acknowledge(&mut self) {
        self.acknowledged = self.changes.len();
    }

    /// Number of changes before a sync of names now.
    pub fn mark(&self) -> usize {
        self.acknowledged
    }

    /// Number of changes up to the creation of the file: a sync of the file makes these durable.
    pub fn mark_of(&self, key: u64) -> usize {
        let made = |change: &Change| matches!(change, Change::Create(_, of) if *of == key);
        self.changes.iter().position(made).map_or(0, |position| position + 1)
    }

    /// Notes that the changes before a mark survive power losses.
    pub fn is_durable(&mut self, mark: usize) {
        self.durable = self.durable.max(mark);
    }

    /// Checks that a crash may leave this state. `found` has the names with the contents and an identity of the file.
    pub fn check(
        &self,
        found: &BTreeMap<String, (u64, Vec<u8>)>,
        lost_power: bool,
    ) -> Result<BTreeMap<String, u64>, String> {
        let least = if lost_power { self.durable } else { self.acknowledged };
        let mut reasons = Vec::new();
        for count in (least..=self.changes.len()).rev() {
            let names = self.after(count);
            match self.fits(&names, found, lost_power) {
                Ok(()) => return Ok(names),
                Err(reason) => reasons.push(format!("after {count} changes: {reason}")),
            }
        }
        Err(format!(
            "{} of {} changes acknowledged, {} durable, power lost: {lost_power}\n{}\nchanges {:?}\nfound {:?}",
            self.acknowledged,
            self.changes.len(),
            self.durable,
            reasons.join("\n"),
            self.changes,
            found.iter().map(|(name, (file, bytes))| (name, file, bytes.len())).collect::<Vec<_>>(),
        ))
    }

    fn fits(
        &self,
        names: &BTreeMap<String, u64>,
        found: &BTreeMap<String, (u64, Vec<u8>)>,
        lost_power: bool,
    ) -> Result<(), String> {
        let wanted: Vec<_> = names.keys().collect();
        let seen: Vec<_> = found.keys().collect();
        if wanted != seen {
            return Err(format!("there should be {wanted:?}"));
        }
        let (mut files, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (name, key) in names {
            let (file, contents) = &found[name];
            if *files.entry(*key).or_insert(*file) != *file {
                return Err(format!("{name} should be a link to another name"));
            }
            if *keys.entry(*file).or_insert(*key) != *key {
                return Err(format!("{name} should be a file of its own"));
            }
            let length = self.lengths[key];
            let least = if lost_power { length.synced } else { length.flushed };
            let size = contents.len() as u64;
            if size < least || size > length.longest {
                return Err(format!("{name} has {size} bytes, not {least} to {}", length.longest));
            }
            if let Some(at) = (0..size).find(|&at| contents[at as usize] != byte(*key, at)) {
                return Err(format!("byte {at} of {name} is wrong"));
            }
        }
        Ok(())
    }

    /// Starts from these files, which exist and are durable.
    pub fn rebase(&mut self, names: BTreeMap<String, u64>, found: &BTreeMap<String, (u64, Vec<u8>)>) {
        self.changes.clear();
        (self.acknowledged, self.durable) = (0, 0);
        self.lengths = names
            .iter()
            .map(|(name, key)| {
                let size = found[name].1.len() as u64;
                (*key, Length { flushed: size, synced: size, appended: size, longest: size })
            })
            .collect();
        self.base = names;
    }
}
