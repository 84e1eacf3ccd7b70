//! From a [`Config`] to the text of a file, with every field that has a value, defaults too.
//!
//! Holds: a written configuration reads back the same (`what_is_written_reads_back` in `tests`, the fuzz target `config`).
//! Elsewhere: the numbers of limits and tenants are written by their rows (`schema`), exact values by `text`.

use super::fault::{KINDS, OPS};
use super::schema::Field;
use super::security::{DISCOVERIES, TLS_FIELD, group_name};
use super::text::word;
use super::*;
use crate::identity::digits;
use std::path::Path;
use toml::{Table, Value};

/// A value that a file cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: a file cannot have a path that is not UTF-8; rename it", .0.display())]
pub struct NotWritable(PathBuf);

impl Config {
    /// The text of a file with this configuration.
    ///
    /// # Errors
    /// If it has a path that is not UTF-8.
    ///
    /// # Panics
    /// If the configuration does not pass [`Config::check`] and has a number beyond the integers of TOML.
    pub fn to_toml(&self) -> Result<String, NotWritable> {
        Ok(self.to_table()?.to_string())
    }

    /// As [`Config::to_toml`], before it becomes text.
    ///
    /// # Errors
    /// As [`Config::to_toml`].
    ///
    /// # Panics
    /// As [`Config::to_toml`].
    pub fn to_table(&self) -> Result<Table, NotWritable> {
        let backend = match self.backend {
            BackendChoice::Auto => "auto",
            BackendChoice::IoUring => "io_uring",
            BackendChoice::Epoll => "epoll",
        };
        let mut top = Entries::default();
        top.put("listen", texts(&self.listen));
        top.put("backend", backend);
        top.put_if("spin", self.spin.map(text::span));
        top.put_if("threads", self.threads.map(i64::from));
        top.put_if("state_dir", self.state_dir.as_deref().map(path).transpose()?);
        top.put_if("rack", self.rack.as_ref().map(rack));
        let mut log = Entries::default();
        log.put_if("level", self.log.level.as_deref());
        log.put(
            "format",
            match self.log.format {
                LogFormat::Text => "text",
                LogFormat::Json => "json",
            },
        );
        top.put("log", log.0);
        let mut admin = Entries::default();
        let socket = self.admin.socket.written();
        admin.put_if("socket", socket.as_deref().map(path).transpose()?);
        admin.put_if("listen", self.admin.listen.map(|address| address.to_string()));
        for (name, file) in self.admin.files() {
            admin.put_if(name, file.as_deref().map(path).transpose()?);
        }
        if !admin.0.is_empty() {
            top.put("admin", admin.0);
        }
        let mut metrics = Entries::default();
        metrics.put_if("listen", self.metrics.listen.map(|address| address.to_string()));
        metrics.put("pairs_max", i64::from(self.metrics.pairs_max));
        top.put("metrics", metrics.0);
        top.put("limits", Entries::of(limits::FIELDS, &self.limits).0);
        top.put("device", self.devices.iter().map(device).collect::<Result<Vec<_>, _>>()?);
        top.put("group", self.groups.iter().map(group).collect::<Vec<_>>());
        top.put("subsystem", self.subsystems.iter().map(subsystem).collect::<Vec<_>>());
        top.put("security", security(&self.security));
        top.put("host", self.hosts.iter().map(host).collect::<Result<Vec<_>, _>>()?);
        top.put("tenant", self.tenants.iter().map(tenant).collect::<Vec<_>>());
        // A table of the file has at least one entry.
        top.0.retain(|_, value| value.as_array().is_none_or(|array| !array.is_empty()));
        Ok(top.0)
    }
}

/// The entries of a table while they are collected.
#[derive(Default)]
struct Entries(Table);

