//! The volume's thread: carries out the actions of the core, and passes their results back.

use crate::connections::{Connections, News};
use crate::inbox::{Answer, Inbox, Job};
use crate::mount::Trouble;
use blob::catalog::{Order, OrderError};
use blob::{Action, IoId, OpId, OrderId, Volume};
use host::Engine;
use reactor::Clock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};
use units::Nanos;

pub(crate) struct Thread {
    pub(crate) engine: Engine,
    pub(crate) volume: Volume,
    pub(crate) connections: Connections,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) orders: Sender<(OrderId, Order)>,
    /// Only a mount that begins listens.
    troubles: Sender<Trouble>,
    answers: HashMap<OpId, Answer>,
    next_op: u64,
}

impl Thread {
    pub(crate) fn new(
        engine: Engine,
        volume: Volume,
        connections: Connections,
        inbox: Arc<Inbox>,
        orders: Sender<(OrderId, Order)>,
        troubles: Sender<Trouble>,
    ) -> Thread {
        Thread { engine, volume, connections, inbox, orders, troubles, answers: HashMap::new(), next_op: 0 }
    }

    /// Runs until it is stopped, or the kernel interface fails. Requests that are still open then fail as not mounted.
    pub(crate) fn run(mut self) {
        while self.turn() {}
        self.connections.close_all(&mut self.engine);
    }

    fn turn(&mut self) -> bool {
        let now = Clock.now();
        if let Ok(time) = SystemTime::now().duration_since(UNIX_EPOCH) {
            let since_1970 = Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            self.volume.set_wall_clock(now, since_1970);
        }
        for job in self.inbox.take_all() {
            match job {
                Job::Request(request, answer) => {
                    self.next_op += 1;
                    let op = OpId(self.next_op);
                    self.answers.insert(op, answer);
                    self.volume.submit(now, op, request);
                }
                Job::Reply(id, reply) => {
                    if let Err(OrderError::Unavailable(why)) = &reply {
                        // This fails once the volume is mounted.
                        drop(self.troubles.send(Trouble::Store(why.clone())));
                    }
                    self.volume.on_reply(now, id, reply);
                }
                Job::Stop => return false,
            }
        }
        self.volume.on_time(now);
        self.carry_out();
        self.connections.connect_due(&mut self.engine, now);
        let deadline = [self.volume.next_timer(), self.connections.next_retry()].into_iter().flatten().min();
        if self.engine.wait(deadline).is_err() {
            return false;
        }
        while let Some(event) = self.engine.next_event() {
            let news = self.connections.on_event(&mut self.engine, Clock.now(), event);
            if let Some(news) = news {
                self.tell(news);
                self.carry_out();
            }
        }
        true
    }

    fn tell(&mut self, news: News) {
        let now = Clock.now();
        match news {
            News::Ssd { ssd, is_up, epoch } => self.volume.on_ssd(now, ssd, is_up, epoch),
            News::IoEnd { io, epoch, result, ssd } => {
                let (credit, slow) = self.connections.told(&self.engine, ssd);
                self.volume.on_told(ssd, credit, slow);
                self.volume.on_io(now, IoId(io), epoch, result);
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.volume.next_action() {
            match action {
                Action::Ssds(ssds) => {
                    self.connections.want(ssds);
                    self.connections.connect_due(&mut self.engine, Clock.now());
                }
                Action::Io(io) => {
                    if let Some(news) = self.connections.submit(&mut self.engine, &io) {
                        self.tell(news);
                    }
                }
                // The store's thread lives as long as this one.
                Action::Order(id, order) => drop(self.orders.send((id, order))),
                Action::Done(op, outcome) => {
                    if let Some(answer) = self.answers.remove(&op) {
                        answer.give(outcome);
                    }
                }
            }
        }
    }
}

/// Closes the inbox even if the thread panics, so that no caller waits for ever.
impl Drop for Thread {
    fn drop(&mut self) {
        self.inbox.close();
    }
}
