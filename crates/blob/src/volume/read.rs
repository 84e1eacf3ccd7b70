//! Reading: the choice of blocks and copies, and the handling of wrong blocks.
//!
//! All pieces of a read are in flight at the same time. The steering chooses a copy for each. If that cannot be
//! reached, or a block is not the one that was written, the other copy is read. A copy that has wrong bytes where the
//! other has the right ones is marked stale, and repaired later. If neither has the right bytes, the read fails and
//! returns no data. If neither can be reached, the read waits until an SSD is back, for as long as the volume's
//! patience, because RocksDB handles a delay better than an error.
//!
//! Holds: `tests/worlds.rs`, `tests/faults.rs`.

use super::Settings;
use super::check::Wanted;
use super::clock::Clock;
use super::copies::{Blocks, Copies};
use super::disks::Disks;
use super::files::Files;
use super::metadata::Metadata;
use super::parts::Parts;
use super::phase::Phase;
use super::write::Syncer;
use crate::task::join;
use crate::{Class, Fault, FileId, SsdId};
use std::cell::Cell;
use std::rc::Rc;
use units::Nanos;

/// Time after a failed read within which the SSD is reported as unreachable.
const NEWS: Nanos = Nanos::millis(10);

/// Consecutive blocks of one micro blob.
struct Piece {
    extent: u64,
    class: Class,
    /// First block within the micro blob.
    first: u64,
    blocks: Vec<Wanted>,
}

/// The procedure of reading; see the module.
pub(crate) struct Reader {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    phase: Rc<Phase>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    files: Rc<Files>,
    copies: Rc<Copies>,
    syncer: Rc<Syncer>,
    /// Number of reads that found wrong bytes in a copy.
    corrupt: Cell<u64>,
}

impl Reader {
    pub(crate) fn new(parts: &Parts, copies: &Rc<Copies>, syncer: &Rc<Syncer>) -> Rc<Reader> {
        Rc::new(Reader {
            settings: Rc::clone(&parts.settings),
            clock: Rc::clone(&parts.clock),
            phase: Rc::clone(&parts.phase),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            files: Rc::clone(&parts.files),
            copies: Rc::clone(copies),
            syncer: Rc::clone(syncer),
            corrupt: Cell::default(),
        })
    }

    /// Number of reads since the mount that found wrong bytes in a copy.
    pub(crate) fn corrupt(&self) -> u64 {
        self.corrupt.get()
    }

