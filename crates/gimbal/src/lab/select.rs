//! Which experiments, and how much of them.

use ::lab::Experiment;
use ::lab::scheduler::Scheduler;
use anyhow::{Result, bail};
use std::path::Path;

/// What every subcommand that runs experiments takes.
#[derive(clap::Args)]
pub(super) struct Selection {
    /// Experiments by name, or paths to an experiment.toml [default: all that come with the lab]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Only these schedulers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// Only these profiles of SSDs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    profile: Vec<String>,
    /// Only these cases
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// These seeds in place of the experiment's own
    #[arg(long, value_name = "N", value_delimiter = ',')]
    seed: Vec<u64>,
    /// One seed and one profile, the first of each, and less of what takes long
    #[arg(long)]
    quick: bool,
}

impl Selection {
    /// The experiments to run.
    pub(super) fn experiments(&self) -> Result<Vec<Experiment>> {
        for name in &self.scheduler {
            Scheduler::named(name)?;
        }
        let names: Vec<&str> = match &self.experiments[..] {
            [] => ::lab::experiment::names().collect(),
            named => named.iter().map(String::as_str).collect(),
        };
        names.into_iter().map(|name| self.narrow(open(name)?)).collect()
    }

    fn narrow(&self, mut experiment: Experiment) -> Result<Experiment> {
        if !self.profile.is_empty() {
            experiment.profiles.retain(|profile| self.profile.contains(&profile.name));
        }
        if self.quick {
            experiment.hurry();
        }
        if !self.seed.is_empty() {
            experiment.seeds.clone_from(&self.seed);
        }
        if !self.scheduler.is_empty() {
            experiment
                .schedulers
                .retain(|scheduler| self.scheduler.iter().any(|name| name == scheduler.name()));
        }
        if !self.case.is_empty() {
            experiment.cases.retain(|case| self.case.contains(&case.name));
            experiment.claims.retain(|claim| self.case.contains(&claim.case));
        }
        if experiment.profiles.is_empty() || experiment.schedulers.is_empty() || experiment.cases.is_empty() {
            let name = &experiment.name;
            bail!("nothing of {name} is left to run with --profile, --scheduler and --case as given");
        }
        Ok(experiment)
    }
}

/// A name if there is one of it, else a path.
fn open(name: &str) -> Result<Experiment> {
    let path = Path::new(name);
    let is_name = ::lab::experiment::names().any(|known| known == name);
    Ok(if !is_name && path.exists() { Experiment::load(path)? } else { Experiment::named(name)? })
}
