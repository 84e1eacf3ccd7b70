//! The prober: runs the script's tasks one after the other and keeps the journal.

use crate::config::{Config, ConfigError};
use crate::device::Step;
use crate::load::{ActRun, Cursors, EXTENSION};
use crate::profile::Profile;
use crate::script::{self, Answer};
use crate::task::{Act, ActResult, Task};
use serde::{Deserialize, Serialize};
use units::{Bytes, Instant, Nanos};

/// A task that ended, with its results. The journal is a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub(crate) task: Task,
    pub(crate) results: Vec<ActResult>,
}

impl Entry {
    pub(crate) fn written_bytes(&self) -> u64 {
        self.results.iter().map(|result| result.written_bytes).sum()
    }

    pub(crate) fn span_ns(&self) -> u64 {
        self.results.iter().map(|result| result.span_ns).sum()
    }
}

/// Why a journal cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It has other tasks.
    #[error(
        "entry {entry} of the state is \"{found}\", but the probe asks for \"{wanted}\" there: the state was made by another version or \
         with other options; start again without it"
    )]
    Mismatch {
        /// Its number, from 1.
        entry: usize,
        /// The task in the state.
        found: String,
        /// The task of this probe.
        wanted: String,
    },
}

/// Progress of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Tasks that ended.
    pub tasks: usize,
    /// The present activity.
    pub title: String,
    /// Bytes written so far.
    pub written: Bytes,
    /// Time under test so far.
    pub elapsed: Nanos,
}

/// A probe of one device.
pub struct Prober {
    config: Config,
    journal: Vec<Entry>,
    state: State,
    cursors: Cursors,
}

enum State {
    /// Between two tasks.
    Ready,
    Running(Running),
    Finished(Box<Profile>),
}

struct Running {
    task: Task,
    /// Of the acts that ended.
    results: Vec<ActResult>,
    act: ActRun,
}

impl Prober {
    /// A new probe.
    ///
    /// # Errors
    /// Nothing can be found with this configuration.
    pub fn new(config: Config) -> Result<Prober, ConfigError> {
        config.check()?;
        Ok(Prober { config, journal: Vec::new(), state: State::Ready, cursors: Cursors::default() })
    }

    /// Continues a probe of the same configuration.
    ///
    /// # Errors
    /// The journal is not of this configuration.
    pub fn resume(config: Config, journal: Vec<Entry>) -> Result<Prober, ResumeError> {
        let prober = Prober { journal, ..Prober::new(config)? };
        match script::next(&prober.config, &prober.journal) {
            Answer::Mismatch { entry, wanted } => {
                let found = prober.journal[entry].task.title.clone();
                Err(ResumeError::Mismatch { entry: entry + 1, found, wanted: wanted.title })
            }
            _ => Ok(prober),
        }
    }

    /// The next thing to do at `now`.
    ///
    /// # Panics
    /// If `now` is earlier than before.
    pub fn poll(&mut self, now: Instant) -> Step {
        loop {
            match &mut self.state {
                State::Finished(_) => return Step::Finished,
                State::Ready => match script::next(&self.config, &self.journal) {
                    Answer::Task(task) => self.start(task, now),
                    Answer::Profile(profile) => self.state = State::Finished(profile),
                    Answer::Mismatch { wanted, .. } => {
                        unreachable!("the journal was checked, but \"{}\" is not in it", wanted.title)
                    }
                },
                State::Running(running) => match running.act.poll(now) {
                    Some(step) => return step,
                    None => self.next_act(now),
                },
            }
        }
    }

    /// An IO completed.
    ///
    /// # Panics
    /// If no IO with this tag is under way.
    pub fn on_done(&mut self, now: Instant, tag: u64) {
        match &mut self.state {
            State::Running(running) => running.act.on_done(now, tag),
            _ => panic!("IO {tag} completed while no IO was under way"),
        }
    }

    /// The result, once the probe is finished.
    pub fn profile(&self) -> Option<&Profile> {
        match &self.state {
            State::Finished(profile) => Some(profile),
            _ => None,
        }
    }

    /// Findings so far, in the order in which it was asked. With it, a probe can be continued.
    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// Its progress.
    pub fn progress(&self) -> Progress {
        let title = match &self.state {
            State::Running(running) => running.task.title.clone(),
            State::Ready | State::Finished(_) => "done".to_owned(),
        };
        Progress {
            tasks: self.journal.len(),
            title,
            written: Bytes(self.journal.iter().map(Entry::written_bytes).sum()),
            elapsed: Nanos(self.journal.iter().map(Entry::span_ns).sum()),
        }
    }

    fn start(&mut self, task: Task, now: Instant) {
        let act = self.start_act(&task, &[], now);
        self.state = State::Running(Running { task, results: Vec::new(), act });
    }

    /// Starts the act after these results of its task, cut down to the remaining bytes and time.
    fn start_act(&self, task: &Task, results: &[ActResult], now: Instant) -> ActRun {
        let Progress { written, elapsed, .. } = self.progress();
        let written = written.get() + results.iter().map(|result| result.written_bytes).sum::<u64>();
        let elapsed = elapsed.get() + results.iter().map(|result| result.span_ns).sum::<u64>();
        let writes = self.config.writes_most_bytes.saturating_sub(written);
        let time = self.config.time_most_ns.saturating_sub(elapsed);
        let mut act = task.acts[results.len()].clone();
        match &mut act {
            Act::Idle { span_ns } => *span_ns = time.min(*span_ns),
            Act::Load(load) => {
                load.writes_most_bytes = load.writes_most_bytes.min(writes);
                load.span_ns = load.span_ns.min(time);
                if load.span_ns > time / EXTENSION {
                    load.ios_least = 0;
                }
            }
        }
        let seed = self.config.seed ^ ((self.journal.len() as u64) << 20 | results.len() as u64);
        ActRun::start(&act, now, &self.config, self.cursors, seed)
    }

    fn next_act(&mut self, now: Instant) {
        let State::Running(mut running) = std::mem::replace(&mut self.state, State::Ready) else {
            unreachable!("only a running act ends")
        };
        let (result, cursors) = running.act.finish(now);
        running.results.push(result);
        self.cursors = cursors.unwrap_or(self.cursors);
        let next = running.results.len();
        if next == running.task.acts.len() {
            self.journal.push(Entry { task: running.task, results: running.results });
        } else {
            running.act = self.start_act(&running.task, &running.results, now);
            self.state = State::Running(running);
        }
    }
}
