//! The SSDs of the rack and their addresses, as recorded in the metadata store.

use super::clock::Clock;
use super::disks::Disks;
use super::outbox::{Orders, Outbox};
use super::parts::Parts;
use super::phase::Phase;
use super::space::Space;
use super::{Action, Settings};
use crate::SsdId;
use crate::catalog::{Acquired, Order, Reply, SsdRecord};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::Nanos;

/// First pause before the store is asked for the address of an SSD that is away; it doubles with each further request.
const LOOK_SOON: Nanos = Nanos::secs(2);
/// Maximum pause between two requests, and the pause while all SSDs can be reached: there may be new ones.
const LOOK_SELDOM: Nanos = Nanos::secs(60);

/// The procedure that keeps the list of SSDs up to date; see the module.
pub(crate) struct Rack {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    outbox: Rc<Outbox>,
    orders: Rc<Orders>,
    phase: Rc<Phase>,
    disks: Rc<Disks>,
    space: Rc<Space>,
}

impl Rack {
    pub(crate) fn new(parts: &Parts) -> Rc<Rack> {
        Rc::new(Rack {
            settings: Rc::clone(&parts.settings),
            clock: Rc::clone(&parts.clock),
            outbox: Rc::clone(&parts.outbox),
            orders: Rc::clone(&parts.orders),
            phase: Rc::clone(&parts.phase),
            disks: Rc::clone(&parts.disks),
            space: Rc::clone(&parts.space),
        })
    }

    /// Reports the SSDs to the outside, and waits until those of the volume are up, but at most for `connect_patience`.
    pub(crate) async fn meet(&self, acquired: &Acquired) {
        self.know(acquired.ssds.iter().map(|ssd| (ssd.id, ssd.record.clone())).collect());
        let needed: BTreeSet<SsdId> = acquired.owned.iter().map(|mega| mega.ssd).collect();
        let give_up = self.clock.now() + self.settings.connect_patience;
        let are_up = || needed.iter().all(|ssd| self.space.is_up(*ssd));
        let is_over = || self.clock.now() >= give_up || self.phase.is_over();
        self.disks.reach_until(give_up, || are_up() || is_over()).await;
        let away = needed.into_iter().filter(|ssd| !self.space.is_up(*ssd));
        away.for_each(|ssd| self.disks.note_away(ssd));
    }

    /// Sets the SSDs that exist.
    fn know(&self, ssds: Vec<(SsdId, SsdRecord)>) {
        self.space.know(&ssds);
        let domains: Vec<_> = ssds.iter().map(|(ssd, record)| (*ssd, record.domain.clone())).collect();
        self.disks.know(&domains);
        self.outbox.push(Action::Ssds(ssds));
    }

    /// Asks for new SSDs, and for new addresses of those that cannot be reached, until the volume is unmounted.
    pub(crate) async fn keep(self: Rc<Self>) {
        let is_any_away = || self.disks.is_any_away();
        let mut pause = LOOK_SOON;
        loop {
            let was_any_away = is_any_away();
            let at = self.clock.now() + if was_any_away { pause } else { LOOK_SELDOM };
            let is_due = || self.clock.now() >= at || self.phase.is_over() || is_any_away() && !was_any_away;
            self.disks.reach_until(at, is_due).await;
            if self.phase.is_over() {
                return;
            }
            if self.clock.now() < at {
                // An SSD has just become unreachable; most come back at the same address.
                pause = LOOK_SOON;
                continue;
            }
            pause = Nanos(pause.0 * 2).min(LOOK_SELDOM);
            // If the store does not reply, it is asked again next time.
            if let Ok(Reply::Ssds(ssds)) = self.orders.send(Order::Look).await {
                self.know(ssds.into_iter().map(|ssd| (ssd.id, ssd.record)).collect());
            }
        }
    }
}
