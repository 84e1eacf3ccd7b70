//! Scrub: reads and checks every copy of every block, and repairs wrong ones.

use super::Repairer;
use crate::format::record::Layout;
use crate::volume::Report;
use crate::volume::check;
use crate::volume::copies::Copies;
use crate::volume::files::Files;
use crate::volume::metadata::Metadata;
use crate::volume::parts::Parts;
use crate::volume::phase::Phase;
use crate::{Class, Fault, FileId};
use std::rc::Rc;

/// The procedure; see the module.
pub(crate) struct Scrubber {
    phase: Rc<Phase>,
    metadata: Rc<Metadata>,
    files: Rc<Files>,
    copies: Rc<Copies>,
    repairer: Rc<Repairer>,
}

impl Scrubber {
    pub(crate) fn new(parts: &Parts, copies: &Rc<Copies>, repairer: &Rc<Repairer>) -> Rc<Scrubber> {
        Rc::new(Scrubber {
            phase: Rc::clone(&parts.phase),
            metadata: Rc::clone(&parts.metadata),
            files: Rc::clone(&parts.files),
            copies: Rc::clone(copies),
            repairer: Rc::clone(repairer),
        })
    }

    /// Checks every copy of every block, and repairs copies that differ from the data written.
    pub(crate) async fn scrub(&self) -> Result<Report, Fault> {
        let mut report = Report::default();
        let files: Vec<FileId> = self.metadata.files();
        for file in files {
            self.files.pin(file);
            let Some(settled) = self.files.settled(file) else {
                self.files.unpin(file);
                continue;
            };
            let layout = self.files.with_layout(file, Layout::clone).unwrap_or_default();
            for extent in 0..settled {
                self.scrub_extent(file, extent, &layout, &mut report).await;
            }
            self.files.unpin(file);
        }
        let repaired = self.repairer.repair().await?;
        report.repaired += repaired.repaired;
        report.left += repaired.left;
        report.lost = report.lost.max(repaired.lost);
        report.away = repaired.away;
        Ok(report)
    }

    async fn scrub_extent(&self, file: FileId, extent: u64, layout: &Layout, report: &mut Report) {
        let copies = {
            let state = self.metadata.state();
            let entry = state.file(file).and_then(|entry| entry.extents.get(extent as usize));
            let Some(entry) = entry else { return };
            [entry.good(0), entry.good(1)]
        };
        let wanted = check::wanted_blocks(layout, extent, &self.phase.geometry());
        let micro_blocks = self.phase.geometry().micro_blocks();
        let mut corrupt = [0u64; 2];
        for run in wanted.chunk_by(|one, next| one.index + 1 == next.index) {
            for (side, place) in copies.iter().enumerate() {
                let Some(place) = place else { continue };
                let read =
                    self.copies.read(file, Class::Background, *place, run[0].index % micro_blocks, run).await;
                report.checked +=
                    if matches!(read, Ok(_) | Err(Fault::Corrupt)) { run.len() as u64 } else { 0 };
                if read == Err(Fault::Corrupt) {
                    for wanted in run {
                        let one = std::slice::from_ref(wanted);
                        let read = self
                            .copies
                            .read(file, Class::Background, *place, wanted.index % micro_blocks, one)
                            .await;
                        corrupt[side] += u64::from(read == Err(Fault::Corrupt));
                    }
                }
            }
        }
        report.corrupt += corrupt[0] + corrupt[1];
        match corrupt {
            [0, 0] => {}
            [_, 0] => self.copies.mark_stale(file, extent, 0),
            [0, _] => self.copies.mark_stale(file, extent, 1),
            _ => report.lost += 1,
        }
    }
}
