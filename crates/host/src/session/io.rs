//! The path of an IO: checked, put into the wait queue, sent when credit and IO queue have room, completed.

use super::{Output, Phase, Session};
use crate::connection::Outstanding;
use crate::fault::Fault;
use crate::request::{Completion, IoError, Operation, Refusal, Refused, Request};
use crate::reservation::{Reservation, ReservationReport};
use crate::view::BusyView;
use nvme::spec::identify_controller::oncs;
use nvme::spec::{Busy, Cqe};
use sched::Credit;
use units::{Bytes, Instant};

impl Session {
    /// Accepts an IO. Exactly one `Output::Ended` follows.
    pub(crate) fn submit(&mut self, now: Instant, request: Request) -> Result<(), Box<Refused>> {
        if let Err(why) = self.check(&request) {
            return Err(Box::new(Refused { why, request }));
        }
        self.wait_queue.push(request);
        self.dispatch(now);
        Ok(())
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over | Phase::Closing { .. }) {
            return Err(Refusal::Gone);
        }
        if !self.was_ready {
            return Err(Refusal::NotReady);
        }
        if self.wait_queue.is_full() {
            return Err(Refusal::Busy);
        }
        let namespace = self.namespaces.iter().find(|namespace| namespace.nsid == request.nsid);
        let namespace = namespace.ok_or(Refusal::NoSuchNamespace)?;
        let operation = request.operation;
        if matches!(operation, Operation::Reserve(_) | Operation::ReportReservations) {
            return self.check_reservation(request);
        }
        if operation != Operation::Flush && !namespace.contains(request.lba, request.blocks) {
            return Err(Refusal::OutOfRange);
        }
        if optional_bit(operation).is_some_and(|bit| self.info.optional_commands & bit == 0) {
            return Err(Refusal::Unsupported);
        }
        let block_size = namespace.block_size.get();
        let mut blocks_max = operation.blocks_max();
        if operation.has_buffer() {
            let transfer_max = self.info.transfer_max.get() / block_size;
            blocks_max = blocks_max.min(u32::try_from(transfer_max).unwrap_or(u32::MAX));
        }
        if request.blocks > blocks_max {
            return Err(Refusal::TooLarge { blocks_max });
        }
        let needed = if operation.has_buffer() { block_size * u64::from(request.blocks) } else { 0 };
        if request.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64) != needed {
            return Err(Refusal::BufferLength { needed: needed as usize });
        }
        match request.queue {
            Some(queue) if queue >= self.info.io_queues => Err(Refusal::NoSuchQueue),
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_reservation(&self, request: &Request) -> Result<(), Refusal> {
        if self.info.optional_commands & oncs::RESERVATIONS == 0 {
            return Err(Refusal::Unsupported);
        }
        let (least, most) = match request.operation {
            Operation::ReportReservations => {
                (ReservationReport::length(0), self.info.transfer_max.get() as usize)
            }
            _ => (Reservation::KEYS, Reservation::KEYS),
        };
        let length = request.buffer.as_ref().map_or(0, |buffer| buffer.len());
        let is_right = length.is_multiple_of(4) && (least..=most).contains(&length);
        is_right.then_some(()).ok_or(Refusal::BufferLength { needed: least })
    }

    /// Sends waiting IOs in order, within the limits of credit and queues.
    pub(super) fn dispatch(&mut self, now: Instant) {
        if self.phase != Phase::Ready {
            return;
        }
        while let Some(next) = self.wait_queue.first() {
            let Some(queue) = self.pick_queue(next.request.queue) else { return };
            if !self.window.try_submit() {
                return;
            }
            let io = self.wait_queue.pop().expect("there was a first");
            let connection = &mut self.connections[queue];
            if connection.in_flight() == 0 {
                self.alarm = self.alarm.min(now + self.options.io_timeout);
            }
            connection.submit_io(now, io);
            self.controller.on_traffic();
            self.mark(queue);
        }
    }

    /// The queue for an IO: the requested one, or the next one in turn that has room.
    fn pick_queue(&mut self, asked: Option<u16>) -> Option<usize> {
        let queues = self.connections.len() - 1;
        if let Some(asked) = asked {
            // After a reconnect, there may be fewer queues than when the IO was accepted.
            let queue = 1 + usize::from(asked) % queues;
            return self.connections[queue].has_room().then_some(queue);
        }
        for turn in 0..queues {
            let queue = 1 + (self.next_queue + turn) % queues;
            if self.connections[queue].has_room() {
                self.next_queue = queue % queues;
                return Some(queue);
            }
        }
        None
    }

    pub(super) fn on_io_completed(
        &mut self,
        now: Instant,
        io: Outstanding,
        cqe: &Cqe,
        received: u32,
    ) -> Result<(), Fault> {
        let Outstanding { mut request, sent, .. } = io;
        let (status, operation) = (cqe.status(), request.operation);
        let carries_credit =
            status.is_success() && matches!(operation, Operation::Read | Operation::Write { .. });
        let credit = (carries_credit && self.info.credit.is_some()).then(|| Credit(cqe.dw0()));
        self.window.on_completion(credit);
        if credit.is_some() {
            self.busy = Busy::from_dword(cqe.dw1()).map(|busy| BusyView::told(now, busy));
        }
        let length = request.buffer.as_ref().map_or(0, |buffer| buffer.len());
        let mut result = if status.is_success() { Ok(()) } else { Err(IoError::Status(status)) };
        let mut fault = Ok(());
        if status.is_success() && operation == Operation::Read && received as usize != length {
            result = Err(IoError::ConnectionLost);
            fault = Err(Fault::ShortRead { received, expected: length as u32 });
        }
        if status.is_success()
            && operation == Operation::ReportReservations
            && let Err(short) = whole_report(&mut request, received)
        {
            (result, fault) = (Err(IoError::ConnectionLost), Err(short));
        }
        let completion =
            Completion { tag: request.tag, operation, result, buffer: request.buffer, sent, ended: now };
        if completion.result.is_ok() {
            self.meter.on_completed(now, operation, Bytes(length as u64), completion.service_time());
        }
        self.outputs.push_back(Output::Ended(completion));
        fault
    }

    pub(super) fn end(&mut self, now: Instant, io: Outstanding, error: IoError) {
        let Outstanding { request: Request { tag, operation, buffer, .. }, sent, .. } = io;
        self.outputs.push_back(Output::Ended(Completion {
            tag,
            operation,
            result: Err(error),
            buffer,
            sent,
            ended: now,
        }));
    }
}

/// Whether a report is as long as its number of registrants says. The rest of the buffer is zero then.
#[cold]
fn whole_report(request: &mut Request, received: u32) -> Result<(), Fault> {
    let buffer = request.buffer.as_deref_mut().unwrap_or_default();
    buffer.get_mut(received as usize..).unwrap_or_default().fill(0);
    let expected = ReservationReport::length_expected(buffer);
    match received as usize >= expected {
        true => Ok(()),
        false => Err(Fault::ShortRead { received, expected: expected as u32 }),
    }
}

/// The ONCS bit of an operation, if it is optional.
fn optional_bit(operation: Operation) -> Option<u16> {
    match operation {
        Operation::Read | Operation::Write { .. } | Operation::Flush => None,
        Operation::WriteZeroes { .. } => Some(oncs::WRITE_ZEROES),
        Operation::Deallocate => Some(oncs::DATASET_MANAGEMENT),
        Operation::Compare => Some(oncs::COMPARE),
        Operation::Verify => Some(oncs::VERIFY),
        Operation::Reserve(_) | Operation::ReportReservations => Some(oncs::RESERVATIONS),
    }
}
