//! A client of the SSDs: a database or a neighbour.

use crate::asked::Asked;
use crate::database::Database;
use crate::neighbour::Neighbour;
use crate::path::Path;
use crate::results::Results;
use units::{Instant, Nanos};

/// A client of the SSDs.
pub(crate) enum Client {
    /// A database.
    Database(Box<Database>),
    /// Another tenant.
    Neighbour(Neighbour),
}

impl Client {
    /// Its way to an SSD.
    pub(crate) fn path(&mut self, ssd: usize) -> &mut Path {
        match self {
            Client::Database(database) => &mut database.paths[ssd],
            Client::Neighbour(neighbour) => &mut neighbour.paths[ssd],
        }
    }

    /// The IOs that it has asked for, and the threads that may begin their next operation.
    pub(crate) fn take(&mut self) -> (Vec<Asked>, Vec<usize>) {
        match self {
            Client::Database(database) => {
                (std::mem::take(&mut database.asked), std::mem::take(&mut database.idle))
            }
            Client::Neighbour(neighbour) => (std::mem::take(&mut neighbour.asked), Vec::new()),
        }
    }

    /// A thread begins its next operation.
    pub(crate) fn begin(&mut self, now: Instant, thread: usize, results: Option<&mut Results>) {
        match self {
            Client::Database(database) => database.begin(now, thread, results),
            Client::Neighbour(_) => unreachable!("a neighbour has no threads"),
        }
    }

    /// An IO has ended.
    pub(crate) fn on_io(
        &mut self,
        now: Instant,
        asked: &Asked,
        latency: Nanos,
        results: Option<&mut Results>,
    ) {
        match self {
            Client::Database(database) => database.on_io(now, asked, latency, results),
            Client::Neighbour(neighbour) => neighbour.on_io(asked),
        }
    }

    /// Reads that went to the primary copy and to the other one.
    pub(crate) fn copies_read(&self) -> [u64; 2] {
        match self {
            Client::Database(database) => database.copies_read,
            Client::Neighbour(_) => [0; 2],
        }
    }
}
