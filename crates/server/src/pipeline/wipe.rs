//! Erasing blocks that were taken away from a namespace, before another namespace gets them.
//!
//! It goes the way of a host's Write Zeroes: through the switch, in pieces, charged at cost. Its tenant is the target itself, so
//! it takes an equal share of the SSD and no more. It ends with a flush, so a loss of power does not bring the contents back.
//!
//! A wipe that is under way when the target ends is stopped, as it may take hours.
//!
//! Holds: blocks removed with `wipe_on_remove` read as zeros for the next owner
//!        (`a_namespace_is_erased_before_its_blocks_get_another_owner` in `tests/wipe.rs`).
//! Elsewhere: `server::wipe` decides which blocks are erased, when, and which commands wait for it.

use super::Origin;
use crate::slab::{Key, Slab};
use crate::switch::{ByteRange, Failure, IoSlot, Switch, Work};
use crate::tenants::TARGET;
use sched::Priority;
use std::sync::Arc;
use tracing::{error, info};
use units::{Bytes, Instant};

/// Erased by one Write Zeroes. Between two of them the log can tell how far a wipe has come.
const PART: u64 = Bytes::gib(1).get();

/// Called with the result of a wipe.
pub(crate) type Wiped = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// Blocks that are being erased.
struct Wipe {
    /// The former owner, for the log.
    what: String,
    range: ByteRange,
    /// From the beginning of the range.
    erased: u64,
    /// The Write Zeroes that is under way.
    part: Part,
    done: Wiped,
}

struct Part {
    io: Key,
    length: u64,
}

impl Wipe {
    fn tenths(&self) -> u64 {
        (u128::from(self.erased) * 10 / u128::from(self.range.length)) as u64
    }
}

/// All that is being erased on this thread's device.
pub(super) struct Wipes {
    /// The device's name, for the log.
    device: Arc<str>,
    wipes: Slab<Wipe>,
}

impl Wipes {
    pub(super) fn new(device: Arc<str>) -> Wipes {
        Wipes { device, wipes: Slab::new() }
    }

    /// Whether nothing is being erased.
    pub(super) fn is_empty(&self) -> bool {
        self.wipes.len() == 0
    }

    /// Erases a range, which is not empty.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        switch: &mut Switch<Origin>,
        (range, what): (ByteRange, String),
        done: Wiped,
    ) {
        // The key is known only after the wipe has its first part.
        let part = Part { io: Key::new(0, 0), length: 0 };
        let key = self.wipes.insert(Wipe { what, range, erased: 0, part, done });
        self.next_part(now, switch, key);
    }

    fn next_part(&mut self, now: Instant, switch: &mut Switch<Origin>, key: Key) {
        let wipe = self.wipes.get_mut(key).expect("it goes on until it ends");
        let left = wipe.range.length - wipe.erased;
        let range = ByteRange { offset: wipe.range.offset + wipe.erased, length: left.min(PART) };
        // The flush at the end is for all parts.
        let work = Work::WriteZeroes { range, durable: range.length == left };
        let slot = IoSlot::new(TARGET, Priority::default(), work, Origin::Wipe(key));
        let io = switch.ios.insert(slot);
        switch.arrive(now, io);
        wipe.part = Part { io, length: range.length };
    }

    /// A part of a wipe has ended. The next one follows if the target `goes_on`.
    pub(super) fn on_part(
        &mut self,
        now: Instant,
        switch: &mut Switch<Origin>,
        (key, mut result): (Key, Result<(), Failure>),
        goes_on: bool,
    ) {
        let wipe = self.wipes.get_mut(key).expect("its parts end before it does");
        if result.is_ok() {
            let before = wipe.tenths();
            wipe.erased += wipe.part.length;
            let percent = wipe.tenths() * 10;
            if wipe.erased < wipe.range.length {
                if percent / 10 > before {
                    info!(device = %self.device, removed = wipe.what, percent, "blocks are being erased");
                }
                if goes_on {
                    return self.next_part(now, switch, key);
                }
                result = Err(Failure::Withdrawn);
            }
        }
        let Wipe { what, done, .. } = self.wipes.remove(key).expect("just found");
        match &result {
            Ok(()) => info!(device = %self.device, removed = what, "its blocks are erased"),
            // The target ends, and says so itself.
            Err(Failure::Withdrawn) => {}
            Err(failure) => error!(
                device = %self.device, removed = what, %failure,
                "its blocks are not erased, so no namespace can have them: look at the device, then reload to try again"
            ),
        }
        done(result);
    }

    /// The target ends: no more is erased.
    pub(super) fn stop(&mut self, now: Instant, switch: &mut Switch<Origin>) {
        let parts: Vec<(Key, Key)> = self.wipes.iter().map(|(key, wipe)| (key, wipe.part.io)).collect();
        for (key, io) in parts {
            if switch.withdraw(now, io) {
                let mut slot = switch.ios.remove(io).expect("just taken back");
                self.on_part(now, switch, (key, slot.take_result()), false);
            } else {
                switch.stop(io);
            }
        }
    }
}
