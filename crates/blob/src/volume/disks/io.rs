//! IOs to SSDs. Writes are sent only while this client may write.

use super::{Disks, Sequence};
use crate::task::{Answer, join};
use crate::volume::{Action, Class, Io, IoFault, IoId, IoKind};
use crate::{Fault, Place, SsdId};
use std::sync::Arc;

/// The reason why a write has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The SSD or the connection to it failed. The write may still take effect later.
    Disk(IoFault),
    /// It was not sent, because this client may not write.
    Lease(Fault),
}

/// The result of an IO.
pub(super) struct IoEnd {
    epoch: u64,
    result: Result<Vec<u8>, IoFault>,
}

impl Disks {
    async fn io(&self, ssd: SsdId, class: Class, kind: IoKind) -> IoEnd {
        let sent = self.clock.now();
        let (is_read, bytes) = match &kind {
            IoKind::Read { length, .. } => (Some(true), u64::from(*length)),
            IoKind::Write { bytes, .. } => (Some(false), bytes.len() as u64),
            IoKind::Flush | IoKind::Trim { .. } => (None, 0),
        };
        self.ios_sent.set(self.ios_sent.get() + 1);
        let (id, answer) = (IoId(self.ios_sent.get()), Answer::new());
        self.ios.borrow_mut().insert(id, answer.clone());
        let writing = if is_read == Some(false) { bytes } else { 0 };
        self.with(ssd, |disk| disk.on_sent(writing));
        self.outbox.push(Action::Io(Io { id, ssd, class, kind }));
        let end = answer.await;
        self.with(ssd, |disk| disk.on_ended(writing, end.epoch));
        let now = self.clock.now();
        if end.result.is_err() && is_read != Some(true) {
            self.with(ssd, |disk| disk.on_stray(now + self.settings.quarantine));
        }
        if let (true, Some(is_read)) = (end.result.is_ok(), is_read) {
            let latency = now.saturating_since(sent);
            self.steering.borrow_mut().on_completion(self.clock.wall_clock(), ssd, is_read, bytes, latency);
        }
        end
    }

    /// Takes the result of an IO, which ended on the connection of this epoch.
    pub(crate) fn on_io(&self, id: IoId, epoch: u64, result: Result<Vec<u8>, IoFault>) {
        let answer = self.ios.borrow_mut().remove(&id);
        answer.expect("an IO ends once").give(IoEnd { epoch, result });
        self.io_ended.notify();
    }

    /// Waits until no IO is in flight.
    pub(crate) async fn idle(&self) {
        self.io_ended.wait(|| self.ios.borrow().is_empty().then_some(())).await;
    }

    /// Reads bytes of an SSD.
    pub(crate) async fn read(
        &self,
        ssd: SsdId,
        class: Class,
        at: u64,
        length: u32,
    ) -> Result<Vec<u8>, IoFault> {
        let bytes = self.io(ssd, class, IoKind::Read { at, length }).await.result?;
        if bytes.len() == length as usize { Ok(bytes) } else { Err(IoFault::Failed) }
    }

    /// Reads a micro blob.
    pub(crate) async fn read_micro(&self, class: Class, place: Place) -> Result<Vec<u8>, IoFault> {
        let geometry = self.phase.geometry();
        let most = (self.settings.read_max.0 as u32).max(geometry.block);
        let pieces = (0..geometry.micro).step_by(most as usize).map(|from| {
            let length = most.min(geometry.micro - from);
            self.read(place.ssd, class, geometry.byte_of(place) + u64::from(from), length)
        });
        Ok(join(pieces).await.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Writes bytes to an SSD, to be flushed later. Returns `Ok(None)` if the connection was lost since, so that the
    /// write may be lost too.
    pub(crate) async fn write(
        &self,
        ssd: SsdId,
        class: Class,
        at: u64,
        bytes: Arc<Vec<u8>>,
    ) -> Result<Option<Sequence>, WriteError> {
        let epoch = self.send_write(ssd, class, IoKind::Write { at, bytes, durable: false }).await?;
        Ok(self.with(ssd, |disk| disk.on_written(epoch)))
    }

    /// Writes bytes to an SSD. They survive a power loss once this returns.
    pub(crate) async fn write_durably(
        &self,
        ssd: SsdId,
        class: Class,
        at: u64,
        bytes: Arc<Vec<u8>>,
    ) -> Result<(), WriteError> {
        self.send_write(ssd, class, IoKind::Write { at, bytes, durable: true }).await.map(drop)
    }

    /// Returns the epoch of the connection that completed it.
    async fn send_write(&self, ssd: SsdId, class: Class, write: IoKind) -> Result<u64, WriteError> {
        self.lease.may_write().await.map_err(WriteError::Lease)?;
        let end = self.io(ssd, class, write).await;
        end.result.map_err(WriteError::Disk)?;
        Ok(end.epoch)
    }

    /// Makes the writes of an SSD up to `upto` durable. Concurrent calls share one flush.
    pub(crate) async fn flush(&self, ssd: SsdId, upto: Sequence) -> Result<(), IoFault> {
        let gate = self.with(ssd, |disk| disk.flushes());
        loop {
            let is_first = gate.wait(|| self.with(ssd, |disk| disk.must_flush(upto))).await;
            if !is_first {
                return Ok(());
            }
            let covered = self.with(ssd, |disk| disk.written());
            let end = self.io(ssd, Class::Normal, IoKind::Flush).await;
            self.with(ssd, |disk| {
                disk.on_flush_ended();
                if end.result.is_ok() {
                    disk.on_flushed(end.epoch, covered);
                }
            });
            gate.notify();
            end.result?;
        }
    }

    /// Makes writes of an SSD durable, from the first to the last. Also fails if one of them may be lost.
    pub(crate) async fn harden(&self, ssd: SsdId, first: Sequence, last: Sequence) -> Result<(), Fault> {
        self.flush(ssd, last).await.map_err(|_| Fault::Unreachable)?;
        if self.may_lack(ssd, first, last) { Err(Fault::Unreachable) } else { Ok(()) }
    }

    /// Makes all writes of an SSD durable, including those of an earlier mount. Also fails if one of them may be lost.
    pub(crate) async fn harden_all(&self, ssd: SsdId) -> Result<(), Fault> {
        // Writes of the previous mount are not counted here, so this makes sure that a flush is sent.
        let (first, last) = self.with(ssd, |disk| disk.count_unseen());
        self.harden(ssd, first, last).await
    }

    /// Whether one of these writes of an SSD may be lost.
    pub(crate) fn may_lack(&self, ssd: SsdId, first: Sequence, last: Sequence) -> bool {
        self.with(ssd, |disk| disk.may_lack(first, last))
    }

    /// Trims bytes of an SSD, which may then forget them.
    pub(crate) async fn trim(&self, ssd: SsdId, at: u64, length: u64) -> Result<(), WriteError> {
        self.lease.may_write().await.map_err(WriteError::Lease)?;
        let trim = IoKind::Trim { at, length };
        self.io(ssd, Class::Normal, trim).await.result.map(drop).map_err(WriteError::Disk)
    }
}
