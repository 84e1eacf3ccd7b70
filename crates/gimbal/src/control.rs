//! The queue of requests to the owner of a running target.
//!
//! ```text
//!   signals ──► Requester ──► queue ──► Owner: reloads, stops
//!      └──────► server::Remote: statistics, stop at once     (never wait for the owner)
//! ```
//!
//! The owner may wait for a device while it reloads. A request that an earlier one makes pointless is refused at once.
//! So the queue is bounded: at most one reload that has not begun, and the stop.
//!
//! Holds: a second reload is refused until the first has begun, and nothing is accepted after the stop
//!        (`a_request_that_another_makes_pointless_is_refused`).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A request to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Read the configuration again.
    Reload,
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
    /// Puts a request into the queue.
    ///
    /// # Errors
    /// An earlier request makes it pointless.
    pub(crate) fn ask(&self, request: Request) -> Result<(), Pointless> {
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        if waiting.stop {
            return Err(Pointless("the target is stopping"));
        }
        let waits = match request {
            Request::Reload => &mut waiting.reload,
            Request::Stop => &mut waiting.stop,
        };
        if *waits {
            return Err(Pointless("a reload waits already, and will read the file as it is then"));
        }
        *waits = true;
        self.requests.send(request).map_err(|_| Pointless("the target has stopped"))
    }
}

impl Owner {
    /// Waits for the next request. Returns `Stop` if every `Requester` was dropped.
    pub(crate) fn next(&self) -> Request {
        let request = self.requests.recv().unwrap_or(Request::Stop);
        if request == Request::Reload {
            self.waiting.lock().expect("nobody panics with it").reload = false;
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
        assert_eq!(owner.next(), Request::Reload);
        assert_eq!(requester.ask(Request::Reload), Ok(()), "the first has begun");
        assert_eq!(requester.ask(Request::Stop), Ok(()));
        for late in [Request::Reload, Request::Stop] {
            assert_eq!(requester.ask(late), Err(Pointless("the target is stopping")));
        }
        assert_eq!([owner.next(), owner.next()], [Request::Reload, Request::Stop]);
        drop(requester);
        assert_eq!(owner.next(), Request::Stop, "nobody is left to ask");
    }
}
