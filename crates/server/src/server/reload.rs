//! Changes the configuration while the target runs.
//!
//! ```text
//!   check ─► may it change live? ─► prepare new things ─► remove old ones ─► erase them ─► commit new ones
//!   └────────── an error here changes nothing ──────────┘   └ waits for its IOs    └ if configured (`wipe`)
//! ```
//!
//! Old things are removed first, because the same reload may give its blocks, its name or its address to something new. So a removal
//! waits for outstanding IOs, within a time limit. IOs that have not reached a device fail at once. If a device hangs and its IOs do not
//! end, hosts no longer see the removed things, the new ones are not there yet, and the next reload continues from there.
//!
//! Holds: a refused configuration changes nothing (`a_refused_configuration_changes_nothing` in `tests/reload.rs`);
//!        no IO of a removed namespace reaches its blocks later (`blocks_change_hands_without_a_stray_write` there).

use super::change::{Change, Resolved, changes};
use super::provisioning::{Provisioning, Resized, in_order};
use super::topology::Topology;
use super::{ServerHandle, StartError, pools, wipe};
use crate::acceptor;
use crate::assemble;
use crate::config::{Config, ConfigError, SubsystemConfig};
use crate::pipeline::change::Change as PipelineChange;
use crate::pipeline::message::{Report, ToPipeline};
use crate::proof::KeyRing;
use crate::state::NamespaceName;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tracing::{error, info};
use units::Bytes;

/// Why a new configuration was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is wrong, or cannot be applied while the target runs. Nothing has changed.
    #[error("{0}")]
    Config(ConfigError),
    /// Something new cannot be prepared. Nothing has changed.
    #[error("{0}")]
    New(StartError),
    /// IOs to removed things do not end. The old things are removed; the new ones are not there yet.
    #[error(
        "{what} was removed, but its IOs have not ended within {waited:?}; nothing new was added: look at the device, then reload \
         again"
    )]
    Stuck {
        /// The owner of the IOs.
        what: String,
        /// The time limit.
        waited: Duration,
    },
    /// Blocks of removed things could not be erased, or not yet. The old things are removed; the new ones are not there yet.
    #[error(
        "the blocks of {what} are not erased, although wipe_on_remove is set ({why}), so {needed_by}, and nothing new was added: look at \
         the log and at the device, then reload again"
    )]
    NotErased {
        /// The old owner of the blocks.
        what: String,
        /// Why they are not erased.
        why: String,
        /// The new user of the blocks.
        needed_by: String,
    },
    /// Everything has changed, except that blocks of a device that has come were not erased before the target ended.
    #[error(
        "{needed_by} is not served: its blocks belonged to {what} and are being erased; reload again when the log says that they are erased"
    )]
    Blocked {
        /// The old owner of the blocks.
        what: String,
        /// The namespace that waits.
        needed_by: String,
    },
    /// The target was stopped at once ([`Remote::stop`](super::Remote::stop)) meanwhile: nothing is served any more.
    #[error("the target was stopped at once while it was changed")]
    Stopped,
    /// Everything has changed, except that listening on an address has failed.
    #[error("{0}")]
    Listen(StartError),
}

/// Something that was removed and still has IOs.
pub(super) struct Unfinished {
    what: String,
    done: Receiver<()>,
}

impl ServerHandle {
    /// Changes the configuration. Connections stay, except those to removed things. When this returns, these have no
    /// outstanding IOs. The wait for that takes at most `limit`.
    ///
    /// # Errors
    /// The error says why. Unless it says otherwise, nothing has changed.
    pub fn reload(&mut self, config: Config, limit: Duration) -> Result<Vec<Change>, ReloadError> {
        let result = self.reload_unstored(config, limit);
        self.confirm();
        result
    }

    /// As [`ServerHandle::reload`], with a configuration that is not stored yet: if the target is killed before
    /// [`ServerHandle::confirm`], the next one removes the files that were made for it in directories.
    ///
    /// # Errors
    /// As [`ServerHandle::reload`].
    pub fn reload_unstored(&mut self, config: Config, limit: Duration) -> Result<Vec<Change>, ReloadError> {
        let result = self.apply(config, limit);
        self.remote.update(&self.topology, &self.config);
        result
    }

    /// The present configuration is stored.
    pub fn confirm(&self) {
        self.topology
            .running()
            .filter_map(|(_, ssd)| ssd.facts.pool.as_ref())
            .for_each(|pool| pool.confirm());
    }

