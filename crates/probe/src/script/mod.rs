//! The script: the questions to the device, their order, and the meaning of the answers.
//!
//! ```text
//!  reads alone ─► write buffer: search ─► recovery by idleness ─► drain under load ─► reads during recovery ─► latency when exhausted
//!      ─► writes alone ─► interference ─► latency against load ─► Profile
//! ```
//!
//! It reads like a program that waits for each answer. In fact it runs from its start each time: [`Asker::ask`] returns the answer
//! from the journal, or ends the run with the question. So it must depend on nothing but the configuration and the journal.
//!
//! The two limits (`Config`) are kept by the prober, which cuts an act down to the rest of them. The script plans so that this is not needed:
//! what does not fit is left out, and the profile has a note.

mod alone;
mod buffer;
mod mixed;
mod recovery;

use crate::config::Config;
use crate::prober::Entry;
use crate::profile::{DeviceTable, MetricsTable, Profile, VERSION, round};
use crate::task::{Act, ActResult, Arrival, Load, Pattern, Stream, Task};
use units::MIB;

/// Sequential writes that fill the buffer. Deep enough for every device to write at its full rate.
const FILL_BYTES: u32 = 128 << 10;
const FILL_DEPTH: u32 = 32;
/// The share of the time that the write buffer may take. The rest is for everything else.
const BUFFER_TIME_PERCENT: u64 = 65;
/// The share of the write limit that the write buffer may take.
const BUFFER_WRITES_PERCENT: u64 = 80;

/// A rest must fit this often into the time that is left.
const REST_TIMES: u64 = 2;
/// There is room for a load if there is room for this part of it more.
const ROOM_MARGIN: u64 = 4;

/// The script's next wish after this journal.
pub(crate) enum Answer {
    /// This task's results.
    Task(Task),
    /// Nothing more.
    Profile(Box<Profile>),
    /// The journal has another task here.
    Mismatch { entry: usize, wanted: Task },
}

/// Ends a run of the script.
enum Stop {
    Ask(Task),
    Mismatch { entry: usize, wanted: Task },
}

/// Asks the journal.
struct Asker<'a> {
    config: &'a Config,
    journal: &'a [Entry],
    next: usize,
    written: u64,
    elapsed_ns: u64,
    /// Known once the write buffer was found.
    rest: Option<Rest>,
    notes: Vec<String>,
}

/// Rests that keep the write buffer from being exhausted by later measurements.
struct Rest {
    size_bytes: u64,
    /// Idle time after which it is whole again.
    span_ns: u64,
    /// Shorter idle times, and what each was seen to bring back, by time.
    part: Vec<(u64, u64)>,
    /// Written since it was whole, less what came back since.
    used_bytes: u64,
}

/// Preparation that a load needs.
enum Need {
    Nothing,
    /// Idle time, and what of the buffer is used after it.
    Rest {
        span_ns: u64,
        used_bytes: u64,
    },
    /// A rest for which there is no time.
    TimeForRest,
}

impl Rest {
    /// Before a load that writes this much: while there is time, the buffer is made whole when half of it is used. Otherwise it rests
    /// only when there is no room, and no longer than it takes until there is.
    fn before(&self, writes: u64, time_left: u64) -> Need {
        let affordable = |span_ns: u64| time_left > REST_TIMES * span_ns;
        if self.used_bytes + writes > self.size_bytes / 2 && affordable(self.span_ns) {
            return Need::Rest { span_ns: self.span_ns, used_bytes: 0 };
        }
        let room = writes + writes / ROOM_MARGIN;
        if self.used_bytes + room <= self.size_bytes {
            return Need::Nothing;
        }
        match self.part.iter().find(|(_, back)| *back >= room) {
            Some(&(span_ns, back)) if affordable(span_ns) => {
                Need::Rest { span_ns, used_bytes: self.size_bytes.saturating_sub(back) }
            }
            _ => Need::TimeForRest,
        }
    }
}

pub(crate) fn next(config: &Config, journal: &[Entry]) -> Answer {
    let mut asker =
        Asker { config, journal, next: 0, written: 0, elapsed_ns: 0, rest: None, notes: Vec::new() };
    match script(&mut asker) {
        Ok(profile) => Answer::Profile(Box::new(profile)),
        Err(Stop::Ask(task)) => Answer::Task(task),
        Err(Stop::Mismatch { entry, wanted }) => Answer::Mismatch { entry, wanted },
    }
}

