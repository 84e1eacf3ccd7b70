//! SSDs of a rack, four in each target.

use blob::Geometry;
use blob::catalog::SsdRecord;

/// The record of an SSD, by its number.
pub(crate) fn record(number: u32, megas: u32) -> SsdRecord {
    let mega = Geometry::default().mega;
    SsdRecord {
        uuid: format!("uuid-{number}"),
        domain: format!("target-{}", number / 4),
        address: format!("192.0.2.1:{number}"),
        rdma_address: None,
        subsystem: "nqn.2025-01.com.example:x".to_owned(),
        nsid: 1,
        block_size: 4096,
        capacity: u64::from(megas) * mega,
        mega,
    }
}
