//! The running document and the operations, which every thread can read without waiting for the owner of the target.
//!
//! Holds: the list of operations is bounded, and an operation that waits is never dropped (`operations_are_bounded_and_waiting_ones_stay`).

use crate::document::Document;
use crate::order::Answer;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// Operations that are remembered, in addition to those that wait.
const REMEMBERED: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Board {
    /// The configuration file; `None` if the target was started with flags.
    file: Option<PathBuf>,
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    document: Arc<Document>,
    operations: VecDeque<Operation>,
    next: u64,
    stops: bool,
}

/// A change, from its arrival on.
#[derive(Clone, Debug)]
pub struct Operation {
    id: u64,
    /// The one who asked for it.
    who: String,
    what: String,
    /// The time of its arrival.
    at: SystemTime,
    /// `None`: it waits, or is being done.
    answer: Option<Answer>,
}

impl Board {
    /// Of a target that runs this document.
    pub fn new(file: Option<&Path>, document: Document) -> Board {
        let shown =
            Shown { document: Arc::new(document), operations: VecDeque::new(), next: 1, stops: false };
        Board { file: file.map(Path::to_owned), shown: Mutex::new(shown) }
    }

    /// The configuration file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The document that runs.
    pub fn document(&self) -> Arc<Document> {
        Arc::clone(&self.shown().document)
    }

    /// Another document runs now. `is_complete`: so operations that were pending are done.
    pub fn replace(&self, document: Document, is_complete: bool) {
        let mut shown = self.shown();
        let document = Arc::new(document);
        if is_complete {
            let pending = shown.operations.iter_mut().filter_map(|operation| operation.answer.as_mut());
            for answer in pending {
                if let Answer::Pending { generation, .. } = answer {
                    let generation = std::mem::take(generation);
                    *answer = Answer::Done { generation, changes: Vec::new() };
                }
            }
        }
        shown.document = document;
    }

    /// The target is stopping.
    pub fn stop(&self) {
        self.shown().stops = true;
    }

    /// Whether the target is stopping.
    pub(crate) fn stops(&self) -> bool {
        self.shown().stops
    }

    /// Notes a change that did not come by the API, with its answer.
    pub fn note(&self, who: &str, what: &str, answer: &Answer) {
        let id = self.begin(who.to_owned(), what.to_owned());
        self.end(id, answer);
    }

    /// An operation begins to wait. Returns its number.
    pub(crate) fn begin(&self, who: String, what: String) -> u64 {
        let mut shown = self.shown();
        let id = shown.next;
        shown.next += 1;
        shown.operations.push_back(Operation { id, who, what, at: SystemTime::now(), answer: None });
        let ended = |operation: &Operation| operation.answer.is_some();
        while shown.operations.iter().filter(|operation| ended(operation)).count() > REMEMBERED {
            let oldest = shown.operations.iter().position(ended).expect("there are more than some");
            shown.operations.remove(oldest);
        }
        id
    }

    /// An operation has ended so.
    pub(crate) fn end(&self, id: u64, answer: &Answer) {
        let mut shown = self.shown();
        if let Some(operation) = shown.operations.iter_mut().find(|operation| operation.id == id) {
            operation.answer = Some(answer.clone());
        }
    }

    /// An operation is not going to be done.
    pub(crate) fn forget(&self, id: u64) {
        self.shown().operations.retain(|operation| operation.id != id);
    }

    /// The operations, oldest first.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.shown().operations.iter().cloned().collect()
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().expect("nobody panics with it")
    }
}

impl Operation {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn to_json(&self) -> Value {
        let (state, answer) = match &self.answer {
            None => ("waiting", Value::Null),
            Some(answer) => (answer.state(), answer.to_json()),
        };
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        json!({
            "id": self.id, "who": self.who, "what": self.what, "at_seconds": at,
            "state": state, "answer": answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_bounded_and_waiting_ones_stay() {
        let board = Board::new(None, Document::new(String::new()));
        let first = board.begin("a".to_owned(), "first".to_owned());
        for _ in 0..3 * REMEMBERED {
            let id = board.begin("a".to_owned(), "later".to_owned());
            board.end(id, &Answer::Pending { generation: "g".to_owned(), why: "w".to_owned() });
        }
        let kept = board.operations();
        assert!(kept.len() <= REMEMBERED + 2, "{}", kept.len());
        assert_eq!(kept[0].id(), first);
        board.replace(Document::new("new".to_owned()), true);
        let states: Vec<Value> =
            board.operations().iter().map(|kept| kept.to_json()["state"].clone()).collect();
        assert_eq!(states[0], "waiting");
        assert!(states[1..].iter().all(|state| state == "done"), "{states:?}");
    }
}
