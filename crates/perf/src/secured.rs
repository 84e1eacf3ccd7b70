//! The cost of proofs of identity and of TLS, with the initiator of this project at the other end.
//!
//! One target with a null device serves hosts without a key, with a key for DH-HMAC-CHAP and with one for TLS. Both ends of a connection
//! encrypt, so a ratio has the cost of both; the client does nothing else.

use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::{Server, Settings};
use anyhow::{Context, Result, bail};
use host::{
    Backend, Backoff, ControllerId, ControllerOptions, Derivation, DhKey, Engine, Event, HostKeys, Keys, Nqn,
    Operation, Request, RetryPolicy, TlsKey, TlsOptions, host_id,
};
use std::time::{Duration, Instant};
use units::{Bytes, Lba, Nanos};

/// Encrypted over plain.
pub(crate) const TLS: Measure = Measure {
    lines: &[
        Line::ratio("tls_rtt_qd1", Goal::AtMost(1.5)),
        Line::ratio("tls_bulk_read", Goal::AtLeast(0.4)),
        Line::ratio("tls_bulk_write", Goal::AtLeast(0.4)),
    ],
    about: "latency of 4 KiB reads, QD 1, and bandwidth at 128 KiB, QD 4: with TLS (AES-128-GCM) / without",
    disturbed: true,
    run: tls,
};

/// Connecting.
pub(crate) const AUTH_CONNECT: Measure = Measure {
    lines: &[
        Line { name: "auth_connect_ms", unit: "ms", goal: Goal::AtMost(50.0) },
        Line { name: "tls_connect_ms", unit: "ms", goal: Goal::AtMost(20.0) },
    ],
    about: "time from connecting to the first IO, with one IO queue: proofs with ffdhe3072 on both queues; TLS on both",
    disturbed: true,
    run: connecting,
};

const SUBSYSTEM: &str = "nqn.2025-01.io.gimbal:ssd";
/// Hosts without a key, with one for DH-HMAC-CHAP, with one for TLS.
const HOSTS: [&str; 3] = [
    "nqn.2025-01.io.gimbal:bench-plain",
    "nqn.2025-01.io.gimbal:bench-dhchap",
    "nqn.2025-01.io.gimbal:bench-tls",
];
/// Keys that protect nothing: the target is one of this machine, and ends with the measure.
const DH_KEY: &str = "DHHC-1:00:6Uw9yvIEYTOzFPN6xxc5DpSl1eryS7YAwR9uyVHrH7p1JU4O:";
const TLS_KEY: &str = "NVMeTLSkey-1:01:BY/5vmy6krRk7078UG9eYtkcQks27dyGwup8ucusZOor8k6N:";
/// Longest wait for a connection or an IO.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory of the client.
const MEMORY: Bytes = Bytes::mib(16);
/// Connections per round.
const CONNECTS: usize = 10;

/// The target; its key files are read when it has started.
fn target(bench: &Bench) -> Result<Server> {
    let (dh, tls) = (bench.scratch("dhchap", DH_KEY)?, bench.scratch("tls", TLS_KEY)?);
    let tables = format!(
        "[security]\ntls = \"optional\"\ndhchap_group = [\"ffdhe3072\"]\n\
         [[host]]\nnqn = {:?}\ndhchap_key = {:?}\n[[host]]\nnqn = {:?}\ntls_key = [{:?}]\n",
        HOSTS[1],
        dh.path()?,
        HOSTS[2],
        tls.path()?
    );
    bench.programs.null_target_with(bench.cores, &bench.folder, &Settings { top: "", tables: &tables })
}

/// An initiator with one IO queue.
struct Initiator {
    engine: Engine,
    controller: ControllerId,
}

impl Initiator {
    /// Connects as one of the hosts.
    fn connect(server: &Server, host: usize) -> Result<Initiator> {
        let mut engine = Engine::new(Backend::Auto, MEMORY).context("the initiator")?;
        let name = |text: &str| Nqn::new(text).expect("a name");
        let mut options = ControllerOptions::new(
            server.address(),
            name(SUBSYSTEM),
            name(HOSTS[host]),
            host_id(&name(HOSTS[host])),
        );
        (options.retry, options.backoff) = (RetryPolicy::Never, Backoff::NEVER_RETRY);
        options.connect_timeout = Nanos::secs(PATIENCE.as_secs());
        options.keys = match host {
            0 => Keys::default(),
            1 => {
                let own = DhKey::parse(DH_KEY).context("the key of the bench")?;
                Keys { dhchap: Some(HostKeys { host: own, controller: None }), ..Keys::default() }
            }
            _ => {
                let key = TlsKey::parse(TLS_KEY).context("the key of the bench")?;
                Keys { tls: Some(TlsOptions { key, derivation: Derivation::Standard }), ..Keys::default() }
            }
        };
        let controller = engine.connect(options);
        loop {
            engine.wait(None).context("the initiator")?;
            while let Some(event) = engine.next_event() {
                match event {
                    Event::Ready { .. } => return Ok(Initiator { engine, controller }),
                    Event::GaveUp { error, .. } => bail!("{error}"),
                    _ => {}
                }
            }
        }
    }

