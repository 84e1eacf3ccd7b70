//! `gimbal serve`: the target, until a signal ends it.
//!
//! Prints `listening on ADDRESS` on stdout for each address when hosts may connect; everything else goes to the log on stderr.
//! The first SIGTERM or SIGINT ends the target in order, the second at once. SIGHUP reads the configuration file again.
//!
//! Holds: neither stdout nor stderr can hold up or end the target, whatever stands behind them (`tests/log_trouble.rs`).
//! Elsewhere: how the log is written is `log_writer`.

use crate::log_writer::LogWriter;
use crate::notify::{State, notify};
use crate::output;
use crate::serve_flags::{explain_config, explain_start};
use crate::state_dir;
use anyhow::{Context, Error, bail, ensure};
use clap::ValueEnum;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, stderr};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use target::config::{
    BackendChoice, Condition, Config, DEFAULT_LISTEN, DeviceKind, EmulatedConfig, Lines, LogConfig,
    LogFormat, PolicyKind, Speed, parse_size, parse_span,
};
use target::{EscapedLines, ReloadError, Server, ServerHandle, Shutdown};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{JsonFields, format};
use units::{Bytes, Nanos};

/// How long a new configuration waits for IOs to what the old one had and the new one has not.
const RELOAD_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of the process waits for the log to be written, and the start for stdout.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// Size of a device that is not there, when none is given.
const NULL_SIZE: Bytes = Bytes::gib(1024);
/// Size of an emulated SSD when none is given: that of the default model.
const EMULATED_SIZE: Bytes = Bytes::gib(16);

/// Arguments of `gimbal serve`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gimbal serve --device /dev/nvme0n1 --listen 0.0.0.0:4420
  gimbal serve --device emulated:dct983 --condition fragmented
  gimbal serve --device disk.img --create --size 100G --scheduler none
  gimbal serve -c gimbal.toml

Signals:
  SIGHUP           read the configuration file again; hosts stay connected (`gimbal config check` it first)
  SIGTERM, SIGINT  end: answer what has come, flush, close; once more to end at once")]
