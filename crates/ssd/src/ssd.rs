//! The device: commands in, completions out, and the path between them.
//!
//! ```text
//!  read   ─► firmware ─► latency ─► die: sense ─► channel ─► memory ─► link ─► complete
//!                                └► (data in the controller) ──┘
//!  write  ─► firmware ─► latency ─► admission ─► link, memory ─► buffered ─► complete
//!                                                                   └─► stripe ─► die: program ─► buffer released
//! ```
//!
//! Time is an argument and advances only by events. The path between host and device is not included.
//!
//! Holds: every command completes exactly once and not before its submission; the same commands at the same
//!        instants give the same completions (both in `tests/model/properties.rs`).
//! Elsewhere: the bound for the next completion is in `bound`, the parts of a read's time in `waits`, the dies in `die`, the serial stages in
//!        `controller`, admission and flush in `buffer`, the mapping in `flash`.

use crate::bound::LeastDelays;
use crate::buffer::{Ledger, WriteBuffer};
use crate::command::{Command, CommandKind, Completion};
use crate::controller::{Firmware, Link, Memory};
use crate::die::{Dies, Ended, FlashRead, Source, Waiting};
use crate::event_queue::{Event, EventQueue};
use crate::geometry::{SLOT_BYTES, SLOTS_PER_PAGE};
use crate::image::{Condition, Image};
use crate::mapping_cache::MappingCache;
use crate::profile::Profile;
use crate::slab::Slab;
use crate::waits::{Part, Waits};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// An SSD in virtual time.
pub struct Ssd {
    now: Instant,
    events: EventQueue,
    delays: LeastDelays,
    commands: Slab<InFlight>,
    outstanding: u32,
    firmware: Firmware,
    to_host: Link,
    from_host: Link,
    /// `None` if it never limits.
    memory: Option<Memory>,
    buffer: WriteBuffer,
    /// Buffered data and flushes that are not yet placed on flash, in order. Usually empty.
    unplaced: VecDeque<Unplaced>,
    ledger: Ledger,
    /// `None` if all of the mapping is in memory.
    mapping: Option<MappingCache>,
    dies: Dies,
    /// Reads of one slot before the lookup of its mapping.
    small_reads: Vec<SmallRead>,
    idle: IdleClock,
    power_loss_protection: bool,
    completed: u64,
    stalls: u64,
}

/// A command in progress.
#[derive(Clone, Copy)]
struct InFlight {
    command: Command,
    /// Read: flash operations left. Write: slots that are not yet in the buffer.
    left: u32,
    /// Read: when the last data so far has crossed the link; `Instant::ZERO` before the first.
    carried: Instant,
}

/// A read operation of one slot.
#[derive(Clone, Copy)]
struct SmallRead {
    read: u32,
    slot: u32,
}

#[derive(Clone, Copy)]
enum Unplaced {
    Slots { first: u32, slots: u32 },
    Flush { command: u32 },
}

/// Since when no command has been outstanding.
struct IdleClock {
    since: Instant,
    /// After this idle time, the device may fold its SLC cache.
    wait: Nanos,
    check_pending: bool,
}

/// Counters of a device since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commands completed.
    pub completed: u64,
    /// Slots that the host wrote to flash, including padding of partly filled units.
    pub host_slots: u64,
    /// Slots that garbage collection and folding copied.
    pub copied_slots: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Programs and erases suspended for reads.
    pub suspensions: u64,
    /// Number of times that host data had to wait for an erase.
    pub stalls: u64,
    /// Events of the model, a measure of its work.
    pub events: u64,
}

impl Counters {
    /// Slots written to flash per slot that the host wrote; 1 if the host wrote none.
    pub fn write_amplification(&self) -> f64 {
        let host = self.host_slots.max(1) as f64;
        (host + self.copied_slots as f64) / host
    }
}

impl Ssd {
    /// A device with this profile in this condition. To make several equal devices, make an [`Image`] once.
    ///
    /// # Panics
    /// If the profile does not pass [`Profile::check`]. A loaded profile always does.
    pub fn new(profile: &Profile, condition: Condition, seed: u64) -> Ssd {
        Ssd::from_image(&Image::new(profile, condition, seed))
    }