    /// IOs per second of `depth` at a time.
    fn run(&mut self, operation: Operation, (length, depth): (u32, u32), span: Duration) -> Result<f64> {
        let (began, mut ended, mut out) = (Instant::now(), 0u64, 0);
        for _ in 0..depth {
            self.submit(operation, length)?;
            out += 1;
        }
        while out > 0 {
            self.engine.wait(None).context("the initiator")?;
            while let Some(event) = self.engine.next_event() {
                match event {
                    Event::Completed { completion, .. } => {
                        completion.result.map_err(|error| anyhow::anyhow!("an IO failed: {error:?}"))?;
                        if let Some(buffer) = completion.buffer {
                            self.engine.give_buffer(buffer);
                        }
                        ended += 1;
                        if began.elapsed() < span {
                            self.submit(operation, length)?;
                        } else {
                            out -= 1;
                        }
                    }
                    Event::Down { fault, .. } => bail!("the connection was lost: {fault}"),
                    Event::GaveUp { error, .. } => bail!("{error}"),
                    _ => {}
                }
            }
        }
        Ok(ended as f64 / began.elapsed().as_secs_f64())
    }

    fn submit(&mut self, operation: Operation, length: u32) -> Result<()> {
        let buffer =
            self.engine.take_buffer(self.controller, length as usize).context("no memory for an IO")?;
        let namespace = self.engine.namespaces(self.controller).first().context("there is no namespace")?;
        let blocks = length / namespace.block_size.get() as u32;
        let request = Request::new(0, 1, operation, Lba(0), blocks).with_buffer(buffer);
        self.engine.submit(self.controller, request).map_err(|refused| anyhow::anyhow!("{:?}", refused.why))
    }
}

fn tls(bench: &Bench) -> Result<Vec<Reading>> {
    let server = target(bench)?;
    let mut ends = [Initiator::connect(&server, 2)?, Initiator::connect(&server, 0)?];
    let loads = [
        (Operation::Read, (4 << 10, 1)),
        (Operation::Read, (128 << 10, 4)),
        (Operation::Write { durable: false }, (128 << 10, 4)),
    ];
    loads
        .into_iter()
        .enumerate()
        .map(|(number, (operation, size))| {
            let mut iops: [Vec<f64>; 2] = Default::default();
            for round in 0..bench.rounds {
                for turn in 0..2 {
                    let who = (round + turn) % 2;
                    iops[who].push(ends[who].run(operation, size, bench.span)?);
                }
            }
            let is_latency = number == 0;
            let ratio = |(tls, plain): (&f64, &f64)| if is_latency { plain / tls } else { tls / plain };
            let ratios = Rounds::new(iops[0].iter().zip(&iops[1]).map(ratio).collect());
            let [tls, plain] = iops.map(|iops| Rounds::new(iops).median());
            let detail = match is_latency {
                true => format!("{:.1} and {:.1} µs", 1e6 / tls, 1e6 / plain),
                false => format!(
                    "{:.2} and {:.2} GB/s",
                    tls * f64::from(size.0) / 1e9,
                    plain * f64::from(size.0) / 1e9
                ),
            };
            Ok(Reading::new(ratios, detail))
        })
        .collect()
}

fn connecting(bench: &Bench) -> Result<Vec<Reading>> {
    let server = target(bench)?;
    let mut millis: [Vec<f64>; 3] = Default::default();
    for round in 0..bench.rounds {
        for turn in 0..HOSTS.len() {
            let who = (round + turn) % HOSTS.len();
            let began = Instant::now();
            for _ in 0..CONNECTS {
                Initiator::connect(&server, who)?.run(Operation::Read, (4 << 10, 1), Duration::ZERO)?;
            }
            millis[who].push(began.elapsed().as_secs_f64() * 1e3 / CONNECTS as f64);
        }
    }
    let [plain, dhchap, tls] = millis.map(Rounds::new);
    let detail = format!("without a key {:.1} ms", plain.median());
    Ok(vec![Reading::new(dhchap, detail.clone()), Reading::new(tls, detail)])
}
