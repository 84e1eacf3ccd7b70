//! Which host NQN a host identifier belongs to.
//!
//! Reservations identify a host by its host identifier, and the reservation report shows every host the
//! identifiers of all others. So an identifier could be stolen. It therefore belongs to the host NQN that
//! used it first, as long as a connection uses it or a namespace of the subsystem has it registered. A
//! Connect with another NQN is refused. One NQN may use several identifiers. Each connection adds at most one
//! entry here, so a host cannot hold more entries than connections. The all-zero identifier belongs to no
//! host: such a host can do IO and read reports, but not register.
//!
//! Holds: two NQNs never use one identifier at the same time, and a binding ends with its last connection and
//!        registration (`an_identifier_belongs_to_the_name_that_used_it_first` in `tests/controller/binding.rs`).
//! NVM Express Base Specification: "Host Identifier", "Connect Command and Response".

use super::Subsystem;
use crate::spec::{HostId, Nqn};
use alloc::collections::BTreeMap;

/// The identifiers in use by connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings(BTreeMap<HostId, Binding>);

#[derive(Clone, Debug)]
struct Binding {
    nqn: Nqn,
    connections: u32,
}

impl Bindings {
    /// One more connection of `nqn` uses `id`.
    pub(super) fn bind(&mut self, id: HostId, nqn: &Nqn) {
        if id == HostId::NONE {
            return;
        }
        let binding = self.0.entry(id).or_insert_with(|| Binding { nqn: nqn.clone(), connections: 0 });
        debug_assert_eq!(binding.nqn, *nqn, "{id:?} is used by two names");
        binding.connections += 1;
    }

    /// A connection that used `id` was closed.
    pub(super) fn release(&mut self, id: HostId) {
        if let Some(binding) = self.0.get_mut(&id) {
            binding.connections -= 1;
            if binding.connections == 0 {
                self.0.remove(&id);
            }
        }
    }

    fn name_of(&self, id: &HostId) -> Option<&Nqn> {
        self.0.get(id).map(|binding| &binding.nqn)
    }
}

impl Subsystem {
    /// Whether `id` belongs to an NQN other than `nqn`.
    ///
    /// If two namespaces were in different subsystems when their hosts registered, one identifier may be
    /// registered with two NQNs. Each NQN then keeps its own registration.
    pub(super) fn belongs_to_another(&self, id: HostId, nqn: &Nqn) -> bool {
        if id == HostId::NONE {
            return false;
        }
        if let Some(name) = self.bindings.name_of(&id) {
            return name != nqn;
        }
        let in_force = self.namespaces.iter().map(|(_, namespace)| &namespace.reservations);
        let names = in_force.chain(self.reservations_under_way()).filter_map(|all| all.name_of(&id));
        let mut is_registered = false;
        for name in names {
            if name == nqn {
                return false;
            }
            is_registered = true;
        }
        is_registered
    }
}
