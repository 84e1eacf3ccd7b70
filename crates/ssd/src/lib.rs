//! An SSD as a discrete-event performance model in virtual time. It stores no data; it only says when each
//! command completes.
//!
//! ```text
//!   submit(now, command) ─►  firmware ─ link ─ write buffer ─ mapping ─ dies  ─► Completion { tag, at }
//!                               └────────── one event queue ──────────┘
//! ```
//!
//! A device is a [`Profile`] (a TOML file) in a [`Condition`]. It reads no clock: the caller advances time
//! with [`Ssd::advance`]. [`Ssd::next_event`] says when there is something to do, and
//! [`Ssd::completion_bound`] until when no completion can come. The same calls give the same completions on
//! every machine. The path between host and device (fabric, interrupt) belongs to the caller.
//!
//! ```
//! use ssd::{Command, CommandKind, Condition, Profile, Ssd};
//! use units::{Instant, Nanos};
//!
//! let mut ssd = Ssd::new(&Profile::default(), Condition::Clean, 1);
//! ssd.submit(Instant::ZERO, Command { tag: 7, kind: CommandKind::Read, slot: 42, slots: 1 });
//! let mut completed = Vec::new();
//! while let Some(at) = ssd.next_event().filter(|_| ssd.outstanding() > 0) {
//!     ssd.advance(at, &mut |completion| completed.push(completion));
//! }
//! assert_eq!(completed[0].tag, 7);
//! assert!(completed[0].at < Instant::ZERO + Nanos::micros(75), "a lone 4 KiB read");
//! ```
//!
//! Reading order: `ssd` (the path of a command), `die` (what each die does next), `stripe` and `collection`
//! (where data goes and how it is moved), `slc`, `image` (conditioning), `profile`; `event_queue` is the event
//! queue. Effects that the model reproduces and those that it does not: `docs/ssd-model.md`.

mod bound;
mod buffer;
mod collection;
mod command;
mod controller;
mod die;
mod event_queue;
mod flash;
mod geometry;
mod image;
mod mapping;
mod mapping_cache;
mod profile;
mod shortcut;
mod slab;
mod slc;
mod ssd;
mod stripe;
mod timing;
mod variation;
mod waits;

pub use command::{Command, CommandKind, Completion};
pub use geometry::SLOT_BYTES;
pub use image::{Condition, Image};
pub use profile::{
    BufferProfile, ChannelProfile, CollectionProfile, FirmwareProfile, FlashProfile, GeometryProfile,
    LinkProfile, MappingProfile, MemoryProfile, Profile, ProfileError, SlcProfile, SwitchProfile,
    VariationProfile,
};
pub use ssd::{Counters, Ssd};
pub use waits::{Part, Waits};
