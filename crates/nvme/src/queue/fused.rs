//! Fused operations: two commands that form one operation. The second follows directly after the first.
//!
//!   capsule, FUSE 01b --> [first] --the next capsule, FUSE 10b--> [first, second] --data of both complete--> Fused event
//!                            |                                        |
//!                            +--the next capsule is another one       +--one of them is refused, or cancelled
//!                               first: Missing Fused Command              the other: Failed Fused Command
//!
//! Only this layer knows which commands belong together: the layer above gets commands in the order in which
//! their data is complete. So it gets both halves at once or neither. A half with complete data waits for the
//! other; the host must send the rest, as for any announced write.
//!
//! Holds: every half gets one answer, whatever happens to the other (`both_halves_come_at_once_or_not_at_all` and
//!        the other tests in `tests/transport/fused.rs`); a command that is not fused costs one comparison.
//! NVM Express Base Specification: "Fused Operations".

use super::slots::Slots;
use super::{Cancel, Queue, Route, TargetEvent};
use crate::buffer::Buffer;
use crate::spec::sqe::{FLAGS_FUSE_FIRST, FLAGS_FUSE_MASK, FLAGS_FUSE_SECOND};
use crate::spec::{Cqe, Sqe, Status};

/// The first or second command of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    First,
    Second,
}

impl Half {
    fn other(self) -> Half {
        match self {
            Half::First => Half::Second,
            Half::Second => Half::First,
        }
    }
}

/// A command's place in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pair: u16,
    half: Half,
}

/// Progress of a half.
#[derive(Debug)]
enum Progress<B> {
    /// Not received; the first half was the last capsule.
    Absent,
    /// Received, but its data is not complete.
    Awaited(u16),
    /// Its data is complete.
    Ready(Sqe, Option<B>),
    /// Answered here, or will be answered here when its data has arrived.
    Failed,
}

#[derive(Debug)]
struct Pair<B> {
    first: Progress<B>,
    second: Progress<B>,
}

impl<B> Pair<B> {
    fn half(&mut self, half: Half) -> &mut Progress<B> {
        match half {
            Half::First => &mut self.first,
            Half::Second => &mut self.second,
        }
    }
}

/// The pairs of one connection.
#[derive(Debug)]
pub(super) struct Fused<B> {
    /// Whether this queue supports fused operations; the admin queue does not.
    allowed: bool,
    pairs: Slots<Pair<B>>,
    /// The pair that the last capsule received opened as its first half.
    open: Option<u16>,
}

impl<B> Fused<B> {
    pub(super) fn new() -> Fused<B> {
        Fused { allowed: false, pairs: Slots::new(), open: None }
    }

    /// Allows fused commands.
    pub(super) fn allow(&mut self) {
        self.allowed = true;
    }

    /// Buffers of halves that wait for the other half.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = B> + '_ {
        self.pairs.drain().flat_map(|pair| [pair.first, pair.second]).filter_map(|half| match half {
            Progress::Ready(_, data) => data,
            _ => None,
        })
    }
}

impl<B: Buffer, R: Route> Queue<B, R> {
    /// A capsule arrived. Returns its place in a pair if it is fused. An error is the status to complete it
    /// with: its other half is missing or was refused.
    #[inline]
    pub(super) fn pair_up(&mut self, sqe: &Sqe) -> Result<Option<Place>, Status> {
        if sqe.flags() & FLAGS_FUSE_MASK == 0 && self.fused.open.is_none() || !self.fused.allowed {
            return Ok(None);
        }
        self.pair_up_fused(sqe)
    }

    #[cold]
    fn pair_up_fused(&mut self, sqe: &Sqe) -> Result<Option<Place>, Status> {
        let open = self.fused.open.take();
        match (sqe.flags() & FLAGS_FUSE_MASK, open) {
            (FLAGS_FUSE_SECOND, Some(pair)) => {
                let found = self.fused.pairs.at(pair);
                if matches!(found.first, Progress::Failed) {
                    self.fused.pairs.remove(pair);
                    return Err(Status::FAILED_FUSED);
                }
                found.second = Progress::Awaited(sqe.cid());
                Ok(Some(Place { pair, half: Half::Second }))
            }
            (FLAGS_FUSE_SECOND, None) => Err(Status::MISSING_FUSED),
            (fuse, open) => {
                if let Some(pair) = open {
                    let first = core::mem::replace(&mut self.fused.pairs.at(pair).first, Progress::Failed);
                    self.fused.pairs.remove(pair);
                    self.fail(first, Status::MISSING_FUSED);
                }
                if fuse != FLAGS_FUSE_FIRST {
                    return Ok(None);
                }
                let first = Progress::Awaited(sqe.cid());
                let pair = self.fused.pairs.insert(Pair { first, second: Progress::Absent });
                self.fused.open = Some(pair);
                Ok(Some(Place { pair, half: Half::First }))
            }
        }
    }

