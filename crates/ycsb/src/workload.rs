//! A workload: the meaning of the properties.
//!
//! Defaults are those of YCSB's CoreWorkload. Values that YCSB would reinterpret (an unknown word, a fraction outside 0
//! to 1) are errors here.

use crate::properties::{Properties, PropertyError};

/// The distribution of operations over records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All records with equal probability.
    Uniform,
    /// A few records are very popular; they are anywhere among the records.
    Zipfian,
    /// The newest records are the most popular.
    Latest,
    /// A fraction of the operations uses a fraction of the records.
    Hotspot {
        /// Fraction of the records.
        data: f64,
        /// Fraction of the operations.
        operations: f64,
    },
    /// One record after the other.
    Sequential,
    /// Popularity falls exponentially with age; given by one percentile of the operations.
    Exponential {
        /// Percentage of the operations that use the newest records.
        percentile: f64,
        /// Fraction of the records that these are.
        part: f64,
    },
}

/// A distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthDistribution {
    /// Always the longest.
    Constant,
    /// All lengths with equal probability.
    Uniform,
    /// Short lengths are more frequent.
    Zipfian,
}

/// The numbering of records in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By a hash, so that neighbouring keys are inserted at different times.
    Hashed,
    /// In the order of insertion.
    Ordered,
}

/// Weights of the kinds of operations, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads.
    pub read: f64,
    /// Updates.
    pub update: f64,
    /// Inserts.
    pub insert: f64,
    /// Scans.
    pub scan: f64,
    /// Read-modify-writes.
    pub read_modify_write: f64,
}

/// A workload, as the properties define it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Number of records in the database after all loads.
    pub records: u64,
    /// The first record that this workload loads and uses.
    pub insert_start: u64,
    /// Number of records that this workload loads and uses.
    pub insert_count: u64,
    /// Number of operations; 0: no limit.
    pub operations: u64,
    /// Weights of the kinds of operations.
    pub mix: Mix,
    /// The distribution of operations over records.
    pub distribution: Distribution,
    /// The shortest and the longest scan.
    pub scan_length: (u64, u64),
    /// The distribution of scan lengths.
    pub scan_distribution: LengthDistribution,
    /// Number of fields of a record.
    pub fields: u32,
    /// Prefix of the fields' names.
    pub field_prefix: String,
    /// The shortest and the longest field, in bytes.
    pub field_length: (u64, u64),
    /// The distribution of field lengths.
    pub field_distribution: LengthDistribution,
    /// Whether reads read all fields, or one.
    pub reads_all: bool,
    /// Whether updates write all fields, or one.
    pub writes_all: bool,
    /// Whether reads are compared with the data that must have been written.
    pub is_checked: bool,
    /// The numbering of records in keys.
    pub order: Order,
    /// Minimum number of digits of a key.
    pub zero_padding: usize,
}

/// The properties that `Workload` knows. `workload` must name the class CoreWorkload.
const KNOWN: [&str; 30] = [
    "workload",
    "recordcount",
    "operationcount",
    "insertstart",
    "insertcount",
    "readproportion",
    "updateproportion",
    "insertproportion",
    "scanproportion",
    "readmodifywriteproportion",
    "requestdistribution",
    "hotspotdatafraction",
    "hotspotopnfraction",
    "exponential.percentile",
    "exponential.frac",
    "minscanlength",
    "maxscanlength",
    "scanlengthdistribution",
    "fieldcount",
    "fieldnameprefix",
    "minfieldlength",
    "fieldlength",
    "fieldlengthdistribution",
    "readallfields",
    "writeallfields",
    "dataintegrity",
    "insertorder",
    "zeropadding",
    // There is one table, and fields are always read with their record.
    "table",
    "readallfieldsbyname",
];

fn part(properties: &Properties, key: &str, default: f64) -> Result<f64, PropertyError> {
    let value = properties.get(key, "a number")?.unwrap_or(default);
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(properties.wrong(key, "this must be between 0 and 1"))
    }
}

