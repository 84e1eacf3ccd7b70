//! The host NQN and host ID of a job, and where in a namespace its IOs go.

use crate::error::BenchError;
use crate::job::{Extent, Job};
use crate::workload::{Region, Step};
use host::{ControllerId, Engine, Namespace, Nqn};
use units::Bytes;

/// Where a job's IOs go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The namespace.
    pub nsid: u32,
    /// The part of it that the job uses.
    pub region: Region,
    /// The region's offset in blocks.
    first_block: u64,
    /// The region's unit in blocks.
    unit_blocks: u64,
}

impl Place {
    /// Where a step begins, in bytes from the start of the namespace.
    pub(crate) fn offset_of(&self, step: Step) -> Bytes {
        Bytes(self.region.offset.get() + step.first * self.region.unit.get())
    }

    /// Length of a step in bytes.
    pub(crate) fn length_of(&self, step: Step) -> Bytes {
        Bytes(step.units * self.region.unit.get())
    }

    /// A step's first block, and how many it has.
    pub(crate) fn blocks_of(&self, step: Step) -> (u64, u32) {
        let blocks =
            u32::try_from(step.units * self.unit_blocks).expect("an IO was checked against the limit");
        (self.first_block + step.first * self.unit_blocks, blocks)
    }
}

/// The host NQN of a job: its own, or one made from its name.
pub(crate) fn host_nqn(job: &Job) -> Result<Nqn, BenchError> {
    let text = job.host_nqn.clone().unwrap_or_else(|| format!("nqn.2025-01.io.gimbal:bench:{}", job.name));
    Nqn::new(&text).map_err(|error| BenchError::Nqn(text, error))
}

/// Finds a job's namespace and region, or says why its IOs do not fit there.
pub(crate) fn locate(engine: &Engine, controller: ControllerId, job: &Job) -> Result<Place, BenchError> {
    let name = || job.name.clone();
    let namespaces = engine.namespaces(controller);
    let is_wanted = |namespace: &&Namespace| job.nsid.is_none_or(|nsid| nsid == namespace.nsid);
    let namespace = namespaces.iter().find(is_wanted).ok_or_else(|| {
        BenchError::Namespace(name(), job.nsid, namespaces.iter().map(|namespace| namespace.nsid).collect())
    })?;
    let block_size = namespace.block_size.get();
    let unit = job.unit();
    if !unit.get().is_multiple_of(block_size)
        || !offset_of(job, namespace, unit).get().is_multiple_of(block_size)
    {
        return Err(BenchError::BlockSize(name(), namespace.block_size));
    }
    if !job.offset_increment.get().is_multiple_of(unit.get()) {
        return Err(BenchError::Increment(name(), unit));
    }
    let transfer_max = engine.info(controller).map_or(Bytes::ZERO, |info| info.transfer_max);
    if job.bs.largest_transfer(job.rw.directions()).is_some_and(|largest| largest > transfer_max) {
        return Err(BenchError::Transfer(name(), transfer_max));
    }
    // The block count of a deallocation has 32 bits.
    let trim_max = Bytes(u64::from(u32::MAX) * block_size);
    if job.bs.largest() > trim_max {
        return Err(BenchError::Transfer(name(), trim_max));
    }
    let shift = job.offset_increment.get().checked_mul(u64::from(job.numjobs - 1));
    let offset = offset_of(job, namespace, unit);
    let begin = shift.and_then(|shift| offset.get().checked_add(shift)).map(Bytes);
    let rest = begin.map_or(Bytes::ZERO, |begin| namespace.size().saturating_sub(begin));
    let size = match job.size {
        Extent::Rest => rest,
        Extent::Bytes(size) => size,
        Extent::Percent(percent) => {
            let size = u128::from(namespace.size().get()) * u128::from(percent) / 100;
            Bytes(size as u64 / unit.get() * unit.get())
        }
    };
    let units = size.get() / unit.get();
    if size > rest || size < job.bs.largest() {
        return Err(BenchError::Region(name(), namespace.size()));
    }
    Ok(Place {
        nsid: namespace.nsid,
        region: Region { offset, unit, units, increment: job.offset_increment.get() / unit.get() },
        first_block: offset.get() / block_size,
        unit_blocks: unit.get() / block_size,
    })
}

/// Where the region of a job begins: as it says, or at a percentage of the namespace, rounded down to a unit.
fn offset_of(job: &Job, namespace: &Namespace, unit: Bytes) -> Bytes {
    let Some(percent) = job.offset_percent else { return job.offset };
    let offset = u128::from(namespace.size().get()) * u128::from(percent) / 100;
    Bytes(offset as u64 / unit.get() * unit.get())
}