    /// A device that starts in the state of the image.
    pub fn from_image(image: &Image) -> Ssd {
        let profile = &image.profile;
        let to_host = Link::to_host(&profile.link);
        let dies = Dies::new(profile, image.flash.as_ref().clone(), image.seed);
        Ssd {
            now: Instant::ZERO,
            events: EventQueue::new(),
            delays: LeastDelays::new(&dies.timing, &to_host),
            commands: Slab::new(),
            outstanding: 0,
            firmware: Firmware::new(profile, image.seed),
            to_host,
            from_host: Link::from_host(&profile.link),
            memory: profile.memory.as_ref().map(Memory::new),
            buffer: WriteBuffer::new(
                u32::try_from(profile.buffer.capacity.get() / SLOT_BYTES).expect("profiles bound the buffer"),
            ),
            unplaced: VecDeque::new(),
            ledger: Ledger::default(),
            mapping: profile
                .mapping
                .as_ref()
                .and_then(|mapping| MappingCache::new(mapping, profile.geometry.capacity)),
            dies,
            small_reads: Vec::new(),
            idle: IdleClock { since: Instant::ZERO, wait: profile.slc.idle, check_pending: false },
            power_loss_protection: profile.buffer.power_loss_protection,
            completed: 0,
            stalls: 0,
        }
    }

    /// Slots of 4 KiB that the host can address.
    pub fn slots(&self) -> u32 {
        self.dies.flash.mapping.logical_slots()
    }

    /// Capacity that the host sees.
    pub fn capacity(&self) -> Bytes {
        Bytes(u64::from(self.slots()) * SLOT_BYTES)
    }

    /// Commands submitted and not yet completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Admitted or acknowledged data that is not yet on flash.
    pub fn buffered(&self) -> Bytes {
        Bytes(u64::from(self.buffer.occupied()) * SLOT_BYTES)
    }

    /// Free space in the SLC cache. A real device does not report it; this is for judging schedulers that
    /// estimate it.
    pub fn slc_free(&self) -> Bytes {
        Bytes(self.dies.flash.slc_free_slots() * SLOT_BYTES)
    }

    /// The counters up to now.
    pub fn counters(&self) -> Counters {
        let flash = &self.dies.flash;
        Counters {
            completed: self.completed,
            host_slots: flash.host_slots,
            copied_slots: flash.copied_slots,
            erases: flash.erases,
            suspensions: self.dies.suspensions,
            stalls: self.stalls,
            events: self.events.popped(),
        }
    }

    /// Checks all mapping tables against each other. Takes time proportional to the capacity; for tests.
    ///
    /// # Panics
    /// If they disagree.
    pub fn assert_consistent(&self) {
        self.dies.flash.mapping.assert_consistent();
        self.dies.flash.assert_shortcuts();
    }

    /// Submits a command at the instant `now`. Call [`Ssd::advance`] up to `now` first.
    ///
    /// # Panics
    /// If the slots are out of range, or `now` is earlier than an instant passed in before.
    pub fn submit(&mut self, now: Instant, command: Command) {
        let number = self.accept(now, command);
        self.start(now, number, command);
    }

    /// Submits a read of one slot, whose time is divided into parts for [`Ssd::followed`].
    ///
    /// # Panics
    /// As [`Ssd::submit`], and if it is anything else.
    pub fn submit_followed(&mut self, now: Instant, command: Command) {
        assert!(
            command.kind == CommandKind::Read && command.slots == 1,
            "only a read of one slot waits for one thing after the other, not {command:?}"
        );
        let number = self.accept(now, command);
        self.dies.followed(now).follow(now, number);
        self.start(now, number, command);
    }

    /// Tag and parts of the followed reads that are complete, once.
    pub fn followed(&mut self) -> Vec<(u64, Waits)> {
        self.dies.followed.as_mut().map(|followed| followed.take()).unwrap_or_default()
    }

    /// The number of a command that has come.
    // Always inlined, as is the next one: of their two callers one is the path of every command.
    #[inline(always)]
    fn accept(&mut self, now: Instant, command: Command) -> u32 {
        assert!(
            now >= self.now,
            "a command is submitted at {now:?}, before the device's current time {:?}",
            self.now
        );
        self.now = now;
        self.outstanding += 1;
        self.dies.idle = false;
        match command.kind {
            CommandKind::Flush => {}
            _ => {
                let end = u64::from(command.slot) + u64::from(command.slots);
                assert!(
                    command.slots > 0 && end <= u64::from(self.slots()),
                    "{command:?} is out of range of the device's {} slots",
                    self.slots()
                );
            }
        }
        self.commands.insert(InFlight { command, left: command.slots, carried: Instant::ZERO })
    }

