//! Options as the user wrote them: name, text, and place, so that an error names the place.
//!
//! The same option may be set in several places. A later one of these wins:
//!
//! ```text
//!   [global] of the job file  <  [job] of the job file  <  flags of the command  <  --job 'name=a,bs=128k'
//! ```
//!
//! So a flag is never lost: it changes every job of a file. A `--job` is more specific than a flag of the same command line.

use crate::options::{self, KNOWN, Known};
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The value of a switch that is given without one.
const ON: &str = "1";

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command.
    Flag,
    /// A line of a job file.
    Line(PathBuf, u32),
    /// A `--job`.
    Inline(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("the command line"),
            Origin::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Inline(text) => write!(f, "--job '{text}'"),
        }
    }
}

/// An option that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Neither fio's nor ours, or fio's and not supported.
    #[error("{0}: `{1}` is not an option of gimbal bench; docs/bench.md lists all options")]
    Unknown(Origin, String),
    /// The option needs a value.
    #[error("{0}: {name} has no value; write {name}={value}", value = .1.value.unwrap_or(ON), name = .1.name)]
    NoValue(Origin, &'static Known),
    /// The value is invalid: why.
    #[error("{0}: {1}={2}: {3}")]
    Value(Origin, &'static str, String, String),
}

/// The settings of one place, or the combined settings of several places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    set: BTreeMap<&'static str, (String, Origin)>,
    /// Options of fio that were given and have no effect.
    without_effect: Vec<String>,
}

/// Options that are one choice: the place that wins decides all of them.
const ONE_CHOICE: [&[&str]; 3] =
    [&["rate", "rate_iops"], &["rwmixread", "rwmixwrite"], &["bs", "bssplit", "bsrange"]];

impl Settings {
    /// Sets an option in any of its spellings.
    pub fn set(&mut self, name: &str, value: Option<&str>, origin: Origin) -> Result<(), SettingError> {
        let Some(option) = options::known(name) else {
            if options::is_without_effect(name) {
                self.without_effect.push(name.to_owned());
                return Ok(());
            }
            return Err(SettingError::Unknown(origin, name.to_owned()));
        };
        let value = match (value, option.value) {
            (Some(value), _) => value,
            (None, None) => ON,
            // `--verify` without a method is valid.
            (None, Some(_)) if option.name == "verify" => ON,
            (None, Some(_)) => return Err(SettingError::NoValue(origin, option)),
        };
        self.set.insert(option.name, (value.to_owned(), origin));
        Ok(())
    }

    /// Reads `name=a,rw=randread,bs=4k`. A comma also separates the values of one option: a part without `=` that is not the name
    /// of an option belongs to the value before it.
    pub fn parse_inline(text: &str) -> Result<Settings, SettingError> {
        let origin = || Origin::Inline(text.to_owned());
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let begins_option = part.contains('=') || options::known(part).is_some();
            match parts.last_mut() {
                Some(last) if !begins_option && last.contains('=') => *last += &format!(",{part}"),
                _ if part.is_empty() => {}
                _ => parts.push(part.to_owned()),
            }
        }
        let mut settings = Settings::default();
        for part in parts {
            match part.split_once('=') {
                Some((name, value)) => settings.set(name.trim(), Some(value.trim()), origin())?,
                None => settings.set(&part, None, origin())?,
            }
        }
        Ok(settings)
    }

    /// These settings, overridden by `nearer` ones.
    pub fn overlaid(&self, nearer: &Settings) -> Settings {
        let mut all = self.clone();
        for choice in ONE_CHOICE {
            if choice.iter().any(|name| nearer.set.contains_key(name)) {
                choice.iter().for_each(|name| drop(all.set.remove(name)));
            }
        }
        all.set.extend(nearer.set.iter().map(|(name, value)| (*name, value.clone())));
        all.without_effect.extend(nearer.without_effect.iter().cloned());
        all
    }

    /// Options of fio that were given and have no effect.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        self.without_effect.iter().map(String::as_str)
    }

    /// Whether an option is set.
    pub fn has(&self, name: &'static str) -> bool {
        self.set.contains_key(known_name(name))
    }

    /// The value of an option, parsed by `read`, which returns why it is invalid.
    pub fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingError> {
        let Some((text, origin)) = self.set.get(known_name(name)) else { return Ok(None) };
        match read(text) {
            Ok(value) => Ok(Some(value)),
            Err(why) => Err(SettingError::Value(origin.clone(), name, text.clone(), why)),
        }
    }

    /// The value of an option as any type that can be parsed from text.
    pub fn get<T: FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<Option<T>, SettingError> {
        self.read(name, |text| text.parse().map_err(|why: T::Err| why.to_string()))
    }

    /// The value of an option as a number.
    pub fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, SettingError> {
        self.read(name, |text| text.parse().map_err(|_| "not a number, or out of range".to_owned()))
    }

    /// Whether a switch is on.
    pub fn switch(&self, name: &'static str) -> Result<bool, SettingError> {
        let is_on = self.read(name, |text| match text {
            "1" | "true" | "yes" => Ok(true),
            "0" | "false" | "no" => Ok(false),
            _ => Err("write 1 or 0".to_owned()),
        })?;
        Ok(is_on.unwrap_or(false))
    }
}

