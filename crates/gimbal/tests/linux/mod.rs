//! Real Linux hosts against the real binary: what the `linux_*` tests share.
//!
//! ```text
//!   Guest ── a Debian kernel under QEMU, running a walk of tests/guest/walks ──┐
//!     │ 10.0.2.2                                                               │ lines, exit status
//!   127.0.0.1 ── Target: `gimbal serve`, a process of its own                 test
//! ```
//!
//! A walk judges itself and ends with a status; a test arranges who talks to whom, and breaks what is to be broken.
//! QEMU has to be there: `make test-deps` installs it.

// Each test binary uses a part of this.
#![allow(dead_code, unused_imports)]

mod guest;
#[path = "../process/mod.rs"]
mod process;
mod scratch;
mod target;

pub(crate) use guest::{Guest, KERNEL_NQN, Kernel, Walk, static_program};
pub(crate) use scratch::Scratch;
pub(crate) use target::{Medium, NQN, Target};
