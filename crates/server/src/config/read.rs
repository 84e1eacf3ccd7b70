//! From the text of a file to a [`Config`]: one function per table, in the order of the documentation.
//!
//! Why not serde's derive: it stops at the first error. This reader reports every error of a file at once, each with its line and
//! what to write, and goes on with the default in its place. Parsing, spans and recovery are the crate `toml`'s.

use super::fields::{Fields, Findings, Lines, number_text};
use super::problem::Problem;
use super::*;
use sched::Scheduler;
use std::ops::Range;
use std::path::PathBuf;
use toml::de::DeTable;

/// A file as it was read. Fields that could not be read hold their defaults and have a problem each.
pub(crate) struct Reading {
    pub(crate) config: Config,
    pub(crate) problems: Vec<Problem>,
    pub(crate) lines: Lines,
    /// Whether the text is TOML at all. If it is not, the problems say why, and the rest means nothing.
    pub(crate) is_toml: bool,
}

pub(crate) fn read(text: &str) -> Reading {
    let mut findings = Findings::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let problem = Problem::new("", error.message().replace('\n', "; "), "this is not TOML");
        let span = error.span().unwrap_or_else(|| place_without_span(text));
        findings.report(Some(span), problem);
    }
    let mut top = Fields::new(String::new(), document.get_ref(), &mut findings);
    let config = config(&mut top, &mut findings);
    let is_toml = errors.is_empty();
    if is_toml {
        top.finish(&mut findings);
    } else {
        // Fields of a broken document need no errors of their own.
        findings.problems.truncate(errors.len());
        findings.problems.sort_by_key(|problem| problem.line);
    }
    Reading { config, problems: findings.problems, lines: findings.lines, is_toml }
}

/// The place of the first error for which the parser gives none (a key with too many parts, for example): the last line of the shortest
/// beginning of the text that has the error.
fn place_without_span(text: &str) -> Range<usize> {
    let is_before = |beginning: &str| {
        let (_, errors) = DeTable::parse_recoverable(beginning);
        errors.iter().all(|error| error.span().is_some())
    };
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let lines_before = starts[1..].partition_point(|&end| is_before(&text[..end]));
    let start = starts[lines_before];
    start..start
}

fn config(top: &mut Fields<'_, '_>, findings: &mut Findings) -> Config {
    let listen = listen::read(top, findings);
    let backend = top.choice(
        findings,
        "backend",
        &[
            ("auto", BackendChoice::Auto),
            ("io_uring", BackendChoice::IoUring),
            ("epoll", BackendChoice::Epoll),
        ],
    );
    Config {
        listen: listen.unwrap_or_else(|| vec![DEFAULT_LISTEN.into()]),
        backend: backend.unwrap_or_default(),
        spin: top.span(findings, "spin"),
        threads: top.number(findings, "threads"),
        state_dir: top.text(findings, "state_dir").map(PathBuf::from),
        rack: top.table(findings, "rack").map(|table| rack(table, findings)),
        log: top.table(findings, "log").map(|table| log(table, findings)).unwrap_or_default(),
        admin: top.table(findings, "admin").map(|table| admin(table, findings)).unwrap_or_default(),
        metrics: top.table(findings, "metrics").map(|table| metrics(table, findings)).unwrap_or_default(),
        limits: top.table(findings, "limits").map(|table| limits(table, findings)).unwrap_or_default(),
        devices: each(top, findings, "device", device),
        groups: each(top, findings, "group", group::read),
        subsystems: each(top, findings, "subsystem", subsystem),
        security: top
            .table(findings, "security")
            .map(|table| security::read(table, findings))
            .unwrap_or_default(),
        hosts: each(top, findings, "host", security::read_host),
        tenants: each(top, findings, "tenant", tenant::read),
    }
}

pub(super) fn each<T>(
    parent: &mut Fields<'_, '_>,
    findings: &mut Findings,
    name: &'static str,
    mut read: impl FnMut(&mut Fields<'_, '_>, &mut Findings) -> T,
) -> Vec<T> {
    let tables = parent.tables(findings, name);
    let mut items = Vec::with_capacity(tables.len());
    for mut table in tables {
        items.push(read(&mut table, findings));
        table.finish(findings);
    }
    items
}

