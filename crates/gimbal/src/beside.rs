//! Flags of databases beside other tenants of their SSDs, in virtual time (`lab::rocksdb`) and live (`bench::ycsb`).

use anyhow::{Context, Result, anyhow};
use rack::Work;
use sched::{Percentile, Slo};
use units::Nanos;

/// See the module.
#[derive(clap::Args, Debug)]
pub(crate) struct Beside {
    /// Other tenants of every SSD: `backup` (reads of 128 KiB in order, 16 outstanding), `load` (writes, the same),
    /// `batch` (reads of 4 KiB at random, 128 outstanding); a name may be repeated
    #[arg(long, value_name = "WORK,...", value_delimiter = ',')]
    neighbour: Vec<Work>,
    /// Each database has this objective on each SSD, with `level` and ReFlex: IOs per second, and the 99th percentile of
    /// their latency
    #[arg(long, value_names = ["IOPS", "TIME"], num_args = 2)]
    objective: Option<Vec<String>>,
    /// Reads among the objective's IOs, in percent; with 0 it is one for writes
    #[arg(long, value_name = "PERCENT", default_value_t = 100, requires = "objective", value_parser = clap::value_parser!(u8).range(0..=100))]
    objective_reads: u8,
}

impl Beside {
    /// The work of each neighbour.
    pub(crate) fn neighbours(&self) -> &[Work] {
        &self.neighbour
    }

    /// Whether any of it is asked for.
    pub(crate) fn is_given(&self) -> bool {
        !self.neighbour.is_empty() || self.objective.is_some()
    }

    /// The objective of a database.
    pub(crate) fn objective(&self) -> Result<Option<Slo>> {
        let Some(words) = &self.objective else { return Ok(None) };
        let [iops, latency] = &words[..] else { unreachable!("clap takes two") };
        let iops: u64 = iops.parse().ok().filter(|iops| *iops > 0).with_context(|| {
            format!("--objective: {iops} is no number of IOs per second; write 2000, for example")
        })?;
        let latency: Nanos = latency
            .parse()
            .map_err(|error| anyhow!("--objective: {latency}: {error}; write 2ms, for example"))?;
        Ok(Some(Slo { iops, read_percent: self.objective_reads, percentile: Percentile::P99, latency }))
    }
}