impl Entries {
    /// The numeric fields of `table`.
    fn of<S>(rows: &[Field<S>], table: &S) -> Entries {
        let mut entries = Entries::default();
        rows.iter().for_each(|row| entries.put_if(row.name, row.written(table)));
        entries
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_if(&mut self, name: &str, value: Option<impl Into<Value>>) {
        value.into_iter().for_each(|value| self.put(name, value));
    }
}

fn path(path: &Path) -> Result<String, NotWritable> {
    path.to_str().map(str::to_owned).ok_or_else(|| NotWritable(path.to_owned()))
}

fn texts(items: &[impl ToString]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn rack(rack: &RackConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("store", rack.store.clone());
    entries.put("name", rack.name.clone());
    entries.put("subsystems", texts(&rack.subsystems));
    entries.put_if("address", rack.address.map(|address| address.to_string()));
    entries.put_if("rdma_address", rack.rdma_address.map(|address| address.to_string()));
    entries.put("mega", text::size(rack.mega));
    entries.put("ttl", text::span(rack.ttl));
    entries.0
}

fn device(device: &DeviceConfig) -> Result<Table, NotWritable> {
    let mut entries = Entries::default();
    entries.put("name", device.name.clone());
    match &device.kind {
        DeviceKind::File { path: file, size, create, direct } => {
            entries.put("kind", "file");
            entries.put("path", path(file)?);
            entries.put_if("size", size.map(text::size));
            entries.put("create", *create);
            entries.put("direct", *direct);
        }
        DeviceKind::Directory(directory) => {
            entries.put("kind", "directory");
            entries.put("path", path(&directory.path)?);
            entries.put("create", directory.create);
            entries.put("direct", directory.direct);
            entries.put("reserve", text::size(directory.reserve));
        }
        DeviceKind::Block { path: file, direct, access } => {
            entries.put("kind", if access.passthrough { "nvme" } else { "block" });
            entries.put("path", path(file)?);
            if !access.passthrough {
                entries.put("direct", *direct);
            }
            entries.put("polled", access.polled);
        }
        DeviceKind::NvmeTcp(back_end) => {
            entries.put("kind", "nvme-tcp");
            entries.put("address", back_end.address.to_string());
            entries.put("subsystem", back_end.subsystem.clone());
            entries.put("nsid", i64::from(back_end.nsid));
            entries.put("host", back_end.host.clone());
            entries.put("timeout", text::span(back_end.timeout));
            entries.put("digests", back_end.digests);
            entries.put("fenced", back_end.fenced);
            for (name, file) in back_end::key_files(&back_end.keys) {
                entries.put_if(name, file.map(|file| path(file)).transpose()?);
            }
        }
        DeviceKind::Emulated(emulated) => {
            entries.put("kind", "emulated");
            entries.put("size", text::size(emulated.size));
            entries.put("profile", emulated.profile.clone());
            let condition = match emulated.condition {
                Condition::Clean => "clean",
                Condition::Fragmented => "fragmented",
            };
            entries.put("condition", condition);
            entries.put("speed", text::factor(emulated.speed.thousandths().into()));
            let backing = match &emulated.backing {
                Backing::Ram => "ram".to_owned(),
                Backing::None => "none".to_owned(),
                Backing::File(file) => path(file)?,
            };
            entries.put("backing", backing);
            entries.put("create", emulated.create);
            entries.put("seed", text::count(emulated.seed));
        }
        DeviceKind::Null { size } => {
            entries.put("kind", "null");
            entries.put("size", text::size(*size));
        }
    }
    let is_null = matches!(device.kind, DeviceKind::Null { .. } | DeviceKind::NvmeTcp(_));
    if !is_null && !matches!(device.kind, DeviceKind::Directory(_)) {
        entries.put("force", device.force);
    }
    entries.put_if("read_only", device.read_only);
    if !is_null && !matches!(device.kind, DeviceKind::Block { .. }) {
        let overcommit = match device.overcommit {
            Overcommit::Warn => "warn",
            Overcommit::Refuse => "refuse",
        };
        entries.put("overcommit", overcommit);
    }
    entries.put("scheduler", scheduler(&device.scheduler)?);
    if let Some(ais) = &device.ais {
        let mut store = Entries::default();
        store.put("profile", path(&ais.profile)?);
        store.put("store", ais.path().map_or(Ok("ram".to_owned()), |log| path(log))?);
        store.put("size", text::size(ais.size));
        store.put("create", ais.create);
        store.put_if("fault", faults(&ais.faults));
        entries.put("ais", store.0);
    }
    entries.put_if("fault", faults(&device.faults));
    Ok(entries.0)
}

fn scheduler(scheduler: &SchedulerConfig) -> Result<Table, NotWritable> {
    let SchedulerConfig { policy, calibration, prior, overrides } = scheduler;
    let mut entries = Entries::default();
    entries.put("policy", policy.name);
    entries.put_if("calibration", calibration.as_deref().map(path).transpose()?);
    entries.put_if("prior", prior.as_deref().map(path).transpose()?);
    let factor = |cost: sched::Cost| text::factor(cost.thousandths());
    let rate = |rate: ByteRate| text::size(Bytes(rate.0));
    entries.put_if("profile", overrides.profile.clone());
    entries.put_if("thresh_min", overrides.thresh_min.map(text::span));
    entries.put_if("thresh_max", overrides.thresh_max.map(text::span));
    entries.put_if("write_cost_best", overrides.write_cost_best.map(factor));
    entries.put_if("write_cost_worst", overrides.write_cost_worst.map(factor));
    entries.put_if("slots", overrides.slots.map(i64::from));
    entries.put_if("lag_max", overrides.lag_max.map(text::size));
    entries.put_if("rate_min", overrides.rate_min.map(rate));
    entries.put_if("rate_max", overrides.rate_max.map(rate));
    Ok(entries.0)
}

fn faults(faults: &[FaultConfig]) -> Option<Vec<Table>> {
    (!faults.is_empty()).then(|| faults.iter().map(fault).collect())
}

fn fault(fault: &FaultConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("kind", word(&KINDS, &fault.kind.word()));
    match fault.kind {
        FaultKind::Delay(delay) => entries.put("delay", text::span(delay)),
        FaultKind::Hang(FaultRelease::After(after)) => entries.put("release_after", text::span(after)),
        FaultKind::Hang(FaultRelease::AtIo(io)) => entries.put("release_at", text::count(io)),
        FaultKind::Torn { then_gone } => entries.put("then", if then_gone { "gone" } else { "error" }),
        FaultKind::Error(_)
        | FaultKind::Hang(FaultRelease::Never)
        | FaultKind::Gone
        | FaultKind::Volatile
        | FaultKind::Reactor => {}
    }
    entries.put("op", word(&OPS, &fault.op));
    entries.put("offset", text::size(fault.offset));
    entries.put_if("size", fault.size.map(text::size));
    entries.put("from", text::span(fault.from));
    entries.put("skip", text::count(fault.skip));
    match fault.pattern {
        FaultPattern::Every(every) => entries.put("every", text::count(every)),
        FaultPattern::Thousandths(chance) => entries.put("chance", text::factor(chance.into())),
    }
    entries.put_if("count", fault.count.map(text::count));
    entries.put("seed", text::count(fault.seed));
    entries.0
}

fn group(group: &GroupConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("name", group.name.clone());
    entries.put_if("id", group.id.map(i64::from));
    entries.put("state", group.state.word());
    entries.0
}

fn subsystem(subsystem: &SubsystemConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("nqn", subsystem.nqn.clone());
    entries.put_if("serial", subsystem.serial.clone());
    entries.put("model", subsystem.model.clone());
    entries.put("cntlid", cntlid::text(subsystem.cntlid));
    match &subsystem.hosts {
        AllowedHosts::Any => entries.put("allow_any_host", true),
        AllowedHosts::Only(hosts) => entries.put("hosts", texts(hosts)),
    }
    let mut security = Entries::default();
    subsystem.security.words().for_each(|(name, word)| security.put(name, word));
    if !security.0.is_empty() {
        entries.put("security", security.0);
    }
    entries.put("tenant", word(&tenant::KINDS, &subsystem.tenant));
    entries.put("namespace", subsystem.namespaces.iter().map(namespace).collect::<Vec<_>>());
    entries.0
}

fn namespace(namespace: &NamespaceConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("nsid", i64::from(namespace.nsid));
    entries.put("device", namespace.device.clone());
    entries.put("offset", text::size(namespace.offset));
    entries.put_if("size", namespace.size.map(text::size));
    entries.put("block_size", i64::from(namespace.block_size));
    entries.put_if("uuid", namespace.uuid.map(|uuid| digits(&uuid)));
    entries.put_if("nguid", namespace.nguid.map(|nguid| digits(&nguid)));
    entries.put_if("eui64", namespace.eui64.map(|eui64| digits(&eui64)));
    entries.put("read_only", namespace.read_only);
    entries.put("wipe_on_remove", namespace.wipe_on_remove);
    entries.put_if("group", namespace.group.clone());
    entries.put_if("tenant", namespace.tenant.map(|kind| word(&tenant::KINDS, &kind)));
    entries.0.extend(namespace.share.iter().flat_map(share));
    entries.put_if("origin", namespace.origin.clone());
    entries.0
}

fn security(security: &SecurityConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("authentication", security.authentication.word());
    entries.put("tls", security.tls.word());
    entries.put("discovery", word(&DISCOVERIES, &security.discovery));
    entries.put("concat", security.concat);
    entries.put("dhchap_hash", texts(&security.dhchap_hash));
    let groups = security.dhchap_group.iter().map(|group| group_name(*group).to_owned());
    entries.put("dhchap_group", groups.collect::<Vec<_>>());
    entries.0
}

fn host(host: &HostConfig) -> Result<Table, NotWritable> {
    let mut entries = Entries::default();
    entries.put("nqn", host.nqn.clone());
    for (name, file) in host.dh_keys() {
        entries.put(name, path(file)?);
    }
    if !host.tls_key.is_empty() {
        let files: Result<Vec<_>, _> = host.tls_key.iter().map(|file| path(file)).collect();
        entries.put(TLS_FIELD, files?);
    }
    Ok(entries.0)
}

fn tenant(tenant: &TenantConfig) -> Table {
    let mut entries = Entries::default();
    entries.put("host", tenant.host.clone());
    entries.put_if("address", tenant.address.map(|address| address.to_string()));
    entries.0.extend(share(&tenant.share));
    entries.0
}

fn share(share: &ShareConfig) -> Table {
    let mut entries = Entries::of(tenant::FIELDS, share);
    if let Some(slo) = &share.slo {
        let mut objective = Entries::of(tenant::SLO_FIELDS, slo);
        objective.put(tenant::bound_name(slo.percentile), text::span(slo.latency));
        entries.put("slo", objective.0);
    }
    entries.0
}
