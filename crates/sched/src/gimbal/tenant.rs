//! One tenant's books: its queue, slots, deficit, and what its share promises it.
//!
//! Elsewhere: what is decided from them is `drr`.

use super::GimbalConfig;
use super::meter::Meter;
use super::queue::ClassQueues;
use super::slots::Slots;
use crate::{Io, IoKind, Share};
use units::{Bytes, Instant};

/// One tenant of one SSD.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub queue: ClassQueues,
    pub slots: Slots,
    /// Weighted bytes that it may still submit in this round.
    pub deficit: Bytes,
    pub in_flight: usize,
    pub weight: u32,
    /// Reads queued or in flight.
    pub reads: usize,
    /// Everything else queued or in flight.
    pub writes: usize,
    /// Whether its weight is part of the sum over active tenants.
    pub counted: bool,
    limit_ios: Option<Meter>,
    limit_bytes: Option<Meter>,
    reservation: Option<Meter>,
}

impl Tenant {
    /// A tenant never seen, with [`Share::EQUAL`].
    pub(super) fn new() -> Tenant {
        Tenant {
            queue: ClassQueues::default(),
            slots: Slots::default(),
            deficit: Bytes::ZERO,
            in_flight: 0,
            weight: Share::EQUAL.weight,
            reads: 0,
            writes: 0,
            counted: false,
            limit_ios: None,
            limit_bytes: None,
            reservation: None,
        }
    }

    /// Changes what the tenant was promised. What it has had under the old share is forgotten.
    pub(super) fn set_share(&mut self, share: Share, config: &GimbalConfig) {
        self.weight = share.weight;
        self.limit_ios = share.limit_iops.map(|rate| Meter::new(rate, config.limit_burst));
        self.limit_bytes = share.limit_rate.map(|rate| Meter::new(rate.0, config.limit_burst));
        self.reservation = share.reservation.map(|rate| Meter::new(rate.0, config.reservation_burst));
    }

    /// The count that an IO of this kind belongs to.
    pub(super) fn outstanding(&mut self, kind: IoKind) -> &mut usize {
        if kind.pays_as_write() { &mut self.writes } else { &mut self.reads }
    }

    /// Backlog, or IOs inside the SSD.
    pub(super) fn has_ios(&self) -> bool {
        !self.queue.is_empty() || self.in_flight > 0
    }

    /// The instant before which a limit forbids the next IO.
    pub(super) fn limited_until(&self) -> Option<Instant> {
        let due = |meter: &Option<Meter>| meter.as_ref().map(Meter::due);
        due(&self.limit_ios).max(due(&self.limit_bytes))
    }

    /// The instant from which the tenant is behind its reservation.
    pub(super) fn reservation_due(&self) -> Option<Instant> {
        self.reservation.as_ref().map(Meter::due)
    }

    /// Charges a submitted IO to whatever meters there are.
    pub(super) fn charge_meters(&mut self, now: Instant, io: &Io, priced: Bytes) {
        let meters = [
            (&mut self.limit_ios, 1),
            (&mut self.limit_bytes, io.length.0),
            (&mut self.reservation, priced.0),
        ];
        for (meter, units) in meters {
            if let Some(meter) = meter {
                meter.charge(now, units);
            }
        }
    }
}
