//! The die scheduler: what each die does next.
//!
//! A die does one thing at a time. Reads go first, but at most `reads_between_slices` in a row while
//! background work waits. A program or an erase is suspended for a waiting read after it has run for a slice.
//!
//! ```text
//!            ┌─► sense ─► deliver (channel) ──────────────────────┐
//!            ├─► sense for copy ─► deliver (channel) ─────────────┤
//!   idle ────┼─► load pages (channel) ─► program ─┬─ done ────────┼──► idle
//!            ├─► erase ───────────────────────────┤               │
//!            │                                    └─ suspended ───┤
//!            └─► the suspended operation, resumed                 ┘
//! ```
//!
//! With collection in rounds, a die that is in a round first collects blocks until it has gained one, whatever waits.
//!
//! Order of background work: the suspended operation; units of copies; collection if it is urgent or owed;
//! units of the host; refilling the reserve, if no read waits; and, while the device is idle, folding the SLC cache and refilling
//! the free blocks.
//!
//! Holds: a die that is not idle has exactly one pending event that ends its activity, and the event has the
//!        die's current generation.
//! Elsewhere: the duration of each step is in `timing`, the choice of what to collect in `collection`, time
//!        outside the dies in `controller`.

use crate::collection::{Debt, Step};
use crate::event_queue::{Event, EventQueue};
use crate::flash::{Flash, Unit, UnitOrigin};
use crate::geometry::SLOTS_PER_PAGE;
use crate::profile::Profile;
use crate::shortcut::Shortcut;
use crate::slab::Slab;
use crate::timing::Timing;
use crate::variation::DieVariation;
use crate::waits::{Followed, Part};
use std::collections::VecDeque;
use units::{Instant, Nanos};

const NO_READ: u32 = u32::MAX;
/// The most blocks that a die erases in a round.
const ROUND_MOST: u32 = 8;

/// The dies, their channels, and the flash translation layer whose work they carry out.
pub(crate) struct Dies {
    pub(crate) flash: Flash,
    pub(crate) reads: Slab<FlashRead>,
    /// Whether the host has been quiet long enough for work that can wait.
    pub(crate) idle: bool,
    pub(crate) suspensions: u64,
    /// Number of rounds of collection that have begun.
    pub(crate) rounds: u64,
    dies: Vec<Die>,
    /// When each channel is free again.
    channels: Vec<Instant>,
    pub(crate) timing: Timing,
    variation: DieVariation,
    /// `None` as long as no read is followed.
    pub(crate) followed: Option<Box<Followed>>,
    /// Indexed by shortcut.
    sources: Box<[Source; Shortcut::COUNT]>,
}

/// One read operation of a die: slots of one page for one command.
#[derive(Clone, Copy)]
pub(crate) struct FlashRead {
    pub(crate) waiting: Waiting,
    pub(crate) slots: u32,
    pub(crate) source: Source,
    /// The next read in the die's queue.
    next: u32,
}

/// The work that goes on when a read operation has its data.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    Command(u32),
    /// A read operation: this one senses the page of the mapping that says where its data is.
    Read(u32),
}

/// Where a read operation gets its data from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Not looked up yet.
    Unknown,
    /// The controller's memory: no waiting.
    Controller,
    /// A page of a die; `sense` is the time to sense it.
    Die { die: u32, sense: u32 },
}

struct Die {
    activity: Activity,
    /// Changes when a pending step is cancelled.
    generation: u32,
    first_read: u32,
    last_read: u32,
    reads_in_row: u32,
    /// The current program or erase: loading, running, or suspended.
    long: Option<LongOperation>,
    host_units: VecDeque<Unit>,
    copy_units: VecDeque<Unit>,
    debt: Debt,
    /// The last round that this die has done its part of, and the blocks that it has erased for the next one.
    round: u64,
    erased: u32,
}

#[derive(Clone, Copy)]
pub(crate) enum Activity {
    Idle,
    Sensing {
        read: u32,
    },
    Delivering {
        read: u32,
    },
    CopySensing {
        slots: u32,
    },
    CopyDelivering,
    /// The pages of the unit to program cross the channel.
    Loading {
        pages_left: u32,
    },
    /// The program or erase runs.
    Running,
    Suspending,
}

/// A program or an erase: it can be suspended.
struct LongOperation {
    work: Work,
    /// Time that it still needs, counted from `resumed`.
    left: Nanos,
    /// When it last started to run.
    resumed: Instant,
    suspend_pending: bool,
    /// Number of its suspensions.
    suspensions: u32,
}

