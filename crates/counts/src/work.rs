//! The list of counted work.

use crate::decision::{BACKLOGGED, LIGHT, Load, MIXED, PACED};
use crate::volume::Counted;
use crate::wire::Carrier;
use crate::{decision, message, pdu, simulated, volume, wire};
use host::Operation;
use sched::Scheduler;

/// Something that can be done any number of times.
pub struct Work {
    /// Its name: the line of the file, less the side.
    pub name: String,
    /// A short description of one unit.
    pub about: &'static str,
    /// Number of units in a count.
    pub units: u32,
    /// The sides with counted instructions.
    pub sides: &'static [Side],
    run: Run,
}

/// The way to run the work.
#[derive(Clone, Copy)]
enum Run {
    /// By itself.
    Alone(fn(u32)),
    /// A scheduler decides under a load.
    Decision(&'static Scheduler, Load),
}

/// A side with counted instructions.
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
    /// The caller of a volume: the thread that runs the work.
    Caller,
    /// The volume's thread.
    Volume,
}

impl Side {
    /// The suffix of the work's name in the file.
    pub fn suffix(self) -> &'static str {
        match self {
            Side::All => "",
            Side::Host => ".host",
            Side::Target => ".target",
            Side::Ssd => ".ssd",
            Side::Caller => ".caller",
            Side::Volume => ".volume",
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
        match self.run {
            Run::Alone(run) => run(units),
            Run::Decision(scheduler, load) => decision::run(scheduler, load, units),
        }
    }

    fn on_one_thread(name: &str, units: u32, run: fn(u32), about: &'static str) -> Work {
        Work { name: name.to_owned(), about, units, sides: &[Side::All], run: Run::Alone(run) }
    }

    fn over_the_wire(name: &str, run: fn(u32), about: &'static str) -> Work {
        Work { sides: &[Side::Host, Side::Target], ..Work::on_one_thread(name, WIRE_IOS, run, about) }
    }

    /// The host behaves as it does when all is on one thread.
    fn across_threads(name: &str, run: fn(u32), about: &'static str) -> Work {
        Work { sides: &[Side::Target, Side::Ssd], ..Work::on_one_thread(name, WIRE_IOS, run, about) }
    }

    fn on_a_volume(name: &str, run: fn(u32), about: &'static str) -> Work {
        Work { sides: &[Side::Caller, Side::Volume], ..Work::on_one_thread(name, VOLUME_IOS, run, about) }
    }

    fn decided(scheduler: &'static Scheduler, load: Load) -> Work {
        Work {
            name: format!("decision.{}.{}", scheduler.name, load.name),
            about: "arrival, decisions and completion of one IO, 16 tenants",
            units: DECISIONS,
            sides: &[Side::All],
            run: Run::Decision(scheduler, load),
        }
    }
}

const DECISIONS: u32 = 1 << 14;
const PDUS: u32 = 1 << 14;
const SIMULATED: u32 = 1 << 14;
const WIRE_IOS: u32 = 1 << 11;
const VOLUME_IOS: u32 = 1 << 10;
const WRITE: Operation = Operation::Write { durable: false };

/// Schedulers that are also counted where IOs wait for tokens, and where they are of several kinds.
const PACING: [&Scheduler; 3] = [Scheduler::GIMBAL, Scheduler::LEVEL_CALIBRATED, Scheduler::LEVEL];

/// Everything that is counted, sorted by name as the file is: every scheduler of the table, and the rest.
pub fn works() -> Vec<Work> {
    let mut works = vec![
        Work::on_one_thread(
            "message.read",
            PDUS,
            message::reads,
            "a 4 KiB read by RDMA, in the controller's end of its queue pair",
        ),
        Work::on_one_thread(
            "message.write",
            PDUS,
            message::writes,
            "a 4 KiB write by RDMA, in the controller's end of its queue pair",
        ),
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
    works.push(Work::on_a_volume(
        "volume.read",
        |reads| volume::run(Counted::Read, reads),
        "a read of 4 KiB from a volume, one at a time",
    ));
    works.push(Work::on_a_volume(
        "volume.synced-write",
        |writes| volume::run(Counted::SyncedWrite, writes),
        "an append of 4 KiB to a volume and a sync, on two targets, one at a time",
    ));
    for scheduler in Scheduler::ALL {
        works.extend([LIGHT, BACKLOGGED].map(|load| Work::decided(scheduler, load)));
    }
    for scheduler in PACING {
        works.extend([MIXED, PACED].map(|load| Work::decided(scheduler, load)));
    }
    works.sort_by(|one, next| one.name.cmp(&next.name));
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_can_be_done() {
        for work in works() {
            work.run(64);
        }
    }

    #[test]
    fn no_name_is_there_twice() {
        assert!(works().is_sorted_by(|one, next| one.name < next.name));
    }
}
