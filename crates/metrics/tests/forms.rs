//! The forms of the table: sums, escapes, bounds, and that text and JSON say the same.

use measures::Histogram;
use metrics::table::{Kind, TABLE};
use metrics::{Lately, Shown, Tenants, json, text};
use sched::{Credit, TenantView, Wait};
use serde_json::{Value, json};
use server::{
    AcceptorStats, Counters, ExtraReadStats, SsdStats, Stats, TenantName, TenantStats, Transferred,
    TurnStats, Waits,
};
use std::collections::HashSet;
use units::{Bytes, Instant, Nanos};

fn moved(ios: u64) -> Transferred {
    let mut latency = Histogram::default();
    (0..ios).for_each(|n| latency.record(Nanos::micros(40 + n)));
    let (device_latency, total_latency) = (latency.clone(), latency);
    Transferred { ios, bytes: 4096 * ios, device_latency, total_latency }
}

fn tenant(host: &str, ios: u64) -> TenantStats {
    let view = TenantView {
        queued: 2,
        in_flight: 1,
        slots_busy: 1,
        slots_allotted: 8,
        credit: Credit(16),
        service_lag: Bytes(512),
        waits_for: Some(Wait::Share),
        objective: None,
    };
    TenantStats {
        tenant: TenantName::Host(host.into()),
        view: Some(view),
        counters: Counters { reads: moved(ios), writes: moved(0), others: 3, errors: 1 },
        waits: Waits { share: Nanos::millis(1500), ..Waits::default() },
    }
}

fn ssd(device: &str, tenants: Vec<TenantStats>) -> SsdStats {
    let mut all = Counters::default();
    tenants.iter().for_each(|tenant| all.add(&tenant.counters));
    SsdStats {
        device: device.to_owned(),
        at: Instant::ZERO,
        turn: Nanos::ZERO,
        is_current: true,
        view: None,
        busy: None,
        queued: 5,
        in_flight: 7,
        hung: 0,
        flush_failed: false,
        late: Histogram::default(),
        connections: 2,
        memory: Bytes(8192),
        extra_reads: ExtraReadStats::default(),
        turns: TurnStats::default(),
        auxiliary: None,
        files: None,
        all,
        tenants,
    }
}

fn stats(ssds: Vec<SsdStats>) -> Stats {
    let acceptor = AcceptorStats { turn: Nanos::ZERO, connections: 4, handshakes: 1, accepted: 9 };
    Stats { ssds, acceptor, ..Stats::default() }
}

/// The values of the samples that begin with `name` and have all of `labels`.
fn values(text: &str, name: &str, labels: &[&str]) -> Vec<f64> {
    let of_name = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let wanted = of_name.filter(|line| labels.iter().all(|label| line.contains(label)));
    wanted.map(|line| line.rsplit(' ').next().expect("a value").parse().expect("a number")).collect()
}

#[test]
fn the_shown_and_the_others_together_are_the_device() {
    let tenants: Vec<_> = (0..50).map(|n| tenant(&format!("nqn.{n}"), n)).collect();
    let mut stats = stats(vec![ssd("a", tenants)]);
    stats.named = HashSet::from(["nqn.0".to_owned()]).into();
    let chosen = Shown::new(20).choose(Instant(1), &stats);
    assert_eq!(chosen.counts, [20, 30]);
    let text = text(&stats, &chosen);
    let shown = values(&text, "gimbal_tenant_ios_total", &["op=\"read\""]);
    assert_eq!(shown.len(), 20);
    // The busiest, and the one that is named.
    assert_eq!(shown.iter().sum::<f64>(), (31..50).sum::<u64>() as f64);
    assert_eq!(
        values(&text, "gimbal_device_ios_total", &["device=\"a\"", "op=\"read\""]),
        [(0..50).sum::<u64>() as f64]
    );
    assert_eq!(values(&text, "gimbal_tenant_pairs", &["shown=\"no\""]), [30.0]);
}

#[test]
fn a_pair_stays_for_an_hour_and_then_makes_room_for_a_busier_one() {
    let of = |a: u64, b: u64| stats(vec![ssd("a", vec![tenant("nqn.a", a), tenant("nqn.b", b)])]);
    let mut shown = Shown::new(1);
    let mut host_at = |secs: u64, stats: &Stats| {
        let text = text(stats, &shown.choose(Instant::ZERO + Nanos::secs(secs), stats));
        let is_a = text.contains("host=\"nqn.a\"");
        assert_ne!(is_a, text.contains("host=\"nqn.b\""));
        if is_a { "a" } else { "b" }
    };
    assert_eq!(host_at(1, &of(10, 5)), "a");
    assert_eq!(host_at(700, &of(10, 500)), "a", "it stays");
    assert_eq!(host_at(3700, &of(10, 1500)), "b");
    assert_eq!(host_at(3701, &of(5000, 1500)), "b", "it stays, too");
}

