//! Compares the model's bytes and reads with those of a real RocksDB, kept by `real/export.sh`.
//!
//! Both run the same: 200,000 records of YCSB are loaded, then workload A runs, then workload C. The real database has
//! the default options of `gimbal bench ycsb`.

use lsm::{JobKind, Lsm, Options};
use serde_json::Value;
use std::sync::Arc;
use ycsb::{Generator, Keys, Kind, Properties, Workload};

/// Allowed difference, relative to the real figure.
const TOLERANCE: f64 = 0.15;

const MIB: u64 = 1 << 20;

/// The options of `gimbal bench ycsb`; a record has ten fields of 100 bytes with their names and lengths.
const OPTIONS: Options = Options {
    key: 23,
    value: 10 * (4 + 6 + 4 + 100),
    write_buffer: 8 * MIB,
    l0_trigger: 4,
    level_base: 32 * MIB,
    target_file: 8 * MIB,
    block: 4096,
    cache: 8 * MIB,
    filter_bits: 10,
};

/// Bytes and blocks read and written.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    log: u64,
    flushed: u64,
    compaction_read: u64,
    compaction_written: u64,
    /// Number of blocks read by reads.
    blocks: u64,
}

fn real(name: &str) -> Counts {
    let path = format!("{}/tests/real/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let counted = |name: &str| {
        let count = results["runs"][0]["report"]["rocksdb"][name].as_u64();
        count.unwrap_or_else(|| panic!("{path}: no {name}"))
    };
    Counts {
        log: counted("rocksdb.wal.bytes"),
        flushed: counted("rocksdb.flush.write.bytes"),
        compaction_read: counted("rocksdb.compact.read.bytes"),
        compaction_written: counted("rocksdb.compact.write.bytes"),
        blocks: counted("rocksdb.block.cache.miss"),
    }
}

/// Runs the background jobs that are due. A compaction takes no time here, because the real database had a fast device
/// to itself.
fn background(lsm: &mut Lsm, counts: &mut Counts) {
    while let Some(job) = lsm.next_flush().or_else(|| lsm.next_compaction()) {
        let sum = |tables: &[(lsm::TableId, u64)]| tables.iter().map(|(_, bytes)| bytes).sum::<u64>();
        match job.kind {
            JobKind::Flush => counts.flushed += sum(&job.writes),
            JobKind::Compaction { .. } => {
                counts.compaction_read += sum(&job.reads);
                counts.compaction_written += sum(&job.writes);
            }
        }
        lsm.finish(job);
    }
}

/// The counts of the model in each of the runs: load, workload A, workload C.
fn model(options: Options) -> [Counts; 3] {
    let mut lsm = Lsm::new(options);
    let loaded = load(&mut lsm);
    let a = run(&mut lsm, 'a', 300_000);
    // Before the next run, the memtable is flushed, as by the replay of the log when the database is opened.
    lsm.rotate();
    background(&mut lsm, &mut Counts::default());
    [loaded, a, run(&mut lsm, 'c', 100_000)]
}

fn run(lsm: &mut Lsm, workload: char, operations: u64) -> Counts {
    let mut properties = Properties::core(workload).expect("a core workload");
    properties.put("recordcount", 200_000);
    properties.put("operationcount", operations);
    let workload = Arc::new(Workload::new(&properties).expect("it works"));
    let keys = Arc::new(Keys::new(&workload));
    let mut generator = Generator::new(Arc::clone(&workload), keys, 7, 0);
    let mut counts = Counts::default();
    for _ in 0..operations {
        let operation = generator.next_operation();
        let key = workload.place(operation.record);
        let (is_there, blocks) = lsm.get(key);
        assert!(is_there, "{operation:?}");
        counts.blocks += blocks.len() as u64;
        if operation.kind == Kind::Update {
            counts.log += lsm.put(key);
            background(lsm, &mut counts);
        }
    }
    counts
}

fn load(lsm: &mut Lsm) -> Counts {
    let mut properties = Properties::core('c').expect("a core workload");
    properties.put("recordcount", 200_000);
    let workload = Workload::new(&properties).expect("it works");
    let mut counts = Counts::default();
    for record in 0..200_000 {
        counts.log += lsm.put(workload.place(record));
        background(lsm, &mut counts);
    }
    lsm.rotate();
    background(lsm, &mut counts);
    counts
}

#[test]
fn bytes_and_reads_are_those_of_a_real_rocksdb() {
    let [loaded, a, c] = model(OPTIONS);
    let [real_load, real_a, real_c] = ["load", "a", "c"].map(real);
    let compared = [
        ("load: log", loaded.log, real_load.log),
        ("load: flushed", loaded.flushed, real_load.flushed),
        ("load: read by compactions", loaded.compaction_read, real_load.compaction_read),
        ("load: written by compactions", loaded.compaction_written, real_load.compaction_written),
        ("workload A: log", a.log, real_a.log),
        ("workload A: flushed", a.flushed, real_a.flushed),
        ("workload A: read by compactions", a.compaction_read, real_a.compaction_read),
        ("workload A: written by compactions", a.compaction_written, real_a.compaction_written),
        ("workload C: blocks read", c.blocks, real_c.blocks),
    ];
    let ratio = |model: u64, real: u64| model as f64 / real as f64;
    for (what, model, real) in compared {
        println!("{what:<36} model {model:>12}  real {real:>12}  ratio {:.3}", ratio(model, real));
    }
    for (what, model, real) in compared {
        assert!((ratio(model, real) - 1.0).abs() <= TOLERANCE, "{what}: model {model}, real {real}");
    }
}

#[test]
fn a_database_that_is_set_otherwise_does_not_agree() {
    let differs = |model: u64, real: u64| (model as f64 / real as f64 - 1.0).abs() > TOLERANCE;
    let [_, _, c] = model(Options { cache: 128 * MIB, ..OPTIONS });
    assert!(differs(c.blocks, real("c").blocks), "a larger cache: {} blocks", c.blocks);
    let [_, _, c] = model(Options { filter_bits: 0, ..OPTIONS });
    assert!(differs(c.blocks, real("c").blocks), "no filter: {} blocks", c.blocks);
    let read = load(&mut Lsm::new(Options { l0_trigger: 8, ..OPTIONS })).compaction_read;
    assert!(differs(read, real("load").compaction_read), "later compactions: {read} bytes");
}
