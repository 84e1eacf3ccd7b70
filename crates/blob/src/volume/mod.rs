//! A mounted volume: a state machine that turns requests into IOs and orders, and their ends into outcomes.
//!
//! ```text
//!   submit(op, request) ┐                                ┌─► Action::Io, Action::Order: to be carried out
//!   on_io, on_reply     ├─► tasks run until they wait ───┼─► Action::Done: the outcome of an operation
//!   on_time, on_ssd     ┘                                └─► next_timer: when to come back
//! ```
//!
//! Reading order: `state` (the metadata), `files` and `write` (from bytes to blocks), `journal`, `mount`, `lease`.

mod check;
mod clock;
mod copies;
mod core;
mod disks;
mod files;
mod journal;
mod lease;
mod metadata;
mod mount;
mod names;
mod outbox;
mod parts;
mod phase;
mod read;
mod repair;
mod repair_signal;
mod settings;
mod space;
mod state;
mod write;

pub use files::HandleId;
pub use names::normal as normal_path;
pub use settings::Settings;

use crate::catalog::{Order, OrderError, Reply, SsdRecord};
use crate::steer::Slow;
use crate::task::Tasks;
use crate::{Fault, FileId, SsdId};
use core::Core;
use std::rc::Rc;
use std::sync::Arc;
use units::{Instant, Nanos};

/// An operation, as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An IO on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// An order on its way to the metadata store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// What an IO does. Addresses and lengths are in bytes and multiples of the volume's block size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Read.
    Read {
        /// First byte.
        at: u64,
        /// How many.
        length: u32,
    },
    /// Write. A block of the volume is written as a whole or not at all, unless power fails.
    Write {
        /// First byte.
        at: u64,
        /// What.
        bytes: Arc<Vec<u8>>,
        /// It survives a power loss as soon as it has completed (force unit access).
        durable: bool,
    },
    /// Make all completed writes survive a power loss.
    Flush,
    /// The bytes are not needed any more.
    Trim {
        /// First byte.
        at: u64,
        /// How many.
        length: u64,
    },
}

/// How urgent an IO is among those of one volume. What a volume may do beside others is not its own to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits for a little that is written: a log, the journal.
    Urgent,
    /// Somebody waits for what is read; and what has no class at an SSD.
    Normal,
    /// Nobody waits for a single one: tables that are written, compactions, repair, scrubbing.
    Background,
}

/// An IO to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// To be named when it has ended.
    pub id: IoId,
    /// Where.
    pub ssd: SsdId,
    /// Before or after which others.
    pub class: Class,
    /// What.
    pub kind: IoKind,
}

/// Why an IO failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFault {
    /// The target could not be reached, or did not answer in time. A write may still happen.
    Unreachable,
    /// The target said no.
    Failed,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// These SSDs are of interest: connect to them, and say what becomes of it with [`Volume::on_ssd`].
    Ssds(Vec<(SsdId, SsdRecord)>),
    /// Carry out an IO, and hand its end to [`Volume::on_io`].
    Io(Io),
    /// Carry out an order, and hand the answer to [`Volume::on_reply`].
    Order(OrderId, Order),
    /// An operation has ended.
    Done(OpId, Outcome),
}

