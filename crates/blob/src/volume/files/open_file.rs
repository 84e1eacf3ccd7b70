//! A file that is open for writing, whose layout is ahead of its record.
//!
//! ```text
//!   appended ─► Tail ──blocks──► Units ──written──► Durability ──flushed, records durable──► recorded
//! ```

use super::durability::Durability;
use super::tail::{Blocks, Tail};
use super::units::Units;
use super::usage::Usage;
use crate::format::record::Layout;
use crate::volume::phase::Identity;
use crate::{Fault, FileId};

/// An open file; see the module.
pub(crate) struct OpenFile {
    tail: Tail,
    units: Units,
    durability: Durability,
    usage: Usage,
    /// Maximum number of bytes of one write to an SSD.
    write_max: u64,
    writers: u32,
    /// Number of appends requested. They complete in this order.
    appends_asked: u64,
    /// Number of appends that have completed; the others wait for room.
    appends_ended: u64,
    is_extending: bool,
}

impl OpenFile {
    pub(super) fn new(file: FileId, identity: Identity, write_max: u64, layout: Layout) -> OpenFile {
        OpenFile {
            tail: Tail::new(file, identity, write_max, layout),
            units: Units::new(u64::from(identity.geometry.block)),
            durability: Durability::default(),
            usage: Usage::default(),
            write_max,
            writers: 0,
            appends_asked: 0,
            appends_ended: 0,
            is_extending: false,
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.tail.layout()
    }

    pub(crate) fn size(&self) -> u64 {
        self.tail.layout().size
    }

    pub(crate) fn units(&self) -> &Units {
        &self.units
    }

    pub(crate) fn units_mut(&mut self) -> &mut Units {
        &mut self.units
    }

    pub(crate) fn durability(&self) -> &Durability {
        &self.durability
    }

    pub(crate) fn durability_mut(&mut self) -> &mut Durability {
        &mut self.durability
    }

    /// Whether the next micro blob is taken before the last one is full, so that a sync need not wait for a record.
    pub(crate) fn is_log(&self) -> bool {
        self.usage.is_log()
    }

    /// Offset up to which the bytes are on the SSDs.
    pub(crate) fn on_disk(&self) -> u64 {
        let cut = self.tail.cut_upto();
        self.units.first_offset().map_or(cut, |offset| offset.min(cut))
    }

    /// The first block that is not on the SSDs yet, or may be written again.
    pub(super) fn first_open_block(&self) -> u64 {
        let begun = self.tail.first_block();
        self.units.first_block().map_or(begun, |block| block.min(begun))
    }

    pub(super) fn add_writer(&mut self) {
        self.writers += 1;
    }

    /// Removes a writer that has closed its handle. Returns the number of those left.
    pub(crate) fn remove_writer(&mut self) -> u32 {
        self.writers -= 1;
        self.writers
    }

    /// Counts a requested append. Returns its turn.
    pub(crate) fn begin_append(&mut self) -> u64 {
        self.appends_asked += 1;
        self.appends_asked
    }

    /// Notes that the append of this turn has completed.
    pub(crate) fn end_append(&mut self, turn: u64) {
        self.appends_ended = turn;
    }

    /// The turn of the last requested append.
    pub(crate) fn last_append(&self) -> u64 {
        self.appends_asked
    }

    /// Whether the appends up to this turn have completed.
    pub(crate) fn has_appended(&self, turn: u64) -> bool {
        self.appends_ended >= turn
    }

    fn add_unit(&mut self, blocks: Option<Blocks>) {
        if let Some(blocks) = blocks {
            self.units.add(blocks, self.usage.class());
        }
    }

    /// Takes bytes into the buffers. Full units then wait to be sent.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (taken, blocks) = self.tail.take(bytes);
            self.usage.on_append(taken as u64);
            self.add_unit(blocks);
            bytes = &bytes[taken..];
        }
    }

    /// Puts all appended bytes into units. Returns the number after the last of them.
    fn cut_all(&mut self, ends_block: bool) -> u64 {
        self.units.retry();
        self.usage.on_flush(self.write_max, !self.tail.is_empty());
        if !self.tail.is_empty() {
            if ends_block {
                let blocks = self.tail.end_block();
                self.add_unit(blocks);
            } else {
                self.tail.seal_begun();
            }
        }
        let blocks = self.tail.cut();
        self.add_unit(blocks);
        self.units.next()
    }

    /// If a single waiting unit is all that is not durable yet, makes its write durable instead of sending a flush
    /// after it.
    fn harden_single_unit(&mut self) {
        if self.durability.is_flushed() {
            self.units.harden_single();
        }
    }

    /// Puts all appended bytes into units. The begun block is sent as it is. Returns the number after the last unit.
    pub(crate) fn cut_for_flush(&mut self) -> u64 {
        let upto = self.cut_all(false);
        if self.usage.expects_sync() {
            self.harden_single_unit();
        }
        upto
    }

    /// Puts all appended bytes into units, and ends the begun block. Returns the number after the last unit.
    pub(crate) fn cut_for_sync(&mut self) -> u64 {
        let upto = self.cut_all(true);
        self.usage.on_sync();
        self.harden_single_unit();
        upto
    }

    /// Makes the next `length` bytes go to this offset. They must reach at least the end of the file.
    pub(crate) fn rewind(&mut self, offset: u64, length: u64) -> Result<(), Fault> {
        if offset > self.size() || offset + length < self.size() {
            return Err(Fault::Invalid);
        }
        if offset < self.size() {
            if !self.tail.is_empty() {
                let blocks = self.tail.end_block();
                self.add_unit(blocks);
            }
            let blocks = self.tail.cut();
            self.add_unit(blocks);
            self.tail.rewind(offset);
        }
        Ok(())
    }

    /// Cuts the file, which must be synced. Returns the layout to be recorded.
    pub(crate) fn truncate(&mut self, size: u64) -> Layout {
        self.tail.rewind(size.min(self.size()));
        self.tail.end_micro()
    }

    fn is_settled(&self) -> bool {
        self.units.is_empty() && self.durability.is_whole() && self.on_disk() == self.size()
    }

    /// Makes the next block go to another micro blob. Returns the layout to be recorded; `None` if not all is durable,
    /// or there is no writer.
    pub(crate) fn end_micro(&mut self) -> Option<Layout> {
        (self.writers > 0 && self.is_settled() && self.tail.is_empty()).then(|| self.tail.end_micro())
    }

    /// The layout to be recorded; `None` if not all is durable, or there is a writer.
    pub(crate) fn final_layout(&self) -> Option<Layout> {
        (self.writers == 0 && self.is_settled()).then(|| self.layout().clone())
    }

    /// Notes that a task is taking another micro blob for the file; only one may at a time.
    pub(crate) fn begin_extending(&mut self) {
        self.is_extending = true;
    }

    pub(crate) fn end_extending(&mut self) {
        self.is_extending = false;
    }

    pub(crate) fn is_extending(&self) -> bool {
        self.is_extending
    }

    /// Whether no write to the file's micro blobs is in flight, and none is being taken for it.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_extending && !self.units.is_any_sending()
    }
}
