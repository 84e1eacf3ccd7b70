//! Asynchronous events of one controller: which are reported, and when.
//!
//! A host leaves Asynchronous Event Requests outstanding; an event completes one. The next event of the same
//! kind is reported only after the host has read the log page, so a burst of changes costs one completion.
//! Kinds that the host disabled in feature 0Bh are dropped. If an event is waiting, a new request completes
//! at once.
//!
//!   quiet --raise--> waiting --a request comes--> reported --log page read--> quiet
//!
//! Holds: at most `requests_max` requests are kept (`a_request_too_many_is_refused`), and no event is reported twice
//!        before its log page was read (`an_event_is_reported_once_until_its_log_page_is_read`).
//! NVM Express Base Specification: "Asynchronous Event Request command".

use crate::spec::event::EventKind;
use crate::spec::{Cqe, Status};
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Quiet,
    Waiting,
    Reported,
}

/// A controller's events.
#[derive(Clone, Debug)]
pub(super) struct Events {
    requests: Vec<u16>,
    requests_max: usize,
    enabled: u32,
    states: [State; EventKind::ALL.len()],
}

impl Events {
    pub(super) fn new(requests_max: usize) -> Events {
        Events { requests: Vec::new(), requests_max, enabled: 0, states: Default::default() }
    }

    /// Drops events and configuration because the controller was reset. Returns the requests, which get no completion.
    pub(super) fn reset(&mut self) -> Vec<u16> {
        core::mem::replace(self, Events::new(self.requests_max)).requests
    }

    /// Feature 0Bh.
    pub(super) fn configuration(&self) -> u32 {
        self.enabled
    }

    /// Sets feature 0Bh. Drops waiting events that are now disabled.
    pub(super) fn configure(&mut self, enabled: u32) {
        self.enabled = enabled;
        for kind in EventKind::ALL {
            if !self.is_enabled(kind) {
                self.states[kind.index()] = State::Quiet;
            }
        }
    }

    /// Lets command `cid` wait for an event. Returns its completion if an event is already waiting.
    pub(super) fn on_request(&mut self, cid: u16) -> Result<Option<Cqe>, Status> {
        if self.requests.len() == self.requests_max {
            return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED);
        }
        self.requests.push(cid);
        Ok(EventKind::ALL.into_iter().find_map(|kind| self.tell(kind)))
    }

    /// The host aborted its request `cid`. Returns whether there was one.
    pub(super) fn give_up(&mut self, cid: u16) -> bool {
        let before = self.requests.len();
        self.requests.retain(|request| *request != cid);
        self.requests.len() < before
    }

    /// An event happened. Returns the completion to send, if any.
    pub(super) fn raise(&mut self, kind: EventKind) -> Option<Cqe> {
        let state = &mut self.states[kind.index()];
        if *state == State::Quiet {
            *state = State::Waiting;
        }
        if !self.is_enabled(kind) {
            self.states[kind.index()] = State::Quiet;
        }
        self.tell(kind)
    }

    /// The host read the log page without Retain Asynchronous Event.
    pub(super) fn on_log_read(&mut self, page: u8) {
        for kind in EventKind::ALL {
            if kind.log_page() == page {
                self.states[kind.index()] = State::Quiet;
            }
        }
    }

    fn tell(&mut self, kind: EventKind) -> Option<Cqe> {
        let state = &mut self.states[kind.index()];
        if *state != State::Waiting || self.requests.is_empty() {
            return None;
        }
        *state = State::Reported;
        let cid = self.requests.remove(0);
        Some(Cqe::success(cid).with_dw0(kind.to_dw0()))
    }

    /// Kinds without a bit in feature 0Bh are always enabled.
    fn is_enabled(&self, kind: EventKind) -> bool {
        let bit = kind.configuration_bit();
        bit == 0 || self.enabled & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::{AnaChanged, NamespaceChanged};

    fn events() -> Events {
        let mut events = Events::new(4);
        events.configure(NamespaceChanged.configuration_bit() | AnaChanged.configuration_bit());
        events
    }

    #[test]
    fn an_event_is_reported_once_until_its_log_page_is_read() {
        let mut events = events();
        assert_eq!(events.on_request(0x1f), Ok(None));
        let cqe = events.raise(NamespaceChanged).expect("a request is there");
        assert_eq!((cqe.cid(), cqe.dw0()), (0x1f, 0x040002));
        assert_eq!(events.on_request(0x101f), Ok(None));
        assert_eq!(events.raise(NamespaceChanged), None);
        events.on_log_read(NamespaceChanged.log_page());
        assert_eq!(events.raise(NamespaceChanged).map(|cqe| cqe.cid()), Some(0x101f));
    }

    #[test]
    fn an_event_waits_for_a_request() {
        let mut events = events();
        assert_eq!(events.raise(AnaChanged), None);
        let cqe = events.on_request(7).expect("not too many").expect("an event waits");
        assert_eq!((cqe.cid(), cqe.dw0()), (7, 0x0c0302));
        assert_eq!(events.on_request(8), Ok(None));
    }

    #[test]
    fn an_event_that_is_off_is_dropped() {
        let mut events = events();
        events.configure(AnaChanged.configuration_bit());
        assert_eq!(events.on_request(7), Ok(None));
        assert_eq!(events.raise(NamespaceChanged), None);
        events.configure(NamespaceChanged.configuration_bit());
        assert_eq!(events.raise(NamespaceChanged).map(|cqe| cqe.cid()), Some(7));
    }

    #[test]
    fn an_aborted_request_gets_no_event() {
        let mut events = events();
        for cid in [7, 8] {
            assert_eq!(events.on_request(cid), Ok(None));
        }
        assert!(events.give_up(7) && !events.give_up(7));
        assert_eq!(events.raise(NamespaceChanged).map(|cqe| cqe.cid()), Some(8));
    }

    #[test]
    fn a_request_too_many_is_refused() {
        let mut events = events();
        for cid in 0..4 {
            assert_eq!(events.on_request(cid), Ok(None));
        }
        assert_eq!(events.on_request(4), Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED));
    }
}
