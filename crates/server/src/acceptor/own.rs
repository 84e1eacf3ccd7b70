//! The place of a host: an address for which a controller is always kept.
//!
//! Hosts are not authenticated. Whoever knows the NQN of a host could connect with it until the limits of that host are reached, and the
//! host itself could not come back after its next reset. So of everything that is limited by host, enough for one controller in each
//! subsystem (its admin queue and one IO queue) is kept for the address where the host is: `address` in its [[tenant]], else where its
//! oldest connection came from (`tenants`).
//!
//! Holds: a host comes back, whatever others do with its NQN from other addresses (`a_host_comes_back_whatever_others_do_with_its_name`
//!        in `tests/bad_peers/impostors.rs`).

use super::Acceptor;
use crate::quota::Origin;
use units::Instant;

/// Connections of a controller: the admin queue and one IO queue.
const OF_CONTROLLER: usize = 2;
/// At most this part (one in two) of the connections of a host is kept.
const KEPT_PART: usize = 2;

impl Acceptor {
    /// Where `host` is, if that is known.
    fn place_of(&self, now: Instant, host: &str) -> Option<Origin> {
        let tenant = self.tenants.iter().find(|tenant| tenant.host == host);
        let configured = tenant.and_then(|tenant| tenant.address).map(Origin::of);
        configured.or_else(|| self.registry.own_origin(now, host))
    }

    /// Whether a connection from `origin` comes from where its host is. If that is not known, every place may be the one.
    pub(super) fn is_at_home(&self, now: Instant, host: &str, origin: Origin) -> bool {
        self.place_of(now, host).is_none_or(|place| place == origin)
    }

    /// Connections of `host` that are kept for its place and not in use.
    pub(super) fn kept_for(&self, now: Instant, host: &str) -> usize {
        let Some(place) = self.place_of(now, host) else { return 0 };
        let subsystems = self.routes.iter().filter(|route| route.hosts.allows(host)).count();
        let most = self.parts.limits.connections_per_host as usize / KEPT_PART;
        (OF_CONTROLLER * subsystems).min(most).saturating_sub(self.registry.connections_from(host, place))
    }

    /// The same while one more connection comes, from `origin`.
    pub(super) fn kept_besides(&self, now: Instant, host: &str, origin: Origin) -> usize {
        let kept = self.kept_for(now, host);
        if self.is_at_home(now, host, origin) { kept.saturating_sub(1) } else { kept }
    }
}
