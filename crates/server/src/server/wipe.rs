//! Erases the blocks that a reload has removed from a namespace with `wipe_on_remove`.
//!
//! ```text
//!   announce ─► remove ─► due ─► its IOs have ended ─► wipes start ─► the reload waits for wipes of blocks that it needs ─► provision
//!      └──────────────────┴── in the state directory ──────┴─► erased and flushed ─► forgotten
//!   start ─► recall: what a namespace of the file lies on is not served until it is erased
//! ```
//!
//! A wipe is remembered until it is done. Until then no namespace gets any of its blocks. A failed wipe starts again at the next
//! reload. If there is a state directory, and the device has its contents again after a restart, the memory survives the process: a start
//! goes on where a kill has ended it. A removal that a kill has ended before hosts lost the namespace is undone if the file still has it.
//!
//! Holds: a wipe starts when no IO of the old owner can arrive any more (`a_late_write_of_the_old_owner_is_erased_too` in
//!        `tests/wipe.rs`); blocks that could not be erased are not served (`blocks_that_cannot_be_erased_are_not_served` there); a kill at any
//!        moment changes neither (`crates/gimbal/tests/wipes.rs`).
//! Elsewhere: the erasing is `pipeline::wipe`, the file `state::wipes`.

use super::ReloadError;
use super::topology::Topology;
use crate::config::{Config, DeviceKind, NamespaceConfig};
use crate::device::contents_name;
use crate::pipeline::change::Change;
use crate::pipeline::wipe::Wiped;
use crate::state::{Keeper, StateError, WipeRecord};
use crate::switch::ByteRange;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use units::Bytes;

/// Blocks that have to be erased before they are used again.
pub(super) struct Wipe {
    record: WipeRecord,
    device: String,
    /// The name by which the state directory has the SSD; `None` if it has not, and the process remembers alone.
    contents: Option<String>,
    state: State,
}

enum State {
    /// Not started: IOs of the old owner may still arrive, or the device is not there yet.
    Wanted,
    UnderWay(Receiver<Result<(), String>>),
    Failed(String),
    Done,
}

/// All wipes.
#[derive(Default)]
pub(super) struct Wipes {
    wipes: Vec<Wipe>,
    /// Announced for a reload that was then refused, and still in the state directory.
    unwanted: Vec<(String, WipeRecord)>,
}

/// The blocks to erase when `before` becomes `kept`: of namespaces that `before` has and `kept` does not have, or has with a smaller size.
pub(super) fn taken(topology: &Topology, before: &Config, kept: &Config) -> Vec<Wipe> {
    let mut taken = Vec::new();
    for subsystem in &before.subsystems {
        for namespace in &subsystem.namespaces {
            let nsid = namespace.nsid;
            let kept = kept.subsystem(&subsystem.nqn);
            let staying = kept.and_then(|kept| kept.namespaces.iter().find(|other| other.nsid == nsid));
            let device = &before.devices[before.device_index(&namespace.device).expect("it was checked")];
            // The files of a directory are the care of `pools`.
            if !staying.unwrap_or(namespace).wipe_on_remove || matches!(device.kind, DeviceKind::Directory(_))
            {
                continue;
            }
            let (from, to) = (staying.map_or(0, |now| length(topology, now)), length(topology, namespace));
            if from < to {
                let record = WipeRecord {
                    subsystem: subsystem.nqn.clone(),
                    nsid,
                    is_end: staying.is_some(),
                    offset: namespace.offset.get() + from,
                    length: to - from,
                    is_due: false,
                };
                let contents = topology.keeper().and_then(|_| contents_name(device));
                taken.push(Wipe { record, device: device.name.clone(), contents, state: State::Wanted });
            }
        }
    }
    taken
}

impl Wipes {
    /// Notes in the state directory what is going to be erased. If this fails, nothing is going to be, and nothing may be removed.
    pub(super) fn announce(&mut self, topology: &Topology, taken: &[Wipe]) -> Result<(), StateError> {
        let Some(keeper) = topology.keeper() else { return Ok(()) };
        self.clear_unwanted(keeper)?;
        for wipe in taken {
            let Some(contents) = &wipe.contents else { continue };
            let noted = keeper.note_wipe(contents.clone(), wipe.record.clone());
            // Before the error is looked at: if it came late, the file may have it.
            self.unwanted.push((contents.clone(), wipe.record.clone()));
            if let Err(error) = noted {
                if let Err(error) = self.clear_unwanted(keeper) {
                    error!(%error, "blocks that are not removed are noted as removed; reload again");
                }
                return Err(error);
            }
        }
        self.unwanted.clear();
        Ok(())
    }