    fn apply(&mut self, config: Config, limit: Duration) -> Result<Vec<Change>, ReloadError> {
        self.admissible(&config)?;
        let deadline = Instant::now() + limit;
        let unusable = |error| ReloadError::New(StartError::State(error));
        let asked = config;
        let config = self.wipes.recall(&self.topology, &asked).map_err(unusable)?;
        let provisioning =
            Provisioning::prepare(&self.topology, &self.config, &config).map_err(ReloadError::New)?;
        let before = Measured::of(&self.topology, &self.config);
        let old = self.config.clone();
        self.retire(&provisioning, &config)?;
        self.await_unfinished(deadline).map_err(|what| ReloadError::Stuck { what, waited: limit })?;
        self.wipes.start(&self.topology);
        self.release_reservations(&old, &config, deadline)
            .map_err(|what| ReloadError::Stuck { what, waited: limit })?;
        self.wipes.await_needed(&config, limit, deadline)?;
        self.retire_devices(&config, deadline).map_err(|what| ReloadError::Stuck { what, waited: limit })?;
        pools::part(&self.topology, &config);
        // Threads that were stopped have no IOs, too.
        if self.remote.is_stopped() {
            return Err(ReloadError::Stopped);
        }
        let listening = provisioning.commit(&mut self.topology, &config);
        // The acceptor passes shares on to the pipelines.
        self.topology.await_acceptor();
        self.topology.await_ssds();
        let after = Measured::of(&self.topology, &config);
        let changes = changes((&old, &before), (&config, &after));
        self.config = config;
        self.note_listening();
        self.wipes.resume(&self.topology);
        for Change { subject, name, from, to } in &changes {
            info!(%subject, name, from, to, "reloaded");
        }
        listening.map_err(ReloadError::Listen)?;
        match self.wipes.blocked(&asked, &self.config) {
            Some((needed_by, what)) => Err(ReloadError::Blocked { what, needed_by }),
            None => Ok(changes),
        }
    }

    /// Removes what `new` does not have, except devices. When this returns, hosts no longer see it.
    fn retire(&mut self, provisioning: &Provisioning, new: &Config) -> Result<(), ReloadError> {
        let kept = kept(&self.config, new);
        let addresses = in_order(&kept, self.topology.listeners.iter().copied());
        let records = assemble::discovery_records(&kept, &addresses).map_err(|error| {
            ReloadError::New(StartError::Subsystem { nqn: "discovery".to_owned(), error })
        })?;
        let taken = wipe::taken(&self.topology, &self.config, &kept);
        pools::doom(&self.topology, &self.config, &kept).map_err(ReloadError::New)?;
        self.wipes
            .announce(&self.topology, &taken)
            .map_err(|error| ReloadError::New(StartError::State(error)))?;
        let topology = &mut self.topology;
        topology.change_acceptor(acceptor::Change::Directory { routes: topology.routes(&kept), records });
        for listening in &topology.listeners {
            if !addresses.contains(&listening.listen()) {
                topology.change_acceptor(acceptor::Change::Unlisten(listening.listen()));
            }
        }
        topology.listeners.retain(|listening| addresses.contains(&listening.listen()));
        // After this, no hand-over to a removed subsystem is still in progress.
        topology.await_acceptor();
        for (slot, home, hosts) in &provisioning.hosts {
            topology.change_ssd(*home, PipelineChange::Hosts { slot: *slot, hosts: hosts.clone() });
        }
        // Before anything is waited for: an operator may turn hosts away from a device because it hangs.
        for subsystem in &kept.subsystems {
            let Some((slot, served)) = topology.served(&subsystem.nqn) else { continue };
            let before = self.config.subsystem(&subsystem.nqn).map(|before| self.config.access(before));
            let access = kept.access(subsystem);
            if before.as_ref() != Some(&access) {
                topology.change_ssd(served.home, PipelineChange::Access { slot, access });
            }
        }
        for subsystem in &self.config.subsystems {
            let Some((slot, served)) = topology.served(&subsystem.nqn) else { continue };
            let home = served.home;
            let Some(staying) = kept.subsystem(&subsystem.nqn) else {
                let (done, is_done) = channel();
                topology.change_ssd(home, PipelineChange::SubsystemRemoved { slot, done });
                topology.subsystems[slot] = None;
                let what = format!("subsystem {}", subsystem.nqn);
                self.unfinished.push(Unfinished { what, done: is_done });
                continue;
            };
            for namespace in &subsystem.namespaces {
                let nsid = namespace.nsid;
                if staying.namespaces.iter().all(|other| other.nsid != nsid) {
                    let (done, is_done) = channel();
                    topology.change_ssd(home, PipelineChange::NamespaceRemoved { slot, nsid, done });
                    let what = format!("namespace {nsid} of {}", subsystem.nqn);
                    self.unfinished.push(Unfinished { what, done: is_done });
                }
            }
        }
        for &Resized { subsystem: slot, home, nsid, blocks, is_smaller } in &provisioning.resized {
            if is_smaller {
                let (done, is_done) = channel();
                topology.change_ssd(home, PipelineChange::NamespaceResized { slot, nsid, blocks, done });
                let what = format!("the end of namespace {nsid}");
                self.unfinished.push(Unfinished { what, done: is_done });
            }
        }
        topology.await_ssds();
        self.wipes.add(&self.topology, taken);
        self.config = kept;
        Ok(())
    }