#[derive(Clone, Copy)]
pub(crate) enum Work {
    Program(Unit),
    Erase,
}

impl Work {
    /// Whether it is garbage collection.
    pub(crate) fn is_collection(&self) -> bool {
        !matches!(self, Work::Program(Unit { origin: UnitOrigin::Host { .. }, .. }))
    }
}

/// The consequence of the end of a step for the rest of the device. After all but `Nothing`, the die is idle.
pub(crate) enum Ended {
    /// The die continues with the same work.
    Nothing,
    /// A read has its data in the controller.
    Read(u32),
    /// A unit of the host is on flash.
    HostUnit { buffered: u32, sequence: u64 },
    /// A block has been erased.
    Erase,
    /// Other work; no command waits for it.
    Other,
}

impl FlashRead {
    pub(crate) fn new(waiting: Waiting, slots: u32, source: Source) -> FlashRead {
        FlashRead { waiting, slots, source, next: NO_READ }
    }
}

impl LongOperation {
    fn new(work: Work, time: Nanos) -> LongOperation {
        LongOperation { work, left: time, resumed: Instant::ZERO, suspend_pending: false, suspensions: 0 }
    }
}

impl Die {
    fn new() -> Die {
        Die {
            activity: Activity::Idle,
            generation: 0,
            first_read: NO_READ,
            last_read: NO_READ,
            reads_in_row: 0,
            long: None,
            host_units: VecDeque::new(),
            copy_units: VecDeque::new(),
            debt: Debt::default(),
            round: 0,
            erased: 0,
        }
    }

    fn has_reads(&self) -> bool {
        self.first_read != NO_READ
    }
}

impl Dies {
    pub(crate) fn new(profile: &Profile, flash: Flash, seed: u64) -> Dies {
        let timing = Timing::new(profile, &flash);
        let mut sources = Box::new([Source::Unknown; Shortcut::COUNT]);
        for (index, source) in (0..=u8::MAX).zip(sources.iter_mut()) {
            if let Some((die, page, slc)) = Shortcut::of_index(index).target(&flash.geometry) {
                *source = Source::Die { die, sense: timing.sense(page as u8, slc) };
            }
        }
        Dies {
            timing,
            variation: DieVariation::new(&profile.variation, seed),
            sources,
            dies: (0..flash.geometry.dies).map(|_| Die::new()).collect(),
            channels: vec![Instant::ZERO; flash.geometry.channels as usize],
            reads: Slab::new(),
            idle: false,
            suspensions: 0,
            rounds: 0,
            followed: None,
            flash,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.dies.len() as u32
    }

    /// Where the data at `place` is, and how long it takes to sense.
    #[inline]
    pub(crate) fn source(&self, place: crate::geometry::PhysicalSlot) -> Source {
        match self.flash.locate(place) {
            crate::flash::Place::Controller => Source::Controller,
            crate::flash::Place::Die { die, page, slc } => {
                Source::Die { die: u32::from(die), sense: self.timing.sense(page, slc) }
            }
        }
    }

    /// Where the data of the slot `logical` is, and how long it takes to sense.
    #[inline]
    pub(crate) fn source_of(&mut self, logical: u32) -> Source {
        match self.sources[self.flash.mapping.shortcut(logical).index()] {
            Source::Unknown => self.source_by_tables(logical),
            known => known,
        }
    }

    /// The same without a shortcut. Stores the shortcut.
    #[inline(never)]
    fn source_by_tables(&mut self, logical: u32) -> Source {
        let place = self.flash.mapping.place(logical);
        let shortcut = self.flash.shortcut_to(place);
        self.flash.mapping.note_shortcut(logical, shortcut);
        self.source(place)
    }

    /// Queues a read on its die.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, die: u32, read: u32, events: &mut EventQueue) {
        if self.followed.is_some() {
            self.note_queued(now, die, read);
        }
        let state = &mut self.dies[die as usize];
        if state.first_read == NO_READ {
            state.first_read = read;
        } else {
            self.reads.get_mut(state.last_read).next = read;
        }
        state.last_read = read;
        match state.activity {
            Activity::Idle => self.start_next(now, die, events),
            Activity::Running => self.ask_for_suspension(now, die, events),
            _ => {}
        }
    }

    /// The followed reads, from now on if there were none.
    pub(crate) fn followed(&mut self, now: Instant) -> &mut Followed {
        self.followed.get_or_insert_with(|| {
            let mut followed = Followed::new(self.dies.len());
            for (number, die) in (0..).zip(&self.dies) {
                followed.turn(now, number, die.activity, die.long.as_ref().map(|long| &long.work));
            }
            Box::new(followed)
        })
    }