/// What a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Mount the volume. Must be the first request, and end before the next.
    Mount,
    /// A new file to write to; takes the name from the one that has it.
    Create {
        /// Its name.
        path: String,
    },
    /// A file to append to; made if there is none.
    Reopen {
        /// Its name.
        path: String,
    },
    /// A file to read.
    Open {
        /// Its name.
        path: String,
    },
    /// Append bytes. They may wait in buffers. What is asked for later comes behind them and finds them, also if this has not ended
    /// yet.
    Append {
        /// Where.
        handle: HandleId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Write at an offset, at least up to the end of the file.
    WriteAt {
        /// Where.
        handle: HandleId,
        /// From here on.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// What was appended survives a crash of this client.
    Flush {
        /// The file.
        handle: HandleId,
    },
    /// What was appended, and the file's name, survive power losses of the targets.
    Sync {
        /// The file.
        handle: HandleId,
    },
    /// Change the size.
    Truncate {
        /// The file.
        handle: HandleId,
        /// The size.
        size: u64,
    },
    /// Close a handle, flushed.
    Close {
        /// The handle.
        handle: HandleId,
    },
    /// Read bytes; fewer only at the end of the file.
    Read {
        /// The file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
        /// Whether somebody waits for it.
        class: Class,
    },
    /// The size, with what waits in buffers.
    Size {
        /// The file.
        handle: HandleId,
    },
    /// Give a file or directory another name; replaces the file that has it.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Remove a name.
    Unlink {
        /// The name.
        path: String,
    },
    /// Give a file a further name.
    Link {
        /// A name of the file.
        from: String,
        /// The further name.
        to: String,
    },
    /// Make a directory.
    MakeDir {
        /// Its name.
        path: String,
    },
    /// Remove an empty directory.
    RemoveDir {
        /// Its name.
        path: String,
    },
    /// The names in a directory.
    List {
        /// The directory.
        path: String,
    },
    /// What a name stands for.
    Stat {
        /// The name.
        path: String,
    },
    /// How many bytes files may still take.
    Free,
    /// All changes of names survive power losses of the targets.
    SyncNames,
    /// Make every copy anew that is missing or stale.
    Repair,
    /// Check every copy of every block, and repair.
    Scrub,
    /// How the volume is.
    Show,
    /// Sync everything and unlock the volume.
    Unmount,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// To `Create`, `Reopen`, `Open`.
    Opened {
        /// The handle.
        handle: HandleId,
        /// Bytes of the file.
        size: u64,
    },
    /// To `Read`.
    Bytes(Vec<u8>),
    /// To `Size` and `Free`.
    Size(u64),
    /// To `List`.
    Names(Vec<String>),
    /// To `Stat`.
    Stat(Stat),
    /// To `Repair` and `Scrub`.
    Report(Report),
    /// To `Show`.
    Shown(Box<Shown>),
    /// It failed.
    Failed(Fault),
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// A directory.
    pub is_dir: bool,
    /// The file. Two names with the same one are the same file.
    pub file: FileId,
    /// Bytes, with what waits in buffers.
    pub size: u64,
    /// Names of the file.
    pub links: u32,
    /// When it was last changed: seconds since 1970.
    pub time: u64,
}

/// What a repair or scrub found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blocks read and checked, both copies counted.
    pub checked: u64,
    /// Blocks that were not as they had been written.
    pub corrupt: u64,
    /// Micro blobs of which a copy was made anew.
    pub repaired: u64,
    /// Micro blobs that still have one good copy only, and the metadata if it has: no space, or their SSDs cannot be reached.
    pub left: u64,
    /// Micro blobs without any good copy.
    pub lost: u64,
    /// Micro blobs with a good copy on an SSD that cannot be reached now: nobody has seen whether it is good still.
    pub away: u64,
}

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Snapshots of the metadata.
    pub checkpoints: u64,
    /// Copies of the metadata that missed a write.
    pub metadata_copies_lost: u64,
    /// Micro blobs that were made with one copy.
    pub degraded_extents: u64,
    /// Copies of micro blobs that were marked stale.
    pub stale_copies: u64,
    /// Reads that found wrong bytes in a copy.
    pub corrupt_blocks: u64,
    /// Copies that were made anew.
    pub repaired_extents: u64,
}

/// How a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Micro blobs of all files.
    pub extents: u64,
    /// Those that have one good copy.
    pub degraded: u64,
    /// Those that have none.
    pub lost: u64,
    /// Copies of the metadata.
    pub metadata_copies: u64,
    /// SSDs that this client reaches.
    pub ssds_up: u64,
    /// Micro blobs that are in use and that are free in the volume's mega blobs.
    pub micros: (usize, usize),
    /// Counts since the mount.
    pub counters: Counters,
}

/// A volume of this client.
pub struct Volume {
    core: Rc<Core>,
    tasks: Tasks,
}

impl Volume {
    /// A volume that is not mounted yet.
    pub fn new(settings: Settings) -> Volume {
        let tasks = Tasks::default();
        let core = Core::new(settings, tasks.spawner());
        Volume { core, tasks }
    }

    /// The time since 1970 at this moment: for the times of files, and for what the clients of a rack do at the same time.
    pub fn set_wall_clock(&mut self, now: Instant, since_1970: Nanos) {
        self.core.clock.set_wall_clock(now, since_1970);
    }

    /// Begins an operation; [`Action::Done`] follows.
    pub fn submit(&mut self, now: Instant, op: OpId, request: Request) {
        self.core.clock.set_now(now);
        let core = Rc::clone(&self.core);
        self.tasks.spawner().spawn(async move {
            let outcome = serve(&core, request).await;
            core.outbox.push(Action::Done(op, outcome.unwrap_or_else(Outcome::Failed)));
        });
        self.tasks.run();
    }

    /// An IO has ended, on the connection of this epoch. A read has its bytes.
    pub fn on_io(&mut self, now: Instant, id: IoId, epoch: u64, result: Result<Vec<u8>, IoFault>) {
        self.core.clock.set_now(now);
        self.core.disks.on_io(id, epoch, result);
        self.tasks.run();
    }

    /// The metadata store has answered.
    pub fn on_reply(&mut self, now: Instant, id: OrderId, reply: Result<Reply, OrderError>) {
        self.core.clock.set_now(now);
        self.core.orders.on_reply(id, reply);
        self.tasks.run();
    }

    /// An SSD can be reached, or not any more. The epoch grows with every new connection.
    pub fn on_ssd(&mut self, now: Instant, ssd: SsdId, is_up: bool, epoch: u64) {
        self.core.clock.set_now(now);
        let is_back = self.core.disks.on_reach(ssd, is_up, epoch);
        self.core.space.on_reach(ssd, is_up);
        if is_back && self.core.phase.is_mounted() {
            self.core.repair.set();
        }
        self.tasks.run();
    }

    /// The switch in front of an SSD gives this credit, and says whether the SSD is slow.
    pub fn on_told(&mut self, ssd: SsdId, credit: Option<u32>, slow: Option<Slow>) {
        self.core.disks.on_told(ssd, credit, slow);
    }

