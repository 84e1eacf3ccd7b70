//! Volumes as tables.

use blob::catalog::{SsdState, VolumeState};
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use std::collections::BTreeMap;
use std::fmt::Write;
use units::Bytes;

fn space(volume: &VolumeState) -> Bytes {
    Bytes(volume.megas.len() as u64 * volume.record.geometry.mega)
}

fn state(volume: &VolumeState) -> &'static str {
    match (&volume.holder, volume.record.is_clean) {
        _ if volume.record.meta.is_empty() => "being removed",
        (Some(_), _) => "mounted",
        (None, true) => "unmounted",
        (None, false) => "not unmounted in order",
    }
}

/// One line per volume.
pub(super) fn volumes(volumes: &[VolumeState]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(["volume", "space", "state", "by"]);
    for volume in volumes {
        let by = volume.holder.as_ref().map_or("", |holder| holder.who.as_str());
        table.add_row([volume.name.as_str(), &space(volume).to_string(), state(volume), by]);
    }
    table
}

/// All fields of one volume.
pub(super) fn volume(volume: &VolumeState, ssds: &[SsdState]) -> String {
    let record = &volume.record;
    let geometry = record.geometry;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("volume", volume.name.clone());
    line("state", state(volume).to_owned());
    if let Some(holder) = &volume.holder {
        line("mounted by", holder.who.clone());
    }
    line("mounts", record.generation.0.to_string());
    let sizes = [geometry.mega, u64::from(geometry.micro), u64::from(geometry.block)]
        .map(|size| Bytes(size).to_string());
    line("sizes", format!("mega blob {}, micro blob {}, block {}", sizes[0], sizes[1], sizes[2]));
    line("space", format!("{} in {} mega blobs", space(volume), volume.megas.len()));
    let copies: Vec<String> = record.meta.iter().map(|mega| mega.ssd.to_string()).collect();
    let warning = if copies.len() < 2 { " (only one current copy)" } else { "" };
    line("metadata", format!("{}{warning}", copies.join(", ")));
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    volume.megas.iter().for_each(|mega| *counts.entry(mega.ssd).or_default() += 1);
    let _ = writeln!(text);
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(["SSD", "target", "address", "state", "mega blobs"]);
    for (id, count) in counts {
        let ssd = ssds.iter().find(|ssd| ssd.id == id);
        let known = ssd.map(|ssd| (ssd.record.domain.as_str(), ssd.record.addresses(), ssd.is_live));
        let (domain, address, is_live) = known.unwrap_or(("", String::new(), false));
        let state = if is_live { "live" } else { "away" };
        table.add_row([&id.0.to_string(), domain, &address, state, &count.to_string()]);
    }
    let _ = writeln!(text, "{table}");
    text
}
