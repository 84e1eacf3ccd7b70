//! `gimbal targets`: the SSDs of a rack, as the metadata store knows them.

use crate::output;
use crate::rack::StoreArgs;
use anyhow::Result;
use blob::catalog;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use std::process::ExitCode;
use units::Bytes;

/// Arguments of `gimbal targets`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
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
    for ssd in catalog::ssds(&mut *args.store.open()?)? {
        let record = &ssd.record;
        table.add_row([
            ssd.id.0.to_string(),
            record.domain.clone(),
            if ssd.is_live { "live" } else { "away" }.to_owned(),
            record.address.clone(),
            record.subsystem.clone(),
            record.nsid.to_string(),
            Bytes(record.capacity).to_string(),
            format!("{} of {} ({} each)", ssd.used, record.megas(), Bytes(record.mega)),
        ]);
    }
    output::line(table)?;
    Ok(ExitCode::SUCCESS)
}
