//! `gimbal targets`: the SSDs of a rack, as the metadata store knows them.

use crate::output;
use crate::rack::StoreArgs;
use anyhow::Result;
use blob::catalog::{self, SsdState};
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use serde_json::json;
use std::process::ExitCode;
use units::Bytes;

/// Arguments of `gimbal targets`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object per SSD
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let ssds = catalog::ssds(&mut *args.store.open()?)?;
    if args.json {
        for ssd in &ssds {
            output::line(object(ssd))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header([
        "SSD",
        "target",
        "state",
        "address",
        "subsystem",
        "nsid",
        "size",
        "mega blobs used",
    ]);
    for ssd in ssds {
        let record = &ssd.record;
        table.add_row([
            ssd.id.0.to_string(),
            record.domain.clone(),
            if ssd.is_live { "live" } else { "away" }.to_owned(),
            record.addresses(),
            record.subsystem.clone(),
            record.nsid.to_string(),
            Bytes(record.capacity).to_string(),
            format!("{} of {} ({} each)", ssd.used, record.megas(), Bytes(record.mega)),
        ]);
    }
    output::line(table)?;
    Ok(ExitCode::SUCCESS)
}

fn object(ssd: &SsdState) -> serde_json::Value {
    let record = &ssd.record;
    json!({
        "ssd": ssd.id.0,
        "uuid": record.uuid,
        "target": record.domain,
        "live": ssd.is_live,
        "address": record.address,
        "rdma_address": record.rdma_address,
        "subsystem": record.subsystem,
        "nsid": record.nsid,
        "block_size": record.block_size,
        "size": record.capacity,
        "mega": record.mega,
        "megas": record.megas(),
        "megas_used": ssd.used,
    })
}