fn script(asker: &mut Asker<'_>) -> Result<Profile, Stop> {
    let mut limits = alone::reads(asker)?;
    let mut found = buffer::Found::default();
    if asker.config.writes() {
        found = buffer::find(asker)?;
        limits.extend(alone::writes(asker, found.write_rate)?);
    }
    let interference = mixed::interference(asker, &found)?;
    let (load, over_10_ms_ppm) = mixed::loads(asker, &found)?;
    let cost = alone::costs(&limits);
    Ok(Profile {
        version: VERSION,
        device: DeviceTable {
            name: "unnamed".to_owned(),
            capacity_mib: asker.config.size_bytes / MIB,
            quick: asker.config.quick,
            read_only: asker.config.read_only,
            written_mib: asker.written.div_ceil(MIB),
            took_s: round(asker.elapsed_ns as f64 / 1e9, 1),
            notes: asker.notes.clone(),
        },
        switch: alone::switch(&limits, &cost, &found),
        metrics: Some(MetricsTable {
            over_10_ms_ppm,
            steady_write_mb_per_s: found.steady.map(|(rate, _)| round(rate / 1e6, 1)),
            steady_after_share: found
                .steady
                .map(|(_, written)| round(written as f64 / asker.config.size_bytes as f64, 3)),
            write_amplification: None,
        }),
        buffer: found.buffer,
        recovery: found.recovery,
        degraded: found.degraded,
        limit: limits,
        cost,
        interference,
        load,
    })
}

impl<'a> Asker<'a> {
    /// The results of these acts, one for each.
    fn ask(&mut self, title: String, acts: Vec<Act>) -> Result<&'a [ActResult], Stop> {
        let task = Task { title, acts };
        let Some(entry) = self.journal.get(self.next) else { return Err(Stop::Ask(task)) };
        if entry.task != task || entry.results.len() != task.acts.len() {
            return Err(Stop::Mismatch { entry: self.next, wanted: task });
        }
        self.next += 1;
        self.written += entry.written_bytes();
        self.elapsed_ns += entry.span_ns();
        if let Some(rest) = &mut self.rest {
            rest.used_bytes += entry.written_bytes();
        }
        Ok(&entry.results)
    }

    /// The result of one load while the write buffer is whole: rests before if the load might exhaust it.
    fn ask_fresh(&mut self, title: String, load: Load) -> Result<&'a ActResult, Stop> {
        let writes = load.writes_most_bytes;
        let mut acts = vec![Act::Load(load)];
        let need = match &self.rest {
            Some(rest) if writes > 0 => rest.before(writes, self.time_left()),
            _ => Need::Nothing,
        };
        match (need, &mut self.rest) {
            (Need::Rest { span_ns, used_bytes }, Some(rest)) => {
                rest.used_bytes = used_bytes;
                acts.insert(0, Act::Idle { span_ns });
            }
            (Need::TimeForRest, _) => self.note(
                "the time was too short for rests: some writes were measured with an exhausted write buffer"
                    .to_owned(),
            ),
            _ => {}
        }
        let results = self.ask(title, acts)?;
        Ok(results.last().expect("the load has a result"))
    }

    fn time_left(&self) -> u64 {
        self.config.time_most_ns.saturating_sub(self.elapsed_ns)
    }

    /// Rest of the time for the write buffer.
    fn buffer_time_left(&self) -> u64 {
        (self.config.time_most_ns / 100 * BUFFER_TIME_PERCENT).saturating_sub(self.elapsed_ns)
    }

    /// Bytes that may still be written to explore the write buffer.
    fn buffer_writes_left(&self) -> u64 {
        (self.config.writes_most_bytes / 100 * BUFFER_WRITES_PERCENT).saturating_sub(self.written)
    }

    fn writes_left(&self) -> u64 {
        self.config.writes_most_bytes.saturating_sub(self.written)
    }

    /// Adds a note to the profile, once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// One or the other, as the probe is quick or not.
    fn pick<T>(&self, quick: T, thorough: T) -> T {
        if self.config.quick { quick } else { thorough }
    }

    /// A load of the usual length.
    fn cell(&self, streams: Vec<Stream>) -> Load {
        let span_ns = self.pick(100, 500) * 1_000_000;
        Load {
            streams,
            warm_up_ns: span_ns / 4,
            span_ns,
            ios_least: 64,
            ios_most: self.pick(20_000, 200_000),
            writes_most_bytes: 0,
            until_slow: None,
        }
    }
}

/// A stream of one kind.
fn closed(writes_permille: u32, pattern: Pattern, size_bytes: u32, depth: u32) -> Stream {
    Stream { writes_permille, pattern, size_bytes, arrival: Arrival::Closed { depth } }
}
