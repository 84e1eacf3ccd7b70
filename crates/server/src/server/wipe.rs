//! Erases the blocks that a reload has removed from a namespace with `wipe_on_remove`.
//!
//! ```text
//!   remove ─► its IOs have ended ─► wipes start ─► the reload waits for wipes of blocks that it needs ─► provision
//!                                      └ other wipes continue after the reload
//! ```
//!
//! A wipe is remembered until it is done. Until then no namespace gets any of its blocks. A failed wipe starts again at the next
//! reload. The memory of wipes ends with the process: `docs/operations.md` describes the consequences.
//!
//! Holds: a wipe starts when no IO of the old owner can arrive any more (`a_late_write_of_the_old_owner_is_erased_too` in
//!        `tests/wipe.rs`); blocks that could not be erased are not served (`blocks_that_cannot_be_erased_are_not_served` there).
//! Elsewhere: the erasing is `pipeline::wipe`.

use super::ReloadError;
use super::topology::Topology;
use crate::config::{Config, NamespaceConfig};
use crate::pipeline::change::Change;
use crate::switch::{ByteRange, Failure};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use units::Bytes;

/// Blocks that have to be erased before they are used again.
struct Wipe {
    /// The old owner.
    what: String,
    device: String,
    range: ByteRange,
    state: State,
}

enum State {
    /// Not started: IOs of the old owner may still arrive.
    Wanted,
    UnderWay(Receiver<Result<(), Failure>>),
    Failed(String),
    Done,
}

/// All wipes.
#[derive(Default)]
pub(super) struct Wipes(Vec<Wipe>);

impl Wipes {
    /// Notes the blocks to erase: of namespaces that `before` has and `kept` does not have, or has with a smaller size.
    pub(super) fn note(&mut self, topology: &Topology, before: &Config, kept: &Config) {
        for subsystem in &before.subsystems {
            for namespace in &subsystem.namespaces {
                let nsid = namespace.nsid;
                let kept = kept.subsystem(&subsystem.nqn);
                let staying = kept.and_then(|kept| kept.namespaces.iter().find(|other| other.nsid == nsid));
                if !staying.unwrap_or(namespace).wipe_on_remove {
                    continue;
                }
                let (from, to) =
                    (staying.map_or(0, |now| length(topology, now)), length(topology, namespace));
                if from < to {
                    let range = ByteRange { offset: namespace.offset.get() + from, length: to - from };
                    let part = if staying.is_some() { "the end of " } else { "" };
                    let what = format!("{part}namespace {nsid} of {}", subsystem.nqn);
                    self.0.push(Wipe { what, device: namespace.device.clone(), range, state: State::Wanted });
                }
            }
        }
    }

    /// Starts the wipes that are not in progress. No IO of the old owners can arrive any more.
    pub(super) fn start(&mut self, topology: &Topology) {
        self.look();
        for Wipe { what, device, range, state } in &mut self.0 {
            if matches!(state, State::UnderWay(_)) {
                continue;
            }
            let size = Bytes(range.length);
            info!(%device, removed = what, %size, offset = range.offset, "its blocks are being erased");
            let (done, is_done) = channel();
            if let Some((slot, _)) = topology.ssd(device) {
                topology.change_ssd(slot, Change::Wipe { range: *range, what: what.clone(), done });
            }
            *state = State::UnderWay(is_done);
        }
    }

    /// Waits for the wipes that `new` depends on: it uses the blocks for something else, or removes the device.
    pub(super) fn await_needed(
        &mut self,
        new: &Config,
        limit: Duration,
        deadline: Instant,
    ) -> Result<(), ReloadError> {
        for wipe in &mut self.0 {
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
                    let (device, removed) = (&wipe.device, &wipe.what);
                    error!(
                        device,
                        removed,
                        why,
                        "the device was removed, and its blocks were not erased: they keep their contents"
                    );
                    wipe.state = State::Done;
                    continue;
                }
                State::Failed(why) => why.clone(),
                State::Wanted | State::UnderWay(_) => {
                    format!("this takes longer than {limit:?} and continues")
                }
            };
            return Err(ReloadError::NotErased { what: wipe.what.clone(), why, needed_by });
        }
        self.look();
        Ok(())
    }

    /// Logs the wipes that are not done when the target ends.
    pub(super) fn end(&mut self) {
        self.look();
        for Wipe { what, device, .. } in &self.0 {
            warn!(
                device,
                removed = what,
                "the target ends before its blocks are erased: they keep their contents"
            );
        }
    }

    /// Removes the wipes that are done.
    fn look(&mut self) {
        let now = Instant::now();
        self.0.iter_mut().for_each(|wipe| wipe.wait(now));
        self.0.retain(|wipe| !matches!(wipe.state, State::Done));
    }
}

impl Wipe {
    /// Waits for the end of the wipe, until `deadline`.
    fn wait(&mut self, deadline: Instant) {
        let State::UnderWay(is_done) = &self.state else { return };
        self.state = match is_done.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => State::Done,
            Ok(Err(failure)) => State::Failed(failure.to_string()),
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => State::Failed("the device's thread has ended".to_owned()),
        };
    }
}

/// The bytes of the device that a namespace gives access to.
fn length(topology: &Topology, namespace: &NamespaceConfig) -> u64 {
    let size = topology.size_of(namespace).unwrap_or(Bytes::ZERO).get();
    size - size % u64::from(namespace.block_size)
}

/// The namespace of `new` that uses blocks of `wipe`.
fn next_owner(new: &Config, wipe: &Wipe) -> Option<String> {
    let ByteRange { offset, length } = wipe.range;
    let lies_there = |namespace: &&NamespaceConfig| {
        let start = namespace.offset.get();
        let end = namespace.size.map_or(u64::MAX, |size| start.saturating_add(size.get()));
        namespace.device == wipe.device && start < offset + length && offset < end
    };
    new.subsystems.iter().find_map(|subsystem| {
        let namespace = subsystem.namespaces.iter().find(lies_there)?;
        Some(format!("namespace {} of {}", namespace.nsid, subsystem.nqn))
    })
}
