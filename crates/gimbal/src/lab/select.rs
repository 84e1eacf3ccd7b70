//! The arguments that select experiments and parts of them.

use crate::output;
use ::lab::Experiment;
use ::lab::racks::RackExperiment;
use ::lab::scheduler::Scheduler;
use ::lab::ssds::CalibratedSsd;
use anyhow::{Result, bail};
use ssd::Profile;
use std::path::{Path, PathBuf};

/// Arguments of every subcommand that runs experiments.
#[derive(clap::Args)]
pub(super) struct Selection {
    /// Experiments by name, or paths to an experiment.toml [default: all that come with the lab; `run` and `report` leave out those on racks, g10 and g11]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Only these schedulers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// Only these SSDs of the experiment, by the names of their profiles; the path of a profile adds an SSD of your own
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    profile: Vec<String>,
    /// Calibration of the SSD given by path in --profile, for schedulers that need one
    #[arg(long, value_name = "FILE", requires = "profile")]
    calibration: Option<PathBuf>,
    /// Only these cases
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Use these seeds instead of the experiment's own
    #[arg(long, value_name = "N", value_delimiter = ',')]
    seed: Vec<u64>,
    /// One seed and one profile, the first of each, and long runs shortened or left out
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
            named => named.iter().map(String::as_str).filter(|name| !is_rack(name)).collect(),
        };
        let own = self.own_ssds()?;
        names.into_iter().map(|name| self.narrow(open(name)?, &own)).collect()
    }

    /// The selected experiments with databases on a rack, without those of which --profile,
    /// --scheduler and --case leave nothing to run.
    pub(super) fn racks(&self) -> Result<Vec<RackExperiment>> {
        let is_named =
            |name: &&str| self.experiments.is_empty() || self.experiments.iter().any(|one| one == name);
        let mut racks = Vec::new();
        for name in RackExperiment::names().filter(is_named) {
            let mut rack = RackExperiment::named(name)?;
            if self.quick {
                rack.hurry();
            }
            if !self.seed.is_empty() {
                rack.seeds.clone_from(&self.seed);
            }
            if !self.scheduler.is_empty() {
                rack.schedulers
                    .retain(|scheduler| self.scheduler.iter().any(|name| name == scheduler.name()));
            }
            let is_left = self.case.is_empty()
                && (self.profile.is_empty() || self.profile.contains(&rack.ssd.profile.name))
                && !rack.schedulers.is_empty();
            if is_left {
                racks.push(rack);
            } else if !self.experiments.is_empty() {
                bail!(
                    "nothing of {name} is left to run with --profile, --scheduler and --case as given; it has no cases"
                );
            }
        }
        Ok(racks)
    }

    /// Fails if an experiment on a rack is named: for commands that support only experiments with one SSD.
    pub(super) fn refuse_racks(&self) -> Result<()> {
        match self.experiments.iter().find(|name| is_rack(name)) {
            Some(name) => bail!(
                "{name} has many SSDs: `gimbal lab claims {name}` shows what is claimed of it, `gimbal lab rocksdb` runs it in any size"
            ),
            None => Ok(()),
        }
    }

    /// The SSDs that are given by path.
    fn own_ssds(&self) -> Result<Vec<CalibratedSsd>> {
        let paths = self.profile.iter().filter(|name| Profile::is_path(name));
        let mut ssds =
            paths.map(|path| CalibratedSsd::find(path, Path::new(""))).collect::<Result<Vec<_>, _>>()?;
        match (&self.calibration, &mut ssds[..]) {
            (None, _) => {}
            (Some(path), [ssd]) => ssd.load_calibration(path)?,
            (Some(_), ssds) => bail!(
                "--calibration belongs to one SSD of your own, but --profile has {} paths of profiles; give one",
                ssds.len()
            ),
        }
        Ok(ssds)
    }

    /// The requested schedulers that the experiment does not run.
    fn unlisted(&self, experiment: &Experiment) -> Vec<&str> {
        let is_listed =
            |name: &&String| experiment.schedulers.iter().any(|scheduler| scheduler.name() == name.as_str());
        self.scheduler.iter().filter(|name| !is_listed(name)).map(String::as_str).collect()
    }

    fn narrow(&self, mut experiment: Experiment, own: &[CalibratedSsd]) -> Result<Experiment> {
        if !self.profile.is_empty() {
            for name in self.profile.iter().filter(|name| !Profile::is_path(name)) {
                if !experiment.ssds.iter().any(|ssd| ssd.profile.name == *name) {
                    Profile::named(name)?;
                }
            }
            experiment.ssds.retain(|ssd| self.profile.contains(&ssd.profile.name));
            for ssd in own {
                let name = &ssd.profile.name;
                if experiment.ssds.iter().any(|other| other.profile.name == *name) {
                    bail!("--profile: there are two SSDs called {name}; change `name` in one of the files");
                }
                experiment.ssds.push(ssd.clone());
            }
        }
        if self.quick {
            experiment.hurry();
        }
        if !self.seed.is_empty() {
            experiment.take_seeds(&self.seed);
        }
        if !self.scheduler.is_empty() {
            let name = &experiment.name;
            for scheduler in self.unlisted(&experiment) {
                output::note(format_args!(
                    "{name}: {scheduler} is left out: the experiment does not list it in `schedulers`"
                ));
            }
            experiment
                .schedulers
                .retain(|scheduler| self.scheduler.iter().any(|name| name == scheduler.name()));
        }
        if !self.case.is_empty() {
            experiment.cases.retain(|case| self.case.contains(&case.name));
            experiment.claims.retain(|claim| self.case.contains(&claim.case));
        }
        for (ssd, scheduler) in
            experiment.ssds.iter().flat_map(|ssd| experiment.schedulers.iter().map(move |s| (ssd, s)))
        {
            scheduler.setup(ssd)?;
        }
        if experiment.ssds.is_empty() || experiment.schedulers.is_empty() || experiment.cases.is_empty() {
            let name = &experiment.name;
            bail!("nothing of {name} is left to run with --profile, --scheduler and --case as given");
        }
        Ok(experiment)
    }
}

fn is_rack(name: &str) -> bool {
    RackExperiment::names().any(|known| known == name)
}

/// Opens an experiment: a name of a built-in one, else a path.
fn open(name: &str) -> Result<Experiment> {
    let path = Path::new(name);
    let is_name = ::lab::experiment::names().any(|known| known == name);
    Ok(if !is_name && path.exists() { Experiment::load(path)? } else { Experiment::named(name)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    #[test]
    fn a_scheduler_that_the_experiment_does_not_run_is_named() {
        let command = Selection::augment_args(clap::Command::new("run"));
        let matches = command.get_matches_from(["run", "g7a", "--scheduler", "none,gimbal-fixed"]);
        let selection = Selection::from_arg_matches(&matches).expect("clap has checked it");
        let experiment = Experiment::named("g7a").expect("it is built in");
        assert_eq!(selection.unlisted(&experiment), ["gimbal-fixed"]);
        assert_eq!(selection.narrow(experiment, &[]).expect("none is left").schedulers, [Scheduler::NONE]);
    }
}
