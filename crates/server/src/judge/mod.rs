//! Reading and judging configurations: everything that can be known without opening a device or an address.
//!
//! A [`Config`] made by a program and one read from a file are judged alike, by `gimbal config check`, by a start and by a reload.
//! `Server::start` finds out whether a device can be opened.
//!
//! Elsewhere: the files of the admin API are `admin`; the data, the reader of its text and the rules for single fields are `config`; files, devices and schedulers that it names
//!            `outside`; identifiers of namespaces `identifiers`.

mod admin;
mod identifiers;
mod outside;

pub use admin::AdminTokens;

use crate::config::check;
use crate::config::read::{self, Reading};
use crate::config::{Config, ConfigError, Lines, Problem};
use std::path::Path;

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: then with every problem of it.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        Config::load_with_text(file).map(|(config, ..)| config)
    }

    /// As [`Config::load`], with the text and where in it everything stands.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with_text(file: &Path) -> Result<(Config, Lines, String), ConfigError> {
        let bytes = files::read(file, files::TEXT_MAX)
            .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
        Config::of_file(file, bytes)
    }

    /// As [`Config::load_with_text`], with the bytes that a file has or is going to have.
    ///
    /// # Errors
    /// Every problem of it.
    pub fn of_file(file: &Path, bytes: Vec<u8>) -> Result<(Config, Lines, String), ConfigError> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let byte = error.as_bytes()[before.len()];
            let what = format!("byte {byte:#04x} is not UTF-8, which TOML is written in");
            let problem = Problem { line: Some(line), ..Problem::new("", what, "save the file as UTF-8") };
            ConfigError::Wrong { file: Some(file.to_owned()), problems: vec![problem] }
        })?;
        parse_with_lines(&text, |config| {
            let mut problems = between_fields(config);
            problems.extend(outside_of(config));
            problems
        })
        .map(|(config, lines)| (config, lines, text))
        .map_err(|problems| ConfigError::Wrong { file: Some(file.to_owned()), problems })
    }

    /// Reads and checks a text, which [`Config::load`] takes from a file.
    ///
    /// # Errors
    /// Every problem of it, in the order of the text.
    pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
        parse_with_lines(text, between_fields).map(|(config, _)| config)
    }

    /// Checks what must hold between the fields of a configuration that a program made.
    ///
    /// # Errors
    /// Every problem of it.
    pub fn check(&self) -> Result<(), ConfigError> {
        wrong_if_any(between_fields(self))
    }

    /// As [`Config::check`], and examines files and devices that the configuration names: everything that can be known without opening
    /// a device or an address.
    ///
    /// # Errors
    /// Every problem of it.
    pub fn judge(&self) -> Result<(), ConfigError> {
        let mut problems = between_fields(self);
        problems.extend(outside_of(self));
        wrong_if_any(problems)
    }

    /// Settings that are allowed but not for daily use: one line each, for the person who starts or checks the configuration.
    pub fn warnings(&self) -> Vec<String> {
        let faulty = self.devices.iter().filter(|device| !device.faults.is_empty());
        let faults = faulty.map(|device| {
            format!(
                "device {:?} is made to fail on purpose ({} [[device.fault]]): for tests only",
                device.name,
                device.faults.len()
            )
        });
        faults.chain(outside::warnings(self)).collect()
    }
}

/// Every problem between the fields of `config`, with fields but without lines.
fn between_fields(config: &Config) -> Vec<Problem> {
    let mut problems = check::problems(config);
    problems.extend(identifiers::problems(config));
    problems
}

/// Every problem with what `config` names, with fields but without lines.
fn outside_of(config: &Config) -> Vec<Problem> {
    let mut problems = outside::problems(config);
    problems.extend(admin::problems(config));
    problems
}

fn wrong_if_any(problems: Vec<Problem>) -> Result<(), ConfigError> {
    if problems.is_empty() { Ok(()) } else { Err(ConfigError::Wrong { file: None, problems }) }
}

/// Reads a text, and judges the configuration.
fn parse_with_lines(
    text: &str,
    judge: impl FnOnce(&Config) -> Vec<Problem>,
) -> Result<(Config, Lines), Vec<Problem>> {
    let Reading { config, mut problems, lines, is_toml } = read::read(text);
    if !is_toml {
        return Err(problems);
    }
    // Fields that could not be read hold defaults: the user did not write the values that a check would report.
    let unread: Vec<String> = problems.iter().map(|problem| problem.field.clone()).collect();
    let found = judge(&config).into_iter().filter(|found| !unread.contains(&found.field));
    problems.extend(found.map(|found| Problem { line: lines.of(&found.field), ..found }));
    if problems.is_empty() {
        return Ok((config, lines));
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}
