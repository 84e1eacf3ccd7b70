//! Checks before anything is written: which contents would be destroyed, and whether the figures will be those of the
//! device.
//!
//! A device in use is refused when it is opened (`server::LocalDevice`). Here, its contents are examined: file systems,
//! partition tables and similar structures, and files with contents that no probe wrote.
//!
//! Holds: `tests/ssdtest.rs`, with real file systems.

use super::contents::is_ours;
use super::real::Real;
use super::signature::{self, HEAD, TAIL};
use super::tested::{Facts, Storage};
use anyhow::Result;
use server::Holes;

/// Number of blocks that are read to find out whether a device was ever written.
const SAMPLES: u64 = 64;
const BLOCK: usize = 4096;

/// Describes the contents that would be destroyed: file systems and similar structures, or a file's contents.
pub(super) fn contents(device: &mut Real, facts: &Facts) -> Result<Option<String>> {
    let size = facts.size.get();
    let head = device.read(0, HEAD.min(size as usize))?;
    let tail = TAIL.min(size as usize);
    let tail = device.read(size - tail as u64, tail)?;
    let found = signature::found(&head, &tail, size);
    if !found.is_empty() {
        return Ok(Some(format!("it carries {}", found.join(" and "))));
    }
    let has_data = matches!(facts.storage, Storage::File(Holes::None | Holes::Some));
    Ok((has_data && !is_ours(&head)).then(|| "it is a file with contents that no probe wrote".to_owned()))
}

/// If most reads find zeros, explains why they may not reach the device's own storage: an SSD completes reads of blocks
/// that were never written, or were deallocated, without its flash.
pub(super) fn unwritten(device: &mut Real, facts: &Facts) -> Result<Option<String>> {
    let blocks = facts.size.get() / BLOCK as u64;
    let mut zeros = 0;
    for n in 0..SAMPLES {
        let block = device.read(blocks * n / SAMPLES * BLOCK as u64, BLOCK)?;
        zeros += u64::from(block.iter().all(|byte| *byte == 0));
    }
    Ok((zeros * 2 > SAMPLES).then(|| {
        "most blocks read as zeros: probably they were never written, and then reads of them do not reach the storage, and the figures \
         of reads are too good; write the whole device once before (a probe that writes does so with a file, not with a device)"
            .to_owned()
    }))
}