    /// Waits for the IOs of removed things. The error names their owner.
    fn await_unfinished(&mut self, deadline: Instant) -> Result<(), String> {
        while let Some(Unfinished { what, done }) = self.unfinished.last() {
            // If the channel is closed, the pipeline has ended and has no IOs.
            if done.recv_timeout(deadline.saturating_duration_since(Instant::now()))
                == Err(RecvTimeoutError::Timeout)
            {
                return Err(what.clone());
            }
            self.unfinished.pop();
        }
        Ok(())
    }

    /// Releases the reservation files of removed namespaces for other targets, after everything is stored.
    fn release_reservations(&self, old: &Config, new: &Config, deadline: Instant) -> Result<(), String> {
        let Some(keeper) = self.topology.keeper() else { return Ok(()) };
        if !keeper.barrier(deadline) {
            return Err("what is stored of its reservations".to_owned());
        }
        let names = |config: &Config| -> Vec<NamespaceName> {
            let of = |subsystem: &SubsystemConfig| -> Vec<NamespaceName> {
                let namespaces = subsystem.namespaces.iter();
                namespaces.map(|namespace| assemble::name_of(&subsystem.nqn, namespace)).collect()
            };
            config.subsystems.iter().flat_map(of).collect()
        };
        let staying = names(new);
        for gone in names(old).into_iter().filter(|name| !staying.contains(name)) {
            keeper.release(gone);
        }
        Ok(())
    }

    /// Ends the threads of devices that `new` does not have. They have no namespaces now. The error is the device that hangs.
    fn retire_devices(&mut self, new: &Config, deadline: Instant) -> Result<(), String> {
        let topology = &mut self.topology;
        for slot in 0..topology.ssds.len() {
            let is_gone = |ssd: &mut super::topology::Ssd| new.device_index(&ssd.name).is_none();
            let Some(mut ssd) = topology.ssds[slot].take_if(is_gone) else { continue };
            self.config.devices.retain(|device| device.name != ssd.name);
            topology.change_acceptor(acceptor::Change::Pipeline { slot, mailbox: None });
            for (other, _) in topology.running() {
                topology.change_ssd(other, PipelineChange::Peer { slot, mailbox: None });
            }
            ssd.thread.mailbox.tell(ToPipeline::Finish);
            let has_ended = ssd.thread.await_report(Report::Ended, deadline);
            // It has sent all its messages to them by now.
            topology.introduce(slot, None);
            if !has_ended {
                error!(device = %ssd.name, "the device was removed, but its last flush does not end");
                ssd.thread.mailbox.tell(ToPipeline::Stop);
                return Err(format!("device {}", ssd.name));
            }
            ssd.thread.join();
        }
        Ok(())
    }
}

/// The parts that both configurations have, with the values of `new`, and all devices of `old`.
fn kept(old: &Config, new: &Config) -> Config {
    let mut kept = old.clone();
    kept.groups.clone_from(&new.groups);
    // An address without a port may be listed more than once.
    let mut listening = old.listen.clone();
    kept.listen = new.listen.clone();
    kept.listen.retain(|address| {
        let index = listening.iter().position(|other| other == address);
        index.map(|index| listening.swap_remove(index)).is_some()
    });
    kept.subsystems.retain_mut(|subsystem| {
        let Some(staying) = new.subsystem(&subsystem.nqn) else { return false };
        subsystem.hosts.clone_from(&staying.hosts);
        subsystem.namespaces.retain_mut(|namespace| {
            let same = staying.namespaces.iter().find(|other| other.nsid == namespace.nsid);
            namespace.wipe_on_remove = same.unwrap_or(namespace).wipe_on_remove;
            if let Some(same) = same {
                namespace.group.clone_from(&same.group);
            }
            if let Some(size) = same.and_then(|same| same.size)
                && namespace.size.is_none_or(|before| size < before)
            {
                namespace.size = Some(size);
            }
            same.is_some()
        });
        true
    });
    kept
}

/// Sizes and keys as they are at one moment.
pub(super) struct Measured {
    devices: HashMap<String, Bytes>,
    namespaces: HashMap<(String, u32), Bytes>,
    keys: Arc<KeyRing>,
}

impl Measured {
    pub(super) fn of(topology: &Topology, config: &Config) -> Measured {
        let devices = topology.running().map(|(_, ssd)| (ssd.name.clone(), ssd.facts.size)).collect();
        let mut namespaces = HashMap::new();
        for subsystem in &config.subsystems {
            for namespace in &subsystem.namespaces {
                if let Some(size) = topology.size_of(namespace) {
                    namespaces.insert((subsystem.nqn.clone(), namespace.nsid), size);
                }
            }
        }
        Measured { devices, namespaces, keys: Arc::clone(&topology.proofs.keys) }
    }
}

impl Resolved for Measured {
    fn device(&self, name: &str) -> Option<String> {
        self.devices.get(name).map(Bytes::to_string)
    }

    fn namespace(&self, nqn: &str, nsid: u32) -> Option<String> {
        self.namespaces.get(&(nqn.to_owned(), nsid)).map(Bytes::to_string)
    }

    fn keys(&self, host: &str) -> Option<String> {
        self.keys.fingerprints(host)
    }
}
