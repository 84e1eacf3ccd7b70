//! A client's way to one SSD: the limit of its outstanding IOs there, and the waiting ones.

use blob::steer::{Load, Slow};
use sched::{ClientWindow, Credit, CreditWindow, LatencySample, PardaWindow, VmShares};
use sim::ClientChoice;
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// Contents of a completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) credit: Credit,
    pub(crate) slow: Option<Slow>,
}

/// The way of one database to one SSD.
pub(crate) struct Path {
    window: ClientWindow,
    /// Used only by PARDA.
    shares: VmShares,
    waiting: VecDeque<u64>,
    has_credit: bool,
    /// Bytes of the writes that have not ended.
    writing: u64,
    /// When the switch last said something.
    heard_at: Instant,
    /// Its news of a busy period.
    slow: Option<Slow>,
}

impl Path {
    pub(crate) fn new(choice: &ClientChoice, credit: Credit) -> Path {
        let window = match choice {
            ClientChoice::Credits => ClientWindow::Credits(CreditWindow::new(credit)),
            ClientChoice::Parda { config, .. } => ClientWindow::Parda(PardaWindow::new(*config)),
        };
        // A scheduler without credits gives all that a number can be.
        let has_credit = matches!(choice, ClientChoice::Credits) && credit.0 < u32::MAX;
        Path {
            window,
            shares: VmShares::new(Instant::ZERO, &[1]),
            waiting: VecDeque::new(),
            has_credit,
            writing: 0,
            heard_at: Instant::ZERO,
            slow: None,
        }
    }

    /// The client wants this IO to be done.
    pub(crate) fn ask(&mut self, now: Instant, io: u64, written: u64) {
        self.writing += written;
        self.shares.on_ask(now, 0);
        self.waiting.push_back(io);
    }

    /// The IO to send next, if one may be sent.
    pub(crate) fn next(&mut self) -> Option<u64> {
        if self.waiting.is_empty() || !self.window.try_submit() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// An IO has ended.
    pub(crate) fn on_answer(&mut self, now: Instant, told: Told, latency: Nanos, written: u64) {
        self.writing -= written;
        self.heard_at = now;
        self.slow = told.slow;
        _ = self.window.on_completion(Some(told.credit), Some(latency));
        self.shares.on_end(now, 0);
    }

    /// Knowledge of a steering policy.
    pub(crate) fn load(&self, now: Instant) -> Load {
        let in_flight = self.window.in_flight() + self.waiting.len() as u32;
        let credit = self.has_credit.then(|| self.window.limit());
        Load { credit, in_flight, writing: self.writing, ..Load::default() }.told(now, self.slow)
    }

    /// When the switch last said something.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// The latencies of a period.
    pub(crate) fn publish(&mut self) -> LatencySample {
        self.window.parda().map(PardaWindow::publish).unwrap_or_default()
    }

    /// A period in which all clients saw `aggregate` is over.
    pub(crate) fn on_period(&mut self, now: Instant, aggregate: LatencySample) {
        let Some(parda) = self.window.parda() else { return };
        let beta = self.shares.on_period(now, parda.window(), parda.config().beta_per_share);
        parda.on_period(aggregate, beta);
    }
}
