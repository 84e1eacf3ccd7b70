//! Extra reads of a probe: which read they are like, and how many there may be.

use crate::{ExtraRead, Io, IoKind};
use units::Bytes;

/// Upper bounds for extra reads in flight, in IOs and bytes: enough to keep any SSD busy.
pub(super) const EXTRA_MOST: u64 = 1024;
const EXTRA_BYTES_MOST: Bytes = Bytes(8 << 20);
/// Upper bound for device time in flight with an extra read: a light tenant's IO waits behind all that.
const EXTRA_TIME_MOST: Bytes = Bytes(2_000_000);

/// The extra reads of a probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra {
    /// As the kind's last read.
    like: Option<ExtraRead>,
    /// Whether there were any, and whether one has failed.
    any: bool,
    has_failed: bool,
}

impl Extra {
    /// Notes an IO of the kind that goes to the SSD: extra reads are like the last read.
    #[inline]
    pub(super) fn on_submit(&mut self, io: &Io) {
        if io.kind == IoKind::Read {
            self.like = Some(ExtraRead { tenant: io.tenant, length: io.length });
        }
    }

    /// The read that extra reads are like.
    #[cfg(test)]
    pub(super) fn like(&self) -> Option<ExtraRead> {
        self.like
    }

    /// Ends extra reads for this probe.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Whether extra reads can do the work of the tenants, if these only read.
    pub(super) fn can_go(&self) -> bool {
        !self.has_failed && self.like.is_some()
    }

    /// Whether extra reads make up for the IOs that there are not.
    pub(super) fn fills(&self) -> bool {
        self.any && !self.has_failed
    }

    /// The extra read to do now for `wanted` reads in flight, if this much device time is in flight in addition to `extra` such reads, each of
    /// which counts as its price.
    pub(super) fn next(
        &mut self,
        wanted: u64,
        in_flight: Bytes,
        extra: u64,
        price: impl Fn(Bytes) -> Bytes,
    ) -> Option<ExtraRead> {
        let read = self.like?;
        let fits = extra < EXTRA_MOST && (extra + 1).saturating_mul(read.length.0) <= EXTRA_BYTES_MOST.0;
        let price = price(read.length).0.max(1);
        let time = in_flight.0 + extra * price;
        if !fits || time >= EXTRA_TIME_MOST.0 || time / price >= wanted {
            return None;
        }
        self.any = true;
        Some(read)
    }
}
