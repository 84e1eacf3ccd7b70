//! The options of a job: one table for the command line, job files and `--job`, so that an option has the same name and meaning
//! everywhere.
//!
//! If fio has an option with this meaning, ours has fio's name and values; `docs/bench.md` says where ours differ.
//!
//! Holds: the docs list every option of the table and nothing else (`the_docs_list_every_option`).

/// An option of a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// fio's name, or ours if fio has no such option.
    pub name: &'static str,
    /// Other spellings of the name.
    pub aliases: &'static [&'static str],
    /// A description of the value; `None` for a switch, whose value is optional.
    pub value: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
    /// Whether fio has it, too.
    pub is_fio: bool,
}

const fn fio(name: &'static str, value: &'static str, help: &'static str) -> Known {
    Known { name, aliases: &[], value: Some(value), help, is_fio: true }
}

const fn fio_also(
    name: &'static str,
    aliases: &'static [&'static str],
    value: &'static str,
    help: &'static str,
) -> Known {
    Known { aliases, ..fio(name, value, help) }
}

const fn fio_switch(name: &'static str, aliases: &'static [&'static str], help: &'static str) -> Known {
    Known { name, aliases, value: None, help, is_fio: true }
}

const fn ours(name: &'static str, value: Option<&'static str>, help: &'static str) -> Known {
    Known { name, aliases: &[], value, help, is_fio: false }
}

/// All options of a job, in the order of the help.
pub(crate) const KNOWN: [Known; 46] = [
    fio("name", "NAME", "Name of the job in the results"),
    fio_also(
        "rw",
        &["readwrite"],
        "KIND",
        "read, write, rw, randread, randwrite, randrw, trim, randtrim, trimwrite or randtrimwrite; read:8k leaves 8k between IOs, randread:8 does 8 IOs in a row [default: randread]",
    ),
    fio_also(
        "bs",
        &["blocksize"],
        "SIZES",
        "Bytes per IO; separate values for reads,writes,trims: 4k,64k,1m [default: 4k]",
    ),
    fio(
        "bssplit",
        "SPLIT",
        "Sizes by percentage: 4k/10:64k/50:32k/40; separate values for reads,writes,trims with commas",
    ),
    fio_also(
        "bsrange",
        &["blocksize_range"],
        "RANGE",
        "Sizes of a range, in steps of the smallest: 4k-64k; separate values for reads,writes,trims with commas",
    ),
    fio_also(
        "blockalign",
        &["ba"],
        "SIZE",
        "Random IOs begin at multiples of this [default: bs; with several sizes, their common divisor]",
    ),
    fio("iodepth", "N", "IOs outstanding per connection [default: 1]"),
    fio(
        "numjobs",
        "N",
        "Number of connections, each with its own stream; together one tenant with one line of results [default: 1]",
    ),
    fio("filesize", "SIZE", "As size, if that is not given"),
    fio("size", "SIZE", "How much of the namespace to use, in bytes or percent [default: up to its end]"),
    fio_also("io_size", &["io_limit"], "SIZE", "Bytes to move before the job ends [default: size]"),
    fio("number_ios", "N", "Number of IOs before the job ends"),
    fio("loops", "N", "How many times to repeat the job [default: 1]"),
    fio("offset", "SIZE", "Where in the namespace to start, in bytes or percent [default: 0]"),
    fio("offset_increment", "SIZE", "Connection n starts n times this value further on [default: 0]"),
    fio("rwmixread", "PERCENT", "Percentage of reads in rw and randrw [default: 50]"),
    fio("rwmixwrite", "PERCENT", "Percentage of writes in rw and randrw [default: 50]"),
    fio(
        "percentage_random",
        "PERCENT",
        "Percentage of IOs at random places; the others continue where the previous IO ended; separate values for reads,writes,trims with commas [default: 100]",
    ),
    fio(
        "random_distribution",
        "KIND",
        "random (evenly), zipf:THETA, pareto:H or zoned:IOS/SPACE:... in percent [default: random]",
    ),
    fio_switch("norandommap", &[], "Choose random blocks independently, instead of each block once per pass"),
    fio_also("randseed", &["seed"], "N", "Seed of everything random in the job [default: 1]"),
    fio(
        "rate",
        "SIZES",
        "At most this many bytes per second, per connection and direction; separate values for reads,writes: 1m,500k",
    ),
    fio_also(
        "rate_min",
        &["ratemin"],
        "SIZES",
        "Fail at the end if a direction had fewer bytes per second; separate values for reads,writes: 1m,500k",
    ),
    fio_also(
        "rate_iops",
        &["rate-iops"],
        "NUMBERS",
        "At most this many IOs per second, per connection and direction",
    ),
    fio(
        "rate_process",
        "KIND",
        "Spacing of the IOs of a rate: linear (even) or poisson (like independent users) [default: linear]",
    ),
    ours(
        "open_loop",
        None,
        "IOs are due at the times that the rate gives, even if the target is slow; latency counts from when an IO was due",
    ),
    fio_also(
        "runtime",
        &["timeout"],
        "TIME",
        "How long the job runs at most [default: until size is done; 10s if nothing limits the job]",
    ),
    fio_switch("time_based", &[], "Run for the whole runtime: start again when size is done"),
    fio_also("ramp_time", &["ramp-time"], "TIME", "How long to run before measuring [default: 0]"),
    fio("startdelay", "TIME", "Delay of the job after the start of the run [default: 0]"),
    fio(
        "verify",
        "METHOD",
        "Read back what was written and compare [every method of fio selects our own pattern]",
    ),
    fio(
        "latency_target",
        "TIME",
        "Find the largest iodepth at which the latency of IOs stays below this; a bare number is microseconds",
    ),
    fio(
        "latency_window",
        "TIME",
        "How long each iodepth is tried; a bare number is microseconds [default: 5s]",
    ),
    fio(
        "latency_percentile",
        "PERCENT",
        "Percentage of IOs that must stay below latency_target [default: 100]",
    ),
    fio(
        "latency_run",
        "0|1",
        "Continue at the depth that was found until the runtime is over, and adjust it [default: 0]",
    ),
    fio_switch("group_reporting", &[], "One line of results for all jobs of a group"),
    fio_switch("new_group", &[], "This job starts a new group"),
    fio_switch(
        "stonewall",
        &["wait_for_previous"],
        "Start when all earlier jobs have ended; this job starts a new group",
    ),
    ours(
        "hostnqn",
        Some("NQN"),
        "Host NQN; jobs with the same host NQN are one tenant [default: made from the name]",
    ),
    ours("nqn", Some("NQN"), "NQN of the subsystem [default: discovered, if the target has exactly one]"),
    ours("nsid", Some("ID"), "Number of the namespace [default: the first one]"),
    ours("class", Some("0-3"), "Priority class of the IOs, 0 (urgent) to 3 (idle) [default: 1]"),
    ours(
        "alone",
        Some("SIZE"),
        "Bytes per second that the job reaches alone on the SSD, for f-Util; instead of measuring it with --standalone",
    ),
    fio_also("description", &[], "TEXT", "A text for people; has no effect"),
    fio("do_verify", "0|1", "0: write the pattern of verify, but do not read it back [default: 1]"),
    fio("continue_on_error", "all", "A failed IO is counted and the job continues; the only mode"),
];

/// Options of fio that have no effect over NVMe/TCP: how a file is opened, which system calls are used, on which CPU, which logs are kept, which
/// bytes are written.
/// A job file may contain them; the command prints that they have no effect.
pub(crate) const WITHOUT_EFFECT: [&str; 94] = [
    "allrandrepeat",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffer_pattern",
    "buffered",
    "bwavgtime",
    "clat_percentiles",
    "clocksource",
    "cmdprio",
    "cmdprio_bssplit",
    "cmdprio_class",
    "cmdprio_hint",
    "cmdprio_percentage",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_on_open",
    "create_serialize",
    "direct",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "eta",
    "eta-newline",
    "exitall_on_error",
    "fallocate",
    "file_service_type",
    "filename",
    "filename_format",
    "fixedbufs",
    "group_id",
    "gtod_cpu",
    "gtod_reduce",
    "hipri",
    "ignore_error",
    "invalidate",
    "io_submit_mode",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "ioengine",
    "iomem",
    "iopsavgtime",
    "ioscheduler",
    "lat_percentiles",
    "lockmem",
    "log_avg_msec",
    "log_compression",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_unix_epoch",
    "mem",
    "nice",
    "nonvectored",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "openfiles",
    "overwrite",
    "per_job_logs",
    "percentile_list",
    "prio",
    "prioclass",
    "random_generator",
    "randrepeat",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "slat_percentiles",
    "softrandommap",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "thread",
    "unlink",
    "unlink_each_loop",
    "verify_async",
    "verify_async_cpus",
    "verify_dump",
    "verify_fatal",
    "verify_interval",
    "verify_offset",
    "verify_pattern",
    "verify_state_save",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

/// The option of this name, in any of its spellings.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|option| option.name == name || option.aliases.contains(&name))
}

/// Whether fio has an option of this name that has no effect here.
pub(crate) fn is_without_effect(name: &str) -> bool {
    WITHOUT_EFFECT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_option() {
        let names: Vec<&str> = KNOWN
            .iter()
            .flat_map(|option| [option.name].into_iter().chain(option.aliases.iter().copied()))
            .chain(WITHOUT_EFFECT)
            .collect();
        for (n, name) in names.iter().enumerate() {
            assert!(!names[..n].contains(name), "{name} is there twice");
        }
    }

    #[test]
    fn the_docs_list_every_option() {
        let docs = include_str!("../../../docs/bench.md");
        let rows: Vec<&str> = docs
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
            .collect();
        for option in &KNOWN {
            assert!(rows.contains(&option.name), "docs/bench.md has no row for {}", option.name);
        }
        for row in rows {
            assert!(known(row).is_some(), "docs/bench.md has a row for {row}, which is no option");
        }
        for name in WITHOUT_EFFECT {
            assert!(docs.contains(&format!("`{name}`")), "docs/bench.md does not name {name}");
        }
    }
}
