//! Volumes as devices of this machine.

use super::Node;
use super::command::{done, run};
use crate::volume;
use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tonic::Status;
use uuid::Uuid;

/// The time for a device to come after its target is connected.
const DEVICE_WAIT: Duration = Duration::from_secs(20);
/// The time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The failures of nvme-cli without the module: there is no device to ask, or the kernel has no such transport; as 2.3 and as 2.13 say it.
const WITHOUT_MODULE: [&str; 4] = [
    "Failed to open /dev/nvme-fabrics",
    "failed to open nvme-fabrics device",
    "Failed to write to /dev/nvme-fabrics: Invalid argument",
    "could not add new controller: invalid arguments/configuration",
];

/// The volume of a request.
pub(super) fn volume_of(id: &str) -> Result<Uuid, Status> {
    volume::parse_id(id)?.ok_or_else(|| Status::not_found(format!("there is no volume {id:?}")))
}

impl Node {
    /// The name of the device of a volume, whether it is there or not.
    pub(super) fn device(&self, id: Uuid) -> PathBuf {
        self.by_id.join(format!("nvme-uuid.{id}"))
    }

    /// Connects to all portals of a volume, and waits for its device. A portal that is connected already, or tries to, counts.
    pub(super) fn attach(&self, id: Uuid, facts: &HashMap<String, String>) -> Result<PathBuf, Status> {
        let fact = |name: &str| {
            let missing = || Status::invalid_argument(format!("publish_context has no {name}"));
            facts.get(name).filter(|fact| !fact.is_empty()).ok_or_else(missing)
        };
        let (nqn, host) = (volume::nqn(id), self.host_nqn()?);
        if *fact("nqn")? != nqn || *fact("uuid")? != id.to_string() {
            return Err(Status::invalid_argument(format!("publish_context is of another volume than {id}")));
        }
        let mut failures = Vec::new();
        for portal in fact("portals")?.split(',') {
            let (address, port) = portal
                .rsplit_once(':')
                .ok_or_else(|| Status::invalid_argument(format!("portal {portal:?} is not ADDRESS:PORT")))?;
            let address = address.trim_start_matches('[').trim_end_matches(']');
            let place = ["--transport=tcp", "--traddr", address, "--trsvcid", port];
            let names = ["--nqn", &nqn, "--hostnqn", &host, "--ctrl-loss-tmo=-1"];
            let ended = run("nvme", &[&["connect"], &place[..], &names].concat())?;
            let said = ended.said();
            if WITHOUT_MODULE.iter().any(|failure| said.contains(failure)) {
                return Err(Status::failed_precondition(format!(
                    "{said}; load the module nvme-tcp on the node (modprobe nvme-tcp)"
                )));
            }
            if ended.code != 0 && !said.contains("already connected") {
                failures.push(said);
            }
        }
        let device = self.device(id);
        let until = Instant::now() + DEVICE_WAIT;
        // Without a portal it comes only if it is there.
        let is_hopeless = failures.len() == fact("portals")?.split(',').count();
        while !device.exists() {
            if is_hopeless || Instant::now() >= until {
                return Err(Status::unavailable(format!(
                    "{} has not come; {}",
                    device.display(),
                    if failures.is_empty() {
                        "see dmesg on the node".to_owned()
                    } else {
                        failures.join("; ")
                    }
                )));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(device)
    }

    /// Disconnects a volume, if it is connected.
    pub(super) fn detach(&self, id: Uuid) -> Result<(), Status> {
        done("nvme", &["disconnect", "--nqn", &volume::nqn(id)]).map(drop)
    }
}
