//! Requests on their way into the kernel, completions on their way out, and the count of those in between.
//!
//! A request that finds the submission queue full waits in an overflow list of ours, so asking never fails and never makes a
//! system call. The list is bounded by what asks: a few requests per socket, the disk's depth.
//!
//! Holds: `in_flight` counts the requests that the kernel may still touch memory for, overflow included
//!        (`requests_beyond_the_submission_queue_are_not_lost`).

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use units::Nanos;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Wake,
    Accept,
    Connect,
    Receive,
    /// A poll for bytes to read.
    Readable,
    Send,
    Disk,
    /// A read of the eventfd of a device's ring.
    DeviceRing,
    /// A poll of a channel.
    Channel,
    /// The cancellation of a receive. It names no memory, so it does not count as in flight.
    CancelReceive,
}

const KINDS: [Kind; 10] = [
    Kind::Wake,
    Kind::Accept,
    Kind::Connect,
    Kind::Receive,
    Kind::Readable,
    Kind::Send,
    Kind::Disk,
    Kind::DeviceRing,
    Kind::Channel,
    Kind::CancelReceive,
];

/// Name of a cancellation; its own completion is ignored.
const CANCELLATION: u64 = u64::MAX;

/// Names a request: its kind and the slot that owns it. A slot has at most one request of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) index: u32,
}

impl Request {
    fn user_data(self) -> u64 {
        (self.kind as u64) << 32 | u64::from(self.index)
    }

    fn from_user_data(user_data: u64) -> Option<Request> {
        let kind = *KINDS.get((user_data >> 32) as usize)?;
        Some(Request { kind, index: user_data as u32 })
    }
}

/// The queues of a ring, whatever the size of their entries.
pub(super) struct Queue<S = squeue::Entry, C = cqueue::Entry>
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    ring: IoUring<S, C>,
    overflow: VecDeque<S>,
    in_flight: usize,
}

impl<S: squeue::EntryMarker, C: cqueue::EntryMarker> Queue<S, C> {
    pub(super) fn new(ring: IoUring<S, C>) -> Queue<S, C> {
        Queue { ring, overflow: VecDeque::new(), in_flight: 0 }
    }

    /// Asks for an operation.
    ///
    /// # Safety
    /// Descriptors and memory that `entry` names must stay valid, and the memory unused by others as the operation demands, until
    /// the completion of `request` that is its last.
    pub(super) unsafe fn push(&mut self, entry: impl Into<S>, request: Request) {
        self.in_flight += 1;
        self.enqueue(entry.into(), request.user_data());
    }

    /// Tries to cancel the receive of a slot. The completion of kind `CancelReceive` says whether it was found: while a request
    /// is between being ready and being tried again, the kernel does not find it.
    pub(super) fn cancel_receive(&mut self, index: u32) {
        let receive = Request { kind: Kind::Receive, index };
        let cancel = opcode::AsyncCancel::new(receive.user_data()).build();
        self.enqueue(cancel.into(), Request { kind: Kind::CancelReceive, index }.user_data());
    }

    /// Tries to cancel a request that completes once. It is not found only when it is ending anyway.
    pub(super) fn cancel(&mut self, request: Request) {
        self.enqueue(opcode::AsyncCancel::new(request.user_data()).build().into(), CANCELLATION);
    }

    /// Tries to cancel all requests; those that are not found at the moment (see above) need another try.
    pub(super) fn cancel_everything(&mut self) {
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.enqueue(cancel.into(), CANCELLATION);
    }

