//! Common parts of the `linux_*` tests: real Linux hosts use the real binary.
//!
//! ```text
//!   Guest ── a Debian kernel under QEMU, running a walk of tests/guest/walks ──┐
//!     │ 10.0.2.2                                                               │ lines, exit status
//!   127.0.0.1 ── Target: `gimbal serve`, a process of its own                 test
//! ```
//!
//! A walk checks its own results and exits with a status. The test connects guests and targets, and injects failures such as a kill.
//! The tests need QEMU: `make test-deps` installs it.

// Each test binary uses a part of this.
#![allow(dead_code, unused_imports)]

mod guest;
#[path = "../process/mod.rs"]
pub(crate) mod process;
mod scratch;
mod target;

pub(crate) use guest::{Guest, KERNEL_NQN, Kernel, Walk, static_program};
pub(crate) use scratch::Scratch;
pub(crate) use target::{Medium, NQN, Target};
