//! `gimbal lab list`.

use crate::output;
use ::lab::Experiment;
use ::lab::racks::RackExperiment;
use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of `gimbal lab list`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// As JSON: an array of objects
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    title: String,
    source: String,
    cases: usize,
    claims: usize,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut listed = ::lab::experiment::names()
        .map(|name| {
            let experiment = Experiment::named(name)?;
            Ok(Listed {
                name: experiment.name,
                title: experiment.title,
                source: experiment.source,
                cases: experiment.cases.len(),
                claims: experiment.claims.len(),
            })
        })
        .collect::<Result<Vec<_>>>()?;
    for name in RackExperiment::names() {
        let rack = RackExperiment::named(name)?;
        listed.push(Listed {
            cases: rack.workloads.len() * rack.databases.len(),
            claims: rack.claims.len(),
            name: rack.name,
            title: rack.title,
            source: rack.source,
        });
    }
    if args.json {
        output::line(serde_json::to_string_pretty(&listed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(["experiment", "what", "source", "cases", "claims"]);
    for experiment in listed {
        let (cases, claims) = (experiment.cases.to_string(), experiment.claims.to_string());
        table.add_row([experiment.name, experiment.title, experiment.source, cases, claims]);
    }
    output::line(table)?;
    Ok(ExitCode::SUCCESS)
}
