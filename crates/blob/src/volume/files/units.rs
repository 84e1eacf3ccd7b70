//! Units of an open file: blocks that are written together, and the state of each unit.
//!
//! ```text
//!   added ─► waiting ──claimed──► sending ──written──► gone
//!               ▲                    │ failed on every copy
//!               └──flush or sync── failed
//! ```
//!
//! A block is sent again only after its last write can no longer take effect: else the older write could overtake.
//!
//! Holds: `a_later_write_of_a_block_fails_behind_an_older_one_that_failed`,
//!        `a_block_whose_write_was_given_up_is_risky_for_other_units_for_a_while`.

use super::tail::Blocks;
use crate::{Class, Fault};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Instant;

/// Maximum number of units of a file in flight.
const SENDING_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitState {
    Waiting,
    Sending,
    Failed(Fault),
}

struct Unit {
    first: u64,
    /// The block after the last one.
    end: u64,
    /// Offset in the file of the first byte.
    offset: u64,
    bytes: Arc<Vec<u8>>,
    /// Whether its write is durable and needs no flush.
    is_durable: bool,
    class: Class,
    state: UnitState,
}

impl Unit {
    fn overlaps(&self, first: u64, end: u64) -> bool {
        self.first < end && first < self.end
    }
}

/// A unit failed on every copy; its writes may still take effect.
#[derive(Clone, Copy, Debug)]
struct Risk {
    unit: u64,
    first: u64,
    end: u64,
    until: Instant,
}

/// A unit and its blocks: the first one, and the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) unit: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// A write of a unit.
pub(crate) struct UnitWrite {
    pub(crate) first: u64,
    pub(crate) class: Class,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Whether it must survive a power loss once it has completed.
    pub(crate) is_durable: bool,
}

/// The units of an open file; see the module.
pub(crate) struct Units {
    /// Bytes of a block.
    block: u64,
    units: BTreeMap<u64, Unit>,
    next: u64,
    /// Whether a task sends the waiting units.
    is_sending: bool,
    risks: Vec<Risk>,
}

impl Units {
    pub(super) fn new(block: u64) -> Units {
        Units { block, units: BTreeMap::new(), next: 0, is_sending: false, risks: Vec::new() }
    }

    pub(super) fn add(&mut self, blocks: Blocks, class: Class) {
        let unit = Unit {
            first: blocks.first,
            end: blocks.first + blocks.bytes.len() as u64 / self.block,
            offset: blocks.offset,
            bytes: Arc::new(blocks.bytes),
            is_durable: false,
            class,
            state: UnitState::Waiting,
        };
        self.units.insert(self.next, unit);
        self.next += 1;
    }

    /// The number after the last unit.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The first block in a unit.
    pub(super) fn first_block(&self) -> Option<u64> {
        self.units.values().map(|unit| unit.first).min()
    }

    /// The offset of the first byte in a unit.
    pub(super) fn first_offset(&self) -> Option<u64> {
        self.units.values().map(|unit| unit.offset).min()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.units.values().map(|unit| unit.bytes.len() as u64).sum()
    }

    pub(super) fn is_any_sending(&self) -> bool {
        self.units.values().any(|unit| unit.state == UnitState::Sending)
    }

