//! Writes with data that the transport fetches from the host.
//!
//!   begin --no buffer, or others wait--> parked --resume, oldest first--> asked --written out--> open --all data--> end
//!
//! The number of a transfer is the tag by which the host's data names it (TTAG of NVMe/TCP).

use super::slots::Slots;
use crate::buffer::{Buffer, BufferSource, BufferUse};
use crate::spec::{Sqe, Status};
use std::collections::VecDeque;
use units::Instant;

/// Transfers of at least this many bytes are worth being received where they belong.
const BULK_MIN: u32 = 16 << 10;

/// Progress of a write's data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for a buffer.
    Parked,
    /// The request for its data waits to be sent.
    Asked,
    /// The request was written out then: data may arrive.
    Open { since: Instant },
}

/// A write with data to fetch.
#[derive(Debug)]
pub(crate) struct Transfer<B> {
    sqe: Sqe,
    length: u32,
    received: u32,
    /// `None` while parked, or if the data is to be discarded.
    buffer: Option<B>,
    stage: Stage,
    /// Set if the command will not be executed: the status of its completion.
    refused: Option<Status>,
}

impl<B: Buffer> Transfer<B> {
    /// The command.
    pub(crate) fn sqe(&self) -> &Sqe {
        &self.sqe
    }

    /// Bytes of data in all.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Bytes of data that have arrived.
    #[inline]
    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// Whether its data was requested and may arrive.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }

    /// The place of the data that comes next: empty if the data is discarded.
    #[inline]
    pub(crate) fn place(&mut self) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer.bytes_mut()[self.received as usize..self.length as usize],
            None => &mut [],
        }
    }

    /// Counts `count` more bytes that have arrived, in their place unless the data is discarded. Returns those in
    /// place.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) -> &[u8] {
        let from = self.received as usize;
        self.received += count as u32;
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes()[from..from + count])
    }

    /// Lends its buffer to whatever brings all its data at once; `None` if the data is to be discarded.
    pub(super) fn lend(&mut self) -> Option<B> {
        self.buffer.take()
    }

    /// Takes the buffer back, with all data in it. Returns it if the command is not to be executed any more.
    pub(super) fn give_back(&mut self, buffer: Option<B>) -> Option<B> {
        self.received = self.length;
        if self.refused.is_some() {
            return buffer;
        }
        self.buffer = buffer;
        None
    }

    /// Notes that the request for its data was written out.
    pub(super) fn open(&mut self, now: Instant) {
        self.stage = Stage::Open { since: now };
    }

    /// Whether all data has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.received == self.length
    }

    /// The command will not be executed, but end with `status` when all data has arrived. Returns its buffer.
    pub(super) fn refuse(&mut self, status: Status) -> Option<B> {
        self.refused.get_or_insert(status);
        self.buffer.take()
    }
}

/// A transfer after all its data has arrived.
pub(super) struct Ended<B> {
    pub(super) sqe: Sqe,
    pub(super) buffer: Option<B>,
    /// The status that it ends with, if it is not to be executed.
    pub(super) refused: Option<Status>,
}

/// The transfers of one queue.
#[derive(Debug)]
pub(super) struct Transfers<B> {
    all: Slots<Transfer<B>>,
    parked: VecDeque<u16>,
    /// Transfers of `BULK_MIN` and more that are not parked.
    bulk: usize,
}

impl<B: Buffer> Transfers<B> {
    pub(super) fn new() -> Transfers<B> {
        Transfers { all: Slots::new(), parked: VecDeque::new(), bulk: 0 }
    }

    /// Begins a transfer. Parks it if there is no buffer, or if others already wait for one. Returns its number, and whether it
    /// is parked; otherwise the caller requests its data.
    pub(super) fn begin<S: BufferSource<Buffer = B>>(
        &mut self,
        sqe: Sqe,
        length: u32,
        source: &mut S,
    ) -> (u16, bool) {
        let buffer =
            if self.parked.is_empty() { source.take(length as usize, BufferUse::Transfer) } else { None };
        let is_parked = buffer.is_none();
        let stage = if is_parked { Stage::Parked } else { Stage::Asked };
        let number = self.all.insert(Transfer { sqe, length, received: 0, buffer, stage, refused: None });
        if is_parked {
            self.parked.push_back(number);
        } else {
            self.bulk += usize::from(length >= BULK_MIN);
        }
        (number, is_parked)
    }

    /// Takes a buffer for the oldest parked transfer. Returns its number, if there is one and a buffer for it.
    pub(super) fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) -> Option<u16> {
        let number = *self.parked.front()?;
        let transfer = self.all.at(number);
        transfer.buffer = Some(source.take(transfer.length as usize, BufferUse::Transfer)?);
        transfer.stage = Stage::Asked;
        self.bulk += usize::from(transfer.length >= BULK_MIN);
        self.parked.pop_front();
        Some(number)
    }

    /// Removes a transfer if it is parked. Returns whether it was.
    pub(super) fn unpark(&mut self, number: u16) -> bool {
        let is_parked = self.all.at(number).stage == Stage::Parked;
        if is_parked {
            self.parked.retain(|parked| *parked != number);
            self.all.remove(number);
        }
        is_parked
    }

    /// Removes a transfer after all its data has arrived.
    pub(super) fn end(&mut self, number: u16) -> Ended<B> {
        let Transfer { sqe, length, buffer, refused, .. } = self.all.remove(number);
        self.bulk -= usize::from(length >= BULK_MIN);
        Ended { sqe, buffer, refused }
    }

    /// The transfer with this number, if it is in use.
    #[inline]
    pub(super) fn find(&mut self, number: u16) -> Option<&mut Transfer<B>> {
        self.all.find(number)
    }

    /// The transfer with this number, which must be in use.
    #[inline]
    pub(super) fn at(&mut self, number: u16) -> &mut Transfer<B> {
        self.all.at(number)
    }

    /// When the oldest request for data that is not complete yet was written out. Only the last byte of the
    /// data ends the wait, no matter what else arrives.
    pub(super) fn awaited_since(&self) -> Option<Instant> {
        let opened = self.all.iter().filter_map(|transfer| match transfer.stage {
            Stage::Open { since } => Some(since),
            Stage::Parked | Stage::Asked => None,
        });
        opened.min()
    }

    /// Bytes that were requested, or are about to be, and have not arrived.
    pub(super) fn awaited_bytes(&self) -> u64 {
        let asked = self.all.iter().filter(|transfer| transfer.stage != Stage::Parked);
        asked.map(|transfer| u64::from(transfer.length - transfer.received)).sum()
    }

    /// Number of large transfers that are not parked.
    #[inline]
    pub(super) fn bulk(&self) -> usize {
        self.bulk
    }

    /// Number of parked transfers.
    #[inline]
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Takes all buffers.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = B> + '_ {
        self.all.drain().filter_map(|transfer| transfer.buffer)
    }
}