    /// Removes notes of reloads that were refused.
    fn clear_unwanted(&mut self, keeper: &Keeper) -> Result<(), StateError> {
        while let Some((contents, record)) = self.unwanted.last() {
            let (answer, answered) = channel();
            keeper.forget_wipe(contents.clone(), record.clone(), answer);
            match answered.recv() {
                Ok(Ok(())) => drop(self.unwanted.pop()),
                Ok(Err(why)) => return Err(StateError::Unforgotten(why)),
                Err(_) => return Err(StateError::Gone),
            }
        }
        Ok(())
    }

    /// Hosts do not see the blocks any more. They are erased when the IOs of their old owners have ended.
    pub(super) fn add(&mut self, topology: &Topology, taken: Vec<Wipe>) {
        for mut wipe in taken {
            if let Err(error) = wipe.make_due(topology.keeper()) {
                warn!(device = %wipe.device, removed = %wipe.record, %error, "its blocks are not noted as due; the target tries again");
            }
            self.wipes.push(wipe);
        }
    }

    /// Remembers what has to be erased of the devices of `config` that do not run yet. Returns the configuration without the namespaces on
    /// such blocks.
    pub(super) fn recall(&mut self, topology: &Topology, config: &Config) -> Result<Config, StateError> {
        self.wipes.retain(|wipe| topology.ssd(&wipe.device).is_some());
        let Some(keeper) = topology.keeper() else { return Ok(config.clone()) };
        for device in config.devices.iter().filter(|device| topology.ssd(&device.name).is_none()) {
            let Some(contents) = contents_name(device) else { continue };
            for record in keeper.load_wipes(contents.clone())? {
                let wipe = Wipe {
                    record,
                    device: device.name.clone(),
                    contents: Some(contents.clone()),
                    state: State::Wanted,
                };
                if wipe.was_undone(config) {
                    info!(device = %wipe.device, kept = %wipe.record, "it was about to be removed when the target ended, and stays");
                    self.unwanted.push((contents.clone(), wipe.record));
                } else {
                    self.wipes.push(wipe);
                }
            }
        }
        self.clear_unwanted(keeper)?;
        let mut served = config.clone();
        served.subsystems.retain_mut(|subsystem| {
            let is_blocked = |namespace: &NamespaceConfig| {
                let mut waiting = self.wipes.iter().filter(|wipe| topology.ssd(&wipe.device).is_none());
                waiting.any(|wipe| wipe.lies_under(namespace))
            };
            subsystem.namespaces.retain(|namespace| !is_blocked(namespace));
            !subsystem.namespaces.is_empty()
        });
        Ok(served)
    }

    /// The first namespace of `asked` that waits for a wipe, with the old owner of its blocks.
    pub(super) fn blocked(&self, asked: &Config, served: &Config) -> Option<(String, String)> {
        if asked.subsystems == served.subsystems {
            return None;
        }
        self.wipes.iter().find_map(|wipe| Some((next_owner(asked, wipe)?, wipe.record.to_string())))
    }

    /// Starts the wipes that are not in progress, failed ones again. No IO of the old owners can arrive any more.
    pub(super) fn start(&mut self, topology: &Topology) {
        self.look();
        self.wipes.iter_mut().for_each(|wipe| wipe.start(topology));
    }

    /// Starts the wipes of devices that have come.
    pub(super) fn resume(&mut self, topology: &Topology) {
        let wanted = self.wipes.iter_mut().filter(|wipe| matches!(wipe.state, State::Wanted));
        wanted.for_each(|wipe| wipe.start(topology));
    }

    /// Waits for the wipes that `new` depends on: it uses the blocks for something else, or removes the device.
    pub(super) fn await_needed(
        &mut self,
        new: &Config,
        limit: Duration,
        deadline: Instant,
    ) -> Result<(), ReloadError> {
        for wipe in &mut self.wipes {
            let goes = new.device_index(&wipe.device).is_none();
            let needed_by = match next_owner(new, wipe) {
                Some(owner) => format!("{owner} cannot have them"),
                None if goes => format!("device {} cannot go", wipe.device),
                None => continue,
            };
            wipe.wait(deadline);
            let why = match &wipe.state {
                State::Done => continue,
                State::Failed(why) if goes => {
                    let (device, removed) = (&wipe.device, &wipe.record);
                    let then = wipe.then();
                    error!(
                        device,
                        %removed,
                        why,
                        "the device was removed, and its blocks were not erased: {then}"
                    );
                    wipe.state = State::Done;
                    continue;
                }
                State::Failed(why) => why.clone(),
                State::Wanted | State::UnderWay(_) => {
                    format!("this takes longer than {limit:?} and continues")
                }
            };
            return Err(ReloadError::NotErased { what: wipe.record.to_string(), why, needed_by });
        }
        self.look();
        Ok(())
    }

