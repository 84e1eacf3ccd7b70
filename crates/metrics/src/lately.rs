//! The last second, for those who look: `/v1/events`, with it `gimbal top` and the dashboard.
//!
//! An event is the JSON of the statistics with two differences: histograms are those of the interval, and a field `per_second` has the rates of all counters. So nobody who looks has to keep
//! the event before, in which other tenants may have been shown.

use crate::json::{device_fields, field, target_fields, tenant_fields};
use crate::table::{Kind, Measure, Sample, Source, TABLE, Value as Measured};
use serde_json::{Map, Value};
use server::{Counters, SsdStats, Stats, TenantName, TenantStats, Transferred};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use units::Nanos;

/// Makes events.
#[derive(Debug)]
pub struct Lately {
    tenants_max: usize,
    /// Tenants in the last event, by device: one that moves half as much as another keeps its place, so that rows do not come and go.
    shown: HashMap<String, HashSet<TenantName>>,
}

impl Lately {
    /// Events with at most this many tenants of each device.
    pub fn new(tenants_max: usize) -> Lately {
        Lately { tenants_max, shown: HashMap::new() }
    }

    /// The event of the time `span` from `before` to `now`, busiest tenants first. Without a span there are no rates.
    pub fn event(&mut self, now: Stats, before: &Stats, span: Nanos) -> Value {
        let mut told = target_fields(&now);
        let of: HashMap<&str, &SsdStats> = before.ssds.iter().map(|ssd| (&*ssd.device, ssd)).collect();
        let mut shown = HashMap::new();
        let mut devices = Vec::new();
        for ssd in now.ssds {
            let kept = self.shown.remove(&ssd.device).unwrap_or_default();
            let name = ssd.device.clone();
            let of = Interval { before: of.get(&*name).copied(), span };
            let (device, tenants) = of.device(ssd, &kept, self.tenants_max);
            devices.push(device);
            shown.insert(name, tenants);
        }
        self.shown = shown;
        told.insert("devices".to_owned(), devices.into());
        told.into()
    }
}

/// The beginning of an interval on one SSD, and its length.
struct Interval<'b> {
    before: Option<&'b SsdStats>,
    span: Nanos,
}

impl Interval<'_> {
    /// The SSD in an event, and the tenants that are shown.
    fn device(
        &self,
        mut ssd: SsdStats,
        kept: &HashSet<TenantName>,
        tenants_max: usize,
    ) -> (Value, HashSet<TenantName>) {
        let nothing = Counters::default();
        let known = self.before.map_or(&[][..], |before| &before.tenants);
        let then: HashMap<&TenantName, &TenantStats> = known.iter().map(|it| (&it.tenant, it)).collect();
        let counted = |name: &TenantName| then.get(name).map_or(&nothing, |tenant| &tenant.counters);
        keep_new(&mut ssd.all, self.before.map_or(&nothing, |before| &before.all));
        let mut fields = device_fields(&ssd);
        self.put_rates(&mut fields, of_device(&ssd), self.before.map(of_device));
        ssd.tenants.sort_by_key(|tenant| {
            let is_kept = kept.contains(&tenant.tenant);
            let is_active = tenant.view.is_some_and(|view| view.queued + view.in_flight > 0);
            let moved = bytes(&tenant.counters).saturating_sub(bytes(counted(&tenant.tenant)));
            let moved = if is_kept { moved.saturating_mul(2) } else { moved };
            (Reverse(moved), Reverse(is_active), Reverse(is_kept), Reverse(bytes(&tenant.counters)))
        });
        ssd.tenants.truncate(tenants_max);
        let mut tenants = Vec::new();
        for tenant in &mut ssd.tenants {
            keep_new(&mut tenant.counters, counted(&tenant.tenant));
            let mut fields = tenant_fields(tenant);
            self.put_rates(&mut fields, of_tenant(tenant), then.get(&tenant.tenant).copied().map(of_tenant));
            tenants.push(Value::from(fields));
        }
        fields.insert("tenants".to_owned(), tenants.into());
        (fields.into(), ssd.tenants.into_iter().map(|tenant| tenant.tenant).collect())
    }

    /// Adds the rates of counters: those of `now` over those of `before`, or over zero for what is new.
    fn put_rates<'s>(
        &self,
        to: &mut Map<String, Value>,
        now: impl Fn(&Measure) -> Vec<Sample<'s>>,
        before: Option<impl Fn(&Measure) -> Vec<Sample<'s>>>,
    ) {
        if self.span == Nanos::ZERO {
            return;
        }
        let mut rates = Map::new();
        for measure in TABLE.iter().filter(|measure| measure.kind == Kind::Counter) {
            let was = before.as_ref().map(|before| before(measure)).unwrap_or_default();
            let mut samples = now(measure);
            for sample in &mut samples {
                let old = was.iter().find(|old| old.label == sample.label).map_or(0.0, number);
                let added = (number(sample) - old).max(0.0);
                sample.value = Measured::Number(added / self.span.as_secs_f64());
            }
            if let Some(value) = field(measure, &samples) {
                rates.insert(measure.field().to_owned(), value);
            }
        }
        to.insert("per_second".to_owned(), rates.into());
    }
}

/// The samples of an SSD.
fn of_device<'s>(ssd: &'s SsdStats) -> impl Fn(&Measure) -> Vec<Sample<'s>> {
    move |measure| {
        let mut samples = Vec::new();
        if let Source::Device(of) = measure.source {
            of(ssd, &mut samples);
        }
        samples
    }
}

/// The samples of a tenant.
fn of_tenant<'s>(tenant: &'s TenantStats) -> impl Fn(&Measure) -> Vec<Sample<'s>> {
    move |measure| {
        let mut samples = Vec::new();
        if let Source::Tenant(of) = measure.source {
            of(tenant, &mut samples);
        }
        samples
    }
}

/// The value of a counter.
fn number(sample: &Sample<'_>) -> f64 {
    match sample.value {
        Measured::Number(number) => number,
        Measured::Count(count) => count as f64,
        Measured::Histogram(histogram) => histogram.count() as f64,
    }
}

fn bytes(counters: &Counters) -> u64 {
    counters.reads.bytes + counters.writes.bytes
}

/// Takes the values of before out of the histograms.
fn keep_new(now: &mut Counters, before: &Counters) {
    let since = |now: &mut Transferred, before: &Transferred| {
        now.device_latency = now.device_latency.since(&before.device_latency);
        now.total_latency = now.total_latency.since(&before.total_latency);
    };
    since(&mut now.reads, &before.reads);
    since(&mut now.writes, &before.writes);
}
