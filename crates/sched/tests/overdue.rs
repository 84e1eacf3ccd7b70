//! A tenant whose IOs hang, in front of a window.

use sched::{
    DeviceConstants, DeviceCosts, Done, Gimbal, GimbalConfig, Io, IoId, IoKind, Mark, Next, Outcome, Policy,
    Priority,
};
use units::{Bytes, Instant, Nanos, TenantId};

const LENGTH: Bytes = Bytes::kib(128);
const ALICE: TenantId = TenantId(0);
const BOB: TenantId = TenantId(1);

#[test]
fn a_tenant_whose_ios_hang_does_not_keep_the_window_full() {
    let mut gimbal = Gimbal::new(GimbalConfig::next(DeviceConstants::DCT983, DeviceCosts::DCT983));
    let now = Instant(1_000_000_000);
    let mut next_id = 0;
    let mut arrive = |gimbal: &mut Gimbal, tenant: TenantId, count: u64| {
        for _ in 0..count {
            next_id += 1;
            let (id, priority, mark) = (IoId(next_id), Priority::default(), Mark::default());
            gimbal.on_arrival(now, Io { id, tenant, priority, kind: IoKind::Read, length: LENGTH, mark });
        }
    };
    let submit = |gimbal: &mut Gimbal| {
        let mut out = Vec::new();
        while let Next::Submit(io) = gimbal.next(now) {
            out.push(io);
        }
        out
    };
    let window =
        |gimbal: &Gimbal| gimbal.ssd_view(now).and_then(|view| view.window).expect("there is a window");
    arrive(&mut gimbal, ALICE, 1000);
    let hung = submit(&mut gimbal);
    assert!(window(&gimbal).in_flight >= window(&gimbal).size, "it has all of the window");
    arrive(&mut gimbal, BOB, 4);
    assert_eq!(gimbal.next(now), Next::Idle, "nobody knows yet that they hang");
    gimbal.on_overdue(now, ALICE);
    assert_eq!(window(&gimbal).in_flight, Bytes::ZERO);
    let freed = submit(&mut gimbal);
    assert_eq!(freed.iter().filter(|io| io.tenant == BOB).count(), 4, "{freed:?}");
    let success = Outcome::Success { latency: Nanos::millis(1) };
    for io in hung.into_iter().chain(freed) {
        gimbal.on_completion(now, Done { io, outcome: success });
    }
    assert_eq!(window(&gimbal).in_flight, Bytes::ZERO, "what ends late is not taken off twice");
}
