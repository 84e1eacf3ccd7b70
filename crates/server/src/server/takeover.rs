//! Takeover of a group whose devices are fenced namespaces of another target, and its release.
//!
//! ```text
//!   take over: look at every device, nothing changes ─► take each ─► the group is accessible here; hosts are told
//!   lost:      a device finds that it is not held ─► the group is inaccessible here; hosts are told
//!   away:      a back-end cannot be reached for its `timeout` ─► the same, until it is there again and still held
//!   release:   the group is inaccessible ─► no device sends an IO any more, those under way end
//! ```
//!
//! A cluster manager decides which target takes over; the generation orders its decisions. A group that was taken over is in no file: a
//! target that was started again serves nothing of it until it is told to.
//!
//! Elsewhere: the commands at the back-end are in `device::back_end`.

use super::ServerHandle;
use super::remote::Remote;
use crate::config::{AccessState, Config};
use crate::device::{FenceHandle, FenceRefused, GENERATION_MAX, Generation, Holding};
use std::collections::BTreeSet;
use std::sync::Arc;
use tracing::{info, warn};

/// Why a group is not taken over, or not released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeoverError {
    /// There is no such group.
    #[error("there is no group {0:?}; gimbal ctl ana lists the groups")]
    NoGroup(String),
    /// No device of it is fenced.
    #[error(
        "group {0:?} has no namespace on a device with fenced = true, so there is nothing to take over; gimbal ctl ana set changes its state"
    )]
    NotFenced(String),
    /// The generation is none.
    #[error("generation {0} is not a number from 1 to {GENERATION_MAX}")]
    Generation(Generation),
    /// Another takeover is newer.
    #[error(
        "generation {asked} is not newer than generation {registered}, with which {} has registered at the back-end of device {device:?}: nothing has changed here; \
         give a larger one, if this target is the one to take over",
        if *.is_own { "this target" } else { "another target" }
    )]
    NotNewer {
        /// The device.
        device: String,
        /// The generation that was asked for.
        asked: Generation,
        /// The one that is registered.
        registered: Generation,
        /// Whether this target has registered it.
        is_own: bool,
    },
    /// A back-end cannot be fenced.
    #[error("device {device:?}: {why}; the group stays inaccessible here")]
    Device {
        /// The device.
        device: String,
        /// Why, for people.
        why: String,
    },
    /// Another target took over at the same time.
    #[error("group {0:?} was lost to another target in the same moment; it is inaccessible here")]
    Lost(String),
}

impl ServerHandle {
    /// Takes a group over: fences the back-ends of its devices, and makes it accessible. Waits for the IOs of the former holder, for a
    /// few times the `timeout` of the devices at most.
    ///
    /// # Errors
    /// The reason why not. If it is found before anything has changed, nothing has.
    pub fn take_over(&mut self, group: &str, generation: Generation) -> Result<(), TakeoverError> {
        let devices = self.looked_at(group, generation)?;
        self.remote.with_groups(|groups| groups.begin(group));
        for (device, fence) in &devices {
            let (remote, name, own) = (self.remote.clone(), group.to_owned(), device.clone());
            let on_news = Box::new(move |news| remote.with_groups(|groups| groups.hear(&name, &own, news)));
            fence.take(generation, on_news).map_err(|refused| error_of(device, generation, refused))?;
        }
        if !self.remote.with_groups(|groups| groups.end(group, generation, &devices)) {
            return Err(TakeoverError::Lost(group.to_owned()));
        }
        info!(group, generation, devices = devices.len(), "the group is taken over: it is accessible here");
        Ok(())
    }

    /// Whether [`ServerHandle::take_over`] may be asked for this, as far as that is known before.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_takeover(&self, group: &str, generation: Generation) -> Result<(), TakeoverError> {
        self.looked_at(group, generation).map(drop)
    }

    /// The devices of a group, if all of them can be taken over.
    fn looked_at(&self, group: &str, generation: Generation) -> Result<Devices, TakeoverError> {
        let devices = self.remote.with_groups(|groups| groups.fenced(group))?;
        if generation == 0 || generation > GENERATION_MAX {
            return Err(TakeoverError::Generation(generation));
        }
        for (device, fence) in &devices {
            fence.look(generation).map_err(|refused| error_of(device, generation, refused))?;
        }
        Ok(devices)
    }

    /// Releases a group: it is inaccessible, and when this returns no IO of this target waits for an answer of its back-ends. They stay
    /// reserved, so that a takeover waits for one whose answer was lost, and nobody older writes.
    ///
    /// # Errors
    /// There is no such group, or a device does not answer.
    pub fn release(&mut self, group: &str) -> Result<(), TakeoverError> {
        let devices = self.remote.with_groups(|groups| groups.fenced(group))?;
        self.remote.with_groups(|groups| groups.lose(group));
        for (device, fence) in &devices {
            fence.release().map_err(|refused| error_of(device, 0, refused))?;
        }
        info!(group, "the group is released: it is inaccessible here");
        Ok(())
    }
}

impl Remote {
    /// The generation with which a group was taken over and is held.
    ///
    /// # Errors
    /// There is no such group, or nothing to take over in it.
    pub fn takeover(&self, group: &str) -> Result<Option<Generation>, TakeoverError> {
        self.with_groups(|groups| groups.fenced(group).map(|_| groups.held(group)))
    }
}

