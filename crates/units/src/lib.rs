//! Units as types, so that a count of bytes is never added to a count of nanoseconds.
//!
//! Everything is an integer and every operation is exact or states its rounding: a result that must replay from a seed
//! cannot depend on floating point. Time is always an argument; nothing here reads a clock.
//!
//! Holds: `ByteRate::time_to_earn` is the least time after which `ByteRate::earned_in` has reached the asked-for bytes
//!        (`time_to_earn_is_the_first_moment`).
#![no_std]

extern crate alloc;

mod bytes;
mod ids;
mod quantity;
mod rate;
mod slowdown;
mod time;

pub use bytes::{Bytes, GIB, KIB, MIB};
pub use ids::{Lba, TenantId};
pub use quantity::{NotAQuantity, thousandths, time_with_default_unit};
pub use rate::ByteRate;
pub use slowdown::Slowdown;
pub use time::{Instant, Nanos, earliest};
