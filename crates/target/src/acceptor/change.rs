//! What changes in the acceptor while the target runs: where it listens, whom it lets in and where it sends them.

use super::Acceptor;
use crate::config::{AllowedHosts, Limits, TenantConfig};
use crate::mailbox::Mailbox;
use crate::pipeline::message::{Announcement, ToPipeline};
use nvme::subsystem::DiscoveryRecord;
use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The way to a subsystem.
#[derive(Clone)]
pub(crate) struct Route {
    /// The subsystem's slot.
    pub(crate) subsystem: usize,
    /// Its name.
    pub(crate) nqn: String,
    /// Who may connect.
    pub(crate) hosts: AllowedHosts,
    /// The slot of the pipeline it is at home in.
    pub(crate) home: usize,
}

/// One change.
pub(crate) enum Change {
    /// A pipeline has come, or gone.
    Pipeline {
        /// Its slot.
        slot: usize,
        /// `None`: it goes, and no route leads there.
        mailbox: Option<Mailbox<ToPipeline>>,
    },
    /// All subsystems there are from now on.
    Directory {
        /// For those who connect.
        routes: Vec<Route>,
        /// For those who ask.
        records: Vec<DiscoveryRecord>,
    },
    /// All hosts with other than an equal share.
    Tenants(Vec<TenantConfig>),
    /// The hosts that the configuration names.
    Named(Arc<HashSet<String>>),
    /// Other bounds.
    Limits(Limits),
    /// One more address to listen on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The socket.
        listener: TcpListener,
        /// Told whether hosts can connect there now.
        answer: Sender<io::Result<()>>,
    },
    /// An address is listened on no longer. Connections that came over it stay.
    Unlisten(SocketAddr),
    /// Told when all changes before this one are done.
    Barrier(Sender<()>),
}

impl Acceptor {
    /// Does what a change says.
    pub(super) fn on_change(&mut self, change: Change) {
        match change {
            Change::Pipeline { slot, mailbox } => {
                if let Some(newcomer) = &mailbox {
                    for (host, id) in self.registry.iter() {
                        let share = self.registry.told(host);
                        let host = host.clone();
                        newcomer.tell(ToPipeline::Tenant(Announcement { id, host, share, is_reused: false }));
                    }
                }
                self.pipelines.set(slot, mailbox);
            }
            Change::Directory { routes, records } => {
                self.routes = routes;
                self.parts.discovery.set_discovery_records(records);
            }
            Change::Tenants(tenants) => {
                self.tenants = tenants;
                self.weigh_all();
            }
            Change::Named(hosts) => {
                self.quota.set_named(Arc::clone(&hosts));
                self.accounts.set_named(hosts);
                self.weigh_all();
            }
            Change::Limits(limits) => self.set_limits(limits),
            Change::Listen { address, listener, answer } => {
                let listening = self.parts.reactor.listen(listener);
                let told = listening.map(|token| self.listeners.push((address, token)));
                // Whoever asked waits for the answer, unless the target is gone.
                drop(answer.send(told));
            }
            Change::Unlisten(address) => {
                let gone = self.listeners.iter().position(|(other, _)| *other == address);
                if let Some(index) = gone {
                    let (_, token) = self.listeners.swap_remove(index);
                    self.parts.reactor.close(token);
                    self.resting.retain(|resting| *resting != token);
                }
            }
            // As above.
            Change::Barrier(done) => drop(done.send(())),
        }
    }
}
