//! Whether hosts wait for their writes: then a store would only make them write more.
//!
//! ```text
//!   buffer with room:  an open host     ·█··██···█··   the SSD is idle in between, whatever comes later
//!                      one that waits   ████████████   it writes the next when it has an answer: as fast as the SSD lets it
//! ```
//!
//! The additional writes of a host that waits have to go to the SSD in the pauses, which are the time in which that rests and tidies up. If they were
//! too short before, they are now even shorter, and the longest waits get longer. So such hosts may fill the store only after the buffer was whole
//! again between two bursts, and only once each time.

use units::{Bytes, Instant};

/// Writes that are looked at together.
const WRITES: u32 = 64;
/// Number of them that may find the SSD without another write.
const IDLE: u32 = 3;
/// Of the SSD's rate with room: hosts that write at less do not wait for it.
const RATE: f64 = 0.75;
/// Of the store: what hosts that wait may fill each time.
const FILLED: f64 = 0.75;

/// State of the SSD that a host's write finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Its length.
    pub(crate) bytes: u64,
    /// Whether it meets an exhausted buffer.
    pub(crate) is_exhausted: bool,
    /// Whether the buffer is whole.
    pub(crate) is_whole: bool,
    /// Bytes of writes under way on the SSD.
    pub(crate) writing: Bytes,
    /// Whether it is the first of a burst.
    pub(crate) is_first: bool,
}

/// Observations of hosts' writes.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    /// Bytes per second of the SSD with room.
    fast: f64,
    /// Writes since `since`, their bytes, and those that found the SSD without a write.
    writes: u32,
    bytes: u64,
    idle: u32,
    since: Instant,
    is_high: bool,
    /// Whether the last write met an exhausted buffer, and whether any did.
    is_spent: bool,
    has_been_spent: bool,
    /// Whether the buffer was whole again before the burst, and the store has not been filled since.
    was_whole: bool,
}

impl Pressure {
    pub(crate) fn new(fast: f64, now: Instant) -> Pressure {
        Pressure {
            fast,
            writes: 0,
            bytes: 0,
            idle: 0,
            since: now,
            is_high: false,
            is_spent: false,
            has_been_spent: false,
            was_whole: false,
        }
    }

    pub(crate) fn on_write(&mut self, now: Instant, found: Found) {
        if found.is_exhausted || found.is_first {
            self.writes = 0;
        }
        if found.is_exhausted {
            self.has_been_spent = true;
        } else {
            let is_new = self.is_spent;
            self.was_whole = self.has_been_spent && found.is_whole || self.was_whole && !is_new;
            self.count(now, found);
        }
        self.is_spent = found.is_exhausted;
    }

    fn count(&mut self, now: Instant, found: Found) {
        if self.writes == 0 {
            (self.since, self.bytes, self.idle) = (now, 0, 0);
        }
        self.writes += 1;
        self.bytes += found.bytes;
        self.idle += u32::from(found.writing == Bytes::ZERO);
        if self.writes == WRITES {
            let taken = self.fast * now.saturating_since(self.since).as_secs_f64();
            self.is_high = self.idle <= IDLE && self.bytes as f64 >= RATE * taken;
            self.writes = 0;
        }
    }

    /// Whether a store, of which the share `used` has no room, would only make hosts write more.
    pub(crate) fn is_pointless(&mut self, used: f64) -> bool {
        self.was_whole &= used < FILLED;
        self.is_high && !self.was_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

    const ROOM: Found = Found {
        bytes: 1 << 17,
        is_exhausted: false,
        is_whole: false,
        writing: Bytes(1 << 20),
        is_first: false,
    };
    const WHOLE: Found = Found { is_whole: true, ..ROOM };
    const EXHAUSTED: Found = Found { is_exhausted: true, ..ROOM };

    /// Writes of 128 KiB, of which each finds this.
    fn write(pressure: &mut Pressure, now: &mut Instant, found: Found, each: Nanos) {
        for _ in 0..2 * WRITES {
            pressure.on_write(*now, found);
            *now += each;
        }
    }

    /// As fast as an SSD of 1 GB/s takes them.
    const AT_ONCE: Nanos = Nanos::micros(131);

    #[test]
    fn hosts_that_wait_fill_the_store_once_after_each_time_that_the_buffer_was_whole_again() {
        let (mut pressure, mut now) = (Pressure::new(1e9, Instant::ZERO), Instant::ZERO);
        write(&mut pressure, &mut now, WHOLE, AT_ONCE);
        write(&mut pressure, &mut now, EXHAUSTED, AT_ONCE);
        assert!(pressure.is_pointless(0.0), "whether their pauses are long enough is not known yet");
        write(&mut pressure, &mut now, WHOLE, AT_ONCE);
        write(&mut pressure, &mut now, ROOM, AT_ONCE);
        write(&mut pressure, &mut now, EXHAUSTED, AT_ONCE);
        assert!(!pressure.is_pointless(0.5));
        assert!(pressure.is_pointless(0.8) && pressure.is_pointless(0.0), "it was full");
        write(&mut pressure, &mut now, WHOLE, AT_ONCE);
        write(&mut pressure, &mut now, EXHAUSTED, AT_ONCE);
        assert!(!pressure.is_pointless(0.5));
        write(&mut pressure, &mut now, ROOM, AT_ONCE);
        write(&mut pressure, &mut now, EXHAUSTED, AT_ONCE);
        assert!(pressure.is_pointless(0.0), "the pause was too short");
    }

    #[test]
    fn hosts_that_leave_the_ssd_idle_or_write_more_slowly_do_not_wait() {
        for (writing, each) in [(0, AT_ONCE), (1 << 20, Nanos::micros(200))] {
            let (mut pressure, mut now) = (Pressure::new(1e9, Instant::ZERO), Instant::ZERO);
            write(&mut pressure, &mut now, Found { writing: Bytes(writing), ..WHOLE }, each);
            write(&mut pressure, &mut now, EXHAUSTED, each);
            assert!(!pressure.is_pointless(0.9), "{writing} {each:?}");
        }
    }
}