    #[inline(always)]
    fn start(&mut self, now: Instant, number: u32, command: Command) {
        match command.kind {
            CommandKind::Read => {
                if !self.firmware.limits_reads() || self.firmware.enter_read(number, command.slot) {
                    self.submit_read(now, number, command);
                }
            }
            CommandKind::Write => {
                let at = self.firmware.write(now, command.slot, command.slots);
                self.events.push(at, Event::Parsed { command: number });
            }
            CommandKind::Deallocate => {
                let at = self.firmware.deallocate(now, command.slot, command.slots);
                self.events.push(at, Event::Parsed { command: number });
            }
            CommandKind::Flush => {
                let at = self.firmware.flush(now);
                self.events.push(at, Event::Parsed { command: number });
            }
        }
    }

    /// When [`Ssd::advance`] has work next; `None` if there is none. The work need not be a completion.
    pub fn next_event(&self) -> Option<Instant> {
        self.events.next_at()
    }

    /// No submitted command completes before this; `None` if none is outstanding. It is a lower bound: there
    /// need not be a completion at that time, but each [`Ssd::advance`] brings it closer to the next one.
    pub fn completion_bound(&self) -> Option<Instant> {
        if self.outstanding == 0 { None } else { self.events.completion_bound(&self.delays) }
    }

    /// Runs all events up to and including `until`. Completions are reported in order of time.
    #[inline]
    pub fn advance(&mut self, until: Instant, on_complete: &mut impl FnMut(Completion)) {
        while let Some((now, event)) = self.events.pop_until(until) {
            self.now = now;
            if let Some(completion) = self.on_event(now, event) {
                on_complete(completion);
            }
        }
        self.now = self.now.max(until);
    }

    #[inline]
    fn on_event(&mut self, now: Instant, event: Event) -> Option<Completion> {
        match event {
            Event::ReadIssued { read } => self.on_read_issued(now, read),
            Event::Sensed { die } | Event::Transferred { die } | Event::Suspended { die } => {
                self.on_die_step(now, die);
            }
            Event::Ran { die, generation } => {
                if self.dies.is_current(die, generation) {
                    self.on_die_step(now, die);
                }
            }
            Event::SuspendDue { die } => self.dies.on_suspend_due(now, die, &mut self.events),
            Event::WriteArrived { command, slots } => return self.on_write_arrived(now, command, slots),
            Event::Parsed { command } => return self.on_parsed(now, command),
            Event::Completed { command } => return Some(self.complete(now, command)),
            Event::IdleCheck => self.on_idle_check(now),
        }
        None
    }

    #[inline]
    fn on_read_issued(&mut self, now: Instant, read: u32) {
        if let Source::Unknown = self.dies.reads.get(read).source {
            self.look_up_small_reads();
        }
        match self.dies.reads.get(read).source {
            Source::Die { .. } if self.mapping.is_some() => self.read_mapped(now, read),
            Source::Die { die, .. } => self.dies.on_read(now, die, read, &mut self.events),
            Source::Controller => {
                if self.dies.followed.is_some() {
                    self.dies.note(now, read, Part::Firmware);
                }
                self.on_data_read(now, read);
            }
            Source::Unknown => unreachable!("read {read} was not among those to look up"),
        }
    }

    /// Queues a read on its die, or first the read of the page of the mapping that it needs. A command needs the page of its first slot.
    #[inline(never)]
    fn read_mapped(&mut self, now: Instant, read: u32) {
        let FlashRead { waiting: Waiting::Command(command), source: Source::Die { die, .. }, .. } =
            *self.dies.reads.get(read)
        else {
            unreachable!("read {read} is not of a command, or not of a die")
        };
        let slot = self.commands.get(command).command.slot;
        match self.mapping.as_mut().and_then(|mapping| mapping.missing(slot)) {
            None => self.dies.on_read(now, die, read, &mut self.events),
            Some(page) => {
                if self.dies.followed.is_some() {
                    self.dies.note(now, read, Part::Firmware);
                }
                let die = page % self.dies.count();
                let source = Source::Die { die, sense: self.dies.timing.sense(0, false) };
                let of_page = FlashRead::new(Waiting::Read(read), SLOTS_PER_PAGE, source);
                let of_page = self.dies.reads.insert(of_page);
                self.dies.on_read(now, die, of_page, &mut self.events);
            }
        }
    }

