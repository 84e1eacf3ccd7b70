//! Registers the target's SSDs in the metadata store of a rack, and keeps them registered while the target runs.
//!
//! ```text
//!   offer ──► grant a lease, register each SSD ──► renew at a third of its time ──► stop: revoke
//!                  ▲                                     │ it has expired, or the store lost it
//!                  └─────────────────────────────────────┘
//! ```
//!
//! A thread of its own talks to the store. So a slow or unreachable store delays neither hosts nor the stop of the
//! target: IOs do not need it. A problem is logged when it begins, and again when it changes.
//!
//! Each renewal checks whether the registrations still are those of this target, and whether another target tries to
//! register the same SSDs. If two targets run with one configuration, both log it, and the first one keeps the
//! registrations.
//!
//! Holds: `tests/volumes.rs`.

use blob::SsdId;
use blob::catalog::{self, SsdRecord, Standing};
use blob::store::{LeaseId, Store, StoreError};
use blob_meta::EtcdFiles;
use server::ServerHandle;
use server::config::Transport;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use units::Nanos;

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Time that the stop of the target waits for the store. After that, the lease expires by itself.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// The SSDs to register, and the store.
#[derive(Clone, PartialEq)]
struct Offer {
    store: String,
    ttl: Nanos,
    ssds: Vec<SsdRecord>,
}

/// The registration of a target. Ends with `stop`.
pub(crate) struct Registration {
    offers: Sender<Option<Offer>>,
    ended: Receiver<()>,
}

impl Registration {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Registration> {
        let (offers, received) = channel();
        let (end, ended) = channel();
        thread::Builder::new().name("registration".to_owned()).spawn(move || {
            run(&received);
            // This fails if `stop` has stopped waiting.
            let _ = end.send(());
        })?;
        Ok(Registration { offers, ended })
    }

    /// Registers the SSDs that the target offers now, and no others.
    pub(crate) fn offer(&self, server: &ServerHandle) {
        // The thread lives until `stop`.
        let _ = self.offers.send(offer_of(server));
    }

    /// Removes the SSDs from the store's list of live ones, if the store responds in time.
    pub(crate) fn stop(self) {
        drop(self.offers);
        if self.ended.recv_timeout(STOP_GRACE).is_err() {
            warn!(
                "the metadata store does not answer: the SSDs stay registered until their lease has expired"
            );
        }
    }
}

fn offer_of(server: &ServerHandle) -> Option<Offer> {
    let rack = server.config().rack.as_ref()?;
    let reached = |transport| rack.reached(server.listening(), transport);
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let (address, rdma_address) = (&shown(reached(Transport::Tcp)), &shown(reached(Transport::Rdma)));
    let records = rack.subsystems.iter().flat_map(|nqn| {
        server.namespaces(nqn).into_iter().map(move |namespace| SsdRecord {
            uuid: dashed(&namespace.uuid),
            domain: rack.name.clone(),
            address: address.clone().unwrap_or_default(),
            rdma_address: rdma_address.clone(),
            subsystem: nqn.clone(),
            nsid: namespace.nsid,
            block_size: namespace.block_size,
            capacity: namespace.size.get(),
            mega: rack.mega.get(),
        })
    });
    Some(Offer { store: rack.store.clone(), ttl: rack.ttl, ssds: records.collect() })
}

