//! The client side of a tenant: the application that requests IOs, and the requested IOs that were not sent
//! yet.

use crate::host::Place;
use crate::workload::{Arrival, Generator, Request};
use crate::world::TenantSpec;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// An IO that the application has requested and the client has not sent yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) asked_at: Instant,
}

pub(crate) struct Client {
    pub(crate) spec: TenantSpec,
    pub(crate) stop: Instant,
    pub(crate) place: Place,
    generator: Generator,
    waiting: VecDeque<Waiting>,
    paced_until: Instant,
}

impl Client {
    pub(crate) fn new(
        spec: TenantSpec,
        end: Instant,
        place: Place,
        device_slots: u32,
        random: Xoshiro256PlusPlus,
    ) -> Client {
        Client {
            stop: spec.stop.min(end),
            place,
            generator: Generator::new(spec.workload.clone(), device_slots, random),
            waiting: VecDeque::new(),
            paced_until: Instant::ZERO,
            spec,
        }
    }

    /// The application requests one more IO. Returns when its own rate allows the next one.
    pub(crate) fn ask(&mut self, now: Instant) -> Instant {
        let request = self.generator.next();
        self.waiting.push_back(Waiting { request, asked_at: now });
        if let Some(rate) = self.spec.workload.rate_max {
            let pause = rate.time_to_earn(request.length()).expect("a workload's rate is not zero");
            self.paced_until = self.paced_until.max(now) + pause;
        }
        self.paced_until.max(now)
    }

    /// When an application that just got an IO back may request the next one.
    pub(crate) fn may_ask_at(&self, now: Instant) -> Instant {
        let at = self.paced_until.max(now);
        let at = self.spec.workload.bursts.map_or(at, |bursts| bursts.next(self.spec.start, at));
        match self.spec.away {
            Some((from, until)) if (from..until).contains(&at) => until,
            _ => at,
        }
    }

    /// The IO to send when it is this tenant's turn.
    pub(crate) fn send(&mut self) -> Waiting {
        self.waiting.pop_front().expect("it is the tenant's turn only if it has waiting IOs")
    }

    /// The time to the next arrival of an open workload; `None` for a closed one.
    pub(crate) fn open_gap(&mut self) -> Option<Nanos> {
        match self.spec.workload.arrival {
            Arrival::Open { iops } => Some(self.generator.gap(iops)),
            Arrival::Closed { .. } => None,
        }
    }
}
