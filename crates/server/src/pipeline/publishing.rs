//! The numbers of this SSD on their way to readers: see `crate::stats::board`.
//!
//! The numbers of IOs are published at the end of every turn. The state of the scheduler and of the tenants, connections and memory are published
//! every [`INTERVAL`] while something happens, and once more when it has ended, and as soon as a connection comes or goes. An idle thread is not
//! woken for them.

use super::commands::Commands;
use super::tenants::Tenants;
use crate::stats::TurnStats;
use crate::stats::board::{Board, State};
use std::sync::Arc;
use units::{Bytes, Instant, Nanos};

/// Time between two looks at the state.
const INTERVAL: Nanos = Nanos::millis(50);

/// Tenants that are looked at in one turn. So a turn takes a few microseconds longer, however many tenants there are; with 4,096 of them each is
/// looked at every few seconds.
const TENANTS_MAX: usize = 64;

/// Tenants whose reads wait for memory that are told apart in one look.
const STARVED_MAX: usize = 64;

/// See the module.
pub(super) struct Publishing {
    pub(super) board: Arc<Board>,
    /// Something has happened in this turn.
    pub(super) has_happened: bool,
    /// When to look again, if anything is left.
    next: Instant,
    /// Tenants to look at, from `cursor` on; then all are as they were published.
    left: usize,
    cursor: usize,
    /// Something may change although nothing happens here: memory that another thread sends, or the end of a busy period.
    is_pending: bool,
}

impl Publishing {
    pub(super) fn new(board: Arc<Board>) -> Publishing {
        Publishing { board, has_happened: false, next: Instant::ZERO, left: 0, cursor: 0, is_pending: true }
    }

    /// When to look although nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.left > 0 || self.is_pending).then_some(self.next)
    }

    /// Publishes the numbers of a turn, and the state if it is time.
    #[inline]
    pub(super) fn publish(
        &mut self,
        now: Instant,
        hung: usize,
        turns: TurnStats,
        commands: &mut Commands,
        tenants: &mut Tenants,
    ) {
        let backlog = commands.switch.backlog();
        self.board.queued.set(backlog.queued as u64);
        self.board.in_flight.set(backlog.in_flight as u64);
        self.board.hung.set(hung as u64);
        if std::mem::take(&mut self.has_happened) {
            self.left = tenants.numbers();
            self.is_pending = true;
            // Before the answers of this turn are sent, so a reader that has an answer does not take older numbers for final ones.
            self.board.current.set(0);
        }
        let is_time = now >= self.next && self.deadline().is_some();
        if commands.sessions.take_changed() || is_time {
            self.look(now, turns, commands, tenants);
        }
    }

    #[cold]
    fn look(&mut self, now: Instant, turns: TurnStats, commands: &mut Commands, tenants: &mut Tenants) {
        let Commands { switch, sessions, wires, reads, .. } = commands;
        let policy = switch.policy();
        let state = State {
            view: policy.ssd_view(switch.clock().to_device(now)),
            busy: switch.busy(now),
            auxiliary: switch.auxiliary(),
            files: switch.files(),
            extra_reads: switch.extra_reads(),
            turns,
        };
        self.board.publish(state);
        self.board.slow.tick(now);
        let (mut connections, mut starved) = (0, Vec::new());
        for session in sessions.iter() {
            connections += u64::from(!session.wire.is_gone());
            for io in sessions.waiting_reads(session, STARVED_MAX) {
                let tenant = switch.ios.get(io).expect("a waiting IO has not ended").tenant();
                if !starved.contains(&tenant) && starved.len() < STARVED_MAX {
                    starved.push(tenant);
                }
            }
        }
        self.board.connections.set(connections);
        let looked = self.left.min(TENANTS_MAX);
        self.cursor = tenants.publish(now, policy, &starved, (self.cursor, looked));
        self.left -= looked;
        let memory = wires.here.memory() + reads.lent();
        self.board.memory.set(memory.get());
        self.board.current.set(u64::from(self.left == 0));
        self.is_pending = memory > Bytes::ZERO || state.busy.is_some();
        self.next = now + INTERVAL;
    }
}
