//! The parts and procedures of a volume.

use super::Counters;
use super::Settings;
use super::clock::Clock;
use super::copies::Copies;
use super::disks::Disks;
use super::files::Files;
use super::journal::Journal;
use super::lease::Lease;
use super::metadata::Metadata;
use super::outbox::{Orders, Outbox};
use super::parts::Parts;
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use super::space::Space;
use super::write::{Appender, Extents, Layouts, Sender, Syncer};
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
    pub(crate) metadata: Rc<Metadata>,
    pub(crate) journal: Rc<Journal>,
    pub(crate) space: Rc<Space>,
    pub(crate) files: Rc<Files>,
    pub(crate) copies: Rc<Copies>,
    pub(crate) appender: Rc<Appender>,
    pub(crate) syncer: Rc<Syncer>,
    pub(crate) layouts: Rc<Layouts>,
    pub(crate) counters: RefCell<Counters>,
}

impl Core {
    pub(crate) fn new(settings: Settings, spawner: Spawner) -> Rc<Core> {
        let parts = Parts::new(settings, spawner);
        let copies = Copies::new(&parts);
        let extents = Extents::new(&parts);
        let sender = Sender::new(&parts, &extents, &copies);
        let appender = Appender::new(&parts, &sender);
        let syncer = Syncer::new(&parts, &copies, &sender);
        let layouts = Layouts::new(&parts, &extents, &appender, &syncer);
        let Parts {
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
        } = parts;
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
            metadata,
            journal,
            space,
            files,
            copies,
            appender,
            syncer,
            layouts,
            counters: RefCell::default(),
        })
    }
}
