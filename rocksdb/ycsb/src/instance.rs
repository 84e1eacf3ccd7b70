//! One database and the operations on it.
//!
//! A record is the value of one key (`ycsb::record`). An update reads it first, unless it writes all fields: RocksDB writes whole
//! values.

use crate::database::Database;
use crate::measure::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use ycsb::plan::{Place, Plan};
use ycsb::{Fields, Generator, Keys, Kind, Operation, Workload, record};

/// A database with its workload.
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) database: Database,
    workload: Arc<Workload>,
    keys: Arc<Keys>,
    /// Operations begun; loads and runs each have their own.
    begun: AtomicU64,
    is_synced: bool,
}

impl Instance {
    /// Opens or makes a database.
    pub(crate) fn open(place: &Place, plan: &Plan, workload: &Arc<Workload>) -> Result<Instance, String> {
        let database = Database::open(place, &plan.options, plan.is_loaded)?;
        Ok(Instance {
            name: place.name.clone(),
            database,
            workload: Arc::clone(workload),
            keys: Arc::new(Keys::new(workload)),
            begun: AtomicU64::new(0),
            is_synced: plan.is_synced,
        })
    }

    /// One thread's stream of operations.
    pub(crate) fn generator(&self, seed: u64, thread: u32) -> Generator {
        Generator::new(Arc::clone(&self.workload), Arc::clone(&self.keys), seed, thread)
    }

    /// Loads the next record; false if there is none.
    pub(crate) fn load(&self, generator: &mut Generator) -> Result<bool, String> {
        let Some(number) = self.keys.next_load() else { return Ok(false) };
        let value = record::encode(&generator.values(number, Fields::All));
        self.database.put(&self.workload.key(number), &value, false)?;
        Ok(true)
    }

    /// Whether one operation more may begin.
    pub(crate) fn may_begin(&self) -> bool {
        self.workload.operations == 0 || self.begun.fetch_add(1, Ordering::Relaxed) < self.workload.operations
    }

    /// Carries the next operation out. Answers its kind and when it began, after its values were made.
    pub(crate) fn operate(
        &self,
        generator: &mut Generator,
        latencies: &mut Latencies,
    ) -> Result<(Kind, Instant), String> {
        let operation = generator.next_operation();
        let Operation { kind, record: number, .. } = operation;
        let key = self.workload.key(number);
        let written = match kind {
            Kind::Read | Kind::Scan => Vec::new(),
            _ => generator.values(number, operation.writes),
        };
        let begun = Instant::now();
        match kind {
            Kind::Read => {
                self.read(&key, number, latencies)?;
            }
            Kind::Scan => {
                let found = self.database.scan(&key, operation.scan)?;
                latencies.missing += u64::from(found == 0);
            }
            Kind::Insert => {
                let inserted = self.database.put(&key, &record::encode(&written), self.is_synced);
                self.keys.acknowledge(number);
                inserted?;
            }
            Kind::Update if operation.writes == Fields::All => {
                self.database.put(&key, &record::encode(&written), self.is_synced)?;
            }
            Kind::Update | Kind::ReadModifyWrite => {
                let mut fields = self.read(&key, number, latencies)?.unwrap_or_default();
                record::merge(&mut fields, written);
                self.database.put(&key, &record::encode(&fields), self.is_synced)?;
            }
        }
        Ok((kind, begun))
    }

    /// A record, checked if the workload says so. `None` if there is none.
    fn read(
        &self,
        key: &str,
        number: u64,
        latencies: &mut Latencies,
    ) -> Result<Option<Vec<record::Field>>, String> {
        let Some(fields) = self.database.get(key, record::decode)? else {
            latencies.missing += 1;
            return Ok(None);
        };
        let fields = fields.ok_or_else(|| format!("{key} is no record that this program has written"))?;
        if self.workload.is_checked {
            let is_right = |(at, (name, value)): (u32, &record::Field)| {
                *name == self.workload.field(at) && *value == self.workload.expected(number, at, value.len())
            };
            let are_right = fields.len() == self.workload.fields as usize
                && (0..).zip(&fields).all(is_right)
                && fields.iter().all(|(_, value)| value.len() as u64 == self.workload.field_length.1);
            latencies.wrong += u64::from(!are_right);
        }
        Ok(Some(fields))
    }
}
