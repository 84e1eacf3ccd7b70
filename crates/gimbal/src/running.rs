//! The target that runs, and the document that it runs by: the owner of both.
//!
//! ```text
//!   SIGHUP, POST /v1/reload:  read the file ─────────────────────────► apply ─► it runs
//!   a change by the API:      compare, edit ─► judge ─► stage beside ─► apply ─► rename ─► it runs and is stored ─► answer
//! ```
//!
//! A change is refused if the file is not what runs. So neither an editor nor a client of the API overwrites the other. A document that is accepted
//! and cannot be completed (a device hangs) is in the file, and a later reload completes it.
//!
//! Holds: what runs after a kill at any moment is the last acknowledged document, or the one that was being written
//!        (`what_runs_after_a_kill_is_what_was_acknowledged` in `tests/ctl.rs`).

use crate::registration::Registration;
use crate::serve::{Args, SetFilter, with_flags};
use crate::serve_flags::explain_config;
use admin::{Action, Answer, Board, Document, Edit, OnDocument, OnGroup, OnSnapshot, Order, Refusal, Staged};
use server::config::{Config, ConfigError, Lines};
use server::{Change, ReloadError, ServerHandle, SnapshotError, TakeoverError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tracing::{error, info, warn};

/// Time limit of a reload for the IOs of devices and namespaces that the new configuration removes.
const RELOAD_LIMIT: Duration = Duration::from_secs(10);

/// Time limit of a snapshot, and the longest that writes of its namespace wait.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Running<'a> {
    pub(crate) server: ServerHandle,
    args: &'a Args,
    set_filter: SetFilter,
    board: Arc<Board>,
    registration: &'a Registration,
}

/// Why a document does not run.
enum Failure {
    /// Nothing has changed.
    Config(ConfigError, Option<Lines>),
    /// Nothing has changed.
    New(String),
    /// It is accepted; a later reload completes it.
    Incomplete(String),
    /// The target has ended.
    Stopped(String),
}

/// A document that has no problem by itself, as it is going to run.
struct Judged {
    config: Config,
    lines: Lines,
    text: String,
}

