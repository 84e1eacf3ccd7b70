//! Neighbours of the databases: tenants that do one kind of work on every SSD of the rack for as long as the databases do theirs.

use super::rack::{NEIGHBOURS, neighbour_host};
use anyhow::{Context, Result, bail};
use host::TransportType;
use loadgen::{Job, Observer, Options, Results, Rw, Target};
use rack::Work;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use units::Nanos;

/// Neighbours at work.
pub(super) struct Neighbours {
    works: Vec<Work>,
    is_over: Arc<AtomicBool>,
    /// One for each target, with its address.
    loads: Vec<(SocketAddr, JoinHandle<Result<Results, loadgen::BenchError>>)>,
}

/// The work that a neighbour has done, on all SSDs.
#[derive(Serialize)]
pub(super) struct Done {
    pub(super) name: &'static str,
    pub(super) megabytes_per_second: f64,
}

/// Ends a load from outside.
struct Until(Arc<AtomicBool>);

impl Observer for Until {
    fn wants_end(&mut self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Neighbours {
    /// Starts them. Nothing is measured during `ramp`.
    pub(super) fn start(
        works: &[Work],
        targets: impl Iterator<Item = SocketAddr>,
        ramp: Nanos,
    ) -> Neighbours {
        let is_over = Arc::new(AtomicBool::new(false));
        let jobs: Vec<Job> = works.iter().zip(1..).map(|(work, number)| job(*work, number, ramp)).collect();
        let start = |address| {
            let target = Target { address, transport: TransportType::Tcp, nqn: Some(NEIGHBOURS.to_owned()) };
            let (jobs, mut until) = (jobs.clone(), Until(is_over.clone()));
            let options = Options { runtime: None, ..Options::default() };
            (address, thread::spawn(move || loadgen::run(&jobs, &target, &options, &mut until)))
        };
        Neighbours { works: works.to_vec(), loads: targets.map(start).collect(), is_over }
    }

    /// Ends them. An error: one of them did not work until now, so that the databases were not beside it.
    pub(super) fn end(mut self) -> Result<Vec<Done>> {
        self.is_over.store(true, Ordering::Relaxed);
        let done = |work: &Work| Done { name: work.name(), megabytes_per_second: 0.0 };
        let mut done: Vec<Done> = self.works.iter().map(done).collect();
        for (address, load) in self.loads.drain(..) {
            let about = || format!("the neighbours on target {address}");
            let Ok(results) = load.join() else { bail!("{} have ended with a panic", about()) };
            let results = results.with_context(about)?;
            if let Some(error) = results.first_error() {
                bail!("{}: {error}", about());
            }
            for (done, job) in done.iter_mut().zip(&results.jobs) {
                done.megabytes_per_second += job.bandwidth_total() / 1e6;
            }
        }
        Ok(done)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for (_, load) in self.loads.drain(..) {
            // Another error is what is told.
            let _ = load.join();
        }
    }
}

fn job(work: Work, number: u32, ramp: Nanos) -> Job {
    let mut job = Job::named(&format!("{}-{number}", work.name()));
    job.host_nqn = Some(neighbour_host(number));
    job.rw = match work {
        Work::Backup => Rw::Read,
        Work::Load => Rw::Write,
        Work::Batch => Rw::RandRead,
    };
    job.bs = work.length().into();
    job.iodepth = work.outstanding();
    job.norandommap = true;
    // Until it is told to end.
    job.amount.loops = u64::MAX;
    job.ramp = ramp;
    job
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn neighbours_that_cannot_work_are_an_error_that_names_the_target() {
        let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = deaf.local_addr().expect("an address");
        thread::spawn(move || deaf.incoming().for_each(drop));
        let neighbours = Neighbours::start(&[Work::Backup, Work::Load], [address].into_iter(), Nanos(0));
        let error = neighbours.end().err().expect("nothing was served");
        assert!(format!("{error:#}").contains(&format!("neighbours on target {address}")), "{error:#}");
    }
}
