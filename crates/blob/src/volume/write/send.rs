//! Sends units to both copies, many at a time, so that no older write of a block overtakes a later one.

use super::extend::Extents;
use crate::task::Spawner;
use crate::volume::Settings;
use crate::volume::clock::Clock;
use crate::volume::copies::Copies;
use crate::volume::files::{Files, OpenFile, UnitState};
use crate::volume::parts::Parts;
use crate::volume::phase::Phase;
use crate::{Fault, FileId};
use std::rc::Rc;

/// The procedure; see the module.
pub(crate) struct Sender {
    settings: Rc<Settings>,
    spawner: Spawner,
    clock: Rc<Clock>,
    phase: Rc<Phase>,
    files: Rc<Files>,
    extents: Rc<Extents>,
    copies: Rc<Copies>,
}

impl Sender {
    pub(crate) fn new(parts: &Parts, extents: &Rc<Extents>, copies: &Rc<Copies>) -> Rc<Sender> {
        Rc::new(Sender {
            settings: Rc::clone(&parts.settings),
            spawner: parts.spawner.clone(),
            clock: Rc::clone(&parts.clock),
            phase: Rc::clone(&parts.phase),
            files: Rc::clone(&parts.files),
            extents: Rc::clone(extents),
            copies: Rc::clone(copies),
        })
    }

    /// Starts to send the waiting units, unless a task already does.
    pub(super) fn send(self: &Rc<Self>, file: FileId) {
        if self.files.with(file, |open| open.units_mut().begin_sending()) == Ok(true) {
            let sender = Rc::clone(self);
            self.spawner.spawn(async move {
                let result = sender.send_waiting(file).await;
                let _ = sender.files.with(file, |open| open.units_mut().end_sending(result));
                sender.files.notify();
            });
        }
    }

    async fn send_waiting(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let micro_blocks = self.phase.geometry().micro_blocks();
        loop {
            let next = self.files.with(file, |open| open.units().next_waiting());
            let Ok(Some(span)) = next else { return Ok(()) };
            let extent = span.first / micro_blocks;
            self.extents.extend_to(file, extent).await?;
            let is_half_full = span.end - extent * micro_blocks > micro_blocks / 2;
            if is_half_full && self.files.with(file, |open| open.is_log()) == Ok(true) {
                self.extents.extend_ahead(file, extent + 1);
            }
            let now = self.clock.now();
            if let Ok(Some(until)) = self.files.with(file, |open| open.units_mut().risk(span, now)) {
                self.clock.sleep_until(until).await;
            }
            let has_room = |open: Option<&OpenFile>| open.is_none_or(|open| open.units().has_room(span));
            self.files.wait(file, |open| has_room(open).then_some(())).await;
            let state = self.files.with(file, |open| open.units_mut().claim(span));
            if state != Ok(UnitState::Sending) {
                self.files.notify();
                continue;
            }
            let sender = Rc::clone(self);
            self.spawner.spawn(async move { sender.write_unit(file, span.unit).await });
        }
    }

    /// Writes a unit to both copies.
    async fn write_unit(self: Rc<Self>, file: FileId, id: u64) {
        let Ok(Some(write)) = self.files.with(file, |open| open.units().write_of(id)) else { return };
        let result = self.copies.write(file, &write).await;
        let risky_until = self.clock.now() + self.settings.quarantine;
        let _ = self.files.with(file, |open| open.units_mut().on_written(id, result, risky_until));
        self.files.notify();
    }

    /// Waits until the units of a file before this one are written.
    pub(super) async fn sent(&self, file: FileId, upto: u64) -> Result<(), Fault> {
        self.files.wait(file, |open| open.map_or(Some(Ok(())), |open| open.units().written(upto))).await
    }
}
