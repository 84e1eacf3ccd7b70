//! From the first command of a connection to its home.
//!
//! ```text
//!   Connect ─► a subsystem here? host allowed? ─► admitted: a tenant's, counted ─► detached ─► the pipeline of its SSD
//!              └─ the name of discovery, or no name there is ─► discovery, which answers for both
//! ```
//!
//! Holds: a connection that was admitted is dismissed exactly once: here if it goes before it has left, and from then on by its
//!        `Admission`, wherever that ends.

use super::{Departure, Front, Stage, queue_of};
use crate::complaints::Subject;
use crate::config::AllowedHosts;
use crate::payload::Payload;
use crate::pipeline::admission::Admission;
use crate::pipeline::message::{Announcement, Handover, ToPipeline};
use crate::slab::Key;
use crate::tenants::share_of;
use nvme::buffer::Buffer;
use nvme::connection::FlowControl;
use nvme::spec::connect::ConnectData;
use nvme::spec::{Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{read_connect, unknown_subsystem};
use reactor::Token;
use std::net::TcpStream;
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

impl Front {
    /// The command by which a connection says what it is for. The error is the answer before closing.
    pub(super) fn on_first_command(
        &mut self,
        now: Instant,
        key: Key,
        sqe: Sqe,
        payload: Option<Payload>,
    ) -> Result<(), Refusal> {
        let data = read_connect(&sqe, payload.as_ref().map(Buffer::bytes)).map_err(|cqe| {
            let why = "the first command of a connection must be a Connect with its data";
            Refusal { cqe, host: None, why }
        })?;
        let refuse = |cqe, why| Refusal { cqe, host: data.host_nqn(), why };
        let subsystem = data
            .subsystem_nqn()
            .ok_or_else(|| refuse(unknown_subsystem(&sqe), "the subsystem's name is none"))?;
        let named = self.routes.iter().find(|route| route.nqn == subsystem.as_str());
        let (Some(route), Some(host), Some(connect_data)) = (named, data.host_nqn(), payload) else {
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
        let (tenant, host) = self
            .admit(host.as_str())
            .map_err(|why| refuse(Cqe::new(sqe.cid(), Status::CONNECT_CONTROLLER_BUSY), why))?;
        let guest = self.guests.get_mut(key).expect("its command has just come");
        let unparsed = guest.link.take_held();
        guest.stage = Stage::Leaving(Box::new(Departure {
            connect: sqe,
            connect_data,
            subsystem,
            home,
            tenant,
            host,
            unparsed,
            is_detaching: false,
        }));
        Ok(())
    }

    /// Counts one more connection of `host`, whom every pipeline knows from now on. The error is why not.
    fn admit(&mut self, host: &str) -> Result<(TenantId, Arc<str>), &'static str> {
        let limits = &self.parts.limits;
        if self.connections() >= limits.connections as usize {
            return Err("limits.connections is reached");
        }
        if self.registry.connections(host) >= limits.connections_per_host as usize {
            return Err("limits.connections_per_host is reached");
        }
        let admission = self.registry.connect(host).ok_or("as many hosts as can be are connected")?;
        if admission.is_new {
            let announcement = Announcement {
                id: admission.id,
                host: admission.host.clone(),
                share: share_of(&self.tenants, host),
                is_reused: admission.is_reused,
            };
            for pipeline in self.pipelines.iter() {
                pipeline.tell(ToPipeline::Tenant(announcement.clone()));
            }
        }
        self.handed_over += 1;
        Ok((admission.id, admission.host))
    }

    /// A connection that was counted has gone.
    pub(super) fn dismiss(&mut self, host: &str) {
        self.handed_over -= 1;
        self.registry.disconnect(host);
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
        let guest = self.guests.get_mut(key).expect("its command has just come");
        if let Some(local) = guest.local {
            self.parts.discovery.set_local_address(queue_of(key), local);
        }
        let flow = if connected.flow_control_disabled { FlowControl::Disabled } else { FlowControl::Enabled };
        guest.link.transport.set_queue(connected.entries, flow);
        guest.link.reply(connected.cqe);
        guest.stage = Stage::Discovery;
        self.room.leave(key);
        let peer = guest.link.peer;
        if self.complaints.admits(now, peer.ip(), Subject::Connected) {
            info!(%peer, host = connected.host_nqn.as_str(), "connected to discovery");
        }
        Ok(())
    }

    /// A connection has left the reactor: to its pipeline.
    pub(super) fn on_detached(&mut self, token: Token, socket: TcpStream) {
        let Some(key) = self.by_token.remove(&token) else { return };
        let guest = self.guests.remove(key).expect("every token has its guest");
        self.room.leave(key);
        let Stage::Leaving(departure) = guest.stage else {
            unreachable!("only those who leave are detached")
        };
        let Departure { connect, connect_data, subsystem, home, tenant, host, unparsed, .. } = *departure;
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
            admission: Admission::new(host, self.parts.mailbox.clone()),
        };
        if self.pipelines.post(home, ToPipeline::Connection(Box::new(handover))).is_err() {
            // What comes back is dropped, which gives back its place.
            warn!(%peer, "a connection is dropped: the pipeline of its SSD has ended");
        }
    }
}
