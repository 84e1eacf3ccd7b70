//! The parts that all procedures of a volume share.

use super::clock::Clock;
use super::disks::Disks;
use super::files::Files;
use super::journal::JournalState;
use super::lease::Lease;
use super::outbox::{Orders, Outbox};
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use super::space::SpaceState;
use super::state::State;
use super::{Counters, Settings};
use crate::Geometry;
use crate::pool::Pool;
use crate::task::Spawner;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) struct Core {
    pub(crate) settings: Rc<Settings>,
    pub(crate) spawner: Spawner,
    pub(crate) clock: Rc<Clock>,
    pub(crate) outbox: Rc<Outbox>,
    pub(crate) orders: Rc<Orders>,
    pub(crate) phase: Rc<Phase>,
    pub(crate) lease: Rc<Lease>,
    pub(crate) disks: Rc<Disks>,
    pub(crate) repair: Rc<RepairSignal>,
    pub(crate) state: RefCell<State>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) journal: JournalState,
    pub(crate) space: SpaceState,
    pub(crate) files: Files,
    pub(crate) counters: RefCell<Counters>,
}

impl Core {
    pub(crate) fn new(settings: Settings, spawner: Spawner) -> Rc<Core> {
        let settings = Rc::new(settings);
        let (outbox, phase, repair) = (Rc::<Outbox>::default(), Rc::<Phase>::default(), Rc::default());
        let journal = JournalState::default();
        let clock = Clock::new(spawner.clone());
        let orders = Orders::new(Rc::clone(&outbox));
        let lease = Lease::new(
            Rc::clone(&settings),
            Rc::clone(&clock),
            Rc::clone(&orders),
            Rc::clone(&phase),
            journal.gate.clone(),
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
        Rc::new(Core {
            settings,
            spawner,
            clock,
            outbox,
            orders,
            phase,
            lease,
            disks,
            repair,
            state: RefCell::default(),
            pool: RefCell::new(Pool::new(Geometry::default(), 0)),
            journal,
            space: SpaceState::default(),
            files: Files::default(),
            counters: RefCell::default(),
        })
    }
}