    /// The reason why a unit failed, if one did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.units.values().find_map(|unit| match unit.state {
            UnitState::Failed(fault) => Some(fault),
            _ => None,
        })
    }

    /// Whether the units before this one are written; `None` while that is not known.
    pub(crate) fn written(&self, upto: u64) -> Option<Result<(), Fault>> {
        let mut units = self.units.range(..upto).map(|(_, unit)| unit.state).peekable();
        if units.peek().is_none() {
            return Some(Ok(()));
        }
        units.find_map(|state| match state {
            UnitState::Failed(fault) => Some(Err(fault)),
            _ => None,
        })
    }

    fn waiting(&mut self) -> impl Iterator<Item = &mut Unit> {
        self.units.values_mut().filter(|unit| unit.state == UnitState::Waiting)
    }

    /// Makes failed units wait to be sent again.
    pub(super) fn retry(&mut self) {
        for unit in self.units.values_mut() {
            if matches!(unit.state, UnitState::Failed(_)) {
                unit.state = UnitState::Waiting;
            }
        }
    }

    /// Makes the write of a single waiting unit durable. With more units, does nothing.
    pub(super) fn harden_single(&mut self) {
        if self.units.len() == 1 {
            self.waiting().for_each(|unit| unit.is_durable = true);
        }
    }

    /// Whether a task must be started that sends the waiting units.
    pub(crate) fn begin_sending(&mut self) -> bool {
        self.waiting().next().is_some() && !std::mem::replace(&mut self.is_sending, true)
    }

    /// Notes that this task has ended. If it failed, so do the waiting units.
    pub(crate) fn end_sending(&mut self, result: Result<(), Fault>) {
        self.is_sending = false;
        if let Err(fault) = result {
            self.waiting().for_each(|unit| unit.state = UnitState::Failed(fault));
        }
    }

    /// The first unit that waits.
    pub(crate) fn next_waiting(&self) -> Option<Span> {
        let mut waiting = self.units.iter().filter(|(_, unit)| unit.state == UnitState::Waiting);
        waiting.next().map(|(&id, unit)| Span { unit: id, first: unit.first, end: unit.end })
    }

    /// The time until which an abandoned write of these blocks by another unit may still take effect.
    pub(crate) fn risk(&mut self, span: Span, now: Instant) -> Option<Instant> {
        self.risks.retain(|risk| risk.until > now);
        let overlapping = self
            .risks
            .iter()
            .filter(|risk| risk.unit != span.unit && risk.first < span.end && span.first < risk.end);
        overlapping.map(|risk| risk.until).max()
    }

    /// Whether a unit may be sent now: there is room, and no unit with the same blocks is in flight.
    pub(crate) fn has_room(&self, span: Span) -> bool {
        let mut sending = self.units.values().filter(|unit| unit.state == UnitState::Sending);
        let count = sending.clone().count();
        count < SENDING_MAX && !sending.any(|unit| unit.overlaps(span.first, span.end))
    }

    /// Claims a unit that is to be sent now. Returns its state.
    ///
    /// Older writes of the same block go first. If such a write has failed, this one must fail too: else the retry of
    /// the older one would undo it. While this unit waited, a sync may have requested the retry.
    pub(crate) fn claim(&mut self, span: Span) -> UnitState {
        let older = self.units.range(..span.unit).map(|(_, unit)| unit);
        let mut overlapping = older.filter(|unit| unit.overlaps(span.first, span.end));
        let state = overlapping.next().map_or(UnitState::Sending, |unit| unit.state);
        if let Some(unit) = self.units.get_mut(&span.unit) {
            unit.state = state;
        }
        state
    }

    /// The write of a unit.
    pub(crate) fn write_of(&self, id: u64) -> Option<UnitWrite> {
        let unit = self.units.get(&id)?;
        let (first, class, is_durable) = (unit.first, unit.class, unit.is_durable);
        Some(UnitWrite { first, class, bytes: Arc::clone(&unit.bytes), is_durable })
    }

    /// Notes the end of a unit's write. If it failed, it may still take effect until `risky_until`.
    pub(crate) fn on_written(&mut self, id: u64, result: Result<(), Fault>, risky_until: Instant) {
        match result {
            Ok(()) => drop(self.units.remove(&id)),
            Err(fault) => {
                if let Some(unit) = self.units.get_mut(&id) {
                    unit.state = UnitState::Failed(fault);
                    self.risks.push(Risk { unit: id, first: unit.first, end: unit.end, until: risky_until });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 128;
    const FAILED: Result<(), Fault> = Err(Fault::Unreachable);

    /// Units of one block each, with these indexes.
    fn units(blocks: &[u64]) -> Units {
        let mut units = Units::new(BLOCK);
        for &first in blocks {
            units.add(Blocks { first, offset: first, bytes: vec![0; BLOCK as usize] }, Class::Normal);
        }
        units
    }

    fn claim_next(units: &mut Units) -> UnitState {
        let span = units.next_waiting().expect("a unit waits");
        units.claim(span)
    }

    #[test]
    fn a_later_write_of_a_block_fails_behind_an_older_one_that_failed() {
        let mut units = units(&[3, 3]);
        assert_eq!(claim_next(&mut units), UnitState::Sending);
        assert!(
            !units.has_room(units.next_waiting().expect("the second unit")),
            "the same block is on its way"
        );
        units.on_written(0, FAILED, Instant(50));
        assert_eq!(claim_next(&mut units), UnitState::Failed(Fault::Unreachable));
        units.retry();
        assert_eq!(units.next_waiting().map(|span| span.unit), Some(0), "the older one goes first");
    }

    #[test]
    fn a_block_whose_write_was_given_up_is_risky_for_other_units_for_a_while() {
        let mut units = units(&[3, 3, 4]);
        assert_eq!(claim_next(&mut units), UnitState::Sending);
        units.on_written(0, FAILED, Instant(50));
        let spans = [0, 1, 2].map(|unit| Span {
            unit,
            first: [3, 3, 4][unit as usize],
            end: [4, 4, 5][unit as usize],
        });
        assert_eq!(spans.map(|span| units.risk(span, Instant(49))), [None, Some(Instant(50)), None]);
        assert_eq!(units.risk(spans[1], Instant(50)), None);
    }

    #[test]
    fn units_are_written_when_all_before_are_gone_or_one_has_failed() {
        let mut units = units(&[1, 2]);
        assert_eq!(units.written(2), None);
        assert_eq!([claim_next(&mut units), claim_next(&mut units)], [UnitState::Sending; 2]);
        units.on_written(1, FAILED, Instant::ZERO);
        assert_eq!((units.written(1), units.written(2)), (None, Some(FAILED)));
        units.on_written(0, Ok(()), Instant::ZERO);
        assert_eq!((units.written(1), units.written(2)), (Some(Ok(())), Some(FAILED)));
    }
}