pub(crate) struct Args {
    /// A configuration file (see `gimbal config check`)
    #[arg(short, long, value_name = "FILE", required_unless_present = "device", conflicts_with = "device")]
    pub(crate) config: Option<PathBuf>,
    /// What to share: a block device or file, `emulated`, `emulated:PROFILE`, or `null`
    #[arg(long, value_name = "PATH|emulated[:PROFILE]|null")]
    device: Option<String>,
    /// Size of the device, such as 100G; a file that is there must have this size
    #[arg(long, value_parser = size, conflicts_with = "config")]
    size: Option<Bytes>,
    /// Make the file, sparse, if it is not there
    #[arg(long, requires = "size", conflicts_with = "config")]
    create: bool,
    /// Share the device although somebody else uses it (a mount, swap, LVM, another program): what is on it may be destroyed
    #[arg(long, conflicts_with = "config")]
    force: bool,
    /// Where hosts connect, more than once if wanted; port 0 lets the system choose [default: 127.0.0.1:4420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Name of the subsystem
    #[arg(long, conflicts_with = "config")]
    nqn: Option<String>,
    /// Who goes to the SSD next, and when
    #[arg(long, value_enum, conflicts_with = "config")]
    scheduler: Option<Scheduler>,
    /// What was measured of the device, for gimbal-next, reflex and flashfq
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    calibration: Option<PathBuf>,
    /// State of an emulated SSD's flash at the start
    #[arg(long, value_enum, conflicts_with = "config")]
    condition: Option<FlashCondition>,
    /// Speed of an emulated SSD against the real one, such as 0.1
    #[arg(long, value_parser = speed, conflicts_with = "config")]
    speed: Option<Speed>,
    /// How to talk to the system
    #[arg(long, value_enum)]
    pub(crate) backend: Option<BackendName>,
    /// How long a device's thread looks for work before it sleeps, while IOs come quickly; `0us` is never [default: 50us if
    /// there is a processor for each device]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub(crate) spin: Option<Nanos>,
    /// Where reservations that persist are kept [default: $STATE_DIRECTORY, /var/lib/gimbal for root, ~/.local/state/gimbal for
    /// others]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) state_dir: Option<PathBuf>,
    /// What to log, such as `info` or `warn,target=debug`
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Form of the log
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogForm>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scheduler {
    /// Gimbal with a bounded lead: shares hold even for tenants that are out of slots
    Gimbal,
    /// Gimbal that is fair in what IOs take of the device, by a calibrated model of it
    GimbalNext,
    /// Gimbal exactly as published
    GimbalPaper,
    /// ReFlex: tokens by a calibrated model of the device
    Reflex,
    /// FlashFQ: equal parts of the device's time, by a calibrated model of it
    Flashfq,
    /// First in, first out
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum FlashCondition {
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

/// Serves until a signal.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (mut config, lines) = config_of(&args)?;
    let mut stateless = None;
    if config.state_dir.is_none() {
        (config.state_dir, stateless) = state_dir::default()?;
    }
    config.judge().map_err(|error| Error::msg(explain_config(error, &args, lines.as_ref())))?;
    survive_failing_files().context("signals cannot be handled")?;
    let stderr = stderr().as_fd().try_clone_to_owned().context("stderr")?;
    let log =
        LogWriter::start(stderr.into(), config.log.format).context("the log's thread cannot be started")?;
    let result = serve(&args, config, lines.as_ref(), stateless, &log);
    log.drain(OUTPUT_GRACE);
    result
}

/// Serves, once it is known where things are. Without a place for reservations, `stateless` says why.
fn serve(
    args: &Args,
    config: Config,
    lines: Option<&Lines>,
    stateless: Option<String>,
    log: &LogWriter,
) -> anyhow::Result<ExitCode> {
    let set_filter = start_log(&config.log, log.clone())?;
    abort_on_panic(log.clone());
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("signals cannot be handled")?;
    if let Some(why) = stateless {
        warn!(
            "reservations do not persist, and hosts that ask for it (Linux's own calls do) are refused: {why}; give --state-dir"
        );
    }
    let mut server = Server::start(config).map_err(|error| Error::msg(explain_start(error, args, lines)))?;
    announce(server.addresses());
    notify(State::Ready);

    while signals.forever().next() == Some(SIGHUP) {
        notify(State::Reloading);
        reload(&mut server, args, &set_filter);
        notify(State::Ready);
    }
    notify(State::Stopping);
    let limit = Duration::from_nanos(server.config().limits.drain_timeout.get());
    info!(?limit, "ending: commands that came are answered; once more to end at once");
    let stopper = server.stopper();
    thread::spawn(move || {
        signals.forever().find(|signal| *signal != SIGHUP);
        stopper.stop();
    });
    Ok(match server.shutdown(limit) {
        Shutdown::Complete => ExitCode::SUCCESS,
        Shutdown::CutShort => ExitCode::FAILURE,
    })
}

/// Writes to a pipe that was closed, and to a file that may not grow, are errors that the writer hears of, not the end of the
/// process.
fn survive_failing_files() -> io::Result<()> {
    for signal in [SIGPIPE, SIGXFSZ] {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Says on stdout where hosts connect. Whoever started the target may have closed stdout, or may not read it.
fn announce(addresses: &[SocketAddr]) {
    let text: String = addresses.iter().map(|address| format!("listening on {address}\n")).collect();
    let (done, is_done) = channel();
    let write = move || {
        if let Err(error) = output::print(&text) {
            warn!("stdout does not take the addresses that are listened on: {error:#}");
        }
        // Nobody waits any more if this fails.
        let _ = done.send(());
    };
    match thread::Builder::new().name("stdout".to_owned()).spawn(write) {
        Ok(_) if is_done.recv_timeout(OUTPUT_GRACE).is_err() => {
            warn!("nobody reads stdout, where the addresses that are listened on are written");
        }
        Ok(_) => {}
        Err(error) => warn!(%error, "stdout cannot be written: there is no thread for it"),
    }
}

/// Takes over what the configuration file says now. Whatever is wrong is logged, and the target goes on.
fn reload(server: &mut ServerHandle, args: &Args, set_filter: &SetFilter) {
    let Some(file) = &args.config else {
        warn!(
            "SIGHUP: there is nothing to reload, as the target was started by flags; start it with --config"
        );
        return;
    };
    info!(file = %file.display(), "reloading the configuration");
    let reloaded = config_of(args).map_err(|error| format!("{error:#}")).and_then(|(mut config, lines)| {
        if config.state_dir.is_none() {
            // The default was chosen at the start.
            config.state_dir.clone_from(&server.config().state_dir);
        }
        let log = config.log.clone();
        let changes = server.reload(config, RELOAD_LIMIT).map_err(|error| match error {
            ReloadError::Config(error) => explain_config(error, args, lines.as_ref()),
            error => error.to_string(),
        })?;
        set_filter(&log).map(|()| changes)
    });
    match reloaded {
        Ok(changes) => info!(changes = changes.len(), "the configuration was reloaded"),
        Err(problems) => {
            problems.lines().for_each(|problem| error!("{problem}"));
            error!("the configuration was not reloaded");
        }
    }
}

/// The configuration, and if it is from a file, where in it everything stands.
fn config_of(args: &Args) -> anyhow::Result<(Config, Option<Lines>)> {
    let (mut config, lines) = match (&args.config, &args.device) {
        (Some(file), _) => {
            let (config, lines) = Config::load_with_lines(file)?;
            (config, Some(lines))
        }
        (None, Some(device)) => (simple(device, args)?, None),
        (None, None) => bail!("neither --device nor --config is given"),
    };
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
    Ok((config, lines))
}

/// One subsystem with one device, from the flags.
fn simple(device: &str, args: &Args) -> anyhow::Result<Config> {
    let kind = device_kind(device, args)?;
    let is_emulated = matches!(kind, DeviceKind::Emulated(_));
    ensure!(is_emulated || args.speed.is_none(), "--speed is for emulated devices, {device:?} is none");
    ensure!(
        is_emulated || args.condition.is_none(),
        "--condition is for emulated devices, {device:?} is none"
    );
    let is_file = matches!(kind, DeviceKind::File { .. });
    let is_on_disk = is_file || matches!(kind, DeviceKind::Block { .. });
    ensure!(is_file || !args.create, "--create is for files, {device:?} is none");
    ensure!(is_on_disk || !args.force, "--force is for files and block devices, {device:?} is none");
    let mut config = Config::simple(kind, DEFAULT_LISTEN);
    config.devices[0].force = args.force;
    if let Some(nqn) = &args.nqn {
        config.subsystems[0].nqn.clone_from(nqn);
    }
    if let Some(scheduler) = args.scheduler {
        config.devices[0].scheduler.policy = match scheduler {
            Scheduler::Gimbal => PolicyKind::Gimbal,
            Scheduler::GimbalNext => PolicyKind::GimbalNext,
            Scheduler::GimbalPaper => PolicyKind::GimbalPaper,
            Scheduler::Reflex => PolicyKind::Reflex,
            Scheduler::Flashfq => PolicyKind::Flashfq,
            Scheduler::None => PolicyKind::None,
        };
    }
    config.devices[0].scheduler.calibration.clone_from(&args.calibration);
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
            "--size is for files and emulated devices, {device:?} is a block device"
        );
        return Ok(DeviceKind::Block { path, direct: true });
    }
    Ok(DeviceKind::File { path, size: args.size, create: args.create, direct: true })
}

fn is_block_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Logs to stderr, so that stdout says nothing but where hosts connect. Answers what changes the filter later.
fn start_log(log: &LogConfig, writer: LogWriter) -> anyhow::Result<SetFilter> {
    let filter = filter_of(log).map_err(anyhow::Error::msg)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // They would be written to stderr, by whoever logs.
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

/// Changes what is logged.
type SetFilter = Box<dyn Fn(&LogConfig) -> Result<(), String>>;

fn filter_of(log: &LogConfig) -> Result<EnvFilter, String> {
    log.filter().map_err(|error| format!("log.level: {error}"))
}

/// A panic is a bug of ours. A target that went on without one of its threads would leave hosts waiting for answers that
/// never come; one that is gone is noticed at once, by them and by whatever starts it again.
///
/// The report goes through the log, whose thread writes it: a stderr that nobody reads must not keep the process alive.
fn abort_on_panic(log: LogWriter) {
    panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let backtrace = match backtrace.status() {
            BacktraceStatus::Captured => format!("\n{backtrace}"),
            _ => String::new(),
        };
        log.say("ERROR", &format!("thread {name:?} {info}; this is a bug: the target is aborted{backtrace}"));
        log.drain(OUTPUT_GRACE);
        process::abort();
    }));
}

fn size(text: &str) -> Result<Bytes, String> {
    parse_size(text).ok_or_else(|| "not a size; write 100G, 512M or a number of bytes".to_owned())
}

fn span(text: &str) -> Result<Nanos, String> {
    parse_span(text).ok_or_else(|| "not a span of time; write 20us, 0.1ms or 0us".to_owned())
}

fn speed(text: &str) -> Result<Speed, String> {
    Speed::parse(text).ok_or_else(|| "not a speed; write 1, 0.1 or 2.5, in whole thousandths".to_owned())
}
