//! A device without storage: reads return zeros, writes are dropped, everything completes at once. It measures the rest of the target.
//!
//! A read needs no work: its pool zeroes a buffer when it makes it, and only devices write to buffers.

use super::erase::BYTES_PER_TABLE_BYTE;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, Quote};
use reactor::{IoBuffer, Reactor, Token};
use std::io;
use units::{Bytes, Instant, Nanos};

/// A device that does nothing.
#[derive(Default)]
pub(crate) struct NullDevice {
    done: Vec<DeviceDone>,
}

impl Device for NullDevice {
    fn clock(&self) -> DeviceClock {
        DeviceClock::REAL
    }

    fn quote(&self, _erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        Quote::in_proportion(BYTES_PER_TABLE_BYTE, length, most)
    }

    fn submit(&mut self, _now: Instant, _reactor: &mut Reactor, io: DeviceIo) {
        let buffer = match io.op {
            DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
            DeviceOp::Flush | DeviceOp::Discard | DeviceOp::WriteZeroes => None,
        };
        self.done.push(DeviceDone {
            tag: io.tag,
            result: Ok(()),
            buffer,
            latency: Nanos::ZERO,
            late: Nanos::ZERO,
        });
    }

    fn on_disk(
        &mut self,
        _now: Instant,
        _file: Token,
        tag: u64,
        _result: io::Result<()>,
        _buffer: Option<IoBuffer>,
    ) {
        unreachable!("the null device gave no disk operation to the reactor, yet {tag} ended");
    }

    fn poll(&mut self, _now: Instant, _reactor: &mut Reactor) {}

    fn next_wake(&self) -> Option<Instant> {
        None
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }
}
