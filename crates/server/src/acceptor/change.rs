//! Changes of the acceptor while the target runs: where it listens, which hosts may connect, and to which pipeline they go.

use super::Acceptor;
use crate::config::{AllowedHosts, Demand, Limits, Listen, TenantConfig, Transport};
use crate::mailbox::Mailbox;
use crate::pipeline::message::{Announcement, ToPipeline};
use crate::proof::KeyRing;
use crate::rdma;
use crate::tenants::{Leave, NamespaceTenant, Numbered, Renumbered, TenantName};
use nvme::subsystem::{ControllerIds, DiscoveryRecord};
use reactor::rdma::CmListener;
use std::collections::HashSet;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// A subsystem that hosts may connect to.
#[derive(Clone)]
pub(crate) struct Route {
    /// The subsystem's slot.
    pub(crate) subsystem: usize,
    /// Its name.
    pub(crate) nqn: String,
    /// The hosts that may connect.
    pub(crate) hosts: AllowedHosts,
    /// The slot of its pipeline.
    pub(crate) home: usize,
    /// The identifiers of its controllers.
    pub(crate) cntlid: ControllerIds,
    /// The proofs that it asks for.
    pub(crate) demand: Demand,
}

/// The source of connections at one address.
pub(crate) enum Listener {
    /// A socket.
    Tcp(TcpListener),
    /// An identifier of the connection manager.
    Rdma(Arc<rdma::Context>, CmListener),
}

/// One change.
pub(crate) enum Change {
    /// A pipeline was started, or has ended.
    Pipeline {
        /// Its slot.
        slot: usize,
        /// `None`: it has ended, and no route leads there.
        mailbox: Option<Mailbox<ToPipeline>>,
    },
    /// All subsystems from now on.
    Directory {
        /// For hosts that connect.
        routes: Vec<Route>,
        /// For hosts that ask discovery.
        records: Vec<DiscoveryRecord>,
    },
    /// All tenants of the configuration.
    Tenants {
        /// Hosts with a share of their own.
        hosts: Vec<TenantConfig>,
        /// Namespaces that are tenants. Their SSDs' pipelines know them when the answer comes.
        namespaces: Vec<NamespaceTenant>,
        /// Gets their numbers.
        numbered: Sender<Numbered>,
    },
    /// The keys of hosts.
    Keys(Arc<KeyRing>),
    /// The hosts that the configuration names.
    Named(Arc<HashSet<String>>),
    /// Other limits.
    Limits(Limits),
    /// One more address to listen on.
    Listen {
        /// The address, with the port that the system has chosen.
        listen: Listen,
        /// Where hosts come from.
        listener: Listener,
        /// Gets the result: whether hosts can connect there now.
        answer: Sender<io::Result<()>>,
    },
    /// The target is drained: no host is connected to a subsystem; or not any more.
    Drained(bool),
    /// Stops listening on an address. Connections that came by it stay.
    Unlisten(Listen),
    /// Answered when all changes before this one are done.
    Barrier(Sender<()>),
}

impl Acceptor {
    /// Makes a change.
    pub(super) fn on_change(&mut self, change: Change) {
        match change {
            Change::Pipeline { slot, mailbox } => {
                if let Some(new) = &mailbox {
                    for (host, id) in self.registry.iter() {
                        let share = self.registry.announced(host);
                        let name = TenantName::Host(host.clone());
                        new.tell(ToPipeline::Tenant(Announcement { id, name, share, is_reused: false }));
                    }
                }
                if mailbox.is_none() {
                    self.registry.on_device_gone(slot);
                }
                self.pipelines.set(slot, mailbox);
            }
            Change::Directory { routes, records } => {
                self.routes = routes;
                self.parts.discovery.set_discovery_records(records);
            }
            Change::Tenants { hosts, namespaces, numbered } => {
                self.tenants = hosts;
                // The receiver ends only with the target.
                drop(numbered.send(self.number(namespaces)));
            }
            Change::Named(hosts) => {
                self.quota.set_named(Arc::clone(&hosts));
                self.accounts.set_named(hosts);
                self.update_all_shares();
            }
            Change::Keys(keys) => {
                self.generated.retain(|host, origin| keys.is_origin(host, origin));
                self.parts.proofs.keys = keys;
            }
            Change::Limits(limits) => self.set_limits(limits),
            Change::Listen { listen, listener, answer } => {
                let result = match listener {
                    Listener::Tcp(listener) => {
                        let listening = self.parts.reactor.listen(listener);
                        listening.map(|token| self.listeners.push((listen.address, token)))
                    }
                    Listener::Rdma(context, listener) => self.listen_rdma(context, listen.address, listener),
                };
                // The receiver ends only with the target.
                drop(answer.send(result));
            }
            Change::Unlisten(Listen { address, transport: Transport::Rdma }) => self.unlisten_rdma(address),
            Change::Unlisten(Listen { address, transport: Transport::Tcp }) => {
                let gone = self.listeners.iter().position(|(other, _)| *other == address);
                if let Some(index) = gone {
                    let (_, token) = self.listeners.swap_remove(index);
                    self.parts.reactor.close(token);
                    self.paused_listeners.retain(|paused| *paused != token);
                }
            }
            Change::Drained(is_drained) => self.is_drained = is_drained,
            // As above.
            Change::Barrier(done) => drop(done.send(())),
        }
    }

    /// These namespaces are tenants from now on, with their shares.
    fn number(&mut self, namespaces: Vec<NamespaceTenant>) -> Numbered {
        let Renumbered { come, left, moved } = self.registry.set_namespaces(namespaces);
        for (device, id) in moved {
            self.pipelines.post(device, ToPipeline::TenantGone(id));
        }
        self.update_all_shares();
        let numbers = self.registry.namespaces();
        let numbers = numbers.map(|(name, id)| (name.clone(), (id, come.contains(name))));
        let leave = |name| Leave::new(name, self.parts.mailbox.clone());
        Numbered { tenants: numbers.collect(), left: left.into_iter().map(leave).collect() }
    }
}
