//! A file whose layout is ahead of its record, as it is while it is written to.
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

/// See the module.
pub(crate) struct OpenFile {
    tail: Tail,
    units: Units,
    durability: Durability,
    usage: Usage,
    /// Bytes of one write to an SSD.
    write_max: u64,
    writers: u32,
    /// Number of appends requested. They complete in this order.
    appends_asked: u64,
    /// Number of them that have completed; the others wait for room.
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

    /// Blocks of the last micro blob are taken before it is full, so that a sync need not wait for a record.
    pub(crate) fn is_log(&self) -> bool {
        self.usage.is_log()
    }

    /// Bytes before this offset are on the SSDs.
    pub(crate) fn on_disk(&self) -> u64 {
        let cut = self.tail.cut_upto();
        self.units.first_offset().map_or(cut, |offset| offset.min(cut))
    }

    /// Blocks before this one are on the SSDs, and not written to any more.
    pub(super) fn first_open_block(&self) -> u64 {
        let begun = self.tail.first_block();
        self.units.first_block().map_or(begun, |block| block.min(begun))
    }

    pub(super) fn add_writer(&mut self) {
        self.writers += 1;
    }

    /// A writer has closed its handle. Returns how many are left.
    pub(crate) fn remove_writer(&mut self) -> u32 {
        self.writers -= 1;
        self.writers
    }

    /// An append is asked for. Returns its turn.
    pub(crate) fn begin_append(&mut self) -> u64 {
        self.appends_asked += 1;
        self.appends_asked
    }

    /// The append of this turn has completed.
    pub(crate) fn end_append(&mut self, turn: u64) {
        self.appends_ended = turn;
    }

    /// The turn of the last append that was asked for.
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

    /// Takes bytes into the buffers. Full units wait to be sent then.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (taken, blocks) = self.tail.take(bytes);
            self.usage.on_append(taken as u64);
            self.add_unit(blocks);
            bytes = &bytes[taken..];
        }
    }

    /// Puts everything that was appended into units. Returns the number behind the last of them.
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

    /// All that is left to make durable is one unit that waits: then it is written durably, in place of a flush behind it.
    fn harden_single_unit(&mut self) {
        if self.durability.is_flushed() {
            self.units.harden_single();
        }
    }

    /// Puts everything that was appended into units. The begun block goes out as it is. Returns the number behind the last unit.
    pub(crate) fn cut_for_flush(&mut self) -> u64 {
        let upto = self.cut_all(false);
        if self.usage.expects_sync() {
            self.harden_single_unit();
        }
        upto
    }

    /// Puts everything that was appended into units, and ends the begun block. Returns the number behind the last unit.
    pub(crate) fn cut_for_sync(&mut self) -> u64 {
        let upto = self.cut_all(true);
        self.usage.on_sync();
        self.harden_single_unit();
        upto
    }

    /// The next `length` bytes are written at this offset. They must go up to the end of the file at least.
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

    /// Cuts the file, which is synced. Returns the layout to be recorded.
    pub(crate) fn truncate(&mut self, size: u64) -> Layout {
        self.tail.rewind(size.min(self.size()));
        self.tail.end_micro()
    }

    fn is_settled(&self) -> bool {
        self.units.is_empty() && self.durability.is_whole() && self.on_disk() == self.size()
    }

    /// The next block goes to another micro blob. Returns the layout to be recorded; `None` if something is not durable, or there is no writer.
    pub(crate) fn end_micro(&mut self) -> Option<Layout> {
        (self.writers > 0 && self.is_settled() && self.tail.is_empty()).then(|| self.tail.end_micro())
    }

    /// The layout to be recorded; `None` if something is not durable, or there is a writer.
    pub(crate) fn final_layout(&self) -> Option<Layout> {
        (self.writers == 0 && self.is_settled()).then(|| self.layout().clone())
    }

    /// Another micro blob is taken for the file, by one task at a time.
    pub(crate) fn begin_extending(&mut self) {
        self.is_extending = true;
    }

    pub(crate) fn end_extending(&mut self) {
        self.is_extending = false;
    }

    pub(crate) fn is_extending(&self) -> bool {
        self.is_extending
    }

    /// Whether nothing is written to the file's micro blobs, nor taken for it.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_extending && !self.units.is_any_sending()
    }
}
