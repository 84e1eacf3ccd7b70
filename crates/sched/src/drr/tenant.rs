//! One tenant's books: its queue, its IOs in the SSD, its deficit, and the promises of its share.
//!
//! Elsewhere: the decisions made from them are in `drr`.

use super::RoundConfig;
use super::meter::Meter;
use super::queue::ClassQueues;
use crate::{Io, Share};
use alloc::boxed::Box;
use units::{Bytes, Instant};

/// One tenant of one SSD.
#[derive(Clone, Debug)]
pub(super) struct Tenant<H> {
    pub queue: ClassQueues,
    /// Its IOs in the SSD, as the scheduler counts them.
    pub held: H,
    /// The cost that it may still submit in this round.
    pub deficit: Bytes,
    pub in_flight: usize,
    pub weight: u32,
    /// Whether its weight is part of the sum over active tenants.
    pub counted: bool,
    /// Limits and reservation; most tenants have neither.
    meters: Option<Box<Meters>>,
}

/// The rates that a tenant was given.
#[derive(Clone, Debug)]
struct Meters {
    limit_ios: Option<Meter>,
    limit_bytes: Option<Meter>,
    reservation: Option<Meter>,
    /// IOs of [`IO`] that go before the round.
    promise: Option<Meter>,
}

/// The unit of promised IOs; a larger IO counts as several.
const IO: Bytes = Bytes::kib(4);

/// Number of IOs that this many bytes count as where IOs are promised.
#[inline]
pub(crate) fn ios(length: Bytes) -> u64 {
    length.0.div_ceil(IO.0)
}

impl<H: Default> Tenant<H> {
    /// A tenant never seen, with [`Share::EQUAL`].
    pub(super) fn new() -> Tenant<H> {
        Tenant {
            queue: ClassQueues::default(),
            held: H::default(),
            deficit: Bytes::ZERO,
            in_flight: 0,
            weight: Share::EQUAL.weight,
            counted: false,
            meters: None,
        }
    }

    /// Changes the tenant's share. Its service under the old share is forgotten.
    pub(super) fn set_share(&mut self, share: Share, config: &RoundConfig) {
        self.weight = share.weight;
        let Share { limit_iops, limit_rate, reservation, second, .. } = share;
        let metered = limit_iops.is_some() || limit_rate.is_some() || reservation.is_some();
        self.meters = metered.then(|| {
            let limit = |rate| Meter::new(rate, second, config.limit_burst);
            Box::new(Meters {
                limit_ios: limit_iops.map(limit),
                limit_bytes: limit_rate.map(|rate| limit(rate.0)),
                reservation: reservation.map(|rate| Meter::new(rate.0, second, config.reservation_burst)),
                promise: None,
            })
        });
    }

    /// Lets its IOs go before the round at this rate.
    pub(super) fn promise(&mut self, meter: Meter) {
        let none =
            || Box::new(Meters { limit_ios: None, limit_bytes: None, reservation: None, promise: None });
        self.meters.get_or_insert_with(none).promise = Some(meter);
    }

    /// Backlog, or IOs inside the SSD.
    pub(super) fn has_ios(&self) -> bool {
        !self.queue.is_empty() || self.in_flight > 0
    }

    /// Whether it has a limit, a reservation or a promise.
    #[inline]
    pub(super) fn is_metered(&self) -> bool {
        self.meters.is_some()
    }

    /// The instant before which a limit forbids the next IO.
    #[inline]
    pub(super) fn limited_until(&self) -> Option<Instant> {
        let meters = self.meters.as_ref()?;
        let due = |meter: &Option<Meter>| meter.as_ref().map(Meter::due);
        due(&meters.limit_ios).max(due(&meters.limit_bytes))
    }

    /// The instant from which the tenant is behind its reservation or its promise.
    #[inline]
    pub(super) fn reservation_due(&self) -> Option<Instant> {
        let meters = self.meters.as_ref()?;
        [&meters.reservation, &meters.promise].into_iter().flatten().map(Meter::due).min()
    }

    /// Charges a submitted IO to the meters, if there are any.
    #[inline]
    pub(super) fn charge_meters(&mut self, now: Instant, io: &Io, reserved: Bytes) {
        if let Some(meters) = &mut self.meters {
            meters.charge(now, io, reserved);
        }
    }
}

impl Meters {
    #[inline(never)]
    fn charge(&mut self, now: Instant, io: &Io, reserved: Bytes) {
        for (meter, units) in [(&mut self.limit_ios, 1), (&mut self.limit_bytes, io.length.0)] {
            if let Some(meter) = meter {
                meter.charge(now, units);
            }
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.charge(now, reserved.0);
            reservation.forgive(now);
        }
        if let Some(promise) = &mut self.promise {
            promise.charge(now, ios(io.length));
            promise.forgive(now);
        }
    }
}
