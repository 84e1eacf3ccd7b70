//! Places for the IO queues that controllers were granted and have not connected yet.
//!
//! A host asks once how many IO queues a controller may have (Number of Queues), and connects them afterwards. Linux gives the whole
//! controller up if one of these Connects is refused. So the grant is within the limits, and its places are taken at once: they count
//! against the host, and against all others, like queues that are connected. They go back when the controller ends, and when they were
//! not used within `limits.connect_timeout`.
//!
//! ```text
//!   Number of Queues ─► places for as many as there is room for ─► Connect of an IO queue takes one
//!                                                               └─ connect_timeout, or the end of the controller: back
//! ```
//!
//! Holds: whatever was granted can be connected in time, also if the limits are used up meanwhile
//!        (`queues_that_were_granted_can_be_connected` in `tests/bad_peers/queues.rs`).

use super::Acceptor;
use super::connect::Place;
use crate::log_throttle::Subject;
use crate::pipeline::message::{QueueRequest, ToPipeline};
use crate::quota::Origin;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tracing::{info, warn};
use units::{Instant, Nanos};

/// A controller: its subsystem's slot, and its identifier.
type Controller = (usize, u16);

struct Grant {
    host: Arc<str>,
    origin: Origin,
    places: Vec<Place>,
    until: Instant,
}

/// See the module.
#[derive(Default)]
pub(super) struct Grants {
    of: HashMap<Controller, Grant>,
    by_time: BTreeSet<(Instant, Controller)>,
}

impl Grants {
    /// When the first grant is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// One of the places of a controller, for an IO queue of this host from there.
    pub(super) fn take_one(&mut self, controller: Controller, host: &str, origin: Origin) -> Option<Place> {
        let grant = self.of.get_mut(&controller)?;
        if &*grant.host != host || grant.origin != origin {
            return None;
        }
        let place = grant.places.pop();
        if grant.places.is_empty() {
            self.take(controller);
        }
        place
    }

    /// All places of a controller.
    fn take(&mut self, controller: Controller) -> Vec<Place> {
        let Some(grant) = self.of.remove(&controller) else { return Vec::new() };
        self.by_time.remove(&(grant.until, controller));
        grant.places
    }

    /// Keeps all places for longer.
    pub(super) fn extend(&mut self, by: Nanos) {
        self.of.values_mut().for_each(|grant| grant.until += by);
        self.by_time = self.of.iter().map(|(controller, grant)| (grant.until, *controller)).collect();
    }

    fn put(&mut self, controller: Controller, grant: Grant) {
        if !grant.places.is_empty() {
            self.by_time.insert((grant.until, controller));
            self.of.insert(controller, grant);
        }
    }
}

impl Acceptor {
    /// Grants a controller as many IO queues as there is room for, at least one.
    pub(super) fn on_queues_wanted(&mut self, now: Instant, host: Arc<str>, request: QueueRequest) {
        let QueueRequest { controller, peer, queues, home, session, cqe } = request;
        // A host may ask again: places that it already has are not taken anew.
        let mut places = self.grants.take(controller);
        places
            .drain(usize::from(queues).min(places.len())..)
            .for_each(|place| self.on_place_gone(now, &place));
        let mut limit = None;
        while places.len() < usize::from(queues) && limit.is_none() {
            match self.admit(now, &host, peer.ip()) {
                Ok(place) => places.push(place),
                Err(why) => limit = Some(why),
            }
        }
        let granted = (places.len() as u16).max(1);
        if let Some(why) = limit.filter(|_| granted < queues)
            && self.log_throttle.allows(now, peer.ip(), Subject::Granted)
        {
            let (subsystem, controller) = controller;
            let subsystem = self.routes.iter().find(|route| route.subsystem == subsystem);
            let subsystem = subsystem.map_or("", |route| &*route.nqn);
            warn!(%peer, %host, subsystem, controller, queues, granted, "a controller is granted fewer IO queues than it may have: {why}");
        }
        let until = now + self.parts.limits.connect_timeout;
        self.grants.put(controller, Grant { host, origin: Origin::of(peer.ip()), places, until });
        if !self.pipelines.post(home, ToPipeline::QueuesGranted { session, queues: granted, cqe }) {
            info!(%peer, "the pipeline that asked for IO queues has ended");
            self.withdraw_grant(now, controller);
        }
    }

    /// A controller has ended.
    pub(super) fn withdraw_grant(&mut self, now: Instant, controller: Controller) {
        for place in self.grants.take(controller) {
            self.on_place_gone(now, &place);
        }
    }

    /// Takes back grants that are too old.
    pub(super) fn expire_grants(&mut self, now: Instant) {
        while let Some((_, controller)) = self.grants.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.withdraw_grant(now, controller);
        }
    }

    fn on_place_gone(&mut self, now: Instant, place: &Place) {
        self.on_connection_gone(now, &place.host, &place.charged);
    }
}
