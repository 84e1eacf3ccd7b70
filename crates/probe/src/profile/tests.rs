use super::*;

fn profile() -> Profile {
    let limit = Limit {
        kind: Kind::RandomRead,
        size_kib: 4,
        depth: 1,
        iops: 12_000.0,
        mb_per_s: 49.2,
        mean_us: 83.0,
        p50_us: 82.5,
        p99_us: 120.0,
        p999_us: 200.0,
        over_10_ms_ppm: 0.0,
    };
    let buffer = BufferTable {
        size_mib: 2048.0,
        fast_mb_per_s: 1700.0,
        exhausted_mb_per_s: 600.0,
        steady_mb_per_s: 590.0,
        drain_under_load_mb_per_s: Some(0.0),
        fill: vec![[16.0, 1700.0], [32.0, 600.0]],
    };
    let recovery = RecoveryTable {
        time_to_90_percent_ms: Some(4000.0),
        wait_ms: Some(50.0),
        rate_mb_per_s: None,
        point: vec![RecoveryPoint { idle_ms: 250.0, recovered_mib: 100.0 }],
        reads: vec![ReadsDuringRecovery { reads_per_s: 100, recovered_share: 0.5 }],
    };
    Profile {
        version: VERSION,
        device: DeviceTable {
            name: "a drive".to_owned(),
            capacity_mib: 1024,
            quick: true,
            read_only: false,
            written_mib: 10,
            took_s: 1.5,
            notes: vec!["something was left out".to_owned()],
        },
        switch: Some(SwitchTable {
            thresh_min_us: 250,
            thresh_max_us: 1500,
            write_cost_best: 1.0,
            write_cost_worst: 8.0,
        }),
        metrics: Some(MetricsTable {
            over_10_ms_ppm: Some(12.0),
            steady_write_mb_per_s: Some(590.0),
            steady_after_share: Some(0.3),
            write_amplification: None,
        }),
        buffer: Some(buffer),
        recovery: Some(recovery),
        degraded: Vec::new(),
        limit: vec![limit],
        cost: vec![Cost { kind: Kind::RandomRead, size_kib: 4, ns: 83_000.0, in_4_kib_reads: 1.0 }],
        interference: Vec::new(),
        load: Vec::new(),
    }
}

/// The error for the text of the profile with `from` replaced by `to`.
fn refusal(from: &str, to: &str) -> String {
    let text = profile().to_toml();
    assert!(text.contains(from), "no {from} in {text}");
    Profile::parse(&text.replacen(from, to, 1), "ssd.toml").expect_err("refused").to_string()
}

#[test]
fn a_profile_survives_its_file() {
    let text = profile().to_toml();
    assert_eq!(Profile::parse(&text, "text").expect("valid"), profile(), "{text}");
}

#[test]
fn a_profile_that_no_probe_wrote_is_refused_with_its_field() {
    let cases = [
        ("version = 1", "version = 2", "has version 2; this gimbal reads version 1"),
        ("version = 1", "version = 1\ncolour = 3", "colour"),
        ("size_mib = 2048.0", "size_mib = -1.0", "buffer.size_mib is -1"),
        ("size_mib = 2048.0", "size_mib = nan", "buffer.size_mib is NaN"),
        ("exhausted_mb_per_s = 600.0", "exhausted_mb_per_s = 6000.0", "is above buffer.fast_mb_per_s"),
        ("iops = 12000.0", "iops = 0.0", "limit 1: iops is 0"),
        ("kind = \"random-read\"", "kind = \"guess\"", "guess"),
        ("thresh_min_us = 250", "thresh_min_us = 2500", "switch has a lower bound above its upper one"),
    ];
    for (from, to, expected) in cases {
        let error = refusal(from, to);
        assert!(error.contains("ssd.toml") && error.contains(expected), "{from} -> {to}: {error}");
        assert!(error.contains("probe the device again"), "it says what to do: {error}");
    }
}
