//! A device small enough to be filled and emptied many times in a test.

use ssd::{Command, CommandKind, Completion, MappingProfile, Profile, Ssd};
use units::{ByteRate, Bytes, Instant, Nanos};

/// 64 MiB on four dies with blocks of 384 KiB: a few thousand writes bring it to its steady state.
pub(crate) fn profile() -> Profile {
    let mut profile = Profile { name: "small".to_owned(), ..Profile::default() };
    profile.geometry.capacity = Bytes::mib(64);
    profile.geometry.spare_permille = 100;
    profile.geometry.never_written = Bytes::ZERO;
    profile.geometry.channels = 2;
    profile.geometry.dies_per_channel = 2;
    profile.geometry.stripe_dies = 2;
    profile.geometry.units_per_block = 4;
    profile.buffer.capacity = Bytes::mib(1);
    profile
}

/// The same with 8 MiB of SLC cache and without power-loss protection.
pub(crate) fn consumer_profile() -> Profile {
    let mut profile = profile();
    profile.slc.blocks_per_die = 16;
    profile.buffer.power_loss_protection = false;
    profile
}

/// The consumer profile, but suspensions are possible until the last moment, and a program takes no longer
/// than the link.
pub(crate) fn hasty_profile() -> Profile {
    let mut profile = consumer_profile();
    profile.flash.suspend = true;
    profile.flash.suspend_slice = Nanos::micros(1);
    profile.flash.suspend_least_left = Nanos::ZERO;
    profile.flash.program = Nanos::micros(1);
    profile.slc.program = Nanos::micros(1);
    profile.link.read_rate = ByteRate::mib_per_sec(1_000);
    profile
}

/// The small device with every limit that a profile may have: cores with few places for reads, few suspensions, after
/// whole slices and of host data only, a reserve, and little of the mapping in memory.
pub(crate) fn limited_profile() -> Profile {
    let mut profile = profile();
    profile.firmware.cores = Some(3);
    profile.firmware.reads_at_once = Some(2);
    profile.flash.suspend_after_whole_slices = true;
    profile.flash.suspend_slice = Nanos::micros(130);
    profile.flash.suspensions_most = Some(2);
    profile.collection.reserve = Some(2);
    profile.collection.holds_reads = true;
    profile.mapping = Some(MappingProfile { cached: Bytes::mib(16), page: Bytes::mib(2) });
    profile
}

/// The small device, which collects in rounds.
pub(crate) fn rounds_profile() -> Profile {
    let mut profile = profile();
    profile.collection.in_rounds = true;
    profile
}

/// Advances time until nothing is outstanding.
///
/// # Panics
/// If that takes more than a simulated minute.
pub(crate) fn finish(ssd: &mut Ssd, on_complete: &mut impl FnMut(Completion)) -> Instant {
    let mut now = Instant::ZERO;
    while ssd.outstanding() > 0 {
        now = ssd.next_event().expect("outstanding commands have events");
        assert!(now < Instant::ZERO + Nanos::secs(60), "{} commands never complete", ssd.outstanding());
        ssd.advance(now, on_complete);
    }
    now
}

/// Time of one command on an idle device, starting at `now`.
pub(crate) fn time_alone(ssd: &mut Ssd, now: Instant, kind: CommandKind, slot: u32, slots: u32) -> Nanos {
    assert_eq!(ssd.outstanding(), 0, "the device is idle");
    ssd.advance(now, &mut |_| {});
    ssd.submit(now, Command { tag: 0, kind, slot, slots });
    let mut done = None;
    finish(ssd, &mut |completion| done = Some(completion.at));
    done.expect("finishing completes the command").since(now)
}