    fn enqueue(&mut self, mut entry: S, user_data: u64) {
        entry.set_user_data(user_data);
        // SAFETY: whoever pushed the request vouches for its memory; a cancellation names none.
        if !self.overflow.is_empty() || unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.overflow.push_back(entry);
        }
    }

    /// Moves entries from the overflow list to the submission queue until it is full.
    fn refill(&mut self) {
        if self.overflow.is_empty() {
            return;
        }
        let mut submission = self.ring.submission();
        while let Some(entry) = self.overflow.front() {
            // SAFETY: as for `enqueue`.
            if unsafe { submission.push(entry) }.is_err() {
                return;
            }
            self.overflow.pop_front();
        }
    }

    /// Hands all requests to the kernel and lets it run its completion work; no system call if there is neither.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        loop {
            self.refill();
            // A polled ring does not signal completions: the kernel looks at the device when it is asked to.
            let must_be_polled = self.must_be_polled();
            let submission = self.ring.submission();
            let has_work = submission.taskrun() || submission.cq_overflow() || must_be_polled;
            if submission.is_empty() && !has_work {
                return Ok(());
            }
            drop(submission);
            match self.ring.submit() {
                Ok(0) => return Ok(()),
                Ok(_) if self.overflow.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Completions must be collected first, or memory is short for the moment: the rest goes with the next call.
                    Some(libc::EBUSY | libc::EAGAIN) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    /// As `submit`, then sleeps until there is a completion, `timeout` has passed, or a signal was handled.
    pub(super) fn submit_and_wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        self.refill();
        if !self.overflow.is_empty() {
            self.submit()?;
        }
        let timespec;
        let mut args = SubmitArgs::new();
        if let Some(Nanos(timeout)) = timeout {
            timespec = Timespec::new().sec(timeout / 1_000_000_000).nsec((timeout % 1_000_000_000) as u32);
            args = args.timespec(&timespec);
        }
        match self.ring.submitter().submit_with_args(1, &args) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Whether completions come only while `submit` is called.
    pub(super) fn must_be_polled(&self) -> bool {
        self.ring.params().is_setup_iopoll() && self.in_flight > 0
    }

    /// Whether the kernel is to signal the ring's eventfd when there is something to collect.
    pub(super) fn signal(&mut self, is_wanted: bool) {
        let completion = self.ring.completion();
        if is_wanted { completion.enable_eventfd() } else { completion.disable_eventfd() }
    }

    /// Whether there are completions, or work in the kernel that may lead to some.
    pub(super) fn may_have_completions(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    /// Moves all available completions into `completions`; each must then pass through `on_completion`.
    pub(super) fn take_completions(&mut self, completions: &mut Vec<cqueue::Entry>) {
        completions.extend(self.ring.completion().map(Into::into));
    }

    /// Keeps the count; names the request that the completion belongs to, if it belongs to one.
    pub(super) fn on_completion(&mut self, completion: &cqueue::Entry) -> Option<Request> {
        let request = Request::from_user_data(completion.user_data())?;
        if !cqueue::more(completion.flags()) && request.kind != Kind::CancelReceive {
            self.in_flight -= 1;
        }
        Some(request)
    }

    /// Number of requests that still await their last completion.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_survives_the_way_through_the_kernel() {
        for (position, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, position);
            let request = Request { kind, index: u32::MAX };
            assert_eq!(Request::from_user_data(request.user_data()), Some(request));
        }
        assert_eq!(Request::from_user_data(CANCELLATION), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no io_uring")]
    fn requests_beyond_the_submission_queue_are_not_lost() {
        let Ok(ring) = super::super::setup::build() else { return };
        let mut queue = Queue::new(ring);
        let count = 20_000;
        for index in 0..count {
            // SAFETY: a no-op names neither memory nor descriptors.
            unsafe { queue.push(opcode::Nop::new().build(), Request { kind: Kind::Disk, index }) };
        }
        let mut completions = Vec::new();
        let mut seen = BTreeSet::new();
        while queue.in_flight() > 0 {
            queue.submit_and_wait(None).expect("the ring works");
            queue.take_completions(&mut completions);
            for completion in completions.drain(..) {
                seen.extend(queue.on_completion(&completion).map(|request| request.index));
            }
        }
        assert!(seen.into_iter().eq(0..count));
    }
}