/// A UUID as text.
fn dashed(uuid: &[u8; 16]) -> String {
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn run(offers: &Receiver<Option<Offer>>) {
    let mut current: Option<Registered> = None;
    let mut pause = None;
    loop {
        let offer = match pause {
            Some(pause) => offers.recv_timeout(pause),
            None => offers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match offer {
            Ok(offer) => {
                if current.as_ref().map(|registered| &registered.offer) != offer.as_ref() {
                    current.into_iter().for_each(Registered::end);
                    current = offer.map(Registered::new);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                current.into_iter().for_each(Registered::end);
                return;
            }
        }
        pause = current.as_mut().map(Registered::turn);
    }
}

/// Opens the store, with the files for etcd that the environment names. Warns of those that others can read.
fn open(store: &str) -> Result<Box<dyn Store + Send>, String> {
    let files = EtcdFiles::default().or_environment();
    let opened = blob_meta::open(store, &files)?;
    files.warnings().iter().for_each(|warning| warn!("{warning}"));
    Ok(opened)
}

/// An offer, and the state of its registration.
struct Registered {
    offer: Offer,
    store: Option<Box<dyn Store + Send>>,
    lease: Option<LeaseId>,
    /// The SSDs that were registered under the lease.
    ssds: Vec<SsdId>,
    standing: Standing,
    /// Other targets that tried to register the SSDs and were logged.
    rivals: BTreeSet<String>,
    /// The problem that was logged last.
    problem: Option<String>,
}

impl Registered {
    fn new(offer: Offer) -> Registered {
        let (ssds, rivals) = (Vec::new(), BTreeSet::new());
        let standing = Standing::Started;
        Registered { offer, store: None, lease: None, ssds, standing, rivals, problem: None }
    }

    /// Renews the lease, or registers everything again. Returns the time until the next turn.
    fn turn(&mut self) -> Duration {
        match self.keep() {
            Ok(is_new) => {
                let had_problem = self.problem.take().is_some();
                if is_new || had_problem {
                    let Offer { store, ssds, .. } = &self.offer;
                    info!(ssds = ssds.len(), %store, "the SSDs are registered for volumes");
                }
                Duration::from_nanos(self.offer.ttl.0 / 3)
            }
            Err(problem) => {
                if self.problem.as_ref() != Some(&problem) {
                    warn!("SSDs are not registered for volumes: {problem}; trying again");
                    self.problem = Some(problem);
                }
                RETRY
            }
        }
    }

    /// Renews the lease or registers the SSDs. `Ok(true)` means that everything was registered again.
    fn keep(&mut self) -> Result<bool, String> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(open(&self.offer.store)?),
        };
        if let Some(lease) = self.lease {
            match store.renew(lease) {
                Ok(()) => {
                    let review = catalog::review(&mut **store, &self.ssds, lease);
                    let review = review.map_err(|error| error.to_string())?;
                    for (_, rival) in review.rivals {
                        if !self.rivals.contains(&rival) {
                            warn!(
                                "target {rival} wants to register SSDs of this target: it may run with a copy of this configuration; \
                                 this target keeps them"
                            );
                            self.rivals.insert(rival);
                        }
                    }
                    // After a problem, some SSDs may not be registered.
                    if self.problem.is_none() && review.lost.is_empty() {
                        return Ok(false);
                    }
                    if !review.lost.is_empty() {
                        let lost = review.lost.len();
                        warn!(
                            lost,
                            "SSDs are no longer registered under this target's lease; registering them again"
                        );
                    }
                }
                Err(StoreError::NoLease) => self.lease = None,
                Err(error) => return Err(error.to_string()),
            }
        }
        let lease = match self.lease {
            Some(lease) => lease,
            None => *self.lease.insert(store.grant(self.offer.ttl).map_err(|error| error.to_string())?),
        };
        // An SSD that is refused does not keep the others from being registered.
        let mut refused = Vec::new();
        self.ssds.clear();
        for record in &self.offer.ssds {
            match catalog::register(&mut **store, record, lease, self.standing) {
                Ok(ssd) => self.ssds.push(ssd),
                Err(error) => {
                    refused.push(format!("namespace {} of {}: {error}", record.nsid, record.subsystem));
                }
            }
        }
        if !self.ssds.is_empty() {
            self.standing = Standing::Running;
        }
        if refused.is_empty() { Ok(true) } else { Err(refused.join("; ")) }
    }

    fn end(mut self) {
        if let (Some(store), Some(lease)) = (&mut self.store, self.lease)
            && let Err(error) = store.revoke(lease)
        {
            warn!("the SSDs stay registered until their lease has expired: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_problem_is_over_only_the_lease_is_renewed() {
        let path = std::env::temp_dir().join(format!("gimbal-registration-{}", std::process::id()));
        let store = path.to_str().expect("a plain path").to_owned();
        let record = SsdRecord {
            uuid: "u".to_owned(),
            domain: "one".to_owned(),
            address: "192.0.2.1:4420".to_owned(),
            rdma_address: None,
            subsystem: "nqn.2025-01.com.example:x".to_owned(),
            nsid: 1,
            block_size: 512,
            capacity: 1 << 30,
            mega: 1 << 24,
        };
        let mut registered = Registered::new(Offer { store, ttl: Nanos::secs(60), ssds: vec![record] });
        registered.problem = Some("the store was away".to_owned());
        assert_eq!(registered.turn(), Duration::from_secs(20));
        assert_eq!((registered.keep(), registered.problem.clone()), (Ok(false), None));
        registered.end();
        std::fs::remove_file(path).expect("the store is a file");
    }

    #[test]
    fn a_uuid_is_written_as_everybody_writes_it() {
        let uuid = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(dashed(&uuid), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