    /// Notes that a read has had this part, if its command is followed.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&mut self, now: Instant, read: u32, part: Part) {
        if let (Some(followed), Waiting::Command(command)) =
            (&mut self.followed, self.reads.get(read).waiting)
        {
            followed.pass(now, command, part);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_queued(&mut self, now: Instant, die: u32, read: u32) {
        self.note(now, read, Part::Firmware);
        if let (Some(followed), Waiting::Command(command)) =
            (&mut self.followed, self.reads.get(read).waiting)
        {
            followed.queue(now, command, die);
        }
    }

    /// Notes what the die does now, and what that means for the read that it serves.
    #[cold]
    #[inline(never)]
    fn note_turn(&mut self, now: Instant, die: u32) {
        let Some(followed) = &mut self.followed else { return };
        let state = &self.dies[die as usize];
        followed.turn(now, die, state.activity, state.long.as_ref().map(|long| &long.work));
        match state.activity {
            Activity::Sensing { read } => {
                if let Waiting::Command(command) = self.reads.get(read).waiting {
                    followed.sense(now, command, die);
                }
            }
            Activity::Delivering { read } => self.note(now, read, Part::Sensing),
            _ => {}
        }
    }

    /// Notes that the die is idle, after this read if it was one.
    #[cold]
    #[inline(never)]
    fn note_end(&mut self, now: Instant, die: u32, read: Option<u32>) {
        if let Some(read) = read {
            self.note(now, read, Part::Channel);
        }
        self.note_turn(now, die);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn note_complete(&mut self, now: Instant, command: u32, tag: u64) {
        if let Some(followed) = &mut self.followed {
            followed.complete(now, command, tag);
        }
    }

    /// Queues a unit of the host on its die.
    pub(crate) fn on_host_unit(&mut self, now: Instant, die: u32, unit: Unit, events: &mut EventQueue) {
        self.dies[die as usize].host_units.push_back(unit);
        self.start_next(now, die, events);
    }

    /// Whether the die's generation is still the one for which an event was planned.
    pub(crate) fn is_current(&self, die: u32, generation: u32) -> bool {
        self.dies[die as usize].generation == generation
    }

    /// A step of the die has ended.
    #[inline]
    pub(crate) fn on_step(&mut self, now: Instant, die: u32, events: &mut EventQueue) -> Ended {
        match self.dies[die as usize].activity {
            Activity::Sensing { read } => {
                let at = self.transfer(now, die, self.reads.get(read).slots);
                self.begin(now, die, Activity::Delivering { read }, at, events);
                Ended::Nothing
            }
            Activity::CopySensing { slots } => {
                let at = self.transfer(now, die, slots);
                self.begin(now, die, Activity::CopyDelivering, at, events);
                Ended::Nothing
            }
            Activity::Loading { pages_left: 1 } => {
                self.run_long(now, die, events);
                Ended::Nothing
            }
            Activity::Loading { pages_left } => {
                let at = self.transfer(now, die, SLOTS_PER_PAGE);
                self.begin(now, die, Activity::Loading { pages_left: pages_left - 1 }, at, events);
                Ended::Nothing
            }
            Activity::Delivering { read } => self.end(now, die, Ended::Read(read)),
            Activity::CopyDelivering | Activity::Suspending => self.end(now, die, Ended::Other),
            Activity::Running => self.end_long(now, die),
            Activity::Idle => unreachable!("die {die} is idle, so no step of it can end"),
        }
    }

    /// The program or erase has ended.
    fn end_long(&mut self, now: Instant, die: u32) -> Ended {
        let operation = self.dies[die as usize].long.take().expect("a die that runs has a long operation");
        let ended = match operation.work {
            Work::Program(unit) => {
                self.flash.on_programmed(&unit);
                match unit.origin {
                    UnitOrigin::Host { buffered, sequence } => Ended::HostUnit { buffered, sequence },
                    UnitOrigin::Copy => Ended::Other,
                }
            }
            Work::Erase => {
                self.flash.on_erased(die);
                self.end_part_of_round(die);
                Ended::Erase
            }
        };
        self.end(now, die, ended)
    }

    /// The slice of a program or erase is over. Suspends it if a read waits.
    pub(crate) fn on_suspend_due(&mut self, now: Instant, die: u32, events: &mut EventQueue) {
        let state = &mut self.dies[die as usize];
        let (Activity::Running, Some(operation), Some(suspend)) =
            (state.activity, &mut state.long, self.timing.suspend)
        else {
            unreachable!("a suspension of die {die} is only planned within a slice of a long operation")
        };
        operation.suspend_pending = false;
        if state.first_read == NO_READ {
            return;
        }
        operation.left = (operation.resumed + operation.left).since(now);
        operation.suspensions += 1;
        state.reads_in_row = 0;
        state.generation = state.generation.wrapping_add(1);
        self.suspensions += 1;
        self.begin(now, die, Activity::Suspending, now + suspend.overhead, events);
    }

    /// Starts the die's next work, if it is idle.
    #[inline]
    pub(crate) fn start_next(&mut self, now: Instant, die: u32, events: &mut EventQueue) {
        let state = &mut self.dies[die as usize];
        if !matches!(state.activity, Activity::Idle) {
            return;
        }
        if state.round != self.rounds && self.collect_for_round(now, die, events) {
            return;
        }
        let state = &mut self.dies[die as usize];
        if state.has_reads() && state.reads_in_row < self.timing.reads_between_slices {
            state.reads_in_row += 1;
            return self.start_read(now, die, events);
        }
        state.reads_in_row = 0;
        let began = self.start_background(now, die, events);
        if !began && self.dies[die as usize].has_reads() {
            self.start_read(now, die, events);
        }
    }

    #[inline]
    fn start_read(&mut self, now: Instant, die: u32, events: &mut EventQueue) {
        let state = &mut self.dies[die as usize];
        let read = state.first_read;
        let FlashRead { source, next, .. } = *self.reads.get(read);
        let Source::Die { sense, .. } = source else {
            unreachable!("a read of the controller's memory waits for die {die}")
        };
        state.first_read = next;
        let ends = now + Nanos(u64::from(sense)) + self.variation.retry();
        self.begin(now, die, Activity::Sensing { read }, ends, events);
    }

    /// Starts the background work with the highest priority. Returns `false` if there is none.
    fn start_background(&mut self, now: Instant, die: u32, events: &mut EventQueue) -> bool {
        if self.go_on(now, die, events) {
            return true;
        }
        if self.must_collect(die) && self.begin_collection(now, die, events) {
            return true;
        }
        let state = &mut self.dies[die as usize];
        if let Some(unit) = state.host_units.pop_front() {
            self.flash.owe(die, unit.slots, &mut state.debt);
            self.start_unit(now, die, unit, events);
            return true;
        }
        if !state.has_reads() && self.flash.lacks_reserve(die) && self.collect(now, die, false, events) {
            return true;
        }
        self.idle
            && (self.collect(now, die, true, events)
                || self.flash.lacks_free_blocks(die) && self.collect(now, die, false, events))
    }

    /// Goes on with the suspended operation, or with copies that have been read. Returns `false` if there are none.
    #[inline]
    fn go_on(&mut self, now: Instant, die: u32, events: &mut EventQueue) -> bool {
        let state = &mut self.dies[die as usize];
        if state.long.is_some() {
            self.run_long(now, die, events);
            return true;
        }
        if let Some(unit) = state.copy_units.pop_front() {
            self.start_unit(now, die, unit, events);
            return true;
        }
        false
    }

    /// Whether a die collects before it programs more of the host's data.
    fn must_collect(&self, die: u32) -> bool {
        if self.timing.collects_in_rounds {
            return self.flash.needs_round(die);
        }
        let is_urgent = self.flash.space[die as usize].free.len() <= self.timing.free_hard;
        is_urgent || self.dies[die as usize].debt.is_owed()
    }

    /// Takes the next step of collection, or begins a round of all dies. Returns `false` if there is no victim.
    fn begin_collection(&mut self, now: Instant, die: u32, events: &mut EventQueue) -> bool {
        if !self.timing.collects_in_rounds {
            return self.collect(now, die, false, events);
        }
        if self.flash.victim(die, false).is_none() {
            return false;
        }
        self.rounds += 1;
        let began = self.collect_for_round(now, die, events);
        for other in (0..self.count()).filter(|other| *other != die) {
            self.start_next(now, other, events);
        }
        began
    }

    /// The next step of this die's part of the round. Returns `false` once that is done.
    fn collect_for_round(&mut self, now: Instant, die: u32, events: &mut EventQueue) -> bool {
        if self.go_on(now, die, events) {
            return true;
        }
        if self.collect(now, die, false, events) {
            return true;
        }
        let state = &mut self.dies[die as usize];
        (state.round, state.erased) = (self.rounds, 0);
        false
    }

    /// Ends this die's part of the round if an erase has given it what it needs, or as many have as may.
    fn end_part_of_round(&mut self, die: u32) {
        let state = &mut self.dies[die as usize];
        if state.round == self.rounds {
            return;
        }
        state.erased += 1;
        if state.erased == ROUND_MOST || self.flash.has_gained(die) {
            (state.round, state.erased) = (self.rounds, 0);
        }
    }

    fn start_unit(&mut self, now: Instant, die: u32, unit: Unit, events: &mut EventQueue) {
        let mean = if unit.slc { self.timing.slc_program } else { self.timing.program };
        let time = self.variation.program(mean);
        self.dies[die as usize].long = Some(LongOperation::new(Work::Program(unit), time));
        let at = self.transfer(now, die, SLOTS_PER_PAGE);
        self.begin(now, die, Activity::Loading { pages_left: unit.slots / SLOTS_PER_PAGE }, at, events);
    }

    /// One step of garbage collection, or with `fold` of emptying the SLC cache. Returns `false` if there is
    /// no victim.
    fn collect(&mut self, now: Instant, die: u32, fold: bool, events: &mut EventQueue) -> bool {
        if self.flash.victim(die, fold).is_none() {
            return false;
        }
        let state = &mut self.dies[die as usize];
        match self.flash.collect_page(die, &mut state.debt, &mut state.copy_units) {
            Step::Copied { slots, page, slc } => {
                let sense = Nanos(u64::from(self.timing.sense(page, slc)));
                self.begin(now, die, Activity::CopySensing { slots }, now + sense, events);
            }
            Step::Emptied => {
                state.long = Some(LongOperation::new(Work::Erase, self.timing.erase));
                self.run_long(now, die, events);
            }
        }
        true
    }

    /// Starts or resumes the program or erase.
    fn run_long(&mut self, now: Instant, die: u32, events: &mut EventQueue) {
        let state = &mut self.dies[die as usize];
        let operation = state.long.as_mut().expect("a die runs the long operation that it has");
        operation.resumed = now;
        let ends = now + operation.left;
        self.begin(now, die, Activity::Running, ends, events);
        if self.dies[die as usize].has_reads() {
            self.ask_for_suspension(now, die, events);
        }
    }

    /// A read waits for a program or erase: suspend it at the end of its slice, unless it is nearly done by
    /// then.
    fn ask_for_suspension(&mut self, now: Instant, die: u32, events: &mut EventQueue) {
        let Some(suspend) = self.timing.suspend else { return };
        let state = &mut self.dies[die as usize];
        let Some(operation) = &mut state.long else { return };
        if state.round != self.rounds {
            return;
        }
        if operation.suspensions >= suspend.most || suspend.host_only && operation.work.is_collection() {
            return;
        }
        let due = suspend.due(operation.resumed, now);
        if !operation.suspend_pending && operation.resumed + operation.left > due + suspend.least_left {
            operation.suspend_pending = true;
            events.push(due, Event::SuspendDue { die });
        }
    }

    #[inline]
    fn begin(&mut self, now: Instant, die: u32, activity: Activity, ends: Instant, events: &mut EventQueue) {
        let state = &mut self.dies[die as usize];
        state.activity = activity;
        let event = match activity {
            Activity::Sensing { .. } | Activity::CopySensing { .. } => Event::Sensed { die },
            Activity::Delivering { .. } | Activity::CopyDelivering | Activity::Loading { .. } => {
                Event::Transferred { die }
            }
            Activity::Running => Event::Ran { die, generation: state.generation },
            Activity::Suspending => Event::Suspended { die },
            Activity::Idle => unreachable!("an idle die ({die}) has no end"),
        };
        events.push(ends, event);
        if self.followed.is_some() {
            self.note_turn(now, die);
        }
    }

    #[inline]
    fn end(&mut self, now: Instant, die: u32, ended: Ended) -> Ended {
        self.dies[die as usize].activity = Activity::Idle;
        if self.followed.is_some() {
            let read = if let Ended::Read(read) = ended { Some(read) } else { None };
            self.note_end(now, die, read);
        }
        ended
    }

    /// When the channel of `die` will have moved `slots` slots.
    #[inline]
    fn transfer(&mut self, now: Instant, die: u32, slots: u32) -> Instant {
        let channel = (die % self.flash.geometry.channels) as usize;
        let free = &mut self.channels[channel];
        *free = (*free).max(now) + self.timing.transfer[slots as usize];
        *free
    }
}
