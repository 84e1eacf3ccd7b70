//! The trait at the centre: one SSD's scheduler.

use crate::{
    Admitted, Done, ExtraRead, Io, Learnt, Objective, Outcome, Priority, Refused, Slo, SsdView, TenantView,
};
use units::{ByteRate, Instant, Nanos, TenantId};

/// The scheduler of one SSD. Run by one thread; times passed in never decrease.
pub trait Policy: Send {
    /// Takes an IO that has arrived. It is kept until [`Policy::next`] gives it out or it is withdrawn, by the ticket
    /// returned here.
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket;

    /// The decision. Call again after every `Submit` and `Extra`, after every arrival and completion (of an extra read, too), and at the
    /// instant that `WakeAt` names; no other call can change the answer.
    fn next(&mut self, now: Instant) -> Next;

    /// Ends an IO that `next` gave out. Returns how many IOs the tenant may have outstanding from now on.
    fn on_completion(&mut self, now: Instant, done: Done) -> Credit;

    /// Ends a read of [`Next::Extra`], which was done or could not be done. Only called for schedulers that ask for
    /// such reads.
    fn on_extra_read(&mut self, _now: Instant, _read: ExtraRead, _outcome: Outcome) {}

    /// Takes back one queued (not yet submitted) IO of `tenant`, as if it had never come. Takes no longer the more are queued.
    ///
    /// # Panics
    /// If that IO is not queued: once submitted, it ends through [`Policy::on_completion`].
    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io;

    /// Takes back the queued (not yet submitted) IOs of `tenant` for which `gone` returns true, in queue order. Looks
    /// at all that the tenant has queued, so use it for an operator's commands, not for events that hosts can cause.
    /// IOs already submitted still end through [`Policy::on_completion`].
    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool);

    /// Forgets a tenant that will not come back: share, history, credit. Its number may then be given to another
    /// tenant.
    ///
    /// # Panics
    /// If one of its IOs is still queued or in flight: withdraw the queued ones and await the others first.
    fn forget(&mut self, now: Instant, tenant: TenantId);

    /// Whether [`Policy::set_share`] with this share could be kept to. Only a scheduler with admission control ever refuses,
    /// and then only for [`Share::slo`].
    ///
    /// # Errors
    /// Why not, in numbers.
    fn admission(&self, _tenant: TenantId, _share: &Share) -> Result<Admitted, Refused> {
        Ok(Admitted::Promised)
    }

    /// Sets a tenant's share; a tenant never named has [`Share::EQUAL`]. An objective that [`Policy::admission`] refuses is
    /// set aside: the tenant is served as if it had none. The state of one that is tried is in [`TenantView::objective`].
    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share);

    /// Notes that the SSD has kept IOs of `tenant` so long that it may never end them: no other tenant should wait for
    /// this one any more. The next IO of the tenant that ends cancels it; until then it may be called repeatedly.
    fn on_overdue(&mut self, _now: Instant, _tenant: TenantId) {}

    /// The IOs of a tenant that keep their order.
    fn order(&self) -> Order {
        Order::Class
    }

    /// Number of IOs that `tenant` may have outstanding now: the credit of its last completion, or of one now.
    fn credit(&self, tenant: TenantId) -> Credit;

    /// IOs queued and IOs submitted but not yet ended, over all tenants. Both are zero when all IOs have ended.
    fn backlog(&self) -> Backlog;

    /// The scheduler's view of the SSD, for display and monitors; `None` if it measures nothing.
    fn ssd_view(&self, _now: Instant) -> Option<SsdView> {
        None
    }

    /// Learnt facts about the SSD, for the scheduler that serves it next; `None` if it learns nothing, or has not yet.
    fn learnt(&self) -> Option<Learnt> {
        None
    }

    /// The state of one tenant, for display and monitors; `None` for an unknown tenant, or if no such records are kept.
    fn tenant_view(&self, _tenant: TenantId) -> Option<TenantView> {
        None
    }
}

/// Names an IO of one tenant while it is queued; afterwards another may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u32);

/// Decision of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Submit this IO to the SSD, now.
    Submit(Io),
    /// Do this read, which no tenant has asked for, and discard its data: the scheduler wants to measure the SSD. It
    /// ends through [`Policy::on_extra_read`], at once if it cannot be done.
    Extra(ExtraRead),
    /// Nothing may go before this instant (unless something arrives or completes).
    WakeAt(Instant),
    /// Nothing may go until something arrives or completes.
    Idle,
}

/// The IOs of a tenant that are given out in the order in which they came. (NVMe promises no order between commands.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// IOs of a class.
    #[default]
    Class,
    /// IOs of a class that ask the same of the SSD: a read may overtake a write.
    Kind,
    /// None.
    None,
}

impl Order {
    /// IOs of one tenant with the same answer keep their order. Below [`Order::LINES`].
    pub fn line(self, io: &Io) -> usize {
        let kind = if self == Order::Kind { io.kind as usize } else { 0 };
        kind * Priority::CLASSES + io.priority.index()
    }

    /// The most lines of a tenant.
    pub const LINES: usize = 3 * Priority::CLASSES;
}

/// The number of IOs that a client may have outstanding (Gimbal §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credit(pub u32);

/// IOs inside the scheduler's care.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Arrived, not yet submitted.
    pub queued: usize,
    /// Submitted, not yet ended.
    pub in_flight: usize,
}

/// Promise to a tenant. All of it goes beyond the papers; [`Share::EQUAL`] is exactly the papers' behaviour.
///
/// Rates and objectives are in the tenant's own time, which need not be the scheduler's: [`Share::second`] says how the two
/// compare. Everything is counted exactly, whatever that ratio is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Relative share; 1 is the common one. Never zero.
    pub weight: u32,
    /// At most this many IOs per second.
    pub limit_iops: Option<u64>,
    /// At most this many bytes per second.
    pub limit_rate: Option<ByteRate>,
    /// At least this many (cost-weighted) bytes per second while there is backlog, as long as all reservations together
    /// fit the SSD.
    pub reservation: Option<ByteRate>,
    /// Latency objective. [`Reflex`](crate::Reflex) and [`Level`](crate::Level) keep to it; no other scheduler looks at it.
    pub slo: Option<Slo>,
    /// Length of the tenant's second on the clock that the scheduler runs on. Never zero. It is one second unless the
    /// device has a clock of its own: in front of an SSD that is emulated at a twentieth of its speed it is 50 ms.
    pub second: Nanos,
}

impl Share {
    /// Weight 1, no limit, no reservation, no objective; the tenant's clock is the scheduler's.
    pub const EQUAL: Share =
        Share { weight: 1, limit_iops: None, limit_rate: None, reservation: None, slo: None, second: SECOND };

    /// The objective, with the clock that it is meant on.
    pub fn objective(&self) -> Option<Objective> {
        self.slo.map(|slo| Objective { slo, second: self.second })
    }
}

/// A second.
pub(crate) const SECOND: Nanos = Nanos::secs(1);

/// `span × numerator / denominator`, rounded down.
pub(crate) fn scaled(span: Nanos, numerator: Nanos, denominator: Nanos) -> Nanos {
    let nanos = u128::from(span.0) * u128::from(numerator.0) / u128::from(denominator.0);
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
