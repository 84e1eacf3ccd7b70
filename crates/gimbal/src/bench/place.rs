//! Who a job is to the target, and where in a namespace its IOs go.

use super::error::BenchError;
use super::job::Job;
use super::workload::{Region, Step};
use host::{ControllerId, Engine, HostId, Namespace, Nqn};
use units::Bytes;

/// Where a job's IOs go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The namespace.
    pub(super) nsid: u32,
    /// The part of it that the job uses.
    pub(super) region: Region,
    /// The region's offset in blocks.
    pub(super) first_block: u64,
    /// The region's step in blocks.
    pub(super) step_blocks: u32,
}

impl Place {
    /// Where a step lies, in bytes from the start of the namespace.
    pub(super) fn offset_of(&self, step: Step) -> Bytes {
        Bytes(self.region.offset.get() + step.number * self.region.step.get())
    }
}

/// The host NQN of a job: its own, or one made from its name.
pub(super) fn host_nqn(job: &Job) -> Result<Nqn, BenchError> {
    let text = job.host_nqn.clone().unwrap_or_else(|| format!("nqn.2025-01.io.gimbal:bench:{}", job.name));
    Nqn::new(&text).map_err(|error| BenchError::Nqn(text, error))
}

/// A host identifier that is the same for the same name in every run (two rounds of FNV-1a).
pub(super) fn host_id(host: &Nqn) -> HostId {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = |basis: u64| {
        host.as_str().bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    };
    let (low, high) = (hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4));
    HostId((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
}

/// Finds a job's namespace and region, or says why its IOs have no place there.
pub(super) fn locate(engine: &Engine, controller: ControllerId, job: &Job) -> Result<Place, BenchError> {
    let name = || job.name.clone();
    let namespaces = engine.namespaces(controller);
    let is_wanted = |namespace: &&Namespace| job.nsid.is_none_or(|nsid| nsid == namespace.nsid);
    let namespace = namespaces.iter().find(is_wanted).ok_or_else(|| {
        BenchError::Namespace(name(), job.nsid, namespaces.iter().map(|namespace| namespace.nsid).collect())
    })?;
    let block_size = namespace.block_size.get();
    if !job.bs.get().is_multiple_of(block_size) || !job.offset.get().is_multiple_of(block_size) {
        return Err(BenchError::BlockSize(name(), namespace.block_size));
    }
    let transfer_max = engine.info(controller).map_or(Bytes::ZERO, |info| info.transfer_max);
    if job.bs > transfer_max {
        return Err(BenchError::Transfer(name(), transfer_max));
    }
    let rest = namespace.size().saturating_sub(job.offset);
    let size = job.size.unwrap_or(rest);
    let steps = size.get() / job.bs.get();
    if size > rest || steps == 0 {
        return Err(BenchError::Region(name(), namespace.size()));
    }
    Ok(Place {
        nsid: namespace.nsid,
        region: Region { offset: job.offset, step: job.bs, steps },
        first_block: job.offset.get() / block_size,
        step_blocks: (job.bs.get() / block_size) as u32,
    })
}
