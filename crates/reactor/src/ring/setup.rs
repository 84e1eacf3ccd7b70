//! Making the ring with the best the kernel offers.
//!
//! Flags are tried from the newest kernel's to none; each only saves time. Features that the backend cannot do without
//! are tested:
//!
//! | needed | since | how it is found out |
//! |---|---|---|
//! | timeouts on enter, no lost completions | 5.11 | feature bits |
//! | provided buffer ring, multishot accept | 5.19 | registering the ring |
//! | multishot receive | 6.0 | has no probe of its own; `SEND_ZC` came with the same release |
//! | permission for `io_uring_enter` | – | one request is made: sandboxes may allow the other system calls and not this one |
//!
//! Where one is missing (5.15, say) `Backend::Auto` takes epoll instead: reception without these would need a buffer
//! per connection, which epoll does not need either.

use io_uring::{Builder, IoUring, Probe, cqueue, opcode, squeue};
use std::io;

/// Submission entries. A loop that asks for more than this in one go makes one more system call.
const SUBMISSION_ENTRIES: u32 = 512;
/// Completion entries: room for all disk operations and a burst from every socket. Beyond it the kernel keeps completions back,
/// slower but not lost.
const COMPLETION_ENTRIES: u32 = 4096;

/// The amount of work that the kernel saves, from the newest kernel to the oldest.
#[derive(Clone, Copy)]
enum Tier {
    /// 6.1: completion work runs only when we ask for it, in one go.
    DeferTaskrun,
    /// 6.0: one thread submits; completion work does not interrupt it.
    SingleIssuer,
    /// 5.19: completion work does not interrupt the thread.
    CoopTaskrun,
    /// Nothing special.
    Plain,
}

/// A ring that can do all the backend needs.
///
/// # Errors
/// io_uring is forbidden (`EPERM`), unknown (`ENOSYS`) or too old (`Unsupported`).
pub(super) fn build() -> io::Result<IoUring> {
    let mut ring = build_best(IoUring::builder())?;
    check(&ring)?;
    enter(&mut ring)?;
    Ok(ring)
}

/// A ring for a device, with entries that are large enough for an NVMe command, polled if that is asked for. Linux has both since 5.19.
///
/// # Errors
/// As for [`build`].
pub(super) fn build_for_device(is_polled: bool) -> io::Result<IoUring<squeue::Entry128, cqueue::Entry32>> {
    let mut builder = IoUring::<squeue::Entry128, cqueue::Entry32>::builder();
    if is_polled {
        builder.setup_iopoll();
    }
    let ring = build_best(builder)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::UringCmd80::CODE) {
        let what = "io_uring here has no commands to devices (Linux 5.19)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(ring)
}

fn build_best<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    builder: Builder<S, C>,
) -> io::Result<IoUring<S, C>> {
    let mut outcome = Err(io::ErrorKind::Unsupported.into());
    for tier in [Tier::DeferTaskrun, Tier::SingleIssuer, Tier::CoopTaskrun, Tier::Plain] {
        outcome = build_tier(builder.clone(), tier);
        match &outcome {
            // EINVAL: this kernel does not know one of the flags.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    outcome
}

fn build_tier<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    mut builder: Builder<S, C>,
    tier: Tier,
) -> io::Result<IoUring<S, C>> {
    builder.setup_clamp().setup_cqsize(COMPLETION_ENTRIES);
    match tier {
        // The taskrun flag reports without a system call that there is completion work to run.
        Tier::DeferTaskrun => {
            builder.setup_submit_all().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag()
        }
        Tier::SingleIssuer => {
            builder.setup_submit_all().setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag()
        }
        Tier::CoopTaskrun => builder.setup_submit_all().setup_coop_taskrun().setup_taskrun_flag(),
        Tier::Plain => &mut builder,
    };
    builder.build(SUBMISSION_ENTRIES)
}

/// Has the ring do one request, which does nothing.
fn enter(ring: &mut IoUring) -> io::Result<()> {
    // SAFETY: the request names no memory and no descriptor.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    ring.completion().next().map(drop).ok_or_else(|| io::Error::other("io_uring here completes nothing"))
}

fn check(ring: &IoUring) -> io::Result<()> {
    let too_old =
        |what: &str| Err(io::Error::new(io::ErrorKind::Unsupported, format!("io_uring here has no {what}")));
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return too_old("timeouts on enter");
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(opcode::SendZc::CODE) {
        return too_old("multishot receive (Linux 6.0)");
    }
    for code in [
        opcode::AcceptMulti::CODE,
        opcode::Connect::CODE,
        opcode::SendMsg::CODE,
        opcode::AsyncCancel2::CODE,
        opcode::PollAdd::CODE,
        opcode::Read::CODE,
        opcode::ReadFixed::CODE,
        opcode::Write::CODE,
        opcode::WriteFixed::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
    ] {
        if !probe.is_supported(code) {
            return too_old(&format!("operation {code}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no io_uring")]
    fn every_tier_that_this_kernel_builds_passes_the_check() {
        for tier in [Tier::DeferTaskrun, Tier::SingleIssuer, Tier::CoopTaskrun, Tier::Plain] {
            if let Ok(ring) = build_tier(IoUring::builder(), tier) {
                assert_eq!(check(&ring).is_ok(), build().is_ok());
            }
        }
    }
}
