//! Reports a problem of the configuration by the name that the user wrote: a flag, or a line of the file.
//!
//! A user who starts the target with flags has no file and does not know `device[0].size`. A user who starts it with a file may
//! also give flags that override some fields.

use crate::serve::Args;
use server::StartError;
use server::config::{ConfigError, Lines, Problem};
use std::path::Path;

/// The flag that sets a field if there is no file, and other advice if that for a file does not fit.
const FLAGS: &[(&str, &str, Option<&str>)] = &[
    ("device[0].path", "--device", None),
    ("device[0].profile", "--device", None),
    ("device[0].size", "--size", None),
    ("device[0].speed", "--speed", None),
    ("device[0].condition", "--condition", None),
    (
        "device[0].scheduler.calibration",
        "--calibration",
        Some("give --calibration FILE (gimbal lab calibrate writes one)"),
    ),
    (
        "device[0].scheduler.prior",
        "--prior",
        Some("give the profile.toml that gimbal ssdtest wrote of the device"),
    ),
    ("device[0].scheduler", "--scheduler", None),
    ("subsystem[0].nqn", "--nqn", None),
];

/// Lists the problems, one line each, named by flag or by line of the file. `lines` are those of the file in `args`.
pub(crate) fn explain_config(error: ConfigError, args: &Args, lines: Option<&Lines>) -> String {
    let ConfigError::Wrong { file: None, problems } = error else { return error.to_string() };
    let shown =
        problems.into_iter().map(|problem| match (flag_of(&problem.field, args), &args.config, lines) {
            (Some((flag, advice)), ..) => {
                let advice = advice.map_or(problem.advice, str::to_owned);
                Problem { line: None, field: flag.to_owned(), advice, ..problem }.to_string()
            }
            (None, Some(file), Some(lines)) => in_file(problem, file, lines),
            (None, ..) => problem.to_string(),
        });
    shown.collect::<Vec<String>>().join("\n")
}

/// Does the same for errors that are only found at the start.
pub(crate) fn explain_start(error: StartError, args: &Args, lines: Option<&Lines>) -> String {
    match error {
        StartError::Config(error) => explain_config(error, args, lines),
        StartError::Device { error, .. } if args.config.is_none() => format!("--device: {error}"),
        StartError::Policy { error, .. } if args.config.is_none() => format!("--scheduler: {error}"),
        error => error.to_string(),
    }
}

fn in_file(problem: Problem, file: &Path, lines: &Lines) -> String {
    lines.locate(file, ConfigError::Wrong { file: None, problems: vec![problem] }).to_string()
}

/// The flag that sets `field`, and its advice.
fn flag_of(field: &str, args: &Args) -> Option<(&'static str, Option<&'static str>)> {
    let overriding = [
        ("listen", "--listen", !args.listen.is_empty()),
        ("backend", "--backend", args.backend.is_some()),
        ("spin", "--spin", args.spin.is_some()),
        ("state_dir", "--state-dir", args.state_dir.is_some()),
        ("admin.socket", "--admin-socket", args.admin_socket.is_some()),
        ("log.level", "--log", args.log.is_some()),
        ("log.format", "--log-format", args.log_format.is_some()),
    ];
    if let Some((_, flag, _)) = overriding.iter().find(|(name, _, is_given)| *is_given && *name == field) {
        return Some((*flag, None));
    }
    let known = FLAGS.iter().find(|(name, ..)| *name == field).filter(|_| args.config.is_none());
    known.map(|(_, flag, advice)| (*flag, *advice))
}
