//! A write on its way to the owner of the target, and the answer.

use crate::board::Board;
use crate::edit::Edit;
use crate::refusal::Refusal;
use crate::{snapshots, takeover};
use serde_json::{Value, json};
use server::{Change, KeyUse, Listing, Room, SlowIos, Snapshot, SnapshotError, Stats, Taken, TakeoverError};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The target, for the threads of the API.
pub trait Source: Send + Sync + 'static {
    /// Statistics of all SSDs and threads.
    fn stats(&self) -> Stats;

    /// The slowest IOs of each SSD in the last minute.
    fn slow_ios(&self) -> SlowIos;

    /// The uses of the keys of a host; `None` if it has no `[[host]]`.
    fn key_uses(&self, host: &str) -> Option<Vec<KeyUse>>;

    /// All connections to subsystems. The only function here that waits: for up to a second, if a thread hangs.
    fn connections(&self) -> Listing;

    /// The snapshots in a directory. It reads the directory.
    fn snapshots(&self, device: &str) -> Result<Vec<Snapshot>, SnapshotError>;

    /// The space of a directory. It asks the file system.
    fn room(&self, device: &str) -> Result<Room, SnapshotError>;

    /// The generation with which a group was taken over and is held.
    fn takeover(&self, group: &str) -> Result<Option<u64>, TakeoverError>;

    /// Drains the target for maintenance, or ends that.
    fn drain(&self, is_drained: bool);

    /// Puts an order into the queue of the owner.
    ///
    /// # Errors
    /// The queue is full, or the target is stopping.
    fn ask(&self, order: Order) -> Result<(), Refusal>;
}

/// An action on a target.
#[derive(Clone, Debug)]
pub enum Action {
    /// Something with the document, which needs a file.
    Document(OnDocument),
    /// End the connections of this host.
    Disconnect(String),
    /// Take or delete a snapshot.
    Snapshot(OnSnapshot),
    /// Take a group over, or release it.
    Group(OnGroup),
}

/// An action on a group whose devices are fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnGroup {
    /// Its name.
    pub group: String,
    /// The generation with which it is taken over; `None` releases it.
    pub takes_over: Option<u64>,
    /// Only say whether that is possible.
    pub dry_run: bool,
}

/// An action on a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnSnapshot {
    /// The directory that it is in.
    pub device: String,
    /// Its name.
    pub name: String,
    /// The subsystem and the number of the namespace that it is taken of; `None` deletes it.
    pub taken_of: Option<(String, u32)>,
    /// Only say whether that is possible.
    pub dry_run: bool,
}

/// An action on the document of a target.
#[derive(Clone, Debug)]
pub enum OnDocument {
    /// Apply the file as it is now.
    Reload,
    /// Write the document that runs over the file.
    Discard,
    /// Change the document.
    Edit {
        /// The change.
        edit: Edit,
        /// The generation that it was made for.
        expected: Option<String>,
        /// Only say what would change.
        dry_run: bool,
    },
}

/// An action, and the way back for its answer.
#[derive(Debug)]
pub struct Order {
    /// The action.
    pub action: Action,
    id: u64,
    board: Arc<Board>,
    /// `None` once it was answered.
    answer: Option<oneshot::Sender<Answer>>,
}

/// The answer to an order.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done, and the file has it.
    Done {
        /// The generation that runs now.
        generation: String,
        /// The changes.
        changes: Vec<Change>,
    },
    /// It was accepted, and the file has it, but something of it is not done: a later reload completes it.
    Pending {
        /// The generation of the file.
        generation: String,
        /// The missing part.
        why: String,
    },
    /// The number of connections of a host that were ended.
    Disconnected(usize),
    /// A snapshot was taken, with the time that writes have waited; or, without one, it was deleted, or only looked at.
    Snapshot(Option<Taken>),
    /// A group is held with that generation, or not held.
    Group(String, Option<u64>),
    /// It is refused.
    Refused(Refusal),
}

impl Order {
    /// A new order, its number, and where its answer comes.
    pub(crate) fn new(
        action: Action,
        who: String,
        what: String,
        board: &Arc<Board>,
    ) -> (Order, u64, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let id = board.begin(who, what);
        (Order { action, id, board: Arc::clone(board), answer: Some(answer) }, id, answered)
    }

    /// Answers it. The answer stays on the board if the client has gone.
    pub fn answer(mut self, answer: Answer) {
        self.board.end(self.id, &answer);
        if let Some(sender) = self.answer.take() {
            // A client that does not wait any more finds it on the board.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for Order {
    /// An order that was refused a place in the queue, or that a stop has overtaken, is no operation.
    fn drop(&mut self) {
        if self.answer.is_some() {
            self.board.forget(self.id);
        }
    }
}

impl Answer {
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Answer::Done { .. } | Answer::Disconnected(_) | Answer::Snapshot(_) | Answer::Group(..) => "done",
            Answer::Pending { .. } => "pending",
            Answer::Refused(_) => "refused",
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Answer::Done { generation, changes } => {
                let changes: Vec<Value> = changes.iter().map(of_change).collect();
                json!({ "generation": generation, "changes": changes })
            }
            Answer::Pending { generation, why } => json!({ "generation": generation, "pending": why }),
            Answer::Disconnected(count) => json!({ "connections": count }),
            Answer::Snapshot(None) => json!({ "snapshot": null }),
            Answer::Snapshot(Some(Taken { snapshot, pause })) => {
                json!({ "snapshot": snapshots::shown(snapshot), "pause_seconds": pause.get() as f64 / 1e9 })
            }
            Answer::Group(group, generation) => takeover::shown(group, *generation),
            Answer::Refused(refusal) => refusal.to_json(),
        }
    }
}

fn of_change(change: &Change) -> Value {
    let Change { subject, name, from, to } = change;
    json!({ "subject": subject.to_string(), "name": name, "from": from, "to": to, "text": change.to_string() })
}