    /// Logs the wipes that are not done when the target ends.
    pub(super) fn end(&mut self) {
        self.look();
        for wipe in &self.wipes {
            let (device, removed, then) = (&wipe.device, &wipe.record, wipe.then());
            warn!(device, %removed, "the target ends before its blocks are erased: {then}");
        }
    }

    /// Removes the wipes that are done.
    fn look(&mut self) {
        let now = Instant::now();
        self.wipes.iter_mut().for_each(|wipe| wipe.wait(now));
        self.wipes.retain(|wipe| !matches!(wipe.state, State::Done));
    }
}

impl Wipe {
    /// The fate of blocks that are not erased, for the log.
    fn then(&self) -> &'static str {
        match self.contents {
            Some(_) => "this goes on when the device is served again",
            None => "they keep their contents",
        }
    }

    /// Notes that hosts do not see the blocks any more.
    fn make_due(&mut self, keeper: Option<&Keeper>) -> Result<(), StateError> {
        if let (Some(contents), Some(keeper), false) = (&self.contents, keeper, self.record.is_due) {
            keeper.note_wipe(contents.clone(), WipeRecord { is_due: true, ..self.record.clone() })?;
        }
        self.record.is_due = true;
        Ok(())
    }

    /// Whether the process ended before hosts lost the blocks, and their owner still has them by the file.
    fn was_undone(&self, config: &Config) -> bool {
        let owner = config.subsystem(&self.record.subsystem);
        let namespace =
            owner.and_then(|owner| owner.namespaces.iter().find(|each| each.nsid == self.record.nsid));
        !self.record.is_due && namespace.is_some_and(|namespace| self.lies_under(namespace))
    }

    fn start(&mut self, topology: &Topology) {
        let Some((slot, ssd)) = topology.ssd(&self.device) else { return };
        if matches!(self.state, State::UnderWay(_)) {
            return;
        }
        // Blocks of a namespace that a kill would bring back must not be erased.
        if let Err(error) = self.make_due(topology.keeper()) {
            error!(device = %self.device, removed = %self.record, %error, "its blocks are not erased");
            self.state = State::Failed(error.to_string());
            return;
        }
        let WipeRecord { offset, length, .. } = self.record;
        let length = length.min(ssd.facts.size.get().saturating_sub(offset));
        let (answer, is_done) = channel();
        let memory = self.contents.clone().zip(topology.keeper().cloned());
        let record = self.record.clone();
        let forget = move |result: Result<(), String>| match (result, memory) {
            (Ok(()), Some((contents, keeper))) => keeper.forget_wipe(contents, record, answer),
            // This fails only if the receiver has given up waiting.
            (result, _) => drop(answer.send(result)),
        };
        if length == 0 {
            info!(device = %self.device, removed = %self.record, "its blocks are gone: the device is smaller now");
            forget(Ok(()));
        } else {
            let size = Bytes(length);
            info!(device = %self.device, removed = %self.record, %size, offset, "its blocks are being erased");
            let range = ByteRange { offset, length };
            let done: Wiped = Box::new(move |result| forget(result.map_err(|failure| failure.to_string())));
            topology.change_ssd(slot, Change::Wipe { range, what: self.record.to_string(), done });
        }
        self.state = State::UnderWay(is_done);
    }

    /// Waits for the end of the wipe, until `deadline`.
    fn wait(&mut self, deadline: Instant) {
        let State::UnderWay(is_done) = &self.state else { return };
        self.state = match is_done.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => State::Done,
            Ok(Err(why)) => State::Failed(why),
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => State::Failed("the device's thread has ended".to_owned()),
        };
    }

    /// Whether a namespace has any of the blocks.
    fn lies_under(&self, namespace: &NamespaceConfig) -> bool {
        let WipeRecord { offset, length, .. } = self.record;
        let start = namespace.offset.get();
        let end = namespace.size.map_or(u64::MAX, |size| start.saturating_add(size.get()));
        namespace.device == self.device && start < offset.saturating_add(length) && offset < end
    }
}

/// The bytes of the device that a namespace gives access to.
fn length(topology: &Topology, namespace: &NamespaceConfig) -> u64 {
    let size = topology.size_of(namespace).unwrap_or(Bytes::ZERO).get();
    size - size % u64::from(namespace.block_size)
}

/// The namespace of `new` that uses blocks of `wipe`.
fn next_owner(new: &Config, wipe: &Wipe) -> Option<String> {
    new.subsystems.iter().find_map(|subsystem| {
        let namespace = subsystem.namespaces.iter().find(|namespace| wipe.lies_under(namespace))?;
        Some(format!("namespace {} of {}", namespace.nsid, subsystem.nqn))
    })
}
