//! Use of host identifiers: which host may use which.
//!
//! Reservations identify a host by its host identifier and its host NQN (`reservation`). The identifier is no
//! secret: the reservation report shows every host the identifiers of all others. Hosts that read a report
//! look for their identifier in it, so a second host with the same one would confuse them. Therefore a
//! Connect is refused if another NQN has the identifier: by a connection, or by a registration in a
//! namespace of the subsystem. Between two hosts of the same rank the first one wins. A host that the
//! configuration names has a higher rank than one that it does not name: it is never refused because of that
//! one. Both then use the identifier, each with its own registrations, until the unnamed host leaves.
//!
//! One NQN may use several identifiers. Each connection adds at most one entry here, so a host cannot hold
//! more entries than connections. The all-zero identifier belongs to no host: such a host can do IO and read
//! reports, but not register.
//!
//! Holds: two NQNs of one rank do not begin to use one identifier while either uses it
//!        (`an_identifier_belongs_to_the_name_that_used_it_first`); an unnamed host keeps no named one out
//!        (`an_unnamed_host_never_keeps_a_named_one_out`, both in `tests/controller/binding.rs`).
//! NVM Express Base Specification: "Host Identifier", "Connect Command and Response".

use super::Subsystem;
use super::reservation_terms::{Identity, ReservationHost};
use crate::spec::{HostId, Nqn};
use alloc::collections::BTreeMap;

/// Hosts with connections: how many each has.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings(BTreeMap<HostId, BTreeMap<Nqn, u32>>);

impl Bindings {
    /// One more connection of `host`.
    pub(super) fn bind(&mut self, host: ReservationHost) {
        if host.id != HostId::NONE {
            *self.0.entry(host.id).or_default().entry(host.nqn).or_default() += 1;
        }
    }

    /// Removes a connection of `host` that was closed.
    pub(super) fn release(&mut self, host: &ReservationHost) {
        let Some(names) = self.0.get_mut(&host.id) else { return };
        if let Some(connections) = names.get_mut(&host.nqn) {
            *connections -= 1;
            if *connections == 0 {
                names.remove(&host.nqn);
            }
        }
        if names.is_empty() {
            self.0.remove(&host.id);
        }
    }

    fn names_of(&self, id: HostId) -> impl Iterator<Item = &Nqn> {
        self.0.get(&id).into_iter().flat_map(BTreeMap::keys)
    }
}

impl Subsystem {
    /// Whether the identifier of `host` belongs to another NQN.
    ///
    /// If two NQNs of one rank have it, because their namespaces were in different subsystems when they
    /// registered, each keeps its own registration.
    pub(super) fn belongs_to_another(&self, host: Identity<'_>) -> bool {
        let Identity { id, nqn } = host;
        if id == HostId::NONE {
            return false;
        }
        let in_force = self.namespaces.iter().map(|(_, namespace)| &namespace.reservations);
        let all = in_force.chain(self.reservations_under_way());
        let registered = self.uses(nqn, all.flat_map(|reservations| reservations.names_of(id)));
        let connected = self.uses(nqn, self.bindings.names_of(id));
        if registered.of_higher || connected.of_higher {
            return true;
        }
        if connected.own || connected.of_equal {
            return !connected.own;
        }
        registered.of_equal && !registered.own
    }

    /// Sums up the `names` of an identifier, as the host `nqn` sees them.
    fn uses<'a>(&self, nqn: &Nqn, names: impl Iterator<Item = &'a Nqn>) -> Uses {
        let (rank, mut uses) = (self.is_named(nqn), Uses::default());
        for name in names {
            let others = self.is_named(name);
            uses.own |= name == nqn;
            uses.of_equal |= name != nqn && others == rank;
            uses.of_higher |= others && !rank;
        }
        uses
    }
}

/// The holder of an identifier, as seen by a host that wants to use it.
#[derive(Default)]
struct Uses {
    /// This host.
    own: bool,
    /// Another one of its rank.
    of_equal: bool,
    /// One that the configuration names, which it does not do with this host.
    of_higher: bool,
}
