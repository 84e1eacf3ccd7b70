//! The cost of the switch for a disk: 4 KiB random reads of a file through the switch, compared with fio's io_uring on the same file.
//!
//! Both use direct IO with 32 outstanding reads, registered files and buffers, from the server's core, in turns. If the switch is slower because its core is fully
//! busy, the reading says so: then the core is the limit, and not the switch's use of the disk.
//!
//! A namespace in a directory is compared with a file on the same disk, both through the switch, in turns as well.

use crate::client::{Client, Tally};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::stream::{Direction, Load};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::process::Command;

/// The line.
pub(crate) const FILE_VS_RAW: Measure = Measure {
    lines: &[Line::ratio("file_vs_raw", Goal::AtLeast(0.9))],
    about: "IOPS of 4 KiB random reads of a file, QD 32: through the switch / fio io_uring",
    disturbed: true,
    run: file_vs_raw,
};

/// A namespace in a directory beside a file.
pub(crate) const DIRECTORY_VS_FILE: Measure = Measure {
    lines: &[Line::ratio("directory_vs_file", Goal::AtLeast(0.97))],
    about: "IOPS of 4 KiB random reads, QD 32: a namespace in a directory / a file on the same disk, both through the switch",
    disturbed: true,
    run: directory_vs_file,
};

/// Bytes of the file; written once, so that a read reaches the disk.
const SIZE: u64 = 512 << 20;
/// The UUID of the namespace in the directory, which is the name of its file.
const FILE_NAME: &str = "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01";
const DEPTH: u32 = 32;
const LOAD: Load = Load { direction: Direction::Read, length: 4096, depth: DEPTH, digest: false, span: SIZE };
/// If the target uses this part of its core or more, the core is the limit.
const LIMITED: f64 = 0.95;

fn file_vs_raw(bench: &Bench) -> Result<Vec<Reading>> {
    let file = bench.scratch("file.img", "")?;
    let path = file.path()?;
    fill(bench, path)?;
    let server = bench.programs.target(bench.cores, &["--device", path])?;
    let mut client = Client::of_target(&server, 1, LOAD)?;
    let (mut through, mut raw) = (Vec::new(), Vec::new());
    let depth = format!("--iodepth={DEPTH}");
    let runtime = format!("--runtime={}ms", bench.span.as_millis());
    let read = ["--rw=randread", "--bs=4k", &depth, "--readonly", "--time_based", &runtime];
    for turn in 0..2 * bench.rounds {
        // Order: switch, raw, raw, switch, and so on.
        if turn % 4 == 0 || turn % 4 == 3 {
            through.push(client.run(bench.span)?);
        } else {
            let told = fio(bench, path, &read)?;
            raw.push(told["jobs"][0]["read"]["iops"].as_f64().context("fio printed no IOPS")?);
        }
    }
    let ratios = through.iter().zip(&raw).map(|(through, raw)| through.iops() / raw).collect();
    let median = |figure: fn(&Tally) -> f64| Rounds::new(through.iter().map(figure).collect()).median();
    let busy = median(Tally::server_busy);
    let detail = format!(
        "{:.1}k through the switch, its core {:.0} % busy; {:.1}k with fio",
        median(Tally::iops) / 1e3,
        busy * 100.0,
        Rounds::new(raw).median() / 1e3,
    );
    let excuse = (busy >= LIMITED).then_some("limited by CPU");
    Ok(vec![Reading { rounds: Rounds::new(ratios), detail, excuse }])
}

fn directory_vs_file(bench: &Bench) -> Result<Vec<Reading>> {
    let file = bench.scratch("file.img", "")?;
    fill(bench, file.path()?)?;
    let pool = bench.scratch_folder("pool")?;
    fill(bench, pool.child(FILE_NAME)?.as_str())?;
    let config = bench.scratch(
        "pool.toml",
        &format!(
            "listen = [\"127.0.0.1:0\"]\n[[device]]\nname = \"pool\"\nkind = \"directory\"\npath = {:?}\ncreate = true\n\
             [[subsystem]]\nnqn = \"nqn.2025-01.io.gimbal:ssd\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"pool\"\nsize = \"512M\"\nuuid = {FILE_NAME:?}\n",
            pool.path()?
        ),
    )?;
    let servers = [
        bench.programs.target(bench.cores, &["-c", config.path()?])?,
        bench.programs.target(bench.cores, &["--device", file.path()?])?,
    ];
    let [directory, file] = &servers;
    let mut clients = [Client::of_target(directory, 1, LOAD)?, Client::of_target(file, 1, LOAD)?];
    let mut rates = [Vec::new(), Vec::new()];
    for turn in 0..2 * bench.rounds {
        // Order: directory, file, file, directory, and so on.
        let which = usize::from(turn % 4 == 1 || turn % 4 == 2);
        rates[which].push(clients[which].run(bench.span)?.iops());
    }
    let ratios = rates[0].iter().zip(&rates[1]).map(|(directory, file)| directory / file).collect();
    let [directory, file] = rates.map(|rates| Rounds::new(rates).median() / 1e3);
    let detail = format!("{directory:.1}k in the directory, {file:.1}k in the file");
    Ok(vec![Reading { rounds: Rounds::new(ratios), detail, excuse: None }])
}

/// Writes all of a file.
fn fill(bench: &Bench, path: &str) -> Result<()> {
    fio(bench, path, &["--rw=write", "--bs=1M", "--iodepth=4", "--end_fsync=1"]).map(drop)
}

/// Runs fio on `file` from the server's core, and returns its results.
fn fio(bench: &Bench, file: &str, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new("fio");
    command.args(["--name=raw", "--ioengine=io_uring", "--direct=1", "--output-format=json"]);
    // As the target has them.
    command.args(["--fixedbufs", "--registerfiles"]);
    command.arg(format!("--filename={file}")).arg(format!("--size={SIZE}")).args(arguments);
    let output = match bench.cores.start_server(|| command.output())? {
        Ok(output) => output,
        Err(error) => bail!("cannot run fio ({error}); install the Debian package `fio`"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio failed: {}", said.lines().next().unwrap_or("no message"));
    serde_json::from_slice(&output.stdout).context("cannot parse the JSON output of fio")
}
