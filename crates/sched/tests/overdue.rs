//! A tenant with IOs that hang, under level-calibrated.

use sched::{
    CalibratedConfig, DeviceConstants, DeviceCosts, Done, Io, IoId, IoKind, LevelCalibrated, Mark, Next,
    Outcome, Policy, Priority,
};
use units::{Bytes, Instant, Nanos, TenantId};

const LENGTH: Bytes = Bytes::kib(128);
const ALICE: TenantId = TenantId(0);
const BOB: TenantId = TenantId(1);

#[test]
fn a_tenant_whose_ios_hang_does_not_keep_the_device_time() {
    let mut level = LevelCalibrated::new(CalibratedConfig::new(DeviceConstants::DCT983, DeviceCosts::DCT983));
    let now = Instant(1_000_000_000);
    let mut next_id = 0;
    let mut arrive = |level: &mut LevelCalibrated, tenant: TenantId, count: u64| {
        for _ in 0..count {
            next_id += 1;
            let (id, priority, mark) = (IoId(next_id), Priority::default(), Mark::default());
            level.on_arrival(now, Io { id, tenant, priority, kind: IoKind::Read, length: LENGTH, mark });
        }
    };
    let submit = |level: &mut LevelCalibrated| {
        let mut out = Vec::new();
        while let Next::Submit(io) = level.next(now) {
            out.push(io);
        }
        out
    };
    let time = |level: &LevelCalibrated| {
        level.ssd_view(now).and_then(|view| view.time_in_flight).expect("it is bounded")
    };
    arrive(&mut level, ALICE, 1000);
    let hung = submit(&mut level);
    assert!(time(&level).in_flight >= time(&level).limit, "it has all of the device time");
    arrive(&mut level, BOB, 4);
    assert_eq!(level.next(now), Next::Idle, "nobody knows yet that they hang");
    level.on_overdue(now, ALICE);
    assert_eq!(time(&level).in_flight, Bytes::ZERO);
    let freed = submit(&mut level);
    assert_eq!(freed.iter().filter(|io| io.tenant == BOB).count(), 4, "{freed:?}");
    let success = Outcome::Success { latency: Nanos::millis(1) };
    for io in hung.into_iter().chain(freed) {
        level.on_completion(now, Done { io, outcome: success });
    }
    assert_eq!(time(&level).in_flight, Bytes::ZERO, "what ends late is not taken off twice");
}
