//! The queue of requests to the owner of a running target.
//!
//! ```text
//!   signals ──► Requester ──► queue ──► Owner: reloads, stops
//!      └──────► server::Remote: statistics, stop at once     (never wait for the owner)
//! ```
//!
//! The owner may wait for a device while it reloads. A request that one before it makes pointless is refused at once, so the queue is bounded: one reload that
//! has not begun, and the end.
//!
//! Holds: a second reload is refused until the first has begun, and nothing comes after the end
//!        (`a_request_that_another_makes_pointless_is_refused`).

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A request to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Reads the configuration again.
    Reload,
    /// Ends in order.
    Stop,
}

/// A request that one before it makes pointless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointless(pub(crate) &'static str);

/// Which requests wait.
#[derive(Default)]
struct Waiting {
    reload: bool,
    stop: bool,
}

/// The end of the queue for those who ask.
#[derive(Clone)]
pub(crate) struct Requester {
    requests: Sender<Request>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The end of the queue for the owner.
pub(crate) struct Owner {
    requests: Receiver<Request>,
    waiting: Arc<Mutex<Waiting>>,
}

/// A queue with nothing in it.
pub(crate) fn queue() -> (Requester, Owner) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    (Requester { requests: sender, waiting: Arc::clone(&waiting) }, Owner { requests: receiver, waiting })
}

impl Requester {
    /// Asks for it.
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
    /// The next request. Without anybody who could ask for more, that is the end.
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
