//! From the first command of a connection to its home.
//!
//! ```text
//!   Connect ─► a subsystem here? host allowed? ─► admitted: a tenant's, counted ─► detached ─► the pipeline of its SSD
//!              └─ the name of discovery, or no name there is ─► discovery, which answers for both
//! ```
//!
//! Holds: a connection that was admitted is dismissed exactly once: here if it goes before it has left, and from then on by its
//!        `Admission`, wherever that ends.

use super::{Acceptor, Departure, GUEST_MEMORY, Stage, queue_of};
use crate::account::{ConnectionAccount, HostAccount};
use crate::config::AllowedHosts;
use crate::log_throttle::Subject;
use crate::payload::Payload;
use crate::pipeline::admission::Admission;
use crate::pipeline::message::{Announcement, Handover, ToPipeline};
use crate::quota::{Charged, Origin};
use crate::slab::Key;
use nvme::buffer::Buffer;
use nvme::connection::FlowControl;
use nvme::spec::connect::{ConnectData, Culprit};
use nvme::spec::{Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{read_connect, unknown_subsystem};
use reactor::Token;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use tracing::{info, warn};
use units::{Instant, TenantId};

/// Why a Connect, or what came in its place, is refused.
pub(super) struct Refusal {
    /// The answer before closing.
    pub(super) cqe: Cqe,
    pub(super) host: Option<Nqn>,
    pub(super) why: &'static str,
}

impl Acceptor {
    /// The command by which a connection says what it is for. The error is the answer before closing.
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
            .ok_or_else(|| refuse(unknown_subsystem(&sqe), "the subsystem's name is none"))?;
        if data.host_nqn().is_none() {
            let why = "the host's name is none: not UTF-8, with control characters, or too long";
            return Err(refuse(Culprit::HOST_NQN.refuse(sqe.cid()), why));
        }
        let named = self.routes.iter().find(|route| route.nqn == subsystem.as_str());
        let (Some(route), Some(host)) = (named, data.host_nqn()) else {
            let why = "there is no such subsystem, or discovery does not grant this";
            return self.connect_discovery(now, key, &sqe, &data).map_err(|cqe| refuse(cqe, why));
        };
        if let AllowedHosts::Only(hosts) = &route.hosts
            && !hosts.iter().any(|allowed| allowed == host.as_str())
        {
            let cqe = Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST);
            return Err(refuse(cqe, "the host is not allowed to use this subsystem"));
        }
        let (subsystem, home) = (route.subsystem, route.home);
        let peer = self.guests.get(key).expect("its command has just come").link.peer;
        let (tenant, host, charged) = self
            .admit(host.as_str(), peer.ip())
            .map_err(|why| refuse(Cqe::new(sqe.cid(), Status::CONNECT_CONTROLLER_BUSY), why))?;
        let guest = self.guests.get_mut(key).expect("its command has just come");
        let unparsed = guest.link.take_held();
        guest.stage = Stage::Leaving(Box::new(Departure {
            connect: sqe,
            connect_data: Box::new(data),
            subsystem,
            home,
            tenant,
            host,
            charged,
            unparsed,
            is_detaching: false,
        }));
        Ok(())
    }

    /// Counts one more connection of `host`, whom every pipeline knows from now on. The error is why not.
    fn admit(&mut self, host: &str, address: IpAddr) -> Result<(TenantId, Arc<str>, Charged), &'static str> {
        if self.registry.connections(host) >= self.parts.limits.connections_per_host as usize {
            return Err("limits.connections_per_host is reached");
        }
        let name: Arc<str> = host.into();
        let origin = Origin::of(address);
        let hosts_before = self.quota.hosts_at(origin);
        let charged = self.quota.acquire(&name, address)?;
        let Some(admission) = self.registry.connect(host, origin) else {
            self.quota.release(&name, &charged);
            return Err("as many hosts as can be are connected");
        };
        if admission.is_new {
            let share = self.share(host);
            self.registry.tell(host, share);
            let announcement = Announcement {
                id: admission.id,
                host: admission.host.clone(),
                share,
                is_reused: admission.is_reused,
            };
            for pipeline in self.pipelines.iter() {
                pipeline.tell(ToPipeline::Tenant(announcement.clone()));
            }
        }
        if self.quota.hosts_at(origin) != hosts_before {
            self.weigh(origin);
        }
        Ok((admission.id, admission.host, charged))
    }

    /// A connection that was counted has gone.
    pub(super) fn dismiss(&mut self, host: &Arc<str>, charged: &Charged) {
        let origin = match charged {
            Charged::Address(origin) => Some(*origin),
            Charged::Host(_) => None,
        };
        let hosts_before = origin.map(|origin| self.quota.hosts_at(origin));
        self.quota.release(host, charged);
        self.registry.disconnect(host);
        if let Some(origin) = origin
            && hosts_before != Some(self.quota.hosts_at(origin))
        {
            self.weigh(origin);
        }
    }

    /// A Connect to the discovery service; or to nothing there is, which the discovery subsystem knows how to refuse.
    fn connect_discovery(
        &mut self,
        now: Instant,
        key: Key,
        sqe: &Sqe,
        data: &ConnectData,
    ) -> Result<(), Cqe> {
        let connected = self.parts.discovery.on_connect(now, queue_of(key), sqe, data)?;
        let origin = Origin::of(self.peer_ip(key));
        self.make_room_in_discovery(now, origin);
        self.discovering.insert(key, origin, now);
        let payer = self.accounts.payer(Some(connected.host_nqn.as_str()), self.peer_ip(key));
        let guest = self.guests.get_mut(key).expect("its command has just come");
        if let Some(local) = guest.local {
            self.parts.discovery.set_local_address(queue_of(key), local);
        }
        let flow = if connected.flow_control_disabled { FlowControl::Disabled } else { FlowControl::Enabled };
        guest.link.transport.set_queue(connected.entries, flow);
        guest.link.reply(connected.cqe);
        guest.stage = Stage::Discovery;
        guest.link.account = ConnectionAccount::new(GUEST_MEMORY, HostAccount::new(None), payer);
        self.handshakes.remove(key);
        let peer = guest.link.peer;
        if self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
            info!(%peer, host = connected.host_nqn.as_str(), "connected to discovery");
        }
        Ok(())
    }

    /// Those who come to the discovery service find a place, and push out those from the address that has most.
    fn make_room_in_discovery(&mut self, now: Instant, origin: Origin) {
        let limits = &self.parts.limits;
        let (all, each) = (limits.discovery_connections as usize, limits.discovery_per_address as usize);
        let why = "others from its address come to discovery: limits.discovery_per_address is reached";
        while self.discovering.count_from(origin) >= each {
            let Some(out) = self.discovering.oldest_from(origin) else { break };
            self.close(now, out, Subject::Dropped, why);
        }
        while self.discovering.len() >= all {
            let Some(out) = self.discovering.victim() else { break };
            self.close(now, out, Subject::Dropped, "limits.discovery_connections is reached, others come");
        }
    }

    /// A connection has left the reactor: to its pipeline.
    pub(super) fn on_detached(&mut self, token: Token, socket: TcpStream) {
        let Some(key) = self.by_token.remove(&token) else { return };
        let guest = self.guests.remove(key).expect("every token has its guest");
        self.handshakes.remove(key);
        let Stage::Leaving(departure) = guest.stage else {
            unreachable!("only those who leave are detached")
        };
        let Departure { connect, connect_data, subsystem, home, tenant, host, charged, unparsed, .. } =
            *departure;
        let peer = guest.link.peer;
        let handover = Handover {
            socket,
            peer,
            transport: guest.link.transport,
            connect,
            connect_data,
            unparsed,
            subsystem,
            tenant,
            admission: Admission::new(host, charged, self.parts.mailbox.clone()),
        };
        if !self.pipelines.post(home, ToPipeline::Connection(Box::new(handover))) {
            // What was not taken is dropped, which gives back its place.
            warn!(%peer, "a connection is dropped: the pipeline of its SSD has ended");
        }
    }
}
