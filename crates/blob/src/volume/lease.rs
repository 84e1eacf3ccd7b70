//! The lease, which limits the time in which this client may write.
//!
//! The store lets another client mount the volume when the lock's lease has run out. This client counts from the moment it
//! *sent* the last renewal that succeeded, and stops a tenth of the time earlier. So it stops first, if clocks run equally
//! fast to within a tenth. After its deadline it sends no write and acknowledges none.
//!
//! ```text
//!  valid ──deadline──► unsure ──renewed, or regained: no other client had it──────► valid
//!  valid ──deadline──► unsure ──renewed, or regained: no other client locked it────► valid
//!                         └──── another client locked it ──► fenced, for ever
//!
//! Holds: nothing is acknowledged after the deadline (the fencer in `tests/worlds.rs`).

use super::Settings;
use super::clock::Clock;
use super::outbox::Orders;
use super::phase::Phase;
use crate::Fault;
use crate::catalog::{Lock, Order, OrderError, Reply};
use crate::task::Gate;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Instant, Nanos};

/// The lease of a mount; see the module.
pub(crate) struct Lease {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    orders: Rc<Orders>,
    phase: Rc<Phase>,
    lock: RefCell<Option<Lock>>,
    deadline: Cell<Instant>,
    is_fenced: Cell<bool>,
    /// Whether to renew at once.
    is_urgent: Cell<bool>,
    gate: Gate,
    /// Notified when this client is fenced.
    fenced: Gate,
}

impl Lease {
    /// Without a lease yet. Tasks that wait at the gate `fenced` are notified when another client has locked the
    /// volume.
    pub(crate) fn new(
        settings: Rc<Settings>,
        clock: Rc<Clock>,
        orders: Rc<Orders>,
        phase: Rc<Phase>,
        fenced: Gate,
    ) -> Rc<Lease> {
        Rc::new(Lease {
            settings,
            clock,
            orders,
            phase,
            lock: RefCell::default(),
            deadline: Cell::default(),
            is_fenced: Cell::default(),
            is_urgent: Cell::default(),
            gate: Gate::default(),
            fenced,
        })
    }

    /// The time after sending a renewal in which this client may write.
    fn span(&self) -> Nanos {
        Nanos(self.settings.ttl.0 / 10 * 9)
    }

    /// Notes that a call, sent at `sent`, has granted or renewed the lease.
    pub(crate) fn on_granted(&self, sent: Instant, lock: Lock) {
        *self.lock.borrow_mut() = Some(lock);
        self.deadline.set(sent + self.span());
        self.gate.notify();
    }

    /// The lock as last granted by the store.
    pub(crate) fn lock(&self) -> Result<Lock, Fault> {
        self.lock.borrow().clone().ok_or(Fault::NotMounted)
    }

    /// Wakes the waiting tasks at the end of the mount.
    pub(crate) fn stop(&self) {
        self.gate.notify();
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced.get()
    }

    fn decision(&self) -> Option<Result<(), Fault>> {
        if self.is_fenced.get() {
            Some(Err(Fault::Fenced))
        } else if self.phase.is_over() {
            Some(Err(Fault::NotMounted))
        } else if self.clock.now() < self.deadline.get() {
            Some(Ok(()))
        } else {
            None
        }
    }

    /// Waits until it is certain whether this client may write and acknowledge, and fails if it may not.
    pub(crate) async fn may_write(&self) -> Result<(), Fault> {
        if let Some(answer) = self.decision() {
            return answer;
        }
        let give_up = self.clock.now() + self.settings.patience;
        self.clock.notify_at(give_up, &self.gate);
        let unsure = || (self.clock.now() >= give_up).then_some(Err(Fault::LeaseUnsure));
        self.gate.wait(|| self.decision().or_else(unsure)).await
    }

    /// Sends an order that needs the lock. Tries again as long as this client may write.
    pub(crate) async fn order(&self, order: impl Fn(Lock) -> Order) -> Result<Reply, Fault> {
        loop {
            self.may_write().await?;
            let lock = self.lock()?;
            let revision = lock.revision;
            match self.orders.send(order(lock)).await {
                Ok(reply) => return Ok(reply),
                Err(OrderError::Unavailable(_)) => self.clock.sleep(Nanos(self.settings.ttl.0 / 20)).await,
                Err(OrderError::LockLost) => {
                    let is_current =
                        self.lock.borrow().as_ref().is_some_and(|lock| lock.revision == revision);
                    if is_current {
                        self.deadline.set(Instant::ZERO);
                        self.is_urgent.set(true);
                        self.gate.notify();
                    }
                }
                Err(OrderError::Fenced | OrderError::Absent | OrderError::InUse(_)) => self.fence(),
                Err(OrderError::Damaged(_)) => return Err(Fault::BadMetadata),
            }
        }
    }

    fn fence(&self) {
        self.is_fenced.set(true);
        self.gate.notify();
        self.fenced.notify();
    }

    /// Renews the lease until the volume is unmounted or locked by another client.
    pub(crate) async fn keep(self: Rc<Self>) {
        let mut pause = Nanos(self.settings.ttl.0 / 3);
        loop {
            let at = self.clock.now() + pause;
            self.clock.notify_at(at, &self.gate);
            let is_due = || self.clock.now() >= at || self.is_urgent.get() || self.phase.is_over();
            self.gate.wait(|| is_due().then_some(())).await;
            if self.phase.is_over() {
                return;
            }
            let Some(lock) = self.lock.borrow().clone() else { return };
            let sent = self.clock.now();
            let mut reply = Err(OrderError::LockLost);
            if !self.is_urgent.take() {
                reply = self.orders.send(Order::Renew(lock.clone())).await;
            }
            if reply == Err(OrderError::LockLost) {
                let (who, ttl) = (self.settings.who.clone(), self.settings.ttl);
                let sent_again = self.clock.now();
                match self.orders.send(Order::Regain { lock: lock.clone(), who, ttl }).await {
                    Ok(Reply::Regained(lock)) => {
                        self.on_granted(sent_again, lock);
                        pause = Nanos(self.settings.ttl.0 / 3);
                        continue;
                    }
                    Err(OrderError::Fenced | OrderError::Absent) => return self.fence(),
                    _ => self.is_urgent.set(false),
                }
            }
            pause = match reply {
                Ok(_) => {
                    self.on_granted(sent, lock);
                    Nanos(self.settings.ttl.0 / 3)
                }
                Err(_) => Nanos(self.settings.ttl.0 / 20),
            };
        }
    }
}
