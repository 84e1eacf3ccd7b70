//! `gimbal config`: finds the problems of a configuration before it is used, shows all fields of it, and lists the
//! numeric fields with their limits.

use crate::output;
use clap::Subcommand;
use serde_json::{Value, json};
use server::config::schema::Field;
use server::config::{Config, Limits, ShareConfig, limits, tenant};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `gimbal config`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Report every problem of a file, with its line; starts nothing and opens no device
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print a file as the target understands it: every field that has a value, defaults too
    Show {
        /// The configuration file
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the numeric fields of [limits] and [[tenant]]: default, unit, whether a reload may change them
    Fields {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Prints one line per problem on stderr, and the result on stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        ConfigCommand::Check { file } => with_config(&file, |config| {
            config
                .warnings()
                .iter()
                .for_each(|warning| output::note(format_args!("{}: warning: {warning}", file.display())));
            let namespaces: usize =
                config.subsystems.iter().map(|subsystem| subsystem.namespaces.len()).sum();
            output::line(format_args!(
                "{}: valid ({} devices, {} subsystems, {namespaces} namespaces)",
                file.display(),
                config.devices.len(),
                config.subsystems.len(),
            ))
        }),
        ConfigCommand::Show { file, json } => with_config(&file, |config| {
            let table = config.to_table()?;
            match json {
                true => output::line(serde_json::to_string_pretty(&table)?),
                false => output::line(table.to_string().trim_end()),
            }
        }),
        ConfigCommand::Fields { json } => {
            match json {
                true => output::line(serde_json::to_string_pretty(&fields_as_json())?)?,
                false => output::line(reference().trim_end())?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn with_config(file: &Path, answer: impl FnOnce(Config) -> anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    match Config::load(file) {
        Ok(config) => answer(config).map(|()| ExitCode::SUCCESS),
        Err(error) => {
            output::note(error);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The tables of numeric fields, as in `docs/configuration.md`.
fn reference() -> String {
    let mut text = String::new();
    table_of(&mut text, "[limits]", limits::FIELDS, &Limits::default());
    let title = "[[tenant]]`, and `[[subsystem.namespace]]` with `tenant = \"namespace\"";
    table_of(&mut text, title, tenant::FIELDS, &ShareConfig::EQUAL);
    text
}

fn table_of<S>(text: &mut String, title: &str, rows: &[Field<S>], defaults: &S) {
    let line =
        |text: &mut String, line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string grows");
    line(text, format_args!("### `{title}`\n"));
    line(text, format_args!("| field | default | unit | changes at | meaning |\n|---|---|---|---|---|"));
    for row in rows {
        let unit = row.unit.name();
        let default = row.written(defaults).map_or(row.absent.to_owned(), |value| format!("`{value}`"));
        let changes = if row.is_live { "reload" } else { "restart" };
        line(text, format_args!("| `{}` | {default} | {unit} | {changes} | {} |", row.name, row.about));
    }
    text.push('\n');
}

fn fields_as_json() -> Value {
    json!({
        "limits": rows_as_json(limits::FIELDS, &Limits::default()),
        "tenant": rows_as_json(tenant::FIELDS, &ShareConfig::EQUAL),
    })
}

fn rows_as_json<S>(rows: &[Field<S>], defaults: &S) -> Vec<Value> {
    let row = |row: &Field<S>| {
        json!({
            "name": row.name,
            "default": row.written(defaults),
            "absent": row.absent,
            "unit": row.unit.name(),
            "live": row.is_live,
            "about": row.about,
        })
    };
    rows.iter().map(row).collect()
}
