//! The naive model of the contents that each block may have.
//!
//! Every write of a block is a new *version* of it, and a block has at most one outstanding write. So a read must find one of the
//! versions from the oldest that may still be there up to the newest that was submitted:
//!
//! ```text
//!     flushed ≤ acknowledged ≤ submitted           a read: acknowledged … submitted
//!                                                  after a loss: flushed … submitted; a version that was read stays
//! ```
//!
//! Holds: the model detects a version that was lost or came back (`what_was_flushed_may_not_be_lost` and others).

/// A version of a block; 0 is its first content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u64);

#[derive(Clone, Copy)]
struct Block {
    /// The version that survives a loss of the target.
    flushed: Version,
    /// The oldest that a read may find.
    oldest: Version,
    /// The newest that was acknowledged.
    acknowledged: Version,
    /// The newest that was submitted.
    submitted: Version,
    is_being_written: bool,
    /// The target was lost after `acknowledged`, and the block was not read since then.
    is_unsure: bool,
}

/// All blocks.
pub(super) struct Model {
    blocks: Vec<Block>,
    /// Number of times the target was lost.
    crashes: u64,
    unflushed_and_gone: u64,
}

/// The versions that a read may find, as of its submission.
pub(super) struct Reading {
    block: u64,
    oldest: Vec<Version>,
    crashes: u64,
}

/// The versions that a flush makes durable.
pub(super) struct Flushing {
    acknowledged: Vec<Version>,
}

impl Model {
    pub(super) fn new(blocks: u64) -> Model {
        let zero = Version(0);
        let block = Block {
            flushed: zero,
            oldest: zero,
            acknowledged: zero,
            submitted: zero,
            is_being_written: false,
            is_unsure: false,
        };
        Model { blocks: vec![block; blocks as usize], crashes: 0, unflushed_and_gone: 0 }
    }

    /// A write of `count` blocks. Returns the version of each, or `None` if another write to one of them is outstanding.
    pub(super) fn on_write_submitted(&mut self, block: u64, count: u64) -> Option<Vec<Version>> {
        let blocks = &mut self.blocks[block as usize..][..count as usize];
        if blocks.iter().any(|block| block.is_being_written) {
            return None;
        }
        let submit = |block: &mut Block| {
            block.is_being_written = true;
            block.submitted.0 += 1;
            block.submitted
        };
        Some(blocks.iter_mut().map(submit).collect())
    }

    /// A write was acknowledged, or ended without a response: then it may or may not have been done.
    pub(super) fn on_write_ended(&mut self, block: u64, versions: &[Version], is_acknowledged: bool) {
        for (block, version) in self.blocks[block as usize..].iter_mut().zip(versions) {
            block.is_being_written = false;
            if is_acknowledged {
                (block.acknowledged, block.oldest, block.is_unsure) = (*version, *version, false);
            }
        }
    }

    pub(super) fn on_flush_submitted(&self) -> Flushing {
        Flushing { acknowledged: self.blocks.iter().map(|block| block.oldest).collect() }
    }

    /// A flush was acknowledged: everything that was acknowledged before its submission is durable.
    pub(super) fn on_flushed(&mut self, flushing: Flushing) {
        for (block, acknowledged) in self.blocks.iter_mut().zip(flushing.acknowledged) {
            // A read after a loss in between may have found an older version; that read reported the error already.
            block.flushed = block.flushed.max(acknowledged);
            block.oldest = block.oldest.max(block.flushed);
        }
    }

    pub(super) fn on_read_submitted(&self, block: u64, count: u64) -> Reading {
        let blocks = &self.blocks[block as usize..][..count as usize];
        Reading { block, oldest: blocks.iter().map(|block| block.oldest).collect(), crashes: self.crashes }
    }

    /// A read has ended, with these versions if it has a response. The error names the version that is wrong.
    pub(super) fn on_read_ended(
        &mut self,
        reading: Reading,
        found: Option<&[Version]>,
    ) -> Result<(), String> {
        let Some(found) = found else { return Ok(()) };
        let no_loss = reading.crashes == self.crashes;
        let numbered = (reading.block..).zip(&mut self.blocks[reading.block as usize..]);
        for (((number, block), found), oldest) in numbered.zip(found).zip(reading.oldest) {
            let oldest = if no_loss { oldest } else { block.flushed.min(oldest) };
            if *found < oldest || *found > block.submitted {
                return Err(format!(
                    "block {number} has version {}, but the oldest possible is {} and the newest {}; {} was acknowledged, \
                     {} flushed",
                    found.0, oldest.0, block.submitted.0, block.acknowledged.0, block.flushed.0
                ));
            }
            if no_loss && block.is_unsure && !block.is_being_written {
                block.is_unsure = false;
                self.unflushed_and_gone += u64::from(*found < block.acknowledged);
                block.oldest = block.oldest.max(*found);
            }
        }
        Ok(())
    }

    /// The target is lost, and everything that was not flushed may be lost with it.
    pub(super) fn on_crash(&mut self) {
        self.crashes += 1;
        for block in &mut self.blocks {
            block.oldest = block.flushed;
            block.is_unsure = true;
        }
    }

    pub(super) fn unflushed_and_gone(&self) -> u64 {
        self.unflushed_and_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(model: &mut Model, times: u64) {
        for _ in 0..times {
            let versions = model.on_write_submitted(0, 1).expect("none is under way");
            model.on_write_ended(0, &versions, true);
        }
    }

    fn read(model: &mut Model, version: u64) -> bool {
        let reading = model.on_read_submitted(0, 1);
        model.on_read_ended(reading, Some(&[Version(version)])).is_ok()
    }

    #[test]
    fn a_read_finds_what_was_acknowledged_or_is_outstanding() {
        let mut model = Model::new(1);
        written(&mut model, 2);
        assert!(read(&mut model, 2) && !read(&mut model, 1) && !read(&mut model, 3));
        let versions = model.on_write_submitted(0, 1).expect("none is under way");
        assert!(model.on_write_submitted(0, 1).is_none());
        assert!(read(&mut model, 2) && read(&mut model, 3));
        model.on_write_ended(0, &versions, false);
        assert!(read(&mut model, 2) && read(&mut model, 3), "whether it was done is unknown");
    }

    #[test]
    fn what_was_flushed_may_not_be_lost() {
        let mut model = Model::new(1);
        written(&mut model, 2);
        let flushing = model.on_flush_submitted();
        written(&mut model, 2);
        model.on_flushed(flushing);
        assert!(!read(&mut model, 3), "without a loss, what was acknowledged is there");
        let reading = model.on_read_submitted(0, 1);
        model.on_crash();
        assert!(model.on_read_ended(reading, Some(&[Version(2)])).is_ok());
        assert!(!read(&mut model, 1) && read(&mut model, 3));
        assert_eq!(model.unflushed_and_gone(), 1);
        assert!(!read(&mut model, 2), "what was seen after the loss stays");
    }
}