fn log(mut table: Fields<'_, '_>, findings: &mut Findings) -> LogConfig {
    let log = LogConfig {
        level: table.text(findings, "level"),
        format: table
            .choice(findings, "format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])
            .unwrap_or_default(),
    };
    table.finish(findings);
    log
}

fn admin(mut table: Fields<'_, '_>, findings: &mut Findings) -> AdminConfig {
    let socket = table.text(findings, "socket");
    let mut file = |name| table.text(findings, name).map(PathBuf::from);
    let (certificate, key) = (file("certificate"), file("key"));
    let (read_token, admin_token) = (file("read_token"), file("admin_token"));
    let listen = address(&mut table, findings, "\"0.0.0.0:4421\"");
    table.finish(findings);
    let socket = socket.map_or(AdminSocket::Default, |text| AdminSocket::named(&text));
    AdminConfig { socket, listen, certificate, key, read_token, admin_token }
}

fn metrics(mut table: Fields<'_, '_>, findings: &mut Findings) -> MetricsConfig {
    let listen = address(&mut table, findings, "\"127.0.0.1:9090\"");
    let pairs_max = table.number(findings, "pairs_max").unwrap_or(MetricsConfig::default().pairs_max);
    table.finish(findings);
    MetricsConfig { listen, pairs_max }
}

/// The address in `listen`.
fn address(table: &mut Fields<'_, '_>, findings: &mut Findings, example: &str) -> Option<SocketAddr> {
    let expected = format!("an address such as {example}");
    table.take(findings, "listen", &expected, |value| value.as_str()?.parse().ok())
}

fn rack(mut table: Fields<'_, '_>, findings: &mut Findings) -> RackConfig {
    let store = required(
        &mut table,
        findings,
        "store",
        "\"etcd://HOST:2379\", \"etcds://USER@HOST:2379\", or the path of a file",
    );
    let name = required(&mut table, findings, "name", "a name that no other target of the rack has");
    let default = RackConfig::new(&store, &name, &[]);
    let rack = RackConfig {
        subsystems: table
            .list(findings, "subsystems", "a list of NQNs of this file", |text| Some(text.to_owned()))
            .unwrap_or_default(),
        address: reached(&mut table, findings, "address"),
        rdma_address: reached(&mut table, findings, "rdma_address"),
        mega: table.size(findings, "mega").unwrap_or(default.mega),
        ttl: table.span(findings, "ttl").unwrap_or(default.ttl),
        ..default
    };
    table.finish(findings);
    rack
}

/// An address at which clients reach the target.
fn reached(table: &mut Fields<'_, '_>, findings: &mut Findings, name: &'static str) -> Option<SocketAddr> {
    let expected = "an address such as \"192.0.2.7:4420\"";
    table.take(findings, name, expected, |value| value.as_str()?.parse().ok())
}

fn limits(mut table: Fields<'_, '_>, findings: &mut Findings) -> Limits {
    let mut limits = Limits::default();
    schema::read(limits::FIELDS, &mut table, findings, &mut limits);
    table.finish(findings);
    limits
}

/// The words of `kind`.
#[derive(Clone, Copy)]
enum Kind {
    File,
    Directory,
    Block,
    Nvme,
    NvmeTcp,
    Emulated,
    Null,
}

fn device(table: &mut Fields<'_, '_>, findings: &mut Findings) -> DeviceConfig {
    let name = required(table, findings, "name", "a name that namespaces refer to");
    let kinds = [
        ("file", Kind::File),
        ("directory", Kind::Directory),
        ("block", Kind::Block),
        ("nvme", Kind::Nvme),
        ("nvme-tcp", Kind::NvmeTcp),
        ("emulated", Kind::Emulated),
        ("null", Kind::Null),
    ];
    let given = table.choice(findings, "kind", &kinds);
    if given.is_none() && !findings.problems.iter().any(|problem| problem.field == table.path_of("kind")) {
        missing(
            table,
            findings,
            "kind",
            "\"file\", \"directory\", \"block\", \"nvme\", \"nvme-tcp\", \"emulated\" or \"null\"",
        );
    }
    let kind = match given.unwrap_or(Kind::Null) {
        Kind::File => DeviceKind::File {
            path: required(table, findings, "path", "the file").into(),
            size: table.size(findings, "size"),
            create: table.truth(findings, "create").unwrap_or(false),
            direct: table.truth(findings, "direct").unwrap_or(true),
        },
        Kind::Directory => DeviceKind::Directory(DirectoryConfig {
            path: required(table, findings, "path", "the directory").into(),
            create: table.truth(findings, "create").unwrap_or(false),
            direct: table.truth(findings, "direct").unwrap_or(true),
            reserve: table.size(findings, "reserve").unwrap_or(Bytes::ZERO),
        }),
        Kind::Block => DeviceKind::Block {
            path: required(table, findings, "path", "the block device").into(),
            direct: table.truth(findings, "direct").unwrap_or(true),
            access: BlockAccess {
                passthrough: false,
                polled: table.truth(findings, "polled").unwrap_or(false),
            },
        },
        Kind::Nvme => DeviceKind::Block {
            path: required(table, findings, "path", "the generic device of a namespace, such as /dev/ng0n1")
                .into(),
            direct: true,
            access: BlockAccess {
                passthrough: true,
                polled: table.truth(findings, "polled").unwrap_or(false),
            },
        },
        Kind::NvmeTcp => DeviceKind::NvmeTcp(back_end::read(table, findings)),
        Kind::Emulated => DeviceKind::Emulated(emulated(table, findings)),
        Kind::Null => DeviceKind::Null { size: required_size(table, findings) },
    };
    let overcommits = [("warn", Overcommit::Warn), ("refuse", Overcommit::Refuse)];
    let (is_disk, is_null) =
        (matches!(kind, DeviceKind::Block { .. }), matches!(kind, DeviceKind::Null { .. }));
    let is_remote = matches!(kind, DeviceKind::NvmeTcp(_));
    let is_shared = is_null || is_remote || matches!(kind, DeviceKind::Directory(_));
    let force = !is_shared && table.truth(findings, "force").unwrap_or(false);
    let read_only = table.truth(findings, "read_only");
    let overcommit = match is_disk || is_null || is_remote {
        true => Overcommit::default(),
        false => table.choice(findings, "overcommit", &overcommits).unwrap_or_default(),
    };
    DeviceConfig {
        name,
        kind,
        force,
        read_only,
        overcommit,
        scheduler: scheduler(table, findings),
        ais: table.table(findings, "ais").map(|table| ais::read(table, findings)),
        faults: each(table, findings, "fault", fault::read),
    }
}

fn emulated(table: &mut Fields<'_, '_>, findings: &mut Findings) -> EmulatedConfig {
    let default = EmulatedConfig::new(required_size(table, findings));
    let conditions = [("clean", Condition::Clean), ("fragmented", Condition::Fragmented)];
    let speed = "a factor such as 1 or 0.1, above zero and in whole thousandths";
    let backing = table.text(findings, "backing").map(|text| match text.as_str() {
        "ram" => Backing::Ram,
        "none" => Backing::None,
        path => Backing::File(path.into()),
    });
    EmulatedConfig {
        profile: table.text(findings, "profile").unwrap_or(default.profile),
        condition: table.choice(findings, "condition", &conditions).unwrap_or(default.condition),
        speed: table
            .take(findings, "speed", speed, |value| Speed::parse(&number_text(value)?))
            .unwrap_or(default.speed),
        backing: backing.unwrap_or(default.backing),
        create: table.truth(findings, "create").unwrap_or(default.create),
        size: default.size,
        seed: table.number(findings, "seed").unwrap_or(default.seed),
    }
}

/// The scheduler of a name.
fn policy(
    table: &mut Fields<'_, '_>,
    findings: &mut Findings,
    name: &'static str,
) -> Option<&'static Scheduler> {
    let choices: Vec<_> = offered().map(|scheduler| (scheduler.name, scheduler)).collect();
    table.choice(findings, name, &choices)
}

