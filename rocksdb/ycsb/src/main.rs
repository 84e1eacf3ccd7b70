//! Drives RocksDB with the workloads of YCSB: several databases at the same time, on volumes or in local directories.
//!
//! ```text
//!   plan (standard input) ─► databases ─► load ─► run ─► report (standard output)
//! ```
//!
//! `gimbal bench ycsb` writes the plan and shows the report (`ycsb::plan`). This is a program of its own because it needs RocksDB,
//! which `gimbal` does not. It contains the plug-in, so `gimbal://…` needs no `LD_PRELOAD`.

mod database;
mod drive;
mod instance;
mod measure;

// Linked for what it registers with RocksDB.
use gimbal_rocksdb as _;

use instance::Instance;
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use ycsb::plan::{Message, Phase, Place, Plan, Report};
use ycsb::{Properties, Workload};

/// Ends the phases when standard input is closed, or `gimbal` is gone.
static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let (message, code) = match plan().and_then(|plan| carry_out(&plan)) {
        Ok(report) => (Message::Report(Box::new(report)), ExitCode::SUCCESS),
        Err(error) => (Message::Failed(error), ExitCode::FAILURE),
    };
    say(&message);
    code
}

fn say(message: &Message) {
    let mut line = serde_json::to_string(message).expect("a message is JSON");
    line.push('\n');
    // If nobody listens any more, standard input is closed as well.
    let _ = stdout().write_all(line.as_bytes());
}

fn tell(phase: Phase, done: u64, of: Option<u64>) {
    say(&Message::Progress { phase, done, of });
}

/// The plan. From then on, the end of standard input is the end of the work.
fn plan() -> Result<Plan, String> {
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(|error| format!("the plan cannot be read: {error}"))?;
    let plan = serde_json::from_str(&line).map_err(|error| {
        format!("no plan on standard input ({error}): this program is started by `gimbal bench ycsb`")
    })?;
    thread::spawn(|| {
        // Nothing follows; what matters is the end.
        let _ = stdin().lock().read_to_end(&mut Vec::new());
        STOP.store(true, Ordering::Relaxed);
    });
    Ok(plan)
}

fn carry_out(plan: &Plan) -> Result<Report, String> {
    let mut properties = Properties::default();
    plan.properties.iter().for_each(|(key, value)| properties.put(key, value));
    let workload = Arc::new(Workload::new(&properties).map_err(|error| error.to_string())?);
    tell(Phase::Opening, 0, Some(plan.places.len() as u64));
    let mut instances = Vec::new();
    for place in &plan.places {
        instances.push(open(place, plan, &workload).map_err(|error| format!("{}: {error}", place.name))?);
        tell(Phase::Opening, instances.len() as u64, Some(plan.places.len() as u64));
    }
    let load =
        if plan.is_loaded { Some(drive::load(&instances, &workload, plan, &STOP, tell)?) } else { None };
    let report = drive::run(&instances, &workload, plan, &STOP, tell)?;
    Ok(Report { load: load.map(|load| load.as_secs_f64()), ..report })
}

fn open(place: &Place, plan: &Plan, workload: &Arc<Workload>) -> Result<Instance, String> {
    if plan.is_loaded
        && place.uri.is_none()
        && let Some(parent) = Path::new(&place.path).parent()
    {
        std::fs::create_dir_all(parent)
            .map_err(|error| format!("the directory {} cannot be made: {error}", parent.display()))?;
    }
    Instance::open(place, plan, workload)
}
