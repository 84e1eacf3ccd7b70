//! Rules that must hold in every run, with any seed.
//!
//! The checkers are outside the scheduler and the device, and have their own records:
//!
//! * an IO passes each waypoint once and in order, so none is lost and none is done twice;
//! * within a tenant's class, IOs are submitted in order of arrival (those of one kind, or in any, if the scheduler says so);
//! * a client sends only within its credit;
//! * the scheduler's count of queued and submitted IOs is correct at every step, and zero at the end;
//! * bytes are conserved: as many are answered as arrived;
//! * the scheduler never asks to be woken in the past.

use crate::workload::Request;
use sched::{Backlog, Io, IoId, Mark, Order};
use std::collections::VecDeque;
use std::fmt;
use units::{Bytes, Instant, TenantId};

/// Where an IO is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waypoint {
    /// On its way to the switch.
    Sent,
    /// In the scheduler's queue.
    Arrived,
    /// In the SSD.
    Submitted,
    /// On its way back.
    Completed,
    /// Back at the client.
    Answered,
}

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An IO reached a waypoint out of order.
    OutOfTurn {
        /// The IO.
        id: IoId,
        /// Where it was; `None` if it was unknown.
        was: Option<Waypoint>,
        /// The waypoint it reached.
        came: Waypoint,
    },
    /// An IO was submitted before one that arrived earlier in the same class.
    Overtaken {
        /// The tenant.
        tenant: TenantId,
        /// The IO that was submitted.
        submitted: IoId,
        /// The IO that should have been.
        expected: Option<IoId>,
    },
    /// An IO left the scheduler changed.
    Altered {
        /// The IO as it left.
        io: Io,
    },
    /// The scheduler's counts are wrong.
    Miscounted {
        /// The scheduler's report.
        says: Backlog,
        /// The true counts.
        truth: Backlog,
    },
    /// A wake-up that is not in the future.
    LateWake {
        /// Time of the request.
        now: Instant,
        /// The requested time.
        at: Instant,
    },
    /// No event is left, but IOs are outstanding.
    Stuck {
        /// The time.
        now: Instant,
        /// The scheduler's counts.
        backlog: Backlog,
    },
    /// At the end, bytes that arrived differ from bytes that were answered.
    Unbalanced {
        /// Bytes that arrived at the switch.
        arrived: Bytes,
        /// Bytes answered.
        answered: Bytes,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Violation {}

/// The records.
pub(crate) struct Checkers {
    waypoints: Vec<Option<Waypoint>>,
    order: Order,
    lines: Vec<[VecDeque<IoId>; Order::LINES]>,
    truth: Backlog,
    arrived: Bytes,
    answered: Bytes,
}

impl Checkers {
    pub(crate) fn new(tenants: usize, order: Order) -> Checkers {
        Checkers {
            waypoints: Vec::new(),
            order,
            lines: (0..tenants).map(|_| Default::default()).collect(),
            truth: Backlog::default(),
            arrived: Bytes::ZERO,
            answered: Bytes::ZERO,
        }
    }

    fn turn(&mut self, id: IoId, came: Waypoint) -> Result<(), Violation> {
        let index = id.0 as usize;
        if index >= self.waypoints.len() {
            self.waypoints.resize(index + 1, None);
        }
        let was = self.waypoints[index];
        let expected = match came {
            Waypoint::Sent => None,
            Waypoint::Arrived => Some(Waypoint::Sent),
            Waypoint::Submitted => Some(Waypoint::Arrived),
            Waypoint::Completed => Some(Waypoint::Submitted),
            Waypoint::Answered => Some(Waypoint::Completed),
        };
        if was != expected {
            return Err(Violation::OutOfTurn { id, was, came });
        }
        // The engine reuses the number of an answered IO.
        self.waypoints[index] = if came == Waypoint::Answered { None } else { Some(came) };
        Ok(())
    }

    pub(crate) fn on_sent(&mut self, id: IoId) -> Result<(), Violation> {
        self.turn(id, Waypoint::Sent)
    }

    pub(crate) fn on_arrived(&mut self, io: &Io) -> Result<(), Violation> {
        self.turn(io.id, Waypoint::Arrived)?;
        self.lines[io.tenant.index()][self.order.line(io)].push_back(io.id);
        self.truth.queued += 1;
        self.arrived += io.length;
        Ok(())
    }

    pub(crate) fn on_submitted(&mut self, io: &Io, arrived_as: Option<&Io>) -> Result<(), Violation> {
        self.turn(io.id, Waypoint::Submitted)?;
        let unmarked = Io { mark: Mark::default(), ..*io };
        if arrived_as != Some(&unmarked) {
            return Err(Violation::Altered { io: *io });
        }
        let line = &mut self.lines[io.tenant.index()][self.order.line(io)];
        let place = match self.order {
            Order::None => line.iter().position(|&id| id == io.id),
            Order::Class | Order::Kind => (line.front() == Some(&io.id)).then_some(0),
        };
        let Some(place) = place else {
            let expected = line.front().copied();
            return Err(Violation::Overtaken { tenant: io.tenant, submitted: io.id, expected });
        };
        line.remove(place);
        self.truth.queued -= 1;
        self.truth.in_flight += 1;
        Ok(())
    }

    /// Handles an IO that was taken back before it was submitted: it goes straight back.
    pub(crate) fn on_withdrawn(&mut self, io: &Io) -> Result<(), Violation> {
        let id = io.id;
        let was = self.waypoints[id.0 as usize];
        if was != Some(Waypoint::Arrived) {
            return Err(Violation::OutOfTurn { id, was, came: Waypoint::Completed });
        }
        self.waypoints[id.0 as usize] = Some(Waypoint::Completed);
        self.lines[io.tenant.index()][self.order.line(io)].retain(|other| *other != id);
        self.truth.queued -= 1;
        Ok(())
    }

    /// Handles the replacement of the scheduler: the new one has the queued IOs, in order of arrival, and keeps another
    /// order.
    pub(crate) fn on_replaced(&mut self, order: Order, queued: &[Io]) {
        self.order = order;
        self.lines.iter_mut().flatten().for_each(VecDeque::clear);
        for io in queued {
            self.lines[io.tenant.index()][order.line(io)].push_back(io.id);
        }
    }

    pub(crate) fn on_completed(&mut self, id: IoId) -> Result<(), Violation> {
        self.turn(id, Waypoint::Completed)?;
        self.truth.in_flight -= 1;
        Ok(())
    }

    pub(crate) fn on_answered(&mut self, id: IoId, request: &Request) -> Result<(), Violation> {
        self.turn(id, Waypoint::Answered)?;
        self.answered += request.length();
        Ok(())
    }

    pub(crate) fn on_step(&self, says: Backlog) -> Result<(), Violation> {
        if says != self.truth {
            return Err(Violation::Miscounted { says, truth: self.truth });
        }
        Ok(())
    }

    pub(crate) fn on_end(&self, says: Backlog) -> Result<(), Violation> {
        self.on_step(says)?;
        if self.arrived != self.answered {
            return Err(Violation::Unbalanced { arrived: self.arrived, answered: self.answered });
        }
        Ok(())
    }
}
