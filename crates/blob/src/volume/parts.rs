//! The parts that own the state of a volume. Each procedure holds those that it needs.

use super::Settings;
use super::clock::Clock;
use super::disks::Disks;
use super::files::Files;
use super::journal::Journal;
use super::lease::Lease;
use super::metadata::Metadata;
use super::outbox::{Orders, Outbox};
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use super::space::Space;
use crate::task::{Gate, Spawner};
use std::rc::Rc;

/// All parts of a volume; see the module.
pub(crate) struct Parts {
    pub(crate) settings: Rc<Settings>,
    pub(crate) spawner: Spawner,
    pub(crate) clock: Rc<Clock>,
    pub(crate) outbox: Rc<Outbox>,
    pub(crate) orders: Rc<Orders>,
    pub(crate) phase: Rc<Phase>,
    pub(crate) lease: Rc<Lease>,
    pub(crate) disks: Rc<Disks>,
    pub(crate) repair: Rc<RepairSignal>,
    pub(crate) metadata: Rc<Metadata>,
    pub(crate) journal: Rc<Journal>,
    pub(crate) space: Rc<Space>,
    pub(crate) files: Rc<Files>,
}

impl Parts {
    pub(crate) fn new(settings: Settings, spawner: Spawner) -> Parts {
        let settings = Rc::new(settings);
        let (outbox, phase, repair) = (Rc::<Outbox>::default(), Rc::<Phase>::default(), Rc::default());
        let (metadata, journal_gate) = (Rc::<Metadata>::default(), Gate::default());
        let clock = Clock::new(spawner.clone());
        let orders = Orders::new(Rc::clone(&outbox));
        let lease = Lease::new(
            Rc::clone(&settings),
            Rc::clone(&clock),
            Rc::clone(&orders),
            Rc::clone(&phase),
            journal_gate.clone(),
        );
        let disks = Disks::new(
            Rc::clone(&settings),
            spawner.clone(),
            Rc::clone(&clock),
            Rc::clone(&outbox),
            Rc::clone(&phase),
            Rc::clone(&lease),
            Rc::clone(&repair),
        );
        let journal = Journal::new(
            Rc::clone(&settings),
            Rc::clone(&clock),
            Rc::clone(&phase),
            Rc::clone(&lease),
            Rc::clone(&disks),
            Rc::clone(&metadata),
            journal_gate,
        );
        let space = Space::new(
            Rc::clone(&settings),
            Rc::clone(&clock),
            Rc::clone(&phase),
            Rc::clone(&lease),
            Rc::clone(&disks),
            Rc::clone(&journal),
        );
        let files = Files::new(
            Rc::clone(&settings),
            spawner.clone(),
            Rc::clone(&phase),
            Rc::clone(&metadata),
            Rc::clone(&journal),
            Rc::clone(&space),
        );
        Parts {
            settings,
            spawner,
            clock,
            outbox,
            orders,
            phase,
            lease,
            disks,
            repair,
            metadata,
            journal,
            space,
            files,
        }
    }
}
