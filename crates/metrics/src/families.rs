//! The families of series that a metrics server gets: the rows of the table with their values and labels, whatever the format.

use crate::shown::Tenants;
use crate::table::{Kind, Measure, Sample, Source, TABLE, Value};
use server::{Stats, TenantName};
use std::borrow::Cow;

/// The name of the family that counts the shown pairs.
const PAIRS: &str = "gimbal_tenant_pairs";
const PAIRS_HELP: &str =
    "Pairs of device and tenant with series of their own, and those that are in the device's totals only";

/// A measure with its values.
pub(crate) struct Family<'s> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) series: Vec<Series<'s>>,
}

/// A value with its labels.
pub(crate) struct Series<'s> {
    pub(crate) labels: Vec<(&'static str, Cow<'s, str>)>,
    pub(crate) value: Value<'s>,
}

/// The tenants whose histograms are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Histograms {
    /// Those that [`Tenants`] chose for it: the format has many series per histogram.
    OfSome,
    /// All that are shown: the format has one series per histogram.
    OfAll,
}

/// All families with at least one value.
pub(crate) fn families<'s>(
    stats: &'s Stats,
    tenants: &'s Tenants,
    histograms: Histograms,
) -> impl Iterator<Item = Family<'s>> {
    let of_table = TABLE.iter().map(move |measure| Family {
        name: measure.name,
        help: measure.help,
        kind: measure.kind,
        series: series(measure, stats, tenants, histograms),
    });
    of_table.filter(|family| !family.series.is_empty()).chain([pairs(tenants)])
}

fn series<'s>(
    measure: &Measure,
    stats: &'s Stats,
    tenants: &'s Tenants,
    histograms: Histograms,
) -> Vec<Series<'s>> {
    let mut found = Vec::new();
    let mut samples = Vec::new();
    let mut labelled = |samples: &mut Vec<Sample<'s>>, labels: &[(&'static str, Cow<'s, str>)]| {
        found.extend(samples.drain(..).map(|Sample { label, value }| {
            let own = (!measure.label.is_empty()).then_some((measure.label, Cow::Borrowed(label)));
            Series { labels: labels.iter().cloned().chain(own).collect(), value }
        }));
    };
    match measure.source {
        Source::Target(of) => {
            of(stats, &mut samples);
            labelled(&mut samples, &[]);
        }
        Source::Device(of) => {
            for ssd in &stats.ssds {
                of(ssd, &mut samples);
                labelled(&mut samples, &[("device", (&*ssd.device).into())]);
            }
        }
        Source::Tenant(of) => {
            for (ssd, places) in stats.ssds.iter().zip(&tenants.of) {
                for (place, has_histograms) in places {
                    let is_told = *has_histograms || histograms == Histograms::OfAll;
                    if measure.kind == Kind::Histogram && !is_told {
                        continue;
                    }
                    let tenant = &ssd.tenants[*place];
                    of(tenant, &mut samples);
                    let device = ("device", (&*ssd.device).into());
                    match &tenant.tenant {
                        TenantName::Host(nqn) => labelled(&mut samples, &[device, ("host", (&**nqn).into())]),
                        TenantName::Namespace { subsystem, nsid } => {
                            let (subsystem, nsid) = ((&**subsystem).into(), nsid.to_string().into());
                            labelled(&mut samples, &[device, ("subsystem", subsystem), ("namespace", nsid)]);
                        }
                    }
                }
            }
        }
    }
    found
}

/// The number of pairs of device and tenant with series of their own, and without.
fn pairs(tenants: &Tenants) -> Family<'_> {
    let series = ["yes", "no"].into_iter().zip(tenants.counts).map(|(shown, count)| Series {
        labels: vec![("shown", shown.into())],
        value: Value::Count(count as u64),
    });
    Family { name: PAIRS, help: PAIRS_HELP, kind: Kind::Gauge, series: series.collect() }
}
