//! The start of a thread's part of a run: an engine with memory for all buffers, one controller per job, and where its IOs go.

use super::{Drive, Due, Phase, Running, buffer_of};
use crate::error::BenchError;
use crate::job::Job;
use crate::memory;
use crate::place::{host_nqn, locate};
use crate::results::{Trouble, Verified};
use crate::run::Load;
use crate::workload;
use crate::written::Written;
use host::{ConnectError, ControllerOptions, Engine, Event, IoBuffer, Nqn, TransportType};
use std::collections::HashMap;
use units::{Bytes, Nanos};

/// Memory of the pool beyond the buffers of the IOs; it only rounds up.
const MEMORY_SLACK: Bytes = Bytes::mib(1);
/// Longest time of a connection attempt with proofs: a thousand hosts at once compute for seconds, here and at the target.
const PROOFS_PATIENCE: Nanos = Nanos::secs(60);
/// And by RDMA: devices take milliseconds for each queue pair, here and at the target, and a job may have hundreds.
const RDMA_PATIENCE: Nanos = Nanos::secs(10);

impl Drive {
    /// Connects the jobs (each with its number in the run), and returns when all are ready.
    pub(crate) fn connect(load: &Load, jobs: Vec<(usize, Job)>) -> Result<Drive, BenchError> {
        let slots = jobs
            .iter()
            .map(|(_, job)| u64::from(job.numjobs) * u64::from(job.iodepth) * memory_of(buffer_of(job)));
        let memory = Bytes(slots.sum()) + MEMORY_SLACK;
        let mut drive = Drive {
            engine: Engine::new(load.options.backend, memory).map_err(BenchError::Io)?,
            running: Vec::new(),
            by_controller: HashMap::new(),
            streams: Vec::new(),
            due: Due::default(),
            unfinished: 0,
            is_finished: Vec::new(),
            phase: Phase::Load,
            run_mark: load.run_mark,
        };
        for (number, job) in jobs {
            drive.add(load, number, job)?;
        }
        let mut missing = drive.running.len();
        while missing > 0 {
            drive.engine.wait(None).map_err(BenchError::Io)?;
            while let Some(event) = drive.engine.next_event() {
                match event {
                    Event::Ready { first: true, .. } => missing -= 1,
                    // At the start of a run, a missing target is an error of the user. Report it instead of waiting.
                    Event::Down { controller, fault, .. } => {
                        let running = &drive.running[drive.by_controller[&controller]];
                        return Err(BenchError::Connect(Box::new(ConnectError {
                            address: load.address,
                            subsystem: running.nqn.clone(),
                            host: host_nqn(&running.job)?,
                            tries: 1,
                            fault,
                        })));
                    }
                    Event::GaveUp { error, .. } => return Err(BenchError::Connect(error)),
                    _ => {}
                }
            }
        }
        for running in &mut drive.running {
            running.place = Some(locate(&drive.engine, running.controller, &running.job)?);
        }
        let maps = drive.running.iter().map(|running| {
            let (job, region) = (&running.job, running.place.expect("just found").region);
            let written = if job.verify { Written::memory(region.reach(job.numjobs)).get() } else { 0 };
            u64::from(job.numjobs) * workload::memory_of(job, &region).get() + written
        });
        memory::expect(Bytes(memory.get().saturating_add(maps.sum())))?;
        Ok(drive)
    }

    fn add(&mut self, load: &Load, number: usize, job: Job) -> Result<(), BenchError> {
        let host = host_nqn(&job)?;
        let nqn = match &job.nqn {
            Some(text) => Nqn::new(text).map_err(|error| BenchError::Nqn(text.clone(), error))?,
            None => load.nqn.clone().expect("the run found a subsystem for jobs that name none"),
        };
        let default = ControllerOptions::new(load.address, nqn.clone(), host.clone(), host::host_id(&host));
        let keys = &load.options.keys;
        let has_keys = keys.dhchap.is_some() || keys.tls.is_some();
        let options = ControllerOptions {
            transport: load.transport,
            io_queues: job.numjobs as u16,
            queue_depth: job.iodepth as u16,
            waiting_max: job.numjobs as usize * job.iodepth as usize,
            header_digest: load.options.header_digest,
            data_digest: load.options.data_digest,
            credits: load.options.credits && job.credits,
            keys: keys.clone(),
            connect_timeout: match load.transport {
                _ if has_keys => PROOFS_PATIENCE,
                TransportType::Tcp => default.connect_timeout,
                TransportType::Rdma => RDMA_PATIENCE,
            },
            io_timeout: load.options.io_timeout,
            backoff: load.options.backoff,
            seed: load.options.seed ^ number as u64,
            ..default
        };
        let controller = self.engine.connect(options);
        self.by_controller.insert(controller, self.running.len());
        let (trouble, verified) = (Trouble::default(), Verified::default());
        self.running.push(Running {
            number,
            job,
            nqn,
            controller,
            place: None,
            prepared: Vec::new(),
            recorder: None,
            trouble,
            written: None,
            verified,
            search: None,
            unfinished: 0,
            ended: None,
        });
        Ok(())
    }
}

/// Memory that a buffer of `bs` bytes takes: the pool rounds up to a power of two, at least a page.
fn memory_of(bs: Bytes) -> u64 {
    bs.get().next_power_of_two().max(IoBuffer::ALIGNMENT as u64)
}
