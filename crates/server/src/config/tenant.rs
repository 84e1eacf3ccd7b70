//! Tenants, and the promises to them.
//!
//! A tenant of an SSD is a host, or a namespace with all hosts that use it. The promises to a host stand in its `[[tenant]]`, those to a namespace in its
//! `[[subsystem.namespace]]`; both are a [`ShareConfig`].
//!
//! [`FIELDS`] and [`SLO_FIELDS`] are the tables of its numbers: reader, check, list of changes, writer and the reference in the docs use
//! their rows.

use super::Config;
use super::fields::{Fields, Findings};
use super::problem::Problem;
use super::read::{missing, required};
use super::schema::{self, Field, field};
use sched::{DeviceConstants, Percentile, Share, Slo};
use std::net::IpAddr;
use units::{ByteRate, Nanos};

/// Namespaces that are tenants. Each of them takes a few kilobytes on the thread of its SSD.
const NAMESPACE_TENANTS_MAX: usize = 4096;

/// The tenant that an IO counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantKind {
    /// The host that sends it.
    #[default]
    Host,
    /// Its namespace, whichever host sends it.
    Namespace,
}

/// The words of the file.
pub(super) const KINDS: [(&str, TenantKind); 2] =
    [("host", TenantKind::Host), ("namespace", TenantKind::Namespace)];

/// The promises to a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    /// Relative share; 1 is the common one.
    pub weight: u32,
    /// Maximum IOs per second on each SSD.
    pub limit_iops: Option<u64>,
    /// Maximum bytes per second on each SSD.
    pub limit_rate: Option<ByteRate>,
    /// Minimum cost-weighted bytes per second on each SSD.
    pub reservation: Option<ByteRate>,
    /// Latency objective on each SSD with scheduler Level or ReFlex.
    pub slo: Option<Slo>,
}

/// A host with other than an equal share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantConfig {
    /// The host's NQN.
    pub host: String,
    /// The address of the host, for which a controller is always kept. `None`: the one that its oldest connection came from.
    pub address: Option<IpAddr>,
    /// The promises to it.
    pub share: ShareConfig,
}

impl TenantConfig {
    /// An equal share, without limits.
    pub fn equal(host: &str) -> TenantConfig {
        TenantConfig::with(host, ShareConfig::EQUAL)
    }

    /// A host with these promises.
    pub fn with(host: &str, share: ShareConfig) -> TenantConfig {
        TenantConfig { host: host.to_owned(), address: None, share }
    }

    /// The values of its fields that are set, for people.
    pub(crate) fn shown(&self) -> String {
        let address = self.address.map(|address| format!(", address {address}"));
        self.share.shown() + &address.unwrap_or_default()
    }
}

impl ShareConfig {
    /// An equal share, without limits.
    pub const EQUAL: ShareConfig =
        ShareConfig { weight: 1, limit_iops: None, limit_rate: None, reservation: None, slo: None };

    /// The same for a scheduler, in real time.
    pub(crate) fn to_share(&self) -> Share {
        let ShareConfig { weight, limit_iops, limit_rate, reservation, slo } = *self;
        Share { weight, limit_iops, limit_rate, reservation, slo, ..Share::EQUAL }
    }

    /// The values of its fields that are set, for people.
    pub(crate) fn shown(&self) -> String {
        let mut shown: Vec<String> = FIELDS
            .iter()
            .filter(|row| row.written(self).is_some())
            .map(|row| format!("{} {}", row.name, row.shown(self)))
            .collect();
        if let Some(Slo { iops, read_percent, percentile, latency }) = self.slo {
            shown.push(format!(
                "{percentile} of latency below {latency} at up to {iops} IOPS with {read_percent} % reads"
            ));
        }
        shown.join(", ")
    }

    /// The problems of its numbers, for the field of that name.
    pub(super) fn problems(&self, field: impl Fn(&str) -> String) -> Vec<Problem> {
        let mut problems = schema::problems(FIELDS, self, &field);
        if let (Some(reservation), Some(limit)) = (self.reservation, self.limit_rate)
            && reservation > limit
        {
            let what = format!("{reservation} are promised to a tenant that is limited to {limit}");
            problems.push(Problem::new(field("reservation"), what, "lower it, or raise limit_rate"));
        }
        if let Some(slo) = &self.slo {
            problems.extend(schema::problems(SLO_FIELDS, slo, |name| field(&format!("slo.{name}"))));
            if slo.latency == Nanos::ZERO {
                let field = field(&format!("slo.{}", bound_name(slo.percentile)));
                problems.push(Problem::new(field, "no IO takes no time", "write a time such as \"1ms\""));
            }
        }
        problems
    }
}

/// The numeric fields of a tenant, in the order of the reference.
pub const FIELDS: &[Field<ShareConfig>] = &[
    field!(ShareConfig, weight, "relative share of each SSD; 1 is the common one").least(
        1,
        "zero would get nothing",
        "write 1 or more",
    ),
    field!(ShareConfig, limit_iops, "maximum IOs per second on each SSD").absent("no limit").least(
        1,
        "zero would get nothing",
        "write 1 or more",
    ),
    field!(ShareConfig, limit_rate, "maximum rate on each SSD").absent("no limit").least(
        1,
        "zero would get nothing",
        "write a rate above zero",
    ),
    field!(ShareConfig, reservation, "minimum cost-weighted rate on each SSD").absent("none").most(
        DeviceConstants::RATE_MAX.0,
        "{} is more than any SSD has",
        "write at most 1T",
    ),
];

