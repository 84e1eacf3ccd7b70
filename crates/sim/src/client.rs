//! A tenant's side: the application that asks, the credit window that holds back, the link that carries.

use crate::network::Link;
use crate::workload::{Arrival, Generator, Request};
use crate::world::TenantSpec;
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{Credit, CreditWindow};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// An IO that the application has asked for and the client has not sent yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) request: Request,
    pub(crate) asked_at: Instant,
}

pub(crate) struct Client {
    pub(crate) spec: TenantSpec,
    pub(crate) stop: Instant,
    pub(crate) to_switch: Link,
    pub(crate) from_switch: Link,
    generator: Generator,
    window: CreditWindow,
    waiting: VecDeque<Waiting>,
    paced_until: Instant,
}

impl Client {
    pub(crate) fn new(
        spec: TenantSpec,
        end: Instant,
        credit: Credit,
        device_slots: u32,
        random: Xoshiro256PlusPlus,
    ) -> Client {
        let credit = if spec.obeys_credit { credit } else { Credit(u32::MAX) };
        Client {
            stop: spec.stop.min(end),
            to_switch: Link::default(),
            from_switch: Link::default(),
            generator: Generator::new(spec.workload.clone(), device_slots, random),
            window: CreditWindow::new(credit),
            waiting: VecDeque::new(),
            paced_until: Instant::ZERO,
            spec,
        }
    }

    /// The application asks for one more IO. Answers when it may ask for the one after, under its own rate.
    pub(crate) fn ask(&mut self, now: Instant) -> Instant {
        let request = self.generator.next();
        self.waiting.push_back(Waiting { request, asked_at: now });
        if let Some(rate) = self.spec.workload.rate_max {
            let pause = rate.time_to_earn(request.length()).expect("a workload's rate is not zero");
            self.paced_until = self.paced_until.max(now) + pause;
        }
        self.paced_until.max(now)
    }

    /// When an application that has just got an IO back may ask for the next.
    pub(crate) fn may_ask_at(&self, now: Instant) -> Instant {
        self.paced_until.max(now)
    }

    /// The next IO to put on the wire, if there is one and the credit covers it.
    pub(crate) fn send(&mut self) -> Option<Waiting> {
        if self.waiting.is_empty() || !self.window.try_submit() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// A completion has come, and with it the credit.
    pub(crate) fn on_answer(&mut self, credit: Credit) {
        _ = self.window.on_completion(self.spec.obeys_credit.then_some(credit));
    }

    /// The gap to the next arrival of an open workload; `None` for a closed one.
    pub(crate) fn open_gap(&mut self) -> Option<Nanos> {
        match self.spec.workload.arrival {
            Arrival::Open { iops } => Some(self.generator.gap(iops)),
            Arrival::Closed { .. } => None,
        }
    }
}