    /// It is now `now`.
    pub fn on_time(&mut self, now: Instant) {
        self.core.clock.set_now(now);
        while self.core.clock.wake_next() {
            self.tasks.run();
        }
    }

    /// When `on_time` is to be called next.
    pub fn next_timer(&self) -> Option<Instant> {
        self.core.clock.next_timer()
    }

    /// What is to be done outside, oldest first.
    pub fn next_action(&mut self) -> Option<Action> {
        self.core.outbox.pop()
    }

    /// Another client has the volume: nothing will be acknowledged any more.
    pub fn is_fenced(&self) -> bool {
        self.core.lease.is_fenced()
    }
}

async fn serve(core: &Rc<Core>, request: Request) -> Result<Outcome, Fault> {
    if matches!(request, Request::Mount) {
        let result = core.mount().await;
        if result.is_err() {
            core.end();
        }
        return result.map(|()| Outcome::Done);
    }
    if !core.phase.is_mounted() {
        return Err(Fault::NotMounted);
    }
    match request {
        Request::Mount => unreachable!("answered above"),
        Request::Create { path } => {
            core.create(&path).await.map(|handle| Outcome::Opened { handle, size: 0 })
        }
        Request::Reopen { path } => {
            let handle = core.reopen(&path).await?;
            Ok(Outcome::Opened { handle, size: core.files.size(core.files.handle(handle)?.file)? })
        }
        Request::Open { path } => core.open(&path).map(|(handle, size)| Outcome::Opened { handle, size }),
        Request::Append { handle, bytes } => {
            core.appender.append(core.files.writer(handle)?, &bytes).await.map(|()| Outcome::Done)
        }
        Request::WriteAt { handle, offset, bytes } => {
            core.appender.write_at(core.files.writer(handle)?, offset, &bytes).await.map(|()| Outcome::Done)
        }
        Request::Flush { handle } => {
            core.syncer.flush(core.files.writer(handle)?).await.map(|()| Outcome::Done)
        }
        Request::Sync { handle } => {
            core.syncer.sync(core.files.writer(handle)?).await.map(|()| Outcome::Done)
        }
        Request::Truncate { handle, size } => {
            core.layouts.truncate(core.files.writer(handle)?, size).await.map(|()| Outcome::Done)
        }
        Request::Close { handle } => core.layouts.close(handle).await.map(|()| Outcome::Done),
        Request::Read { handle, offset, length, class } => {
            let file = core.files.handle(handle)?.file;
            core.files.pin(file);
            core.files.appended(file).await;
            let result = core.read(file, class, offset, length).await;
            core.files.unpin(file);
            result.map(Outcome::Bytes)
        }
        Request::Size { handle } => {
            let file = core.files.handle(handle)?.file;
            core.files.appended(file).await;
            core.files.size(file).map(Outcome::Size)
        }
        Request::Rename { from, to } => core.rename(&from, &to).await.map(|()| Outcome::Done),
        Request::Unlink { path } => core.unlink(&path).await.map(|()| Outcome::Done),
        Request::Link { from, to } => core.link(&from, &to).await.map(|()| Outcome::Done),
        Request::MakeDir { path } => core.make_dir(&path).await.map(|()| Outcome::Done),
        Request::RemoveDir { path } => core.remove_dir(&path).await.map(|()| Outcome::Done),
        Request::List { path } => core.list(&path),
        Request::Stat { path } => core.stat(&path).await.map(Outcome::Stat),
        Request::Free => core.space.free_bytes().await.map(Outcome::Size),
        Request::SyncNames => core.sync_names().await.map(|()| Outcome::Done),
        Request::Repair => core.repair().await.map(Outcome::Report),
        Request::Scrub => core.scrub().await.map(Outcome::Report),
        Request::Show => Ok(Outcome::Shown(Box::new(show(core)))),
        Request::Unmount => core.unmount().await.map(|()| Outcome::Done),
    }
}

fn show(core: &Core) -> Shown {
    let ids: Vec<FileId> = core.metadata.files();
    let bytes = ids.iter().filter_map(|file| core.files.size(*file).ok()).sum();
    let state = core.metadata.state();
    let extents = state.files().flat_map(|(_, file)| &file.extents);
    let good = |extent: &state::Extent| (0..2).filter(|&side| extent.good(side).is_some()).count();
    let (checkpoints, metadata_copies_lost) = core.journal.counts();
    Shown {
        files: ids.len() as u64,
        bytes,
        extents: extents.clone().count() as u64,
        degraded: extents.clone().filter(|extent| good(extent) == 1).count() as u64,
        lost: extents.filter(|extent| good(extent) == 0).count() as u64,
        metadata_copies: core.journal.count_copies(),
        ssds_up: core.space.count_up(),
        micros: core.space.micros(),
        counters: Counters {
            checkpoints,
            metadata_copies_lost,
            degraded_extents: core.space.degraded(),
            stale_copies: core.copies.stale(),
            ..*core.counters.borrow()
        },
    }
}
