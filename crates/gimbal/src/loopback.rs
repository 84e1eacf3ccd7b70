//! Runs a switch in this process, and loads it over real NVMe/TCP connections on loopback. For the demo and the lab's
//! live runs.

use anyhow::{Context, Result, bail, ensure};
use host::TransportType;
use loadgen::{Job, Observer, Options, Results, Target};
use server::config::Config;
use server::{Server, ServerHandle, Shutdown, TenantDetail};
use std::time::Duration;

/// Time limit for the switch to finish its outstanding commands.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// A running switch.
pub(crate) struct Loopback {
    server: ServerHandle,
    /// The subsystem that all jobs use.
    nqn: String,
}

impl Loopback {
    /// Starts a switch. All jobs will use the first subsystem of `config`.
    pub(crate) fn start(config: Config) -> Result<Loopback> {
        Loopback::start_with(config, TenantDetail::Total)
    }

    /// Starts a switch that keeps `detail` of each tenant.
    pub(crate) fn start_with(mut config: Config, detail: TenantDetail) -> Result<Loopback> {
        // The other CPUs are for the hosts in this process.
        config.threads.get_or_insert(1);
        let nqn = config.subsystems[0].nqn.clone();
        let server = Server::start_with(config, detail).context("starting the switch")?;
        Ok(Loopback { server, nqn })
    }

    /// The switch, for its statistics.
    pub(crate) fn server(&self) -> &ServerHandle {
        &self.server
    }

    /// Loads the switch until the run is over.
    pub(crate) fn load(
        &self,
        jobs: &[Job],
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Results> {
        let address = self.server.addresses()[0];
        let target = Target { address, transport: TransportType::Tcp, nqn: Some(self.nqn.clone()) };
        let results = loadgen::run(jobs, &target, options, observer).context("loading the switch")?;
        match results.first_error() {
            Some(error) => bail!("loading the switch: {error}"),
            None => Ok(results),
        }
    }

    /// Stops the switch in order.
    pub(crate) fn end(self) -> Result<()> {
        let drained = self.server.shutdown(DRAIN_LIMIT);
        ensure!(drained == Shutdown::Complete, "the switch did not finish within {DRAIN_LIMIT:?}");
        Ok(())
    }
}
