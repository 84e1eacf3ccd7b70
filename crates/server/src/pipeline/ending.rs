//! The end of a pipeline: in order, cut short, or because its reactor has failed.
//!
//! ```text
//!   Drain ─► all answered ─► Drained ─► Finish ─► flush ─► ended
//!     └─────time runs out─────────────► Finish ─► log of unanswered IOs ─► flush, unless the device has IOs ─► ended
//!   the reactor fails ─► connections closed, IOs of other pipelines failed ─► ended
//! ```
//!
//! Holds: a device that hangs delays neither its own end nor that of others, and one whose reactor fails takes no other with it
//!        (`tests/bad_devices/endings.rs`).

use super::commands::Commands;
use super::message::{Report, ToPipeline};
use super::{Origin, Phase, Pipeline};
use crate::connections::message::ToConnections;
use crate::device::PATH_LOST;
use crate::switch::{ByteRange, Failure, IoSlot, Work};
use crate::tenants::TARGET;
use sched::Priority;
use std::io;
use tracing::{error, info, warn};
use units::Instant;

/// Unanswered commands that the log names one by one.
const NAMED_MAX: usize = 8;

impl Pipeline {
    /// Says so when every command that came is answered.
    pub(super) fn check_drained(&mut self) {
        if self.phase == Phase::Draining
            && self.storing.is_done()
            && self.wipes.is_empty()
            && self.commands.sessions.iter().all(|session| session.ios == 0)
            && self.commands.wires.here.all_sent()
        {
            self.phase = Phase::Drained;
            self.report(Report::Drained);
        }
    }

    /// Ends without waiting for replies: flushes written data, if the device still works.
    pub(super) fn finish(&mut self, now: Instant) {
        self.learning.keep(self.commands.switch.policy());
        if self.phase != Phase::Drained {
            self.log_unanswered();
        }
        if !self.commands.switch.is_empty() {
            error!(device = %self.name, "the device still has IOs: it is not flushed");
            self.phase = Phase::Ended;
            return;
        }
        self.phase = Phase::Flushing;
        self.commands.switch.settle();
        let flush = IoSlot::new(TARGET, Priority::default(), Work::Flush(ByteRange::EMPTY), Origin::Target);
        let io = self.commands.switch.ios.insert(flush);
        self.commands.switch.arrive(now, io);
    }

    /// The flush at the end is over.
    pub(super) fn on_flushed(&mut self, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.commands.switch.on_settled(),
            // Behind a lost path no write was answered before it was durable.
            Err(Failure::Device(error)) if error.kind() == PATH_LOST => {
                info!(device = %self.name, %error, "there is no last flush; nothing that was answered is at risk");
            }
            Err(failure) => {
                error!(device = %self.name, %failure, "the last flush failed: what was written lately may not be stored");
            }
        }
        self.phase = Phase::Ended;
    }

    fn log_unanswered(&self) {
        let of_sessions = self.commands.switch.ios.iter().filter_map(|(_, slot)| match &slot.owner {
            Origin::Local(io) => Some(io),
            _ => None,
        });
        let ios: Vec<_> = of_sessions.collect();
        warn!(device = %self.name, ios = ios.len(), "the target ends with commands unanswered");
        for io in ios.into_iter().take(NAMED_MAX) {
            let host = self.commands.sessions.get(io.session).map(|session| session.admission.host());
            let (op, nsid, lba) = (&io.command.op, io.command.nsid, io.command.lba.0);
            warn!(device = %self.name, host, ?op, nsid, lba, "unanswered");
        }
    }

    /// Ends after a failure of the reactor: no command can be answered any more, so other threads must not wait for it.
    pub(super) fn break_up(self, cause: &io::Error) {
        let Pipeline {
            name: device, inbox, commands: Commands { sessions, ref port, ref wires, .. }, ..
        } = self;
        let connections = sessions.iter().filter(|session| session.wire.is_open()).count();
        error!(%device, error = %cause, connections, "the SSD's thread fails: its connections are closed, other SSDs go on");
        // From here on posts to this pipeline fail. IOs that were posted before are failed by those who posted them, and
        // connections, whether looked at or not, report their end to the acceptor.
        drop(inbox);
        for peer in port.mailboxes() {
            peer.tell(ToPipeline::PeerFailed { slot: port.home() });
        }
        for other in wires.mailboxes() {
            other.tell(ToConnections::PipelineFailed { slot: port.home() });
        }
    }
}