    /// Looks up all reads of one slot that are still in the firmware. A look-up misses the processor's
    /// caches; many look-ups at once wait for memory in parallel.
    fn look_up_small_reads(&mut self) {
        for SmallRead { read, slot } in self.small_reads.drain(..) {
            self.dies.reads.get_mut(read).source = self.dies.source_of(slot);
        }
    }

    /// Divides a read into flash operations: consecutive slots on the same page share one operation.
    // Always inlined: one of its two callers is cold, the other one is the path of every read.
    #[inline(always)]
    fn submit_read(&mut self, now: Instant, number: u32, command: Command) {
        if command.slots == 1 {
            let read = self.dies.reads.insert(FlashRead::new(Waiting::Command(number), 1, Source::Unknown));
            self.small_reads.push(SmallRead { read, slot: command.slot });
            let at = self.firmware.read_operation(now, command.slot, false);
            self.events.push(at, Event::ReadIssued { read });
            return;
        }
        let end = command.slot + command.slots;
        let mut first = command.slot;
        let mut operations = 0;
        while first < end {
            let place = self.dies.flash.mapping.place(first);
            let longest = end.min(first + SLOTS_PER_PAGE);
            let mut next = first + 1;
            while next < longest && self.dies.flash.mapping.place(next).page() == place.page() {
                next += 1;
            }
            let slots = next - first;
            let scattered = slots < SLOTS_PER_PAGE && slots < command.slots;
            let read = self.dies.reads.insert(FlashRead::new(
                Waiting::Command(number),
                slots,
                self.dies.source(place),
            ));
            let at = self.firmware.read_operation(now, command.slot, scattered);
            self.events.push(at, Event::ReadIssued { read });
            operations += 1;
            first = next;
        }
        self.commands.get_mut(number).left = operations;
    }

    /// The data of a read operation is in the controller: it crosses the link.
    #[inline]
    fn on_data_read(&mut self, now: Instant, read: u32) {
        let FlashRead { waiting, slots, .. } = self.dies.reads.remove(read);
        let command = match waiting {
            Waiting::Command(command) => command,
            Waiting::Read(read) => return self.on_mapping_read(now, read),
        };
        let in_flight = self.commands.get_mut(command);
        let opens = in_flight.carried == Instant::ZERO;
        let passed = self.memory.as_mut().map_or(now, |memory| memory.read(now, slots));
        in_flight.carried = self.to_host.carry(passed, slots, opens);
        in_flight.left -= 1;
        if in_flight.left == 0 {
            self.events.push(in_flight.carried, Event::Completed { command });
        }
    }

    /// The page of the mapping that this read needs is in memory.
    #[inline(never)]
    fn on_mapping_read(&mut self, now: Instant, read: u32) {
        let Source::Die { die, .. } = self.dies.reads.get(read).source else {
            unreachable!("only a read of a die needs the mapping")
        };
        if self.dies.followed.is_some() {
            self.dies.note(now, read, Part::Mapping);
        }
        self.dies.on_read(now, die, read, &mut self.events);
    }

    #[inline]
    fn on_die_step(&mut self, now: Instant, die: u32) {
        match self.dies.on_step(now, die, &mut self.events) {
            Ended::Nothing => return,
            Ended::Read(read) => self.on_data_read(now, read),
            Ended::HostUnit { buffered, sequence } => {
                self.buffer.release(buffered);
                self.admit_writes(now);
                self.ledger.on_programmed(sequence);
                self.finish_flushes(now);
            }
            Ended::Erase => self.place_buffered(now),
            Ended::Other => {}
        }
        self.dies.start_next(now, die, &mut self.events);
    }

    fn admit_writes(&mut self, now: Instant) {
        while let Some(piece) = self.buffer.admit() {
            let carried = self.from_host.carry(now, piece.slots, true);
            let passed = self.memory.as_mut().map_or(now, |memory| memory.write(now, piece.slots));
            self.events.push(
                carried.max(passed),
                Event::WriteArrived { command: piece.command, slots: piece.slots },
            );
        }
    }