/// The name, after a check that the option exists.
fn known_name(name: &'static str) -> &'static str {
    assert!(KNOWN.iter().any(|option| option.name == name), "there is no option {name}");
    name
}

/// The options as flags of the command.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub Settings);

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let arg = |option: &'static Known| {
            let arg = Arg::new(option.name).long(option.name).aliases(option.aliases).help(option.help);
            let arg = if option.is_fio { arg.help_heading(FIO) } else { arg.help_heading(OURS) };
            match option.value {
                // `--verify` and switches: the value is optional, so it must be written with `=`.
                _ if option.name == "verify" || option.value.is_none() => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(ON)
                    .value_name(option.value.unwrap_or("0|1")),
                Some(value) => arg.value_name(value).allow_hyphen_values(true),
                None => unreachable!("switches were dealt with above"),
            }
        };
        command.args(KNOWN.iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

/// Headings of the help.
const FIO: &str = "Options of a job (as in fio)";
const OURS: &str = "Options of a job (not in fio)";

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in &KNOWN {
            if let Some(value) = matches.get_one::<String>(option.name) {
                self.0
                    .set(option.name, Some(value), Origin::Flag)
                    .expect("a known option with a value is set");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_separates_options_and_the_values_of_one() {
        let settings =
            Settings::parse_inline("name=a, bs=4k,64k,verify,rate=,500k").expect("all are options");
        let text = |name| settings.read(name, |text| Ok(text.to_owned())).expect("any text will do");
        assert_eq!(text("bs").as_deref(), Some("4k,64k"));
        assert_eq!(text("rate").as_deref(), Some(",500k"));
        assert_eq!((text("name").as_deref(), text("verify").as_deref()), (Some("a"), Some("1")));
    }

    #[test]
    fn options_that_are_one_choice_are_decided_by_the_place_that_wins() {
        let parse = |text| Settings::parse_inline(text).expect("all are options");
        let all = parse("rate=1m,bs=4k,iodepth=8").overlaid(&parse("rate_iops=5,iodepth=9"));
        assert!(!all.has("rate") && all.has("rate_iops") && all.has("bs"));
        assert_eq!(all.number("iodepth"), Ok(Some(9)));
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let message = |text| Settings::parse_inline(text).expect_err("it is wrong").to_string();
        assert_eq!(
            message("colour=red"),
            "--job 'colour=red': `colour` is not an option of gimbal bench; docs/bench.md lists all options"
        );
        assert_eq!(message("iodepth"), "--job 'iodepth': iodepth has no value; write iodepth=N");
        let settings = Settings::parse_inline("iodepth=many").expect("an option");
        let why = settings.number::<u32>("iodepth").expect_err("no number").to_string();
        assert_eq!(why, "--job 'iodepth=many': iodepth=many: not a number, or out of range");
    }
}
