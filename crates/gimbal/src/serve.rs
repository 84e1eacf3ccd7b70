//! `gimbal serve`: runs the target until a signal stops it.
//!
//! Prints `listening on ADDRESS` on stdout for each address when hosts may connect. Everything else goes to the log on stderr.
//! The first SIGTERM or SIGINT stops the target in order, the second one at once. SIGHUP reloads the configuration file, SIGUSR1 writes
//! statistics to the log.
//!
//! Holds: stdout and stderr never delay or stop the target, even without a reader (`tests/log_trouble.rs`).
//! Elsewhere: `log_writer` writes the log.

use crate::control::{self, Pointless, Request, Requester};
use crate::log_writer::LogWriter;
use crate::notify::{State, notify};
use crate::output;
use crate::registration::Registration;
use crate::running::Running;
use crate::serve_flags::{explain_config, explain_start};
use crate::watchdog::Watchdog;
use crate::{doors, state_dir, statistics};
use admin::{Board, Document, Order, Refusal, Service, Source};
use anyhow::{Context, Error, bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sched::Scheduler;
use server::config::{
    AdminSocket, BackendChoice, BlockAccess, Condition, Config, DEFAULT_LISTEN, DeviceKind, EmulatedConfig,
    Lines, Listen, LogConfig, LogFormat, Speed,
};
use server::{
    EscapedLines, KeyUse, Listing, Remote, Room, Server, Shutdown, SlowIos, Snapshot, SnapshotError, Stats,
    TakeoverError,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, stderr};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{JsonFields, format};
use units::{Bytes, Nanos};

/// Time limit for writing the log before the process exits, and for writing to stdout at the start.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Default size of a null device.
const NULL_SIZE: Bytes = Bytes::gib(1024);
/// Default size of an emulated SSD: that of the default model.
const EMULATED_SIZE: Bytes = Bytes::gib(16);

/// Arguments of `gimbal serve`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gimbal serve --device /dev/nvme0n1 --listen 0.0.0.0:4420
  gimbal serve --device emulated:dct983 --condition fragmented
  gimbal serve --device disk.img --create --size 100G --scheduler none
  gimbal serve -c gimbal.toml

Signals:
  SIGHUP           reload the configuration file; hosts stay connected (run `gimbal config check FILE` first)
  SIGUSR1          write statistics to the log, one line of JSON for each SSD
  SIGTERM, SIGINT  stop: answer outstanding commands, flush, close; a second signal stops at once")]
pub(crate) struct Args {
    /// Configuration file (check it with `gimbal config check FILE`)
    #[arg(short, long, value_name = "FILE", required_unless_present = "device", conflicts_with = "device")]
    pub(crate) config: Option<PathBuf>,
    /// Device to share: a block device, an NVMe namespace (/dev/ng0n1), a file, `emulated`, `emulated:PROFILE`, or `null`
    #[arg(long, value_name = "PATH|emulated[:PROFILE]|null")]
    device: Option<String>,
    /// Size of the device, such as 100G; an existing file must have this size
    #[arg(long, conflicts_with = "config")]
    size: Option<Bytes>,
    /// Create the file (sparse) if it does not exist
    #[arg(long, requires = "size", conflicts_with = "config")]
    create: bool,
    /// Share the device although it is in use (mounted, swap, LVM, another program); its data may be destroyed
    #[arg(long, conflicts_with = "config")]
    force: bool,
    /// Address that hosts connect to, or rdma://ADDRESS; may be repeated; with port 0 the system chooses one [default: 127.0.0.1:4420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<Listen>,
    /// NQN of the subsystem
    #[arg(long, conflicts_with = "config")]
    nqn: Option<String>,
    /// Scheduler: decides which IO goes to the SSD next, and when
    #[arg(long, value_name = "NAME", value_parser = Schedulers, conflicts_with = "config")]
    scheduler: Option<&'static Scheduler>,
    /// Device profile of `gimbal ssdtest` (profile.toml), for level: it starts with these measurements instead of
    /// guesses
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    prior: Option<PathBuf>,
    /// Calibration of the device, for level-calibrated, reflex and flashfq (`gimbal lab calibrate` writes one)
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    calibration: Option<PathBuf>,
    /// State of an emulated SSD's flash at the start
    #[arg(long, value_enum, conflicts_with = "config")]
    condition: Option<FlashCondition>,
    /// Speed of an emulated SSD relative to the real one; 0.1 is ten times slower
    #[arg(long, value_parser = speed, conflicts_with = "config")]
    speed: Option<Speed>,
    /// Kernel interface for network and disk; `auto` is io_uring if it is allowed, else epoll
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendName>,
    /// Time for which the thread of a device polls for work before it sleeps, while IOs come quickly; `0us`: never
    /// [default: 50us if there is a CPU for each device, else 0us]
    #[arg(long, value_name = "SPAN")]
    pub(crate) spin: Option<Nanos>,
    /// Directory for reservations and for the learnt models of SSDs, which survive a restart [default:
    /// $STATE_DIRECTORY, else /var/lib/gimbal for root and ~/.local/state/gimbal for other users]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Unix socket of the admin API (`gimbal ctl`), or `none` [default: admin.sock in $RUNTIME_DIRECTORY, else in
    /// /run/gimbal for root and $XDG_RUNTIME_DIR/gimbal for other users]
    #[arg(long, value_name = "PATH|none")]
    pub(crate) admin_socket: Option<String>,
    /// Log filter, such as `info` or `warn,server=debug`
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Log format
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogForm>,
}

/// Parser for the names of schedulers on the command line.
#[derive(Clone)]
pub(crate) struct Schedulers;

impl TypedValueParser for Schedulers {
    type Value = &'static Scheduler;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<&'static Scheduler, clap::Error> {
        let known = PossibleValuesParser::new(self.possible_values().into_iter().flatten());
        let name = known.parse_ref(command, argument, value)?;
        Ok(Scheduler::named(&name).expect("it is one of these names"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let shown = |row: &'static Scheduler| PossibleValue::new(row.name).help(row.about);
        Some(Box::new(server::config::offered().map(shown)))
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FlashCondition {
    Clean,
    Fragmented,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BackendName {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Epoll,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LogForm {
    Text,
    Json,
}

/// Runs the target until a signal stops it.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Start { mut config, lines, text } = start_of(&args)?;
    let mut stateless = None;
    if config.state_dir.is_none() {
        (config.state_dir, stateless) = state_dir::default()?;
    }
    config.judge().map_err(|error| Error::msg(explain_config(error, &args, lines.as_ref())))?;
    survive_failing_files().context("cannot install signal handlers")?;
    let stderr = stderr().as_fd().try_clone_to_owned().context("cannot use stderr")?;
    let log =
        LogWriter::start(stderr.into(), config.log.format).context("cannot start the thread of the log")?;
    let result = serve(&args, (config, lines.as_ref(), text), stateless, &log);
    log.drain(OUTPUT_GRACE);
    result
}

/// Runs the target with a complete configuration. `stateless` is the reason if there is no state directory.
fn serve(
    args: &Args,
    (config, lines, text): (Config, Option<&Lines>, Option<String>),
    stateless: Option<String>,
    log: &LogWriter,
) -> anyhow::Result<ExitCode> {
    let set_filter = start_log(&config.log, log.clone())?;
    abort_on_panic(log.clone());
    let signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1]).context("cannot install signal handlers")?;
    if let Some(why) = stateless {
        warn!(
            "reservations do not persist, and a host that asks for persistence (Linux's own calls do) is refused: {why}; give --state-dir"
        );
    }
    let doors = doors::open(&config)?;
    let pairs_max = config.metrics.pairs_max as usize;
    let server = Server::start(config).map_err(|error| Error::msg(explain_start(error, args, lines)))?;
    let registration = Registration::start().context("cannot start the thread that registers the SSDs")?;
    registration.offer(&server);
    let text = text.map_or_else(|| server.config().to_toml(), Ok)?;
    let board = Arc::new(Board::new(args.config.as_deref(), Document::new(text)));
    let (requester, owner) = control::queue();
    let (remote, logged) = (server.remote(), log.clone());
    let reached = Arc::new(Reached { requester: requester.clone(), remote: remote.clone() });
    let service = doors.map(|doors| Service::start(doors, reached, Arc::clone(&board), pairs_max));
    let service = service.transpose().context("cannot start the thread of the admin API")?;
    announce(server.listening());
    notify(State::Ready);
    let watchdog = Watchdog::start(remote.clone()).context("cannot start the thread of the watchdog")?;

    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || obey(signals, &requester, &remote, &logged))
        .context("cannot start the thread that waits for signals")?;
    let mut running = Running::new(server, args, set_filter, Arc::clone(&board), &registration);
    loop {
        match owner.next() {
            Request::Reload => {
                notify(State::Reloading);
                running.reload();
                notify(State::Ready);
            }
            Request::Order(order) => running.obey(order),
            Request::Stop => break,
        }
    }
    board.stop();
    // Orders that still wait are refused.
    drop(owner);
    let server = running.server;
    drop(watchdog);
    notify(State::Stopping);
    let limit = Duration::from_nanos(server.config().limits.drain_timeout.get());
    info!(?limit, "stopping: outstanding commands are answered");
    // First, so that no new volume chooses these SSDs.
    registration.stop();
    let ended = server.shutdown(limit);
    // Until here, the API says that the target is stopping.
    drop(service);
    Ok(match ended {
        Shutdown::Complete => ExitCode::SUCCESS,
        Shutdown::CutShort => ExitCode::FAILURE,
    })
}

/// The time for the thread of a device to say which connections it has. It takes less than a millisecond, unless the thread hangs.
pub(crate) const LISTING_WAIT: Duration = Duration::from_secs(1);

/// The target for the thread of the admin API.
struct Reached {
    requester: Requester,
    remote: Remote,
}

impl Source for Reached {
    fn stats(&self) -> Stats {
        self.remote.stats()
    }

    fn slow_ios(&self) -> SlowIos {
        self.remote.slow_ios()
    }

    fn key_uses(&self, host: &str) -> Option<Vec<KeyUse>> {
        self.remote.key_uses(host)
    }

    fn connections(&self) -> Listing {
        self.remote.connections(LISTING_WAIT)
    }

    fn snapshots(&self, device: &str) -> Result<Vec<Snapshot>, SnapshotError> {
        self.remote.snapshots(device)
    }

    fn room(&self, device: &str) -> Result<Room, SnapshotError> {
        self.remote.room(device)
    }

    fn takeover(&self, group: &str) -> Result<Option<u64>, TakeoverError> {
        self.remote.takeover(group)
    }

    fn drain(&self, is_drained: bool) {
        self.remote.drain(is_drained);
    }

    fn ask(&self, order: Order) -> Result<(), Refusal> {
        self.requester.order(order)
    }
}

/// Handles signals, also while the owner of the target waits: passes requests on to the owner, writes statistics, and
/// stops at once at the second signal to stop.
fn obey(mut signals: Signals, requester: &Requester, target: &Remote, log: &LogWriter) {
    let mut stops = false;
    for signal in &mut signals {
        let request = match signal {
            SIGUSR1 => {
                statistics::log(target, log);
                continue;
            }
            SIGHUP => Request::Reload,
            _ if stops => {
                target.stop();
                continue;
            }
            _ => {
                stops = true;
                info!("a signal to stop has come; a second one stops at once");
                Request::Stop
            }
        };
        if let Err(Pointless(why)) = requester.ask(request) {
            info!("SIGHUP is ignored: {why}");
        }
    }
}

/// Makes a write to a closed pipe, or to a file at its size limit, return an error instead of killing the process.
fn survive_failing_files() -> io::Result<()> {
    for signal in [SIGPIPE, SIGXFSZ] {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Prints the listening addresses on stdout, which may be closed or have no reader.
fn announce(listening: &[Listen]) {
    let text: String = listening.iter().map(|address| format!("listening on {address}\n")).collect();
    let (done, is_done) = channel();
    let write = move || {
        if let Err(error) = output::print(&text) {
            warn!("cannot write the listening addresses to stdout: {error:#}");
        }
        // If this fails, the receiver has stopped waiting.
        let _ = done.send(());
    };
    match thread::Builder::new().name("stdout".to_owned()).spawn(write) {
        Ok(_) if is_done.recv_timeout(OUTPUT_GRACE).is_err() => {
            warn!("nobody reads stdout: the listening addresses wait to be written there");
        }
        Ok(_) => {}
        Err(error) => {
            warn!(%error, "cannot write the listening addresses to stdout: no thread can be started")
        }
    }
}

/// What a target starts with. From a file, it also has the lines of the fields, and the text.
struct Start {
    config: Config,
    lines: Option<Lines>,
    text: Option<String>,
}

fn start_of(args: &Args) -> anyhow::Result<Start> {
    let start = match (&args.config, &args.device) {
        (Some(file), _) => {
            let (config, lines, text) = Config::load_with_text(file)?;
            Start { config, lines: Some(lines), text: Some(text) }
        }
        (None, Some(device)) => Start { config: simple(device, args)?, lines: None, text: None },
        (None, None) => bail!("neither --device nor --config is given"),
    };
    Ok(Start { config: with_flags(start.config, args), ..start })
}

/// The configuration with the flags that override its fields.
pub(crate) fn with_flags(mut config: Config, args: &Args) -> Config {
    if !args.listen.is_empty() {
        config.listen.clone_from(&args.listen);
    }
    if let Some(backend) = args.backend {
        config.backend = match backend {
            BackendName::Auto => BackendChoice::Auto,
            BackendName::IoUring => BackendChoice::IoUring,
            BackendName::Epoll => BackendChoice::Epoll,
        };
    }
    if args.spin.is_some() {
        config.spin = args.spin;
    }
    if args.state_dir.is_some() {
        config.state_dir.clone_from(&args.state_dir);
    }
    if args.log.is_some() {
        config.log.level.clone_from(&args.log);
    }
    if let Some(form) = args.log_format {
        config.log.format = match form {
            LogForm::Text => LogFormat::Text,
            LogForm::Json => LogFormat::Json,
        };
    }
    if let Some(socket) = &args.admin_socket {
        config.admin.socket = AdminSocket::named(socket);
    }
    config
}

/// One subsystem with one device, from the flags.
fn simple(device: &str, args: &Args) -> anyhow::Result<Config> {
    let kind = device_kind(device, args)?;
    let is_emulated = matches!(kind, DeviceKind::Emulated(_));
    ensure!(
        is_emulated || args.speed.is_none(),
        "--speed works only with an emulated device, and {device:?} is none; leave it out"
    );
    ensure!(
        is_emulated || args.condition.is_none(),
        "--condition works only with an emulated device, and {device:?} is none; leave it out"
    );
    let is_file = matches!(kind, DeviceKind::File { .. });
    let is_on_disk = is_file || matches!(kind, DeviceKind::Block { .. });
    ensure!(is_file || !args.create, "--create works only with a file, and {device:?} is none; leave it out");
    ensure!(
        is_on_disk || !args.force,
        "--force works only with a file or a block device, and {device:?} is none; leave it out"
    );
    let mut config = Config::simple(kind, DEFAULT_LISTEN);
    config.devices[0].force = args.force;
    if let Some(nqn) = &args.nqn {
        config.subsystems[0].nqn.clone_from(nqn);
    }
    if let Some(scheduler) = args.scheduler {
        config.devices[0].scheduler.policy = scheduler;
    }
    config.devices[0].scheduler.calibration.clone_from(&args.calibration);
    config.devices[0].scheduler.prior.clone_from(&args.prior);
    Ok(config)
}

fn device_kind(device: &str, args: &Args) -> anyhow::Result<DeviceKind> {
    if device == "null" {
        return Ok(DeviceKind::Null { size: args.size.unwrap_or(NULL_SIZE) });
    }
    let profile = device.strip_prefix("emulated:");
    if device == "emulated" || profile.is_some() {
        let mut emulated = EmulatedConfig::new(args.size.unwrap_or(EMULATED_SIZE));
        if let Some(profile) = profile {
            profile.clone_into(&mut emulated.profile);
        }
        emulated.speed = args.speed.unwrap_or(emulated.speed);
        emulated.condition = match args.condition {
            Some(FlashCondition::Fragmented) => Condition::Fragmented,
            Some(FlashCondition::Clean) | None => Condition::Clean,
        };
        return Ok(DeviceKind::Emulated(emulated));
    }
    let path = PathBuf::from(device);
    if is_block_device(&path) {
        ensure!(
            args.size.is_none(),
            "--size works only with a file or an emulated device, and {device:?} is a block device; leave it out"
        );
        return Ok(DeviceKind::Block { path, direct: true, access: BlockAccess::default() });
    }
    if is_generic_namespace(&path) {
        ensure!(
            args.size.is_none(),
            "--size works only with a file or an emulated device, and {device:?} is an NVMe namespace; leave it out"
        );
        let access = BlockAccess { passthrough: true, polled: false };
        return Ok(DeviceKind::Block { path, direct: true, access });
    }
    Ok(DeviceKind::File { path, size: args.size, create: args.create, direct: true })
}

/// Whether this is the character device of an NVMe namespace, with a name like `/dev/ng0n1`.
fn is_generic_namespace(path: &Path) -> bool {
    let is_called_so = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ng"));
    is_called_so && path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Starts the log on stderr; stdout has only the listening addresses. Returns a function that changes the filter later.
fn start_log(log: &LogConfig, writer: LogWriter) -> anyhow::Result<SetFilter> {
    let filter = filter_of(log).map_err(anyhow::Error::msg)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // The thread that logs would write these to stderr itself, and might block.
        .log_internal_errors(false)
        .with_writer(writer);
    Ok(match log.format {
        LogFormat::Text => {
            let builder =
                builder.event_format(EscapedLines(format().with_target(false))).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |log| handle.reload(filter_of(log)?).map_err(|error| error.to_string()))
        }
        LogFormat::Json => {
            let builder = builder.fmt_fields(JsonFields::new()).event_format(EscapedLines(format().json()));
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |log| handle.reload(filter_of(log)?).map_err(|error| error.to_string()))
        }
    })
}

/// Changes the log filter.
pub(crate) type SetFilter = Box<dyn Fn(&LogConfig) -> Result<(), String>>;

fn filter_of(log: &LogConfig) -> Result<EnvFilter, String> {
    log.filter().map_err(|error| format!("log.level: {error}"))
}

/// Ends the process on a panic, which is a bug of the target. If the target continued without one of its threads, hosts
/// would wait for responses that never come. If it exits, hosts and the service manager notice at once.
///
/// The report goes through the thread of the log, because a stderr without a reader must not keep the process alive.
fn abort_on_panic(log: LogWriter) {
    panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let backtrace = match backtrace.status() {
            BacktraceStatus::Captured => format!("\n{backtrace}"),
            _ => String::new(),
        };
        log.say("ERROR", &format!("thread {name:?} {info}; this is a bug: the target aborts{backtrace}"));
        log.drain(OUTPUT_GRACE);
        process::abort();
    }));
}

pub(crate) fn speed(text: &str) -> Result<Speed, String> {
    Speed::parse(text)
        .ok_or_else(|| "not a speed; write 1, 0.1 or 2.5, with at most three decimals".to_owned())
}
