//! The list of what is counted.

use crate::decision::{BACKLOGGED, LIGHT, MIXED, PACED, Scheduler};
use crate::wire::Carrier;
use crate::{decision, pdu, simulated, wire};
use host::Operation;

/// Something that can be done any number of times.
pub struct Work {
    /// Its name: the line of the file, less the side.
    pub name: &'static str,
    /// What one unit of it is, in a few words.
    pub about: &'static str,
    /// How many units a count is taken over.
    pub units: u32,
    /// Whose instructions count.
    pub sides: &'static [Side],
    run: fn(u32),
}

/// Whose instructions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Everything runs on one thread.
    All,
    /// The host: the thread that runs the work.
    Host,
    /// The target: all other threads.
    Target,
    /// Of these, the thread of the SSD.
    Ssd,
}

impl Side {
    /// What follows the name of the work in the file.
    pub fn suffix(self) -> &'static str {
        match self {
            Side::All => "",
            Side::Host => ".host",
            Side::Target => ".target",
            Side::Ssd => ".ssd",
        }
    }
}

impl Work {
    /// The name of a side's line of the file.
    pub fn name_of(&self, side: Side) -> String {
        format!("{}{}", self.name, side.suffix())
    }

    /// The names of all its lines.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.sides.iter().map(|side| self.name_of(*side))
    }

    /// Prepares, does `units` of it, and clears up.
    pub fn run(&self, units: u32) {
        (self.run)(units);
    }

    const fn on_one_thread(name: &'static str, units: u32, run: fn(u32), about: &'static str) -> Work {
        Work { name, about, units, sides: &[Side::All], run }
    }

    const fn over_the_wire(name: &'static str, run: fn(u32), about: &'static str) -> Work {
        Work { name, about, units: WIRE_IOS, sides: &[Side::Host, Side::Target], run }
    }

    /// The host does what it does when all is on one thread.
    const fn across_threads(name: &'static str, run: fn(u32), about: &'static str) -> Work {
        Work { name, about, units: WIRE_IOS, sides: &[Side::Target, Side::Ssd], run }
    }
}

const DECISIONS: u32 = 1 << 14;
const PDUS: u32 = 1 << 14;
const SIMULATED: u32 = 1 << 14;
const WIRE_IOS: u32 = 1 << 11;
const WRITE: Operation = Operation::Write { durable: false };

/// Everything that is counted. The file is sorted by name.
pub const WORKS: [Work; 28] = [
    decided("decision.flashfq.backlogged", |ios| decision::run(Scheduler::Flashfq, BACKLOGGED, ios)),
    decided("decision.flashfq.light", |ios| decision::run(Scheduler::Flashfq, LIGHT, ios)),
    decided("decision.gimbal.backlogged", |ios| decision::run(Scheduler::Gimbal, BACKLOGGED, ios)),
    decided("decision.gimbal.light", |ios| decision::run(Scheduler::Gimbal, LIGHT, ios)),
    decided("decision.gimbal.mixed", |ios| decision::run(Scheduler::Gimbal, MIXED, ios)),
    decided("decision.gimbal.paced", |ios| decision::run(Scheduler::Gimbal, PACED, ios)),
    decided("decision.level-calibrated.backlogged", |ios| {
        decision::run(Scheduler::LevelCalibrated, BACKLOGGED, ios)
    }),
    decided("decision.level-calibrated.light", |ios| decision::run(Scheduler::LevelCalibrated, LIGHT, ios)),
    decided("decision.level-calibrated.mixed", |ios| decision::run(Scheduler::LevelCalibrated, MIXED, ios)),
    decided("decision.level-calibrated.paced", |ios| decision::run(Scheduler::LevelCalibrated, PACED, ios)),
    decided("decision.level.backlogged", |ios| decision::run(Scheduler::Level, BACKLOGGED, ios)),
    decided("decision.level.light", |ios| decision::run(Scheduler::Level, LIGHT, ios)),
    decided("decision.level.mixed", |ios| decision::run(Scheduler::Level, MIXED, ios)),
    decided("decision.none.backlogged", |ios| decision::run(Scheduler::None, BACKLOGGED, ios)),
    decided("decision.none.light", |ios| decision::run(Scheduler::None, LIGHT, ios)),
    decided("decision.reflex.backlogged", |ios| decision::run(Scheduler::Reflex, BACKLOGGED, ios)),
    decided("decision.reflex.light", |ios| decision::run(Scheduler::Reflex, LIGHT, ios)),
    Work::on_one_thread(
        "pdu.decode.command",
        PDUS,
        pdu::decode_commands,
        "a command capsule, cut from a stream",
    ),
    Work::on_one_thread(
        "pdu.decode.data",
        PDUS,
        pdu::decode_data,
        "a C2HData PDU of 4 KiB, cut from a stream",
    ),
    Work::on_one_thread(
        "pdu.encode.command",
        PDUS,
        pdu::encode_commands,
        "a command capsule, laid for sending",
    ),
    Work::on_one_thread(
        "pdu.encode.data",
        PDUS,
        pdu::encode_data,
        "a C2HData PDU of 4 KiB, laid for sending",
    ),
    Work::on_one_thread("ssd.read", SIMULATED, simulated::reads, "a simulated 4 KiB random read, QD 32"),
    Work::over_the_wire(
        "wire.read.qd1",
        |ios| wire::run(Operation::Read, Carrier::Ssd, 1, ios),
        "a 4 KiB read, one at a time",
    ),
    Work::over_the_wire(
        "wire.read.qd8",
        |ios| wire::run(Operation::Read, Carrier::Ssd, 8, ios),
        "a 4 KiB read, eight at a time",
    ),
    Work::across_threads(
        "wire.read.qd8.apart",
        |ios| wire::run(Operation::Read, Carrier::Other, 8, ios),
        "a 4 KiB read, eight at a time, connection and SSD on two threads",
    ),
    Work::over_the_wire(
        "wire.write.qd1",
        |ios| wire::run(WRITE, Carrier::Ssd, 1, ios),
        "a 4 KiB write, one at a time",
    ),
    Work::over_the_wire(
        "wire.write.qd8",
        |ios| wire::run(WRITE, Carrier::Ssd, 8, ios),
        "a 4 KiB write, eight at a time",
    ),
    Work::across_threads(
        "wire.write.qd8.apart",
        |ios| wire::run(WRITE, Carrier::Other, 8, ios),
        "a 4 KiB write, eight at a time, connection and SSD on two threads",
    ),
];

const fn decided(name: &'static str, run: fn(u32)) -> Work {
    Work::on_one_thread(name, DECISIONS, run, "arrival, decisions and completion of one IO, 16 tenants")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_can_be_done() {
        for work in &WORKS {
            work.run(64);
        }
    }

    #[test]
    fn the_list_is_sorted_and_has_no_name_twice() {
        assert!(WORKS.is_sorted_by(|one, next| one.name < next.name));
    }
}
