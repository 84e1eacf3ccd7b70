//! A rack for one run: targets in this process, each with an emulated SSD, registered in a store, and a volume per
//! database. If there are neighbours, the last quarter of each SSD is theirs.
//!
//! Each database uses its own host NQN, so it is a tenant of its own, and so does each neighbour. All files of the rack are removed with it.

use super::{Ssds, database};
use crate::registration::Registration;
use crate::serve::FlashCondition;
use anyhow::{Context, Result, anyhow, ensure};
use blob::Geometry;
use blob::catalog;
use blob::store::Store;
use blob_meta::EtcdFiles;
use sched::{Scheduler, Slo};
use server::config::{
    AllowedHosts, Condition, Config, DeviceKind, EmulatedConfig, RackConfig, ShareConfig, TenantConfig,
};
use server::{Server, ServerHandle, Shutdown};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};
use units::{Bytes, MIB};

/// Size of a mega blob, the piece of an SSD that a volume takes at a time. Small, because the SSDs are.
const MEGA: u64 = 64 * MIB;
/// Time limit for the registration of the targets.
const REGISTERED: Duration = Duration::from_secs(20);
/// Pause between two checks of the registration.
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for a target to finish its outstanding commands.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// The subsystem of the neighbours, on every target.
pub(super) const NEIGHBOURS: &str = "nqn.2025-01.io.gimbal:ycsb:neighbours";

/// The tenants of a rack.
pub(super) struct Tenants {
    pub(super) databases: u32,
    /// Of each database, on each SSD.
    pub(super) objective: Option<Slo>,
    pub(super) neighbours: u32,
}

/// Targets with a volume per database.
pub(super) struct Rack {
    targets: Vec<(Registration, ServerHandle)>,
    folder: Folder,
}

/// A directory that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("gimbal-ycsb-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(unique);
        fs::create_dir(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Folder(path))
    }

    fn store(&self) -> Result<String> {
        let path = self.0.join("store").into_os_string().into_string();
        path.map_err(|path| anyhow!("the directory for temporary files is not UTF-8: {}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, only a small file stays in the folder of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The host NQN of a database.
fn host(number: u32) -> String {
    format!("nqn.2025-01.io.gimbal:ycsb:{}", database(number))
}

/// The host NQN of a neighbour.
pub(super) fn neighbour_host(number: u32) -> String {
    format!("nqn.2025-01.io.gimbal:ycsb:neighbour-{number}")
}

impl Rack {
    /// Starts the targets with a scheduler, and creates a volume for each database.
    pub(super) fn start(ssds: &Ssds, scheduler: &'static Scheduler, tenants: &Tenants) -> Result<Rack> {
        let folder = Folder::new()?;
        let text = folder.store()?;
        let mut rack = Rack { targets: Vec::new(), folder };
        for number in 1..=ssds.targets {
            let server = Server::start(config(ssds, number, scheduler, tenants, &text));
            let server = server.with_context(|| format!("starting target {number}"))?;
            let registration = Registration::start().context("the thread that registers the SSDs")?;
            registration.offer(&server);
            rack.targets.push((registration, server));
        }
        let mut store = blob_meta::open(&text, &EtcdFiles::default()).map_err(|reason| anyhow!(reason))?;
        await_registration(&mut *store, ssds.targets as usize)?;
        let geometry = Geometry { mega: MEGA, ..Geometry::default() };
        for number in 1..=tenants.databases {
            let name = database(number);
            catalog::create(&mut *store, &name, geometry)
                .with_context(|| format!("volume {name} was not created; is --size large enough?"))?;
        }
        Ok(rack)
    }

    /// The URI of a database's volume, as the plug-in reads it.
    pub(super) fn uri(&self, number: u32, policy: &str) -> String {
        let store = self.folder.0.join("store");
        let (name, host) = (database(number), host(number));
        format!("gimbal://{name}?store={}&host={host}&policy={policy}", store.display())
    }

    /// The addresses of the targets, where neighbours find [`NEIGHBOURS`].
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.targets.iter().map(|(_, server)| server.addresses()[0])
    }

    /// Stops the targets in order.
    pub(super) fn end(self) -> Result<()> {
        for (registration, server) in self.targets {
            registration.stop();
            let drained = server.shutdown(DRAIN_LIMIT);
            ensure!(drained == Shutdown::Complete, "a target did not finish within {DRAIN_LIMIT:?}");
        }
        Ok(())
    }
}

fn config(ssds: &Ssds, number: u32, scheduler: &'static Scheduler, tenants: &Tenants, store: &str) -> Config {
    let emulated = EmulatedConfig {
        profile: ssds.profile.clone(),
        condition: match ssds.condition {
            FlashCondition::Clean => Condition::Clean,
            FlashCondition::Fragmented => Condition::Fragmented,
        },
        speed: ssds.speed,
        ..EmulatedConfig::new(ssds.size)
    };
    let nqn = format!("nqn.2025-01.io.gimbal:ycsb:target-{number}");
    let mut config = Config::simple(DeviceKind::Emulated(emulated), ([127, 0, 0, 1], 0).into());
    config.devices[0].scheduler.policy = scheduler;
    config.subsystems[0].nqn.clone_from(&nqn);
    // Hosts that are listed are tenants of their own, also if several share an address.
    let databases: Vec<String> = (1..=tenants.databases).map(host).collect();
    if let Some(slo) = tenants.objective {
        let share = ShareConfig { slo: Some(slo), ..ShareConfig::EQUAL };
        config.tenants = databases.iter().map(|host| TenantConfig::with(host, share.clone())).collect();
    }
    config.subsystems[0].hosts = AllowedHosts::Only(databases);
    if tenants.neighbours > 0 {
        let volumes = Bytes(ssds.size.get() / 4 * 3 / MIB * MIB);
        let mut beside = config.subsystems[0].clone();
        NEIGHBOURS.clone_into(&mut beside.nqn);
        beside.hosts = AllowedHosts::Only((1..=tenants.neighbours).map(neighbour_host).collect());
        beside.namespaces[0].offset = volumes;
        config.subsystems[0].namespaces[0].size = Some(volumes);
        config.subsystems.push(beside);
    }
    let mut rack = RackConfig::new(store, &format!("target-{number}"), &[&nqn]);
    rack.mega = Bytes(MEGA);
    config.rack = Some(rack);
    // The other CPUs are for the databases.
    config.threads = Some(1);
    config
}

fn await_registration(store: &mut dyn Store, targets: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let live = catalog::ssds(store)?.iter().filter(|ssd| ssd.is_live).count();
        if live >= targets {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < REGISTERED,
            "only {live} of {targets} targets have registered within {REGISTERED:?}"
        );
        thread::sleep(LOOK);
    }
}