/// `scheduler = "none"`, or a table with a `policy` and constants.
fn scheduler(table: &mut Fields<'_, '_>, findings: &mut Findings) -> SchedulerConfig {
    if !table.is_table("scheduler") {
        let policy = policy(table, findings, "scheduler").unwrap_or_default();
        return SchedulerConfig { policy, ..SchedulerConfig::default() };
    }
    let Some(mut table) = table.table(findings, "scheduler") else { return SchedulerConfig::default() };
    let scheduler = SchedulerConfig {
        policy: policy(&mut table, findings, "policy").unwrap_or_default(),
        calibration: table.text(findings, "calibration").map(PathBuf::from),
        prior: table.text(findings, "prior").map(PathBuf::from),
        overrides: SchedulerOverrides {
            profile: table.text(findings, "profile"),
            thresh_min: table.span(findings, "thresh_min"),
            thresh_max: table.span(findings, "thresh_max"),
            write_cost_best: table.cost(findings, "write_cost_best"),
            write_cost_worst: table.cost(findings, "write_cost_worst"),
            slots: table.number(findings, "slots"),
            lag_max: table.size(findings, "lag_max"),
            rate_min: table.rate(findings, "rate_min"),
            rate_max: table.rate(findings, "rate_max"),
        },
    };
    table.finish(findings);
    scheduler
}