    /// Reads bytes of a file; returns fewer only at its end.
    pub(crate) async fn read(
        &self,
        file: FileId,
        class: Class,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Fault> {
        let size = self.files.size(file)?;
        let end = offset.saturating_add(length).min(size);
        if offset >= end {
            return Ok(Vec::new());
        }
        if end > self.files.on_disk(file) {
            self.syncer.flush(file).await?;
        }
        let pieces = self.pieces(file, class, offset, end)?;
        let ends = join(pieces.iter().map(|piece| self.read_piece_or_blocks(file, piece))).await;
        let mut bytes = Vec::with_capacity((end - offset) as usize);
        for (piece, end) in pieces.iter().zip(ends) {
            let blocks = end?;
            for (number, wanted) in piece.blocks.iter().enumerate() {
                let payload = blocks.payload(number, wanted);
                let skip = offset.saturating_sub(wanted.offset).min(payload.len() as u64) as usize;
                bytes.extend_from_slice(&payload[skip..]);
            }
        }
        bytes.truncate((end - offset) as usize);
        Ok(bytes)
    }

    fn pieces(&self, file: FileId, class: Class, offset: u64, end: u64) -> Result<Vec<Piece>, Fault> {
        let geometry = self.phase.geometry();
        let (payload, micro_blocks) = (geometry.payload(), geometry.micro_blocks());
        let blocks_max = (self.settings.read_max.0 / u64::from(geometry.block)).max(1) as usize;
        self.files.with_layout(file, |layout| {
            let mut pieces: Vec<Piece> = Vec::new();
            let mut at = offset;
            // The file may have been cut meanwhile.
            while let Some((run, run_end)) = layout.run_at(at).filter(|_| at < end) {
                let index = run.block + (at - run.offset) / payload;
                let first = run.offset + (index - run.block) * payload;
                let wanted = Wanted { index, offset: first, length: payload.min(run_end - first) };
                at = first + wanted.length;
                let (extent, within) = (index / micro_blocks, index % micro_blocks);
                match pieces.last_mut() {
                    Some(last)
                        if last.extent == extent
                            && last.first + last.blocks.len() as u64 == within
                            && last.blocks.len() < blocks_max =>
                    {
                        last.blocks.push(wanted);
                    }
                    _ => pieces.push(Piece { extent, class, first: within, blocks: vec![wanted] }),
                }
            }
            pieces
        })
    }

    /// Reads a piece. If neither copy has all of its blocks, reads each block by itself.
    async fn read_piece_or_blocks(&self, file: FileId, piece: &Piece) -> Result<Blocks, Fault> {
        let result = self.read_piece(file, piece).await;
        if result != Err(Fault::Corrupt) || piece.blocks.len() == 1 {
            return result;
        }
        let one = |(number, wanted): (usize, &Wanted)| Piece {
            first: piece.first + number as u64,
            blocks: vec![*wanted],
            ..*piece
        };
        let mut ones = piece.blocks.iter().enumerate().map(one);
        let first = ones.next().expect("a piece has a block");
        let mut blocks = self.read_piece(file, &first).await?;
        for one in ones {
            blocks.append(&mut self.read_piece(file, &one).await?);
        }
        Ok(blocks)
    }

    /// Reads a piece from either copy. A repair may move a copy meanwhile, and its old place may be reused: then the
    /// new place is read.
    async fn read_piece(&self, file: FileId, piece: &Piece) -> Result<Blocks, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        let mut has_paused = false;
        loop {
            let before = self.metadata.good_copies(file, piece.extent);
            let result = self.read_piece_once(file, piece).await;
            if result.is_ok() {
                return result;
            }
            let has_moved = self.metadata.good_copies(file, piece.extent) != before;
            let ssds: Vec<SsdId> = before.iter().map(|(_, place)| place.ssd).collect();
            if has_moved || result == Err(Fault::Unreachable) && self.disks.wait_for_one(&ssds, give_up).await
            {
                continue;
            }
            if has_paused || result == Err(Fault::Corrupt) || self.clock.now() >= give_up {
                return result;
            }
            // The SSD may be reported as unreachable a little later than the read fails.
            self.clock.sleep(NEWS).await;
            has_paused = true;
        }
    }

    async fn read_piece_once(&self, file: FileId, piece: &Piece) -> Result<Blocks, Fault> {
        let mut copies = self.metadata.good_copies(file, piece.extent);
        if let [one, other] = copies[..] {
            let chosen = self.disks.choose([one, other].map(|(_, place)| place.ssd));
            if chosen == 1 {
                copies.swap(0, 1);
            }
        }
        let mut fault = Fault::Unreachable;
        let mut damaged = None;
        for (side, place) in copies {
            match self.copies.read(file, piece.class, place, piece.first, &piece.blocks).await {
                Ok(blocks) => {
                    if let Some(damaged) =
                        damaged.filter(|bad| self.metadata.good_copies(file, piece.extent).contains(bad))
                    {
                        let (damaged, _) = damaged;
                        self.corrupt.set(self.corrupt.get() + 1);
                        self.copies.mark_stale(file, piece.extent, damaged);
                    }
                    return Ok(blocks);
                }
                Err(Fault::Corrupt) => {
                    fault = Fault::Corrupt;
                    damaged = Some((side, place));
                }
                Err(_) => {}
            }
        }
        Err(fault)
    }
}