    fn on_write_arrived(&mut self, now: Instant, command: u32, slots: u32) -> Option<Completion> {
        let in_flight = self.commands.get_mut(command);
        let Command { slot, slots: all, .. } = in_flight.command;
        self.unplaced.push_back(Unplaced::Slots { first: slot + (all - in_flight.left), slots });
        in_flight.left -= slots;
        let complete = in_flight.left == 0;
        self.place_buffered(now);
        complete.then(|| self.complete(now, command))
    }

    /// Places buffered data on flash, while there is space.
    fn place_buffered(&mut self, now: Instant) {
        while let Some(&next) = self.unplaced.front() {
            match next {
                Unplaced::Slots { first, slots } => {
                    for logical in first..first + slots {
                        match self.dies.flash.place_host(logical) {
                            Ok(None) => {}
                            Ok(Some((die, unit))) => self.dies.on_host_unit(now, die, unit, &mut self.events),
                            Err(crate::stripe::NoSpace) => {
                                self.stalls += 1;
                                let slots = first + slots - logical;
                                self.unplaced[0] = Unplaced::Slots { first: logical, slots };
                                return;
                            }
                        }
                    }
                }
                Unplaced::Flush { command } => {
                    let Dies { flash, .. } = &mut self.dies;
                    let mut padded = Vec::new();
                    flash.pad_stripe(|die, unit| padded.push((die, unit)));
                    self.ledger.on_flush(command, flash.host_units);
                    for (die, unit) in padded {
                        self.dies.on_host_unit(now, die, unit, &mut self.events);
                    }
                    self.finish_flushes(now);
                }
            }
            self.unplaced.pop_front();
        }
    }

    /// The firmware has processed a command other than a read.
    fn on_parsed(&mut self, now: Instant, number: u32) -> Option<Completion> {
        let Command { kind, slot, slots, .. } = self.commands.get(number).command;
        match kind {
            CommandKind::Read => {
                unreachable!("command {number} is a read, which is divided into operations earlier")
            }
            CommandKind::Write => {
                self.buffer.on_write(number, slots);
                self.admit_writes(now);
                None
            }
            CommandKind::Deallocate => {
                for logical in slot..slot + slots {
                    self.dies.flash.mapping.unbind(logical);
                }
                Some(self.complete(now, number))
            }
            CommandKind::Flush if self.power_loss_protection => Some(self.complete(now, number)),
            CommandKind::Flush => {
                self.unplaced.push_back(Unplaced::Flush { command: number });
                self.place_buffered(now);
                None
            }
        }
    }

    fn finish_flushes(&mut self, now: Instant) {
        while let Some(command) = self.ledger.finished_flush() {
            self.events.push(now, Event::Completed { command });
        }
    }

    #[inline]
    fn complete(&mut self, now: Instant, number: u32) -> Completion {
        let InFlight { command, .. } = self.commands.remove(number);
        self.completed += 1;
        self.outstanding -= 1;
        if self.dies.followed.is_some() {
            self.dies.note_complete(now, number, command.tag);
        }
        if self.firmware.limits_reads() {
            self.on_place_free(now, command);
        }
        if self.outstanding == 0 {
            self.idle.since = now;
            if !self.idle.check_pending {
                self.idle.check_pending = true;
                self.events.push(now + self.idle.wait, Event::IdleCheck);
            }
        }
        Completion { tag: command.tag, at: now }
    }

    /// A command is complete. If it was a read, the read that waits for its place starts.
    #[inline(never)]
    fn on_place_free(&mut self, now: Instant, completed: Command) {
        if let CommandKind::Read = completed.kind
            && let Some(next) = self.firmware.leave_read(completed.slot)
        {
            self.submit_read(now, next, self.commands.get(next).command);
        }
    }

    /// The idle time may be over. If commands came meanwhile, check again later.
    fn on_idle_check(&mut self, now: Instant) {
        let due = self.idle.since + self.idle.wait;
        self.idle.check_pending = self.outstanding == 0 && now < due;
        if self.idle.check_pending {
            self.events.push(due, Event::IdleCheck);
        } else if self.outstanding == 0 {
            self.dies.idle = true;
            for die in 0..self.dies.count() {
                self.dies.start_next(now, die, &mut self.events);
            }
        }
    }
}