fn count(properties: &Properties, key: &str, default: u64) -> Result<u64, PropertyError> {
    Ok(properties.get(key, "a whole number, not negative")?.unwrap_or(default))
}

fn mix(properties: &Properties) -> Result<Mix, PropertyError> {
    let mix = Mix {
        read: part(properties, "readproportion", 0.95)?,
        update: part(properties, "updateproportion", 0.05)?,
        insert: part(properties, "insertproportion", 0.0)?,
        scan: part(properties, "scanproportion", 0.0)?,
        read_modify_write: part(properties, "readmodifywriteproportion", 0.0)?,
    };
    let Mix { read, update, insert, scan, read_modify_write } = mix;
    if read + update + insert + scan + read_modify_write <= 0.0 {
        return Err(PropertyError::Together("all proportions are 0: there would be no operation".to_owned()));
    }
    Ok(mix)
}

fn distribution(properties: &Properties, asked: u64) -> Result<Distribution, PropertyError> {
    let hotspot = Distribution::Hotspot {
        data: part(properties, "hotspotdatafraction", 0.2)?,
        operations: part(properties, "hotspotopnfraction", 0.8)?,
    };
    let percentile = properties.get("exponential.percentile", "a number")?.unwrap_or(95.0);
    if !(percentile > 0.0 && percentile < 100.0) {
        return Err(properties.wrong("exponential.percentile", "this must be between 0 and 100"));
    }
    let exponential = Distribution::Exponential {
        percentile,
        part: part(properties, "exponential.frac", 0.857_142_857_1)?,
    };
    let all = [
        ("uniform", Distribution::Uniform),
        ("zipfian", Distribution::Zipfian),
        ("latest", Distribution::Latest),
        ("hotspot", hotspot),
        ("sequential", Distribution::Sequential),
        ("exponential", exponential),
    ];
    let chosen = properties.choice("requestdistribution", "uniform", &all)?;
    match chosen {
        Distribution::Hotspot { data, operations } => {
            let hot = (asked as f64 * data) as u64;
            if (hot == 0 && operations > 0.0) || (hot == asked && operations < 1.0) {
                let why =
                    format!("{operations} of the operations would find no record: {hot} of {asked} are hot");
                return Err(properties.wrong("hotspotdatafraction", &why));
            }
        }
        Distribution::Exponential { part, .. } if part <= 0.0 => {
            return Err(properties.wrong("exponential.frac", "this must be above 0"));
        }
        _ => {}
    }
    Ok(chosen)
}

fn range(properties: &Properties, keys: [&str; 2], defaults: [u64; 2]) -> Result<(u64, u64), PropertyError> {
    let smallest = count(properties, keys[0], defaults[0])?;
    let largest = count(properties, keys[1], defaults[1])?;
    if smallest > largest {
        let text = format!("{} = {smallest} is more than {} = {largest}", keys[0], keys[1]);
        return Err(PropertyError::Together(text));
    }
    Ok((smallest, largest))
}

