//! Check that a profile can come from a probe.

use super::{Profile, ProfileError};

/// A field and its value.
type Row = (String, f64);

pub(super) fn check(profile: &Profile, origin: &str) -> Result<(), ProfileError> {
    let refuse = |field: &str, fault: &str| {
        Err(ProfileError::Value {
            origin: origin.to_owned(),
            field: field.to_owned(),
            fault: fault.to_owned(),
        })
    };
    for (field, value) in positive(profile) {
        if !(value.is_finite() && value > 0.0) {
            return refuse(&field, &format!("is {value}; it must be above 0"));
        }
    }
    for (field, value) in shares(profile) {
        if !(0.0..=1000.0).contains(&value) {
            return refuse(&field, &format!("is {value}; it must be from 0 to 1000"));
        }
    }
    if let Some(buffer) = &profile.buffer
        && buffer.exhausted_mb_per_s > buffer.fast_mb_per_s
    {
        return refuse(
            "buffer.exhausted_mb_per_s",
            "is above buffer.fast_mb_per_s; an exhausted buffer is slower",
        );
    }
    if let Some(recovery) = &profile.recovery
        && !recovery.point.is_sorted_by(|one, two| one.idle_ms < two.idle_ms)
    {
        return refuse("recovery.point", "is not in the order of idle_ms");
    }
    if let Some(switch) = &profile.switch
        && (switch.thresh_min_us > switch.thresh_max_us || switch.write_cost_best > switch.write_cost_worst)
    {
        return refuse("switch", "has a lower bound above its upper one");
    }
    Ok(())
}

fn positive(profile: &Profile) -> Vec<Row> {
    let mut rows = vec![("device.capacity_mib".to_owned(), profile.device.capacity_mib as f64)];
    if let Some(switch) = &profile.switch {
        rows.push(("switch.thresh_min_us".to_owned(), switch.thresh_min_us as f64));
        rows.push(("switch.write_cost_best".to_owned(), switch.write_cost_best));
    }
    if let Some(buffer) = &profile.buffer {
        rows.push(("buffer.size_mib".to_owned(), buffer.size_mib));
        rows.push(("buffer.fast_mb_per_s".to_owned(), buffer.fast_mb_per_s));
        rows.push(("buffer.exhausted_mb_per_s".to_owned(), buffer.exhausted_mb_per_s));
    }
    if let Some(time) = profile.recovery.as_ref().and_then(|recovery| recovery.time_to_90_percent_ms) {
        rows.push(("recovery.time_to_90_percent_ms".to_owned(), time));
    }
    for (n, limit) in profile.limit.iter().enumerate() {
        rows.push((format!("limit {}: iops", n + 1), limit.iops));
        rows.push((format!("limit {}: size_kib", n + 1), f64::from(limit.size_kib)));
        rows.push((format!("limit {}: depth", n + 1), f64::from(limit.depth)));
    }
    rows.extend(profile.cost.iter().enumerate().map(|(n, cost)| (format!("cost {}: ns", n + 1), cost.ns)));
    rows
}

fn shares(profile: &Profile) -> Vec<Row> {
    let loads = profile.load.iter().enumerate();
    loads
        .map(|(n, load)| (format!("load {}: writes_permille", n + 1), f64::from(load.writes_permille)))
        .collect()
}