fn error_of(device: &str, asked: Generation, refused: FenceRefused) -> TakeoverError {
    let device = device.to_owned();
    match refused {
        FenceRefused::NotNewer { registered, is_own } => {
            TakeoverError::NotNewer { device, asked, registered, is_own }
        }
        FenceRefused::Unable(why) => TakeoverError::Device { device, why },
    }
}

/// Fenced devices of a group, by name.
type Devices = Vec<(String, Arc<FenceHandle>)>;

/// The groups of a target, and what was taken over of them.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    name: String,
    number: u32,
    /// In the configuration.
    state: AccessState,
    devices: Devices,
    taken: Taken,
    /// Devices whose back-ends have been away for too long.
    away: BTreeSet<String>,
}

/// The state of a takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Taken {
    #[default]
    No,
    /// It is being taken over, and no device was lost since that began. A group that is held already stays so meanwhile.
    Under {
        held: Option<Generation>,
    },
    Held(Generation),
}

impl Groups {
    /// The configuration and the devices are other ones now. A group that has another device is not held: that one was not taken.
    pub(super) fn update(&mut self, config: &Config, fence: impl Fn(&str) -> Option<Arc<FenceHandle>>) {
        let former = std::mem::take(&mut self.0);
        for (group, number) in config.numbered_groups() {
            let devices = config.fenced_devices(&group.name).into_iter();
            let devices: Devices =
                devices.filter_map(|device| Some((device.to_owned(), fence(device)?))).collect();
            let before = former.iter().find(|before| before.name == group.name);
            let mut taken = before.map_or(Taken::No, |before| before.taken);
            if taken != Taken::No && !before.is_some_and(|before| is_within(&devices, &before.devices)) {
                warn!(
                    group = group.name,
                    "the group has another device: it is inaccessible until it is taken over again"
                );
                taken = Taken::No;
            }
            let mut away = before.map(|before| before.away.clone()).unwrap_or_default();
            away.retain(|away| taken != Taken::No && devices.iter().any(|(device, _)| device == away));
            let number = number.expect("the check has found a number for every group");
            self.0.push(Group { name: group.name.clone(), number, state: group.state, devices, taken, away });
        }
    }

    /// The state of each group for hosts.
    pub(super) fn states(&self) -> Arc<[(String, AccessState)]> {
        let state = |group: &Group| match group.generation() {
            Some(_) => AccessState::Optimized,
            None => group.state,
        };
        self.0.iter().map(|group| (group.name.clone(), state(group))).collect()
    }

    /// The numbers of the groups that are held.
    pub(super) fn taken(&self) -> Arc<BTreeSet<u32>> {
        let held = self.0.iter().filter(|group| group.generation().is_some());
        Arc::new(held.map(|group| group.number).collect())
    }

    fn find(&mut self, name: &str) -> Option<&mut Group> {
        self.0.iter_mut().find(|group| group.name == name)
    }

    fn fenced(&mut self, name: &str) -> Result<Devices, TakeoverError> {
        let group = self.find(name).ok_or_else(|| TakeoverError::NoGroup(name.to_owned()))?;
        match group.devices.is_empty() {
            true => Err(TakeoverError::NotFenced(name.to_owned())),
            false => Ok(group.devices.clone()),
        }
    }

    fn held(&mut self, name: &str) -> Option<Generation> {
        self.find(name)?.generation()
    }

    fn begin(&mut self, name: &str) {
        if let Some(group) = self.find(name) {
            group.taken = Taken::Under { held: group.generation() };
        }
    }

    /// All devices were taken. Returns whether the group is held now: not so if one was lost meanwhile.
    fn end(&mut self, name: &str, generation: Generation, devices: &Devices) -> bool {
        let Some(group) = self.find(name) else { return false };
        if matches!(group.taken, Taken::Under { .. }) && is_within(&group.devices, devices) {
            group.taken = Taken::Held(generation);
        }
        group.taken == Taken::Held(generation)
    }

    fn lose(&mut self, name: &str) {
        if let Some(group) = self.find(name) {
            group.taken = Taken::No;
            group.away.clear();
        }
    }

    /// There is news of a device.
    fn hear(&mut self, name: &str, device: &str, news: Holding) {
        match (news, self.find(name)) {
            (Holding::Lost, _) => self.lose(name),
            (Holding::Away, Some(group)) => drop(group.away.insert(device.to_owned())),
            (Holding::Back, Some(group)) => drop(group.away.remove(device)),
            (_, None) => {}
        }
    }
}

impl Group {
    /// The generation with which it is held, and can be used.
    fn generation(&self) -> Option<Generation> {
        match self.taken {
            _ if !self.away.is_empty() => None,
            Taken::Held(generation) => Some(generation),
            Taken::Under { held } => held,
            Taken::No => None,
        }
    }
}

/// Whether the devices are among these, the same ones.
fn is_within(devices: &Devices, those: &Devices) -> bool {
    devices.iter().all(|(_, fence)| those.iter().any(|(_, other)| Arc::ptr_eq(fence, other)))
}