impl<'a> Running<'a> {
    /// Of a target that was started by these arguments, with this text.
    pub(crate) fn new(
        server: ServerHandle,
        args: &'a Args,
        set_filter: SetFilter,
        board: Arc<Board>,
        registration: &'a Registration,
    ) -> Running<'a> {
        Running { server, args, set_filter, board, registration }
    }

    /// Applies the present file (SIGHUP). Problems are logged, and the target continues with the old configuration.
    pub(crate) fn reload(&mut self) {
        let Some(file) = &self.args.config else {
            warn!(
                "SIGHUP: nothing to reload, because the target was started with flags; start it with --config FILE"
            );
            return;
        };
        info!(file = %file.display(), "reloading the configuration");
        let answer = match self.apply_file(file) {
            Ok(changes) => {
                info!(changes = changes.len(), "the configuration was reloaded");
                Answer::Done { generation: self.generation(), changes }
            }
            Err(failure) => {
                let is_accepted = matches!(failure, Failure::Incomplete(_));
                let problems = self.explain(failure);
                problems.lines().for_each(|problem| error!("{problem}"));
                error!("the configuration was not reloaded");
                match is_accepted {
                    true => Answer::Pending { generation: self.generation(), why: problems },
                    false => Answer::Refused(Refusal::new(409, problems)),
                }
            }
        };
        self.board.note("SIGHUP", "reload", &answer);
    }

    /// Does what a client of the API asks for, and answers.
    pub(crate) fn obey(&mut self, order: Order) {
        let answer = match self.done(order.action.clone()) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Refused(refusal),
        };
        order.answer(answer);
    }

    fn done(&mut self, action: Action) -> Result<Answer, Refusal> {
        let action = match action {
            Action::Disconnect(host) => return Ok(Answer::Disconnected(self.server.disconnect(&host))),
            Action::Snapshot(wanted) => {
                return self.snapshot(&wanted).map_err(|error| Refusal::of_snapshot(&error));
            }
            Action::Group(wanted) => {
                return self.move_group(&wanted).map_err(|error| Refusal::of_takeover(&error));
            }
            Action::Document(action) => action,
        };
        let Some(file) = self.args.config.clone() else {
            let detail =
                "the target was started with flags, so there is no file to change; start it with -c FILE";
            return Err(Refusal::new(409, detail));
        };
        match action {
            OnDocument::Reload => match self.apply_file(&file) {
                Ok(changes) => Ok(Answer::Done { generation: self.generation(), changes }),
                Err(failure) => self.refusal(failure),
            },
            OnDocument::Discard => {
                let document = self.board.document();
                Staged::new(&file, document.text())?.commit().map_err(|error| unsure(&file, &error))?;
                Ok(Answer::Done { generation: self.generation(), changes: Vec::new() })
            }
            OnDocument::Edit { edit, expected, dry_run } => {
                self.edit(&file, edit, expected.as_deref(), dry_run)
            }
        }
    }

    fn snapshot(&mut self, wanted: &OnSnapshot) -> Result<Answer, SnapshotError> {
        let OnSnapshot { device, name, taken_of, dry_run } = wanted;
        let Some((nqn, nsid)) = taken_of else {
            if *dry_run {
                let there = self.server.snapshots(device)?.into_iter().any(|snapshot| snapshot.name == *name);
                let absent = || SnapshotError::Absent(name.clone());
                return there.then_some(Answer::Snapshot(None)).ok_or_else(absent);
            }
            self.server.delete_snapshot(device, name)?;
            return Ok(Answer::Snapshot(None));
        };
        let namespace = self.server.namespaces(nqn).into_iter().find(|facts| facts.nsid == *nsid);
        let namespace = namespace.ok_or_else(|| SnapshotError::NoNamespace(format!("{nsid} of {nqn}")))?;
        if *dry_run {
            self.server.check_snapshot(device, name, namespace.uuid)?;
            return Ok(Answer::Snapshot(None));
        }
        let taken = self.server.take_snapshot(device, name, namespace.uuid, SNAPSHOT_LIMIT)?;
        Ok(Answer::Snapshot(Some(taken)))
    }

    fn move_group(&mut self, wanted: &OnGroup) -> Result<Answer, TakeoverError> {
        let OnGroup { group, takes_over, dry_run } = wanted;
        match (takes_over, dry_run) {
            (Some(generation), true) => self.server.check_takeover(group, *generation)?,
            (Some(generation), false) => self.server.take_over(group, *generation)?,
            (None, _) => self.server.release(group)?,
        }
        Ok(Answer::Group(group.clone(), self.server.remote().takeover(group)?))
    }

    fn edit(
        &mut self,
        file: &Path,
        edit: Edit,
        expected: Option<&str>,
        dry_run: bool,
    ) -> Result<Answer, Refusal> {
        let document = self.board.document();
        self.check_unedited(file, &document)?;
        if expected.is_some_and(|expected| expected != document.generation()) {
            let detail = format!(
                "the configuration has changed since it was read: its generation is {}; read it again",
                document.generation()
            );
            return Err(Refusal::new(412, detail));
        }
        let text = edit.apply(document.text())?;
        // Judged before it is stored, so that a document that is refused touches no file.
        let judged =
            self.judged(file, text.clone().into_bytes()).and_then(|new| Ok((self.preview(&new)?, new)));
        let (changes, new) = judged.or_else(|failure| self.refusal_only(failure))?;
        if dry_run {
            return Ok(Answer::Done { generation: self.generation(), changes });
        }
        let staged = Staged::new(file, &text)?;
        let applied = self.apply_judged(new);
        if let Err(failure @ (Failure::Config(..) | Failure::New(_) | Failure::Stopped(_))) = applied {
            return self.refusal_only(failure);
        }
        self.check_unedited(file, &document).map_err(|refusal| {
            let detail = format!("the change is in effect, but it is not in the file: {}", refusal.detail);
            Refusal::new(409, detail)
        })?;
        staged.commit().map_err(|error| unsure(file, &error))?;
        self.server.confirm();
        match applied {
            Ok(changes) => Ok(Answer::Done { generation: self.generation(), changes }),
            Err(failure) => self.refusal(failure),
        }
    }

    /// Refuses a change if the file is not what runs.
    fn check_unedited(&self, file: &Path, document: &Document) -> Result<(), Refusal> {
        let found = files::read(file, files::TEXT_MAX).map_err(|error| {
            Refusal::new(409, format!("{} cannot be read: {error}; nothing has changed", file.display()))
        })?;
        if found == document.text().as_bytes() {
            return Ok(());
        }
        let detail = format!(
            "{} was edited since it was read: reload it (SIGHUP, or gimbal ctl reload), or drop these edits with gimbal ctl config discard",
            file.display()
        );
        Err(Refusal::new(409, detail))
    }

    fn apply_file(&mut self, file: &Path) -> Result<Vec<Change>, Failure> {
        let unreadable = |error| {
            let error = ConfigError::Unreadable { file: file.to_owned(), error };
            Failure::Config(error, None)
        };
        let bytes = files::read(file, files::TEXT_MAX).map_err(unreadable)?;
        self.apply(file, bytes)
    }

    /// Changes the target to the document with these bytes.
    fn apply(&mut self, file: &Path, bytes: Vec<u8>) -> Result<Vec<Change>, Failure> {
        let new = self.judged(file, bytes)?;
        let applied = self.apply_judged(new);
        self.server.confirm();
        applied
    }

    fn apply_judged(&mut self, new: Judged) -> Result<Vec<Change>, Failure> {
        let Judged { config, lines, text } = new;
        let log = config.log.clone();
        let reloaded = self.server.reload_unstored(config, RELOAD_LIMIT);
        self.registration.offer(&self.server);
        match reloaded {
            Ok(changes) => {
                self.board.replace(Document::new(text), true);
                (self.set_filter)(&log).map_err(Failure::New)?;
                Ok(changes)
            }
            Err(ReloadError::Config(error)) => Err(Failure::Config(error, Some(lines))),
            Err(error @ ReloadError::New(_)) => Err(Failure::New(error.to_string())),
            Err(error @ ReloadError::Stopped) => Err(Failure::Stopped(error.to_string())),
            Err(
                error @ (ReloadError::Stuck { .. }
                | ReloadError::NotErased { .. }
                | ReloadError::Blocked { .. }
                | ReloadError::Listen(_)),
            ) => {
                self.board.replace(Document::new(text), false);
                Err(Failure::Incomplete(error.to_string()))
            }
        }
    }

    fn preview(&self, new: &Judged) -> Result<Vec<Change>, Failure> {
        self.server.preview(&new.config).map_err(|error| match error {
            ReloadError::Config(error) => Failure::Config(error, Some(new.lines.clone())),
            error => Failure::New(error.to_string()),
        })
    }

    fn judged(&self, file: &Path, bytes: Vec<u8>) -> Result<Judged, Failure> {
        let (config, lines, text) =
            Config::of_file(file, bytes).map_err(|error| Failure::Config(error, None))?;
        let mut config = with_flags(config, self.args);
        if config.state_dir.is_none() {
            // The default was chosen at the start and stays.
            config.state_dir.clone_from(&self.server.config().state_dir);
        }
        Ok(Judged { config, lines, text })
    }

    fn generation(&self) -> String {
        self.board.document().generation().to_owned()
    }

    /// The problems, one line each.
    fn explain(&self, failure: Failure) -> String {
        match failure {
            Failure::Config(error, lines) => explain_config(error, self.args, lines.as_ref()),
            Failure::New(why) | Failure::Incomplete(why) | Failure::Stopped(why) => why,
        }
    }

    /// The answer to a client for a document that does not run, or not yet.
    fn refusal(&self, failure: Failure) -> Result<Answer, Refusal> {
        match failure {
            Failure::Incomplete(why) => Ok(Answer::Pending { generation: self.generation(), why }),
            failure => self.refusal_only(failure),
        }
    }

    fn refusal_only<T>(&self, failure: Failure) -> Result<T, Refusal> {
        let file = self.args.config.as_deref().unwrap_or(Path::new(""));
        Err(match failure {
            Failure::Config(error, Some(lines)) => Refusal::of_config(lines.locate(file, error)),
            Failure::Config(error, None) => Refusal::of_config(error),
            Failure::Stopped(why) => Refusal::new(503, why),
            Failure::New(why) | Failure::Incomplete(why) => Refusal::new(409, why),
        })
    }
}

/// The error of a rename: the target has changed, and it is not certain that the file has.
fn unsure(file: &Path, error: &std::io::Error) -> Refusal {
    let detail = format!(
        "{} cannot be replaced: {error}; the change is in effect, but may be gone after a restart: look at the file, then gimbal ctl config discard writes what runs",
        file.display()
    );
    Refusal::new(507, detail)
}