impl Workload {
    /// Interprets properties.
    ///
    /// # Errors
    /// The first property with an impossible value.
    pub fn new(properties: &Properties) -> Result<Workload, PropertyError> {
        if let Some(class) = properties.text("workload")
            && !class.ends_with(".CoreWorkload")
        {
            return Err(properties.wrong("workload", "only the core workload is known here"));
        }
        let records = count(properties, "recordcount", 0)?;
        if records == 0 {
            return Err(properties.wrong("recordcount", "say how many records there are, at least 1"));
        }
        let insert_start = count(properties, "insertstart", 0)?;
        let insert_count = count(properties, "insertcount", records.saturating_sub(insert_start))?;
        if insert_count == 0 || insert_start.saturating_add(insert_count) > records {
            return Err(PropertyError::Together(format!(
                "insertstart = {insert_start} and insertcount = {insert_count} do not lie within recordcount = {records}"
            )));
        }
        let uniform = ("uniform", LengthDistribution::Uniform);
        let zipfian = ("zipfian", LengthDistribution::Zipfian);
        let constant = ("constant", LengthDistribution::Constant);
        let orders = [("hashed", Order::Hashed), ("ordered", Order::Ordered)];
        let field_distribution =
            properties.choice("fieldlengthdistribution", "constant", &[constant, uniform, zipfian])?;
        let field_length = match field_distribution {
            LengthDistribution::Constant => (0, count(properties, "fieldlength", 100)?),
            _ => range(properties, ["minfieldlength", "fieldlength"], [1, 100])?,
        };
        let is_checked = properties.flag("dataintegrity", false)?;
        if is_checked && field_distribution != LengthDistribution::Constant {
            return Err(properties.wrong("dataintegrity", "this needs fieldlengthdistribution = constant"));
        }
        let fields = properties.get("fieldcount", "a whole number")?.unwrap_or(10);
        if fields == 0 {
            return Err(properties.wrong("fieldcount", "a record has at least one field"));
        }
        Ok(Workload {
            records,
            insert_start,
            insert_count,
            operations: count(properties, "operationcount", 0)?,
            mix: mix(properties)?,
            distribution: distribution(properties, insert_count)?,
            scan_length: range(properties, ["minscanlength", "maxscanlength"], [1, 1000])?,
            scan_distribution: properties.choice("scanlengthdistribution", "uniform", &[uniform, zipfian])?,
            fields,
            field_prefix: properties.text("fieldnameprefix").unwrap_or("field").to_owned(),
            field_length,
            field_distribution,
            reads_all: properties.flag("readallfields", true)?,
            writes_all: properties.flag("writeallfields", false)?,
            is_checked,
            order: properties.choice("insertorder", "hashed", &orders)?,
            zero_padding: count(properties, "zeropadding", 1)? as usize,
        })
    }

    /// The properties that have no meaning for a workload.
    pub fn unknown(properties: &Properties) -> Vec<&str> {
        properties.names().filter(|name| !KNOWN.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(assignments: &[&str]) -> Result<Workload, PropertyError> {
        let mut properties = Properties::core('a').expect("a core workload");
        assignments.iter().for_each(|text| properties.set(text).expect("a property"));
        Workload::new(&properties)
    }

    #[test]
    fn what_cannot_work_is_refused_and_named() {
        let cases = [
            (&["workload=site.ycsb.workloads.TimeSeriesWorkload"][..], "workload"),
            (&["recordcount=0"], "recordcount"),
            (&["insertstart=900", "insertcount=101"], "insertcount"),
            (&["insertstart=1000"], "insertcount"),
            (&["readproportion=0", "updateproportion=0"], "proportions"),
            (&["readproportion=1.5"], "readproportion"),
            (&["requestdistribution=random"], "requestdistribution"),
            (&["requestdistribution=hotspot", "hotspotdatafraction=0"], "hotspotdatafraction"),
            (&["exponential.percentile=100"], "exponential.percentile"),
            (&["minscanlength=9", "maxscanlength=8"], "minscanlength"),
            (&["fieldcount=0"], "fieldcount"),
            (&["fieldlengthdistribution=histogram"], "fieldlengthdistribution"),
            (&["dataintegrity=true", "fieldlengthdistribution=uniform"], "dataintegrity"),
            (&["insertorder=sorted"], "insertorder"),
        ];
        for (assignments, named) in cases {
            let error = with(assignments).expect_err(named).to_string();
            assert!(error.contains(named), "{assignments:?}: {error}");
        }
    }

    #[test]
    fn what_is_not_said_is_as_in_ycsb() {
        let mut properties = Properties::default();
        properties.set("recordcount=10").expect("a property");
        let workload = Workload::new(&properties).expect("it works");
        assert_eq!((workload.insert_start, workload.insert_count, workload.operations), (0, 10, 0));
        assert_eq!((workload.mix.read, workload.mix.update), (0.95, 0.05));
        assert_eq!(workload.distribution, Distribution::Uniform);
        assert_eq!((workload.fields, workload.field_length.1), (10, 100));
        assert_eq!(workload.scan_length, (1, 1000));
        assert!(workload.reads_all && !workload.writes_all);
    }
}