#[test]
fn names_of_hosts_are_escaped() {
    let host = "nqn.\"quoted\\\n<script>\u{1F600}";
    let stats = stats(vec![ssd("a", vec![tenant(host, 1)])]);
    let text = text(&stats, &Tenants::all(&stats));
    assert!(text.contains(r#"host="nqn.\"quoted\\\n<script>😀""#), "{text}");
    assert!(text.lines().all(|line| line.starts_with('#') || line.starts_with("gimbal_")));
    let json = json(&stats, |_, _| true);
    assert_eq!(json["devices"][0]["tenants"][0]["host"], host);
}

#[test]
fn json_has_the_values_of_the_text() {
    let stats = stats(vec![ssd("a", vec![tenant("nqn.a", 4)]), ssd("b", vec![tenant("nqn.a", 6)])]);
    let text = text(&stats, &Tenants::all(&stats));
    let json = json(&stats, |device, _| device == "b");
    assert_eq!(json["accepted"], 9);
    let [a, b] = [&json["devices"][0], &json["devices"][1]];
    assert_eq!((&a["device"], &a["queued_ios"], &a["ios"]["read"]), (&"a".into(), &5.into(), &4.into()));
    assert_eq!(a["tenants"].as_array().map(Vec::len), Some(0), "not asked for");
    let tenant = &b["tenants"][0];
    assert_eq!((&tenant["host"], &tenant["wait_seconds"]["share"]), (&"nqn.a".into(), &1.5.into()));
    assert_eq!(tenant["io_seconds"]["read"]["count"], 6);
    assert_eq!(values(&text, "gimbal_tenant_io_seconds_count", &["device=\"b\""]), [6.0]);
    assert_eq!(values(&text, "gimbal_tenant_io_seconds_bucket", &["device=\"b\"", "le=\"+Inf\""]), [6.0]);
    assert_eq!(values(&text, "gimbal_tenant_slots", &["device=\"b\"", "what=\"allotted\""]), [8.0]);
    // 40 to 45 µs are below 65.536 µs.
    assert_eq!(
        values(&text, "gimbal_tenant_io_seconds_bucket", &["device=\"b\"", "le=\"0.000065536\""]),
        [6.0]
    );
    assert_eq!(
        values(&text, "gimbal_tenant_io_seconds_bucket", &["device=\"b\"", "le=\"0.000032768\""]),
        [0.0]
    );
}

#[test]
fn only_the_busiest_have_histograms() {
    let tenants: Vec<_> = (0..150).map(|n| tenant(&format!("nqn.{n}"), n + 1)).collect();
    let stats = stats(vec![ssd("a", tenants)]);
    let text = text(&stats, &Shown::new(1000).choose(Instant(1), &stats));
    assert_eq!(values(&text, "gimbal_tenant_io_seconds_count", &[]).len(), 100);
    assert_eq!(values(&text, "gimbal_tenant_ios_total", &["op=\"read\""]).len(), 150);
}

/// docs/metrics.md has a row for each measure, as in the table.
#[test]
fn the_documentation_has_every_measure() {
    let page = include_str!("../../../docs/metrics.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `gimbal_")).collect();
    let mut expected: Vec<String> = TABLE
        .iter()
        .map(|measure| {
            let kind = match measure.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let label = if measure.label.is_empty() { String::new() } else { format!("`{}`", measure.label) };
            format!("| `{}` | {kind} | {label} | {} |", measure.name, measure.help)
        })
        .collect();
    let pairs = "| `gimbal_tenant_pairs` | gauge | `shown` | Pairs of device and tenant with series of their own, and those that are in the device's totals only |";
    expected.push(pairs.to_owned());
    let missing: Vec<_> = expected.iter().filter(|row| !rows.contains(&row.as_str())).collect();
    assert!(
        missing.is_empty(),
        "docs/metrics.md lacks, or says otherwise:\n{}",
        missing.iter().map(|row| format!("{row}\n")).collect::<String>()
    );
    assert_eq!(rows.len(), expected.len(), "docs/metrics.md has rows that the table lacks");
}

#[test]
fn an_event_has_the_histograms_and_rates_of_its_interval_and_the_busiest_tenants() {
    let at = |a: u64, b: u64, c: u64| {
        stats(vec![ssd("x", vec![tenant("nqn.a", a), tenant("nqn.b", b), tenant("nqn.c", c)])])
    };
    let mut lately = Lately::new(2);
    let first = lately.event(at(95, 0, 5), &at(95, 0, 5), Nanos::ZERO);
    assert_eq!(first["devices"][0]["per_second"], Value::Null, "no time, no rates");
    let event = lately.event(at(100, 20, 5), &at(95, 0, 5), Nanos::millis(500));
    let device = &event["devices"][0];
    let seen = |event: &Value| -> Vec<(String, f64, u64)> {
        let tenants = event["devices"][0]["tenants"].as_array().expect("a list");
        let of = |tenant: &Value| {
            let host = tenant["host"].as_str().expect("a name").to_owned();
            let rate = tenant["per_second"]["ios"]["read"].as_f64().expect("a rate");
            (host, rate, tenant["io_seconds"]["read"]["count"].as_u64().unwrap_or(0))
        };
        tenants.iter().map(of).collect()
    };
    assert_eq!(seen(&event), [("nqn.b".to_owned(), 40.0, 20), ("nqn.a".to_owned(), 10.0, 5)]);
    assert_eq!((&device["per_second"]["ios"]["read"], &device["ios"]["read"]), (&json!(50.0), &json!(125)));
    assert_eq!((&device["io_seconds"]["read"]["count"], &device["known_tenants"]), (&json!(25), &json!(3)));
    assert_eq!(
        device["tenants"][0]["per_second"]["wait_seconds"]["share"],
        json!(0.0),
        "the same before and now"
    );

    // The one that was shown keeps its place while it moves more than half as much.
    let event = lately.event(at(106, 40, 14), &at(100, 20, 5), Nanos::secs(1));
    assert_eq!(seen(&event).iter().map(|it| &*it.0).collect::<Vec<_>>(), ["nqn.b", "nqn.a"]);
    let event = lately.event(at(106, 60, 23), &at(106, 40, 14), Nanos::secs(1));
    assert_eq!(seen(&event).iter().map(|it| &*it.0).collect::<Vec<_>>(), ["nqn.b", "nqn.c"]);
}

/// The dashboard and the alerts ask for nothing that is not there.
#[test]
fn dashboards_and_alerts_know_the_table() {
    let files =
        [include_str!("../../../dashboards/grafana.json"), include_str!("../../../dashboards/alerts.yml")];
    for file in files {
        let words = file.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("gimbal_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            let is_known = TABLE.iter().any(|measure| measure.name == name) || name == "gimbal_tenant_pairs";
            assert!(is_known, "{word}");
        }
    }
}

#[test]
fn a_namespace_has_labels_of_its_own_and_no_host_can_have_them() {
    let of_namespace = |nsid, ios| {
        let name = TenantName::of_namespace("nqn.s", nsid);
        TenantStats { tenant: name, ..tenant("", ios) }
    };
    let impostor = tenant("namespace 3 of nqn.s", 7);
    let stats = stats(vec![ssd("a", vec![of_namespace(3, 5), impostor, of_namespace(4, 2)])]);
    let text = text(&stats, &Tenants::all(&stats));
    let reads =
        |labels: &[&str]| values(&text, "gimbal_tenant_ios_total", &[&["op=\"read\""], labels].concat());
    assert_eq!(reads(&["device=\"a\",subsystem=\"nqn.s\",namespace=\"3\""]), [5.0]);
    assert_eq!(reads(&["device=\"a\",host=\"namespace 3 of nqn.s\""]), [7.0]);
    let json = json(&stats, |_, name| name.host().is_none());
    let tenants = json["devices"][0]["tenants"].as_array().expect("a list");
    assert_eq!(tenants.len(), 2);
    assert_eq!((&tenants[0]["kind"], &tenants[0]["subsystem"]), (&"namespace".into(), &"nqn.s".into()));
    assert_eq!((&tenants[0]["namespace"], tenants[0].get("host")), (&3.into(), None));
    // The configuration names them: they come before hosts that it does not name.
    let chosen = Shown::new(2).choose(Instant(1), &stats);
    assert!(!metrics::text(&stats, &chosen).contains("host="), "the place of the impostor is another's");
}
