//! The queue of requests to the owner of a running target.
//!
//! ```text
//!   signals, admin API ──► Requester ──► queue ──► Owner: reloads, edits, stops
//!      └──────► server::Remote: statistics, stop at once     (never wait for the owner)
//! ```
//!
//! The owner may wait for a device while it reloads. A request that an earlier one makes pointless is refused at once.
//! So the queue is bounded: at most one reload by signal that has not begun, `ORDERS_MAX` orders of the admin API, and the stop.
//!
//! Holds: a second reload is refused until the first has begun, and nothing is accepted after the stop
//!        (`a_request_that_another_makes_pointless_is_refused`).

use admin::{Order, Refusal};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Orders of the admin API that may wait.
const ORDERS_MAX: usize = 8;

/// A request to the owner.
#[derive(Debug)]
pub(crate) enum Request {
    /// Read the configuration again.
    Reload,
    /// Do what a client of the admin API asks for, and answer it.
    Order(Order),
    /// Stop in order.
    Stop,
}

/// The error for a request that an earlier one makes pointless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointless(pub(crate) &'static str);

/// The requests in the queue.
#[derive(Default)]
struct Waiting {
    reload: bool,
    orders: usize,
    stop: bool,
}

/// The sending end of the queue.
#[derive(Clone)]
pub(crate) struct Requester {
    requests: Sender<Request>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The receiving end of the queue.
pub(crate) struct Owner {
    requests: Receiver<Request>,
    waiting: Arc<Mutex<Waiting>>,
}

/// An empty queue.
pub(crate) fn queue() -> (Requester, Owner) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    (Requester { requests: sender, waiting: Arc::clone(&waiting) }, Owner { requests: receiver, waiting })
}

impl Requester {
    /// Puts an order of the admin API into the queue.
    ///
    /// # Errors
    /// The queue is full, or the target is stopping (503).
    pub(crate) fn order(&self, order: Order) -> Result<(), Refusal> {
        self.ask(Request::Order(order)).map_err(|Pointless(why)| Refusal::new(503, why))
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    /// An earlier request makes it pointless.
    pub(crate) fn ask(&self, request: Request) -> Result<(), Pointless> {
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        if waiting.stop {
            return Err(Pointless("the target is stopping"));
        }
        match request {
            Request::Reload if waiting.reload => {
                return Err(Pointless("a reload waits already, and will read the file as it is then"));
            }
            Request::Reload => waiting.reload = true,
            Request::Order(_) if waiting.orders == ORDERS_MAX => {
                return Err(Pointless("8 changes wait already; repeat it later"));
            }
            Request::Order(_) => waiting.orders += 1,
            Request::Stop => waiting.stop = true,
        }
        self.requests.send(request).map_err(|_| Pointless("the target has stopped"))
    }
}

impl Owner {
    /// Waits for the next request. Returns `Stop` if every `Requester` was dropped.
    pub(crate) fn next(&self) -> Request {
        let request = self.requests.recv().unwrap_or(Request::Stop);
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        match request {
            Request::Reload => waiting.reload = false,
            Request::Order(_) => waiting.orders -= 1,
            Request::Stop => {}
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_another_makes_pointless_is_refused() {
        let (requester, owner) = queue();
        assert_eq!(requester.ask(Request::Reload), Ok(()));
        assert!(requester.ask(Request::Reload).is_err(), "one waits");
        assert!(matches!(owner.next(), Request::Reload));
        assert_eq!(requester.ask(Request::Reload), Ok(()), "the first has begun");
        assert_eq!(requester.ask(Request::Stop), Ok(()));
        for late in [Request::Reload, Request::Stop] {
            assert_eq!(requester.ask(late), Err(Pointless("the target is stopping")));
        }
        assert!(matches!([owner.next(), owner.next()], [Request::Reload, Request::Stop]));
        drop(requester);
        assert!(matches!(owner.next(), Request::Stop), "nobody is left to ask");
    }
}
