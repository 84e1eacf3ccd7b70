//! An IO that a database asks for, and what it is for.

use crate::files::SLOT;
use crate::results::Purpose;
use blob::steer::Load;
use blob::{Place, SsdId};
use sched::{IoKind, Priority};

/// Purpose of an IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A read of this thread.
    Read(usize),
    /// A group of the log.
    Log,
    /// A flush (0) or compaction (1).
    Job(usize),
    /// A micro blob that is not used any more.
    Trim,
    /// The work of a neighbour.
    Stream,
}

/// An IO that a database asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) place: Place,
    pub(crate) first: u64,
    pub(crate) slots: u64,
    pub(crate) kind: IoKind,
    pub(crate) task: Task,
    /// The copy that could have been read as well, and the client's knowledge of both.
    pub(crate) instead: Option<(SsdId, [Load; 2])>,
}

impl Asked {
    /// Bytes to be written.
    pub(crate) fn written(&self) -> u64 {
        if self.kind == IoKind::Write { self.slots * SLOT } else { 0 }
    }

    /// The class of the IO, where the client names one: as a volume does.
    pub(crate) fn class(&self) -> Priority {
        let class = match self.task {
            Task::Log => 0,
            Task::Read(_) | Task::Stream => 1,
            Task::Job(_) | Task::Trim => 3,
        };
        Priority::new(class).expect("there are four classes")
    }

    pub(crate) fn purpose(&self) -> Purpose {
        match self.task {
            Task::Read(_) => Purpose::Get,
            Task::Log => Purpose::Log,
            Task::Job(_) if self.kind == IoKind::Read => Purpose::Merge,
            Task::Job(_) => Purpose::Table,
            Task::Trim => Purpose::Trim,
            Task::Stream => Purpose::Neighbour,
        }
    }
}