fn subsystem(table: &mut Fields<'_, '_>, findings: &mut Findings) -> SubsystemConfig {
    let nqn = required(table, findings, "nqn", "a name such as \"nqn.2025-01.com.example:ssd0\"");
    let (before, any) = (findings.problems.len(), table.truth(findings, "allow_any_host"));
    let only = table.list(findings, "hosts", "a list of host NQNs", |text| Some(text.to_owned()));
    if any == Some(true) && only.is_some() {
        let what = "hosts are listed, but allow_any_host lets everybody in";
        findings.problems.push(Problem {
            line: findings.lines.of(&table.path_of("allow_any_host")),
            ..Problem::new(table.path_of("allow_any_host"), what, "keep one of the two")
        });
    }
    if any != Some(true) && only.is_none() && findings.problems.len() == before {
        let field = table.path_of("hosts");
        let advice = "list their NQNs, write allow_any_host = true, or hosts = [] if none shall connect yet";
        let line = findings.lines.of(&field);
        findings.problems.push(Problem { line, ..Problem::new(field, "no host may connect", advice) });
    }
    let hosts = match (any, only) {
        (Some(true), _) => AllowedHosts::Any,
        (_, only) => AllowedHosts::Only(only.unwrap_or_default()),
    };
    SubsystemConfig {
        nqn,
        serial: table.text(findings, "serial"),
        model: table.text(findings, "model").unwrap_or_else(|| DEFAULT_MODEL.to_owned()),
        cntlid: table
            .take(findings, "cntlid", cntlid::EXPECTED, |value| cntlid::parse(value.as_str()?))
            .unwrap_or(ControllerIds::ALL),
        hosts,
        security: table
            .table(findings, "security")
            .map(|table| security::read_of_subsystem(table, findings))
            .unwrap_or_default(),
        tenant: table.choice(findings, "tenant", &tenant::KINDS).unwrap_or_default(),
        namespaces: each(table, findings, "namespace", namespace),
    }
}

fn namespace(table: &mut Fields<'_, '_>, findings: &mut Findings) -> NamespaceConfig {
    let nsid = table.number(findings, "nsid");
    let default =
        NamespaceConfig::whole(nsid.unwrap_or(1), &required(table, findings, "device", "a device's name"));
    NamespaceConfig {
        offset: table.size(findings, "offset").unwrap_or(default.offset),
        size: table.size(findings, "size"),
        block_size: table.number(findings, "block_size").unwrap_or(default.block_size),
        uuid: table.take(
            findings,
            "uuid",
            "a UUID such as \"f81d4fae-7dec-4d00-a765-00a0c91e6bf6\"",
            |value| crate::identity::parse_uuid(value.as_str()?),
        ),
        nguid: table.take(findings, "nguid", "an NGUID: 32 hexadecimal digits, not all zero", |value| {
            crate::identity::parse_nguid(value.as_str()?)
        }),
        eui64: table.take(findings, "eui64", "an EUI64: 16 hexadecimal digits, not all zero", |value| {
            crate::identity::parse_eui64(value.as_str()?)
        }),
        read_only: table.truth(findings, "read_only").unwrap_or(default.read_only),
        wipe_on_remove: table.truth(findings, "wipe_on_remove").unwrap_or(default.wipe_on_remove),
        group: table.text(findings, "group"),
        tenant: table.choice(findings, "tenant", &tenant::KINDS),
        share: tenant::read_of_namespace(table, findings),
        origin: table.text(findings, "origin"),
        ..default
    }
}

pub(super) fn required(
    table: &mut Fields<'_, '_>,
    findings: &mut Findings,
    name: &'static str,
    expected: &str,
) -> String {
    let before = findings.problems.len();
    let text = table.text(findings, name);
    if text.is_none() && findings.problems.len() == before {
        missing(table, findings, name, expected);
    }
    text.unwrap_or_default()
}

pub(super) fn required_size(table: &mut Fields<'_, '_>, findings: &mut Findings) -> Bytes {
    let before = findings.problems.len();
    let size = table.size(findings, "size");
    if size.is_none() && findings.problems.len() == before {
        missing(table, findings, "size", "a size such as \"16G\"");
    }
    size.unwrap_or(Bytes::ZERO)
}

/// Reports that a field has to be there and is not.
pub(super) fn missing(table: &Fields<'_, '_>, findings: &mut Findings, name: &str, expected: &str) {
    let field = table.path_of(name);
    let line = findings.lines.of(&field);
    let problem = Problem::new(field, "is missing", format!("write {name} = {expected}"));
    findings.problems.push(Problem { line, ..problem });
}
