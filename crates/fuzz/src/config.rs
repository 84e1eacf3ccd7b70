//! Configuration files: any text, and valid files with lines removed, repeated, swapped and given unusual
//! values.
//!
//! An input that begins with a zero byte is a list of edits of a valid file; any other input is the text
//! itself.
//!
//! Holds: a file is accepted as a whole or refused as a whole; an accepted file also passes the check of
//!        configurations made in a program, reads back after it was written out, and its target starts or is refused with a reason; every problem has a
//!        message of one line and names a line of the file, unless it is about something that the file does not
//!        contain; text that is not TOML is refused for that reason alone.
//! Elsewhere: `crates/gimbal/tests/config_check.rs` tests that `gimbal config check` says the same.

use crate::input::Input;
use server::Server;
use server::config::{Config, ConfigError, DeviceKind, Problem};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use toml::de::DeTable;
use units::Bytes;

const EXAMPLE: &str = include_str!("../../../examples/gimbal.toml");
const SMALL: &str = include_str!("../corpus/config/small.toml");

/// Values that replace others.
const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "4096",
    "18446744073709551615",
    "18446744073709551616",
    "1e9",
    "0.5",
    "nan",
    "inf",
    "true",
    "\"\"",
    "\"0\"",
    "\"1G\"",
    "\"16E\"",
    "\"99999999999T\"",
    "\"1Q\"",
    "\"10s\"",
    "\"18446744073709551615ns\"",
    "\"\\u0000\"",
    "\"\\n\"",
    "\"é\"",
    "[]",
    "[1]",
    "[\"a\"]",
    "{}",
    "{ policy = \"none\" }",
    "[[]]",
    "[{}, 1]",
    "1979-05-27",
    "0x10",
    "\"level\"",
    "\"emulated\"",
    "\"file\"",
    "\"127.0.0.1:0\"",
    "\"nqn.2025-01.io.example:b\"",
    "\"\"\"",
];
/// Editing stops when the text has this many bytes.
const TEXT_MAX: usize = 16384;
/// Targets with more memory or more devices are not started here.
const START_MEMORY_MAX: Bytes = Bytes::gib(1);
const START_DEVICES_MAX: usize = 3;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let text = match bytes {
        [0, edits @ ..] => edited(&mut Input::new(edits)),
        text => String::from_utf8_lossy(text).into_owned(),
    };
    // Parsed as the configuration reader does it: a number may be larger than TOML's own type.
    let top = DeTable::parse(&text).ok();
    let is_toml = top.is_some();
    match Config::parse(&text) {
        Ok(config) => {
            let written = config.to_toml().expect("a text has paths of UTF-8");
            assert_eq!(
                Config::parse(&written).as_ref(),
                Ok(&config),
                "what was written reads back:\n{written}"
            );
            assert!(is_toml, "accepted, although it is not TOML");
            if let Err(problems) = config.check() {
                panic!("accepted as a file, but the check of the same configuration fails: {problems}");
            }
            assert_eq!(Config::parse(&text).ok().as_ref(), Some(&config));
            start(config);
        }
        Err(problems) => {
            let names =
                |table: &DeTable<'_>| table.iter().map(|(key, _)| key.get_ref().to_string()).collect();
            check_problems(&text, top.map(|top| names(top.get_ref())), problems);
        }
    }
}

/// A valid file after the edits that the input describes.
fn edited(input: &mut Input<'_>) -> String {
    let template = input.pick(&[SMALL, SMALL, EXAMPLE]);
    let mut lines: Vec<String> = template.lines().map(str::to_owned).collect();
    while !input.is_empty() && lines.iter().map(String::len).sum::<usize>() < TEXT_MAX {
        let at = input.below(lines.len().max(1) as u32) as usize;
        let Some(line) = lines.get(at).cloned() else { break };
        match input.below(8) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, line),
            2 => {
                let other = input.below(lines.len() as u32) as usize;
                lines.swap(at, other);
            }
            3 => {
                let byte = char::from(input.byte());
                let place =
                    line.char_indices().map(|(place, _)| place).nth(input.below(80) as usize).unwrap_or(0);
                lines[at].insert(place, byte);
            }
            4 => {
                lines[at] = line.chars().take(input.below(80) as usize).collect();
            }
            _ => {
                if let Some((key, _)) = line.split_once('=') {
                    lines[at] = format!("{key}= {}", input.pick(VALUES));
                }
            }
        }
    }
    lines.join("\n")
}

/// `names` are the keys of the top-level table, if the text is TOML.
fn check_problems(text: &str, names: Option<Vec<String>>, problems: Vec<Problem>) {
    assert!(!problems.is_empty(), "refused without a problem");
    let lines = text.split('\n').count();
    let is_toml = names.is_some();
    let names = names.unwrap_or_default();
    for problem in &problems {
        let message = problem.to_string();
        assert!(!problem.what.is_empty() && !message.chars().any(char::is_control), "{message:?}");
        assert_eq!(problem.field.is_empty(), !is_toml, "{problem:?}");
        match problem.line {
            Some(line) => assert!((1..=lines).contains(&line), "{problem:?} of {lines} lines"),
            None => {
                let named = problem.field.split(['.', '[']).next().unwrap_or_default();
                assert!(is_toml && !names.iter().any(|name| name == named), "{problem:?} names no line");
            }
        }
    }
    assert!(problems.is_sorted_by_key(|problem| problem.line), "{problems:?}");
    let count = problems.len();
    let shown = ConfigError::Wrong { file: Some(Path::new("g.toml").to_owned()), problems }.to_string();
    assert_eq!(shown.lines().filter(|line| line.starts_with("g.toml:")).count(), count, "{shown}");
}

/// Starts the target if that does not touch the machine: null devices only, on a free port of the loopback
/// address.
fn start(mut config: Config) {
    let is_null = config.devices.iter().all(|device| matches!(device.kind, DeviceKind::Null { .. }));
    let names_no_file = config.devices.iter().all(|device| device.scheduler.overrides.profile.is_none());
    let is_small = config.devices.len() <= START_DEVICES_MAX && config.limits.memory <= START_MEMORY_MAX;
    if !(is_null && names_no_file && is_small) {
        return;
    }
    config.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()];
    match Server::start(config) {
        Ok(server) => assert_eq!(server.addresses().len(), 1),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