/// The numeric fields of a tenant's `slo`, except the latency, which has the percentile in its name.
pub const SLO_FIELDS: &[Field<Slo>] = &[
    field!(Slo, iops, "IOs per second up to which the latency is promised").least(
        1,
        "zero promises nothing",
        "write 1 or more",
    ),
    field!(Slo, read_percent, "reads among them, in percent").most(
        100,
        "more reads than IOs",
        "write 100 or less",
    ),
];

/// The names of the fields of a share that differ from an equal one; `weight` if none does.
fn names_of(share: &ShareConfig) -> Vec<&'static str> {
    let rows = FIELDS.iter().filter(|row| row.differs(share, &ShareConfig::EQUAL));
    let mut names: Vec<&str> = rows.map(|row| row.name).collect();
    names.extend(share.slo.is_some().then_some("slo"));
    if names.is_empty() { vec!["weight"] } else { names }
}

/// The problems of namespaces that are tenants, or that are not and have promises.
pub(super) fn problems_of_namespaces(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, subsystem) in config.subsystems.iter().enumerate() {
        for (place, namespace) in subsystem.namespaces.iter().enumerate() {
            let field = |name: &str| format!("subsystem[{index}].namespace[{place}].{name}");
            let Some(share) = &namespace.share else { continue };
            if subsystem.tenant_of(namespace) == TenantKind::Host {
                let names = names_of(share);
                let what = format!(
                    "the tenants of namespace {} are its hosts, and {} would be the namespace's",
                    namespace.nsid,
                    names.join(", ")
                );
                let advice = "write tenant = \"namespace\" at it or at its subsystem, or write the field into the [[tenant]] of a host";
                problems.push(Problem::new(field(names[0]), what, advice));
            } else {
                problems.extend(share.problems(field));
            }
        }
    }
    if let Some(first) = config.namespace_tenants().nth(NAMESPACE_TENANTS_MAX) {
        let [index, place] = first.places;
        let what = format!("more than {NAMESPACE_TENANTS_MAX} namespaces are tenants");
        let advice = "write tenant = \"host\" at the others";
        problems.push(Problem::new(format!("subsystem[{index}].namespace[{place}].tenant"), what, advice));
    }
    problems
}

/// The name of the field that has the latency of an objective.
pub(super) fn bound_name(percentile: Percentile) -> &'static str {
    match percentile {
        Percentile::P95 => "latency_p95",
        Percentile::P99 => "latency_p99",
    }
}

/// Reads one `[[tenant]]`.
pub(super) fn read(table: &mut Fields<'_, '_>, findings: &mut Findings) -> TenantConfig {
    let host = required(table, findings, "host", "the NQN of a host");
    let address = table.take(findings, "address", "an IP address such as \"10.0.0.7\"", |value| {
        value.as_str()?.parse().ok()
    });
    TenantConfig { host, address, share: read_share(table, findings) }
}

/// Reads the promises in the table of a namespace, if there are any.
pub(super) fn read_of_namespace(table: &mut Fields<'_, '_>, findings: &mut Findings) -> Option<ShareConfig> {
    let has_any = FIELDS.iter().any(|row| table.has(row.name)) || table.has("slo");
    let share = read_share(table, findings);
    has_any.then_some(share)
}

fn read_share(table: &mut Fields<'_, '_>, findings: &mut Findings) -> ShareConfig {
    let mut share = ShareConfig::EQUAL;
    schema::read(FIELDS, table, findings, &mut share);
    share.slo = table.table(findings, "slo").map(|table| read_slo(table, findings));
    share
}

fn read_slo(mut table: Fields<'_, '_>, findings: &mut Findings) -> Slo {
    let before = findings.problems.len();
    let [p99, p95] = [Percentile::P99, Percentile::P95]
        .map(|percentile| table.span(findings, bound_name(percentile)).map(|bound| (percentile, bound)));
    let (percentile, latency) = p99.or(p95).unwrap_or((Percentile::P99, Nanos::ZERO));
    let mut slo = Slo { iops: 0, read_percent: 100, percentile, latency };
    schema::read(SLO_FIELDS, &mut table, findings, &mut slo);
    if findings.problems.len() == before {
        let is_there = |name| table.has(name);
        for (name, is_missing, expected) in
            [("iops", !is_there("iops"), "20000"), ("latency_p99", p99.or(p95).is_none(), "\"1ms\"")]
        {
            if is_missing {
                missing(&table, findings, name, expected);
            }
        }
        if p99.is_some() && p95.is_some() {
            let field = table.path_of("latency_p95");
            let line = findings.lines.of(&field);
            let what = "an objective has one bound, and latency_p99 is there, too";
            let problem = Problem::new(field, what, "keep the one that matters");
            findings.problems.push(Problem { line, ..problem });
        }
    }
    table.finish(findings);
    slo
}
