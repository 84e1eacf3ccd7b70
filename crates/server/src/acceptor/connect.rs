//! The Connect command: from the first command of a connection to its hand-over.
//!
//! ```text
//!   Connect ─► a subsystem of this target, and the host is allowed ─► [proof] ─► admitted and counted ─► detached ─► the pipeline of its SSD
//!              └─ discovery, or a name that does not exist ─► [proof] ─► discovery accepts or refuses
//! ```
//!
//! Holds: a connection that was admitted leaves the quota exactly once: here if it ends before the hand-over, afterwards when its
//!        `Admission` is dropped, on whichever thread.

use super::proving::Claim;
use super::securing::Identity;
use super::{Acceptor, PendingHandover, Stage};
use crate::assemble::connect_bounds;
use crate::payload::Payload;
use crate::pipeline::admission::Admission;
use crate::pipeline::message::{Announcement, Handover, ToPipeline};
use crate::proof::{Due, Queue, Refusal as Unproved};
use crate::quota::{Charged, Origin};
use crate::slab::Key;
use crate::tenants::TenantName;
use nvme::buffer::Buffer;
use nvme::spec::connect::{ConnectCommand, ConnectData, Culprit};
use nvme::spec::{Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{ControllerIds, read_connect, unknown_subsystem};
use reactor::{Clock, Token};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use tracing::warn;
use units::{Instant, TenantId};

/// The reason logged for a host that a subsystem does not name.
pub(super) const NOT_ALLOWED: &str = "the host is not allowed to use this subsystem";

/// A place among the connections, for one.
pub(super) struct Place {
    pub(super) tenant: TenantId,
    pub(super) host: Arc<str>,
    /// The account that it is charged to.
    pub(super) charged: Charged,
}

/// Why a Connect, or another first command, is refused.
pub(super) struct Refusal {
    /// The last answer before the connection is closed.
    pub(super) cqe: Cqe,
    pub(super) host: Option<Nqn>,
    pub(super) why: &'static str,
}

impl Acceptor {
    /// The first command of a connection: Connect, or a reason to refuse.
    pub(super) fn on_first_command(
        &mut self,
        now: Instant,
        key: Key,
        sqe: Sqe,
        payload: Option<&Payload>,
    ) -> Result<(), Refusal> {
        let data = read_connect(&sqe, payload.map(Buffer::bytes)).map_err(|cqe| {
            let why = "the first command of a connection must be a Connect with its data";
            Refusal { cqe, host: None, why }
        })?;
        let refuse = |cqe, why| Refusal { cqe, host: data.host_nqn(), why };
        let subsystem = data
            .subsystem_nqn()
            .ok_or_else(|| refuse(unknown_subsystem(&sqe), "the subsystem NQN is not valid"))?;
        if data.host_nqn().is_none() {
            let why = "the host NQN is not valid: empty, not UTF-8, too long, or with control characters";
            return Err(refuse(Culprit::HOST_NQN.refuse(sqe.cid()), why));
        }
        let entry = self.connections.get_mut(key).expect("its command has just come");
        let identity = entry.identity.as_ref();
        let command = ConnectCommand::parse(&sqe);
        if let Some(open) = entry.connection.rdma().map(|rdma| rdma.opened_as())
            && (command.queue_id != open.queue_id || command.entries() > open.entries)
        {
            let why = "it asks for another queue, or a larger one, than the request for its queue pair";
            return Err(refuse(Culprit::SQSIZE.refuse(sqe.cid()), why));
        }
        let queue =
            Queue { is_admin: command.queue_id == 0, secured: identity.map(|identity| identity.kind) };
        let is_other = |identity: &Identity| {
            subsystem.as_str() != identity.controller
                || data.host_nqn().is_none_or(|host| host.as_str() != identity.host)
        };
        if identity.is_some_and(is_other) {
            self.parts.proofs.refusals.count(Unproved::IdentityMismatch);
            let why = "it names another host or subsystem than the one that TLS has proved";
            return Err(refuse(Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST), why));
        }
        identity.inspect(|identity| identity.count(now));
        let named = self.routes.iter().find(|route| route.nqn == subsystem.as_str());
        let (Some(route), Some(host)) = (named, data.host_nqn()) else {
            let keys = &self.parts.proofs.keys;
            if let Some(host) = data.host_nqn().filter(|_| subsystem.as_str() == Nqn::DISCOVERY) {
                match keys.due_for_discovery(host.as_str(), queue) {
                    Due::Proof(keys) => {
                        let (ids, bounds) = (ControllerIds::ALL, self.parts.discovery.connect_bounds());
                        let claim = Claim { sqe, data, host, subsystem, ids, bounds, keys };
                        return self.ask_for_proof(now, key, claim);
                    }
                    Due::Tls => return Err(self.without_tls(&sqe, host)),
                    Due::Nothing => {}
                }
            }
            let why = "there is no such subsystem, or discovery refuses this Connect";
            return self.connect_discovery(now, key, &sqe, &data, None).map_err(|cqe| refuse(cqe, why));
        };
        let is_allowed = route.hosts.allows(host.as_str());
        match self.parts.proofs.keys.due(route.demand, host.as_str(), is_allowed, queue) {
            Due::Proof(keys) => {
                let (ids, bounds) = (route.cntlid, connect_bounds(&self.parts.limits));
                return self.ask_for_proof(now, key, Claim { sqe, data, host, subsystem, ids, bounds, keys });
            }
            Due::Tls => return Err(self.without_tls(&sqe, host)),
            Due::Nothing => {}
        }
        if !is_allowed {
            let cqe = Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST);
            return Err(refuse(cqe, NOT_ALLOWED));
        }
        let to = (route.subsystem, route.home);
        let connect = (sqe, Box::new(data));
        self.hand_over(now, key, connect, (host.as_str(), to), None).map_err(|why| Refusal {
            cqe: Cqe::new(sqe.cid(), Status::CONNECT_CONTROLLER_BUSY),
            host: Some(host),
            why,
        })
    }

    /// Refuses a host that has to connect with TLS.
    fn without_tls(&self, sqe: &Sqe, host: Nqn) -> Refusal {
        self.parts.proofs.refusals.count(Unproved::TlsRequired);
        let why = "it connects without TLS, which its subsystem or its key asks for (nvme connect --tls)";
        Refusal { cqe: Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST), host: Some(host), why }
    }

    /// Counts a connection of `host`, and begins its hand-over to a subsystem, given by its slot and its home. `proved`: the controller,
    /// if the host was told of it before it proved who it is. The error is the reason for a refusal.
    pub(super) fn hand_over(
        &mut self,
        now: Instant,
        key: Key,
        (connect, connect_data): (Sqe, Box<ConnectData>),
        (host, (subsystem, home)): (&str, (usize, usize)),
        proved: Option<u16>,
    ) -> Result<(), &'static str> {
        if self.is_drained {
            return Err("the target is drained for maintenance");
        }
        let peer = self.connections.get(key).expect("its command has just come").connection.peer();
        let controller = (subsystem, connect_data.controller_id());
        let is_admin = ConnectCommand::parse(&connect).queue_id == 0;
        let granted = (!is_admin).then(|| self.grants.take_one(controller, host, Origin::of(peer.ip())));
        let place = match granted.flatten() {
            Some(place) => place,
            None => self.admit(now, host, peer.ip())?,
        };
        let entry = self.connections.get_mut(key).expect("its command has just come");
        entry.stage = Stage::HandingOver(Box::new(PendingHandover {
            connect,
            connect_data,
            subsystem,
            home,
            place,
            is_detaching: false,
            proved,
        }));
        Ok(())
    }

    /// Counts one more connection of `host`. From then on every pipeline knows the host. The error is the reason for a refusal.
    pub(super) fn admit(&mut self, now: Instant, host: &str, address: IpAddr) -> Result<Place, &'static str> {
        let origin = Origin::of(address);
        let kept = self.kept_besides(now, host, origin);
        let (held, limit) =
            (self.registry.connections(host), self.parts.limits.connections_per_host as usize);
        if held >= limit {
            return Err("limits.connections_per_host is reached");
        }
        if held + kept >= limit {
            return Err(
                "limits.connections_per_host is reached, except for what is kept for the host's own address",
            );
        }
        let name: Arc<str> = host.into();
        let hosts_before = self.quota.hosts_at(origin);
        let charged = self.quota.acquire(&name, address, kept as u32)?;
        let Some(registration) = self.registry.connect(now, host, origin) else {
            self.quota.release(&name, &charged);
            return Err("no more hosts can be connected: the target knows as many as it can");
        };
        if registration.is_new {
            let share = self.share(host);
            self.registry.announce(host, share);
            let announcement = Announcement {
                id: registration.id,
                name: TenantName::Host(registration.host.clone()),
                share,
                is_reused: registration.is_reused,
            };
            for pipeline in self.pipelines.iter() {
                pipeline.tell(ToPipeline::Tenant(announcement.clone()));
            }
        }
        if self.quota.hosts_at(origin) != hosts_before {
            self.update_shares_at(origin);
        }
        Ok(Place { tenant: registration.id, host: registration.host, charged })
    }

    /// Stops counting a connection that has ended.
    pub(super) fn on_connection_gone(&mut self, now: Instant, host: &Arc<str>, charged: &Charged) {
        let origin = match charged {
            Charged::Address(origin) => Some(*origin),
            Charged::Host(..) => None,
        };
        let hosts_before = origin.map(|origin| self.quota.hosts_at(origin));
        self.quota.release(host, charged);
        self.registry.disconnect(now, host, charged.origin());
        let kept = self.kept_for(now, host);
        self.quota.keep(host, kept as u32);
        if let Some(origin) = origin
            && hosts_before != Some(self.quota.hosts_at(origin))
        {
            self.update_shares_at(origin);
        }
    }

    /// A connection was detached from the reactor: hands it over to its pipeline.
    pub(super) fn on_detached(&mut self, token: Token, socket: Option<TcpStream>) {
        let Some(key) = self.by_token.remove(&token) else { return };
        let entry = self.connections.remove(key).expect("every token has its entry");
        self.handshakes.remove(key);
        let Stage::HandingOver(pending) = entry.stage else {
            unreachable!("only a connection that is handed over is detached")
        };
        let PendingHandover { connect, connect_data, subsystem, home, place, proved, .. } = *pending;
        let Place { tenant, host, charged } = place;
        let (peer, secured) = (entry.connection.peer(), entry.identity.map(|identity| identity.kind));
        let is_at_home = self.is_at_home(Clock.now(), &host, charged.origin());
        let handover = Handover {
            moving: entry.connection.into_moving(socket, &mut self.parts.reactor),
            connect,
            connect_data,
            subsystem,
            tenant,
            is_at_home,
            proved,
            secured,
            admission: Admission::new(host, charged, self.parts.mailbox.clone()),
        };
        if !self.pipelines.post(home, ToPipeline::Connection(Box::new(handover))) {
            // The hand-over was dropped, and with it its `Admission`: the quota has the connection back.
            warn!(%peer, "a connection is dropped: the pipeline of its SSD has ended");
        }
    }
}