    /// Passes a command with complete data to the layer above; if it is fused, together with its other half.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        sqe: Sqe,
        data: Option<B>,
        place: Option<Place>,
        events: &mut Vec<TargetEvent<B>>,
    ) {
        match place {
            None => events.push(TargetEvent::Command { sqe, data }),
            Some(place) => self.deliver_half(sqe, data, place, events),
        }
    }

    #[cold]
    fn deliver_half(
        &mut self,
        sqe: Sqe,
        data: Option<B>,
        Place { pair, half }: Place,
        events: &mut Vec<TargetEvent<B>>,
    ) {
        let cid = sqe.cid();
        let found = self.fused.pairs.at(pair);
        if matches!(found.half(half.other()), Progress::Failed) {
            self.fused.pairs.remove(pair);
            self.commands.remove(cid);
            self.discarded.extend(data);
            return self.answer(Cqe::new(cid, Status::FAILED_FUSED), R::of(&sqe));
        }
        *found.half(half) = Progress::Ready(sqe, data);
        if !matches!(found, Pair { first: Progress::Ready(..), second: Progress::Ready(..) }) {
            return;
        }
        let Pair { first: Progress::Ready(first, compared), second: Progress::Ready(second, written) } =
            self.fused.pairs.remove(pair)
        else {
            unreachable!("both halves are ready: checked above")
        };
        for cid in [first.cid(), second.cid()] {
            let command = self.commands.get(cid).expect("a waiting half is outstanding");
            self.commands.set(cid, super::Outstanding { fused: None, ..command });
        }
        let halves = Box::new([(first, compared), (second, written)]);
        events.push(TargetEvent::Fused { halves });
    }

    /// Lets the other half of a pair fail, now or once it has arrived, after the caller has refused one.
    #[cold]
    pub(super) fn on_half_refused(&mut self, Place { pair, half }: Place) {
        let Some(found) = self.fused.pairs.find(pair) else { return };
        *found.half(half) = Progress::Failed;
        let other = core::mem::replace(found.half(half.other()), Progress::Failed);
        match other {
            // Its capsule may come next; it is answered then.
            Progress::Absent => found.second = Progress::Absent,
            Progress::Failed => {
                self.fused.pairs.remove(pair);
            }
            Progress::Ready(..) => {
                self.fused.pairs.remove(pair);
                self.fail(other, Status::FAILED_FUSED);
            }
            Progress::Awaited(cid) => {
                // If its data is in the current capsule or was requested, it is answered when the data has
                // arrived.
                if self.cancel(cid, Status::FAILED_FUSED) == Cancel::Answered {
                    self.forget_pair(pair);
                }
            }
        }
    }

    /// Completes a half that waits here for the other. Returns false if the command is not such a half.
    pub(super) fn cancel_half(&mut self, cid: u16, place: Place, status: Status) -> bool {
        let found = self.fused.pairs.at(place.pair);
        if !matches!(found.half(place.half), Progress::Ready(..)) {
            return false;
        }
        let waiting = core::mem::replace(found.half(place.half), Progress::Failed);
        debug_assert!(matches!(&waiting, Progress::Ready(sqe, _) if sqe.cid() == cid));
        self.fail(waiting, status);
        self.on_half_refused(place);
        true
    }

    /// A command's place in a pair, if it has one.
    #[inline]
    pub(super) fn place_of(&self, sqe: &Sqe) -> Option<Place> {
        match sqe.flags() & FLAGS_FUSE_MASK {
            0 => None,
            _ => self.commands.get(sqe.cid())?.fused,
        }
    }

    /// Completes a half that will not be executed.
    fn fail(&mut self, half: Progress<B>, status: Status) {
        match half {
            Progress::Ready(sqe, data) => {
                self.discarded.extend(data);
                self.commands.remove(sqe.cid());
                self.answer(Cqe::new(sqe.cid(), status), R::of(&sqe));
            }
            Progress::Awaited(cid) => {
                if let Some(command) = self.commands.get(cid) {
                    self.commands.set(cid, super::Outstanding { fused: None, ..command });
                    self.cancel(cid, status);
                }
            }
            Progress::Absent | Progress::Failed => {}
        }
    }

    fn forget_pair(&mut self, pair: u16) {
        if self.fused.pairs.find(pair).is_some() {
            self.fused.pairs.remove(pair);
        }
    }
}
