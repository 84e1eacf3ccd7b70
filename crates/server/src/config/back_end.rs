//! The fields of a device that is a namespace of another target (`kind = "nvme-tcp"`).

use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::read::required;
use super::{BackEndConfig, Config, DeviceKind};
use host::KeyFiles;
use std::net::SocketAddr;
use std::path::PathBuf;
use units::Nanos;

/// The bounds of `timeout`: shorter than a second and a busy target is taken for a lost one.
const TIMEOUT_MIN: Nanos = Nanos::secs(1);
const TIMEOUT_MAX: Nanos = Nanos::secs(600);

pub(super) fn read(table: &mut Fields<'_, '_>, findings: &mut Findings) -> BackEndConfig {
    let expected = "an address such as \"10.0.0.5:4420\"";
    let address = required(table, findings, "address", expected).parse::<SocketAddr>().ok();
    if address.is_none() && table.has("address") {
        table.reject(findings, "address", expected);
    }
    let mut file = |name| table.text(findings, name).map(PathBuf::from);
    let keys = KeyFiles {
        dhchap: file("dhchap_key"),
        dhchap_ctrl: file("dhchap_ctrl_key"),
        tls: file("tls_key"),
        ..KeyFiles::default()
    };
    BackEndConfig {
        address: address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
        subsystem: required(table, findings, "subsystem", "the NQN of the other target's subsystem"),
        nsid: table.number(findings, "nsid").unwrap_or(1),
        host: required(table, findings, "host", "the host NQN of this target there"),
        timeout: table.span(findings, "timeout").unwrap_or(BackEndConfig::TIMEOUT),
        digests: table.truth(findings, "digests").unwrap_or(false),
        fenced: table.truth(findings, "fenced").unwrap_or(false),
        keys,
    }
}

/// The files of keys, by the names of their fields.
pub(super) fn key_files(keys: &KeyFiles) -> [(&'static str, Option<&PathBuf>); 3] {
    [
        ("dhchap_key", keys.dhchap.as_ref()),
        ("dhchap_ctrl_key", keys.dhchap_ctrl.as_ref()),
        ("tls_key", keys.tls.as_ref()),
    ]
}

/// Problems of the device with this index.
pub(super) fn problems(config: &Config, index: usize, back_end: &BackEndConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |name: &str, what: String, advice: &str| {
        problems.push(Problem::new(format!("device[{index}].{name}"), what, advice));
    };
    if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&back_end.timeout) {
        let what = format!("{} is not from {TIMEOUT_MIN} to {TIMEOUT_MAX}", back_end.timeout);
        report("timeout", what, "write timeout = \"30s\"");
    }
    if back_end.nsid == 0 || back_end.nsid == u32::MAX {
        report(
            "nsid",
            format!("{} is the number of no namespace", back_end.nsid),
            "write the number that the other target has",
        );
    }
    if back_end.keys.dhchap_ctrl.is_some() && back_end.keys.dhchap.is_none() {
        let what = "the other target proves itself only to a host that does, too".to_owned();
        report("dhchap_ctrl_key", what, "write dhchap_key as well");
    }
    let is_same = |kind: &DeviceKind| matches!(kind, DeviceKind::NvmeTcp(other) if (&other.subsystem, other.nsid) == (&back_end.subsystem, back_end.nsid));
    if let Some(other) = config.devices[..index].iter().find(|device| is_same(&device.kind)) {
        let what = format!("device {:?} is this namespace, too", other.name);
        report("nsid", what, "share it once, with several namespaces");
    }
    if config.devices[index].ais.is_some() {
        report(
            "ais",
            "an auxiliary store belongs to an SSD, and this is a namespace of another target".to_owned(),
            "remove it; the other target may have one",
        );
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_KEYS: &str = r#"
        [[device]]
        name = "far"
        kind = "nvme-tcp"
        address = "10.0.0.5:4420"
        subsystem = "nqn.2026-01.io.example:shelf"
        nsid = 3
        host = "nqn.2026-01.io.example:middle"
        timeout = "5s"
        digests = true
        fenced = true
        dhchap_key = "/keys/own"
        dhchap_ctrl_key = "/keys/other"
        tls_key = "/keys/tls"
        [[subsystem]]
        nqn = "nqn.2026-01.io.example:front"
        allow_any_host = true
        [[subsystem.namespace]]
        nsid = 1
        device = "far"
        group = "moving"
        [[group]]
        name = "moving"
        state = "inaccessible"
    "#;

    #[test]
    fn a_back_end_is_written_as_it_was_read() {
        let config = Config::parse(WITH_KEYS).expect("valid");
        let text = config.to_toml().expect("it can be written");
        assert_eq!(Config::parse(&text).expect("valid"), config);
        let DeviceKind::NvmeTcp(back_end) = &config.devices[0].kind else { panic!("{config:?}") };
        assert_eq!((back_end.nsid, back_end.timeout), (3, Nanos::secs(5)));
        assert!(back_end.digests && back_end.fenced);
        assert!(key_files(&back_end.keys).iter().all(|(_, file)| file.is_some()));
    }

    #[test]
    fn every_problem_of_a_back_end_has_its_field() {
        for (right, wrong, field) in [
            ("\"10.0.0.5:4420\"", "\"shelf\"", "address"),
            ("address = \"10.0.0.5:4420\"", "", "address"),
            ("\"nqn.2026-01.io.example:shelf\"", "\"shelf\"", "subsystem"),
            ("\"nqn.2026-01.io.example:middle\"", "\"middle\"", "host"),
            ("nsid = 3", "nsid = 0", "nsid"),
            ("\"5s\"", "\"5ms\"", "timeout"),
            ("dhchap_key = \"/keys/own\"", "", "dhchap_ctrl_key"),
            ("digests = true", "size = \"1G\"", "size"),
        ] {
            let problems = Config::parse(&WITH_KEYS.replacen(right, wrong, 1)).expect_err(field);
            let [problem] = &problems[..] else { panic!("{wrong}: {problems:?}") };
            assert_eq!(problem.field, format!("device[0].{field}"), "{problem}");
        }
        let (device, rest) = WITH_KEYS.split_at(WITH_KEYS.find("[[subsystem]]").expect("there is one"));
        let twice = format!("{device}{}{rest}", device.replace("\"far\"", "\"again\""));
        let problems = Config::parse(&twice).expect_err("one namespace twice");
        assert!(problems.iter().any(|problem| problem.field == "device[1].nsid"), "{problems:?}");
    }
}
