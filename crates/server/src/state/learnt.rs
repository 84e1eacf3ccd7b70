//! Models of SSDs that schedulers have learnt, kept over restarts: a file for each SSD, named after a hash of the SSD's name.
//!
//! ```text
//!   ssd = "wwid eui.0025388b01b7a2e5"
//!   buffer_bytes = 402653184
//!
//!   [[price]]
//!   reads = "all"          # of the tenant's IOs: "all", "most", "some" or "none"
//!   size = 4096            # mean size of its IOs, bytes
//!   time_ns = 2410         # device time of such an IO
//!
//!   [[read]]               # how long reads stayed in the SSD (level.md)
//!   size = 8192            # reads of at most this many bytes
//!   in_flight_us = 100     # while the IOs of others in the SSD took at most this much of its time
//!   written_percent = 3    # and tenants that write had at most this much of it
//!   latency_ns = [92000, 140000, 260000, 410000]    # one in 2, in 20, in 100, in 200 took longer
//! ```
//!
//! Nothing depends on such a file: without it, or with one that cannot be read, the scheduler learns anew. It is taken as a belief
//! (`sched::Learnt`), so a wrong one does no lasting harm. The last target that serves an SSD writes it.
//!
//! Holds: a written file reads back the same, and a damaged one is refused with a reason (`a_damaged_file_is_refused`).

use super::StateError;
use super::file::replace;
use nvme::tcp::pdu::crc32c;
use sched::{Learnt, LearntPrice, LearntReads, ReadsPart};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use units::{Bytes, Nanos};

/// The longest time of an IO that is believed: an hour.
const TIME_MAX: u64 = 3_600_000_000_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    ssd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_bytes: Option<u64>,
    #[serde(default)]
    price: Vec<Price>,
    #[serde(default)]
    read: Vec<Reads>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reads {
    size: u64,
    in_flight_us: u64,
    written_percent: u8,
    latency_ns: [u64; 4],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    reads: Part,
    size: u64,
    time_ns: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    All,
    Most,
    Some,
    None,
}

/// In the order of [`ReadsPart::ALL`].
const PARTS: [Part; 4] = [Part::All, Part::Most, Part::Some, Part::None];

/// The file of the SSD with this name.
pub(super) fn path_of(directory: &Path, ssd: &str) -> PathBuf {
    directory.join(format!("{}.toml", readable(ssd)))
}

/// A name of a file that people recognise, and that another SSD does not have.
pub(super) fn readable(ssd: &str) -> String {
    let readable: String =
        ssd.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).take(80).collect();
    format!("{readable}-{:08x}", crc32c(ssd.as_bytes()))
}

/// Loads the model of an SSD; `None` if none is stored.
pub(super) fn load(directory: &Path, ssd: &str) -> Result<Option<Learnt>, StateError> {
    let path = path_of(directory, ssd);
    match files::read_text(&path) {
        Ok(text) => decode(&text, ssd).map(Some).map_err(|what| StateError::NotLearnt { path, what }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StateError::Io { action: "read", path, error }),
    }
}

/// Replaces the stored model of an SSD.
pub(super) fn store(directory: &Path, ssd: &str, learnt: &Learnt) -> Result<(), StateError> {
    let path = path_of(directory, ssd);
    replace(&path, encode(ssd, learnt).as_bytes()).map_err(|(error, _)| StateError::Io {
        action: "store what was learnt in",
        path,
        error,
    })
}

fn encode(ssd: &str, learnt: &Learnt) -> String {
    let part = |reads: ReadsPart| {
        let place = ReadsPart::ALL.iter().position(|part| *part == reads);
        PARTS[place.expect("all parts are there")]
    };
    let price =
        |price: &LearntPrice| Price { reads: part(price.reads), size: price.size.0, time_ns: price.time.0 };
    let read = |reads: &LearntReads| Reads {
        size: reads.size.0,
        in_flight_us: reads.in_flight.0 / 1000,
        written_percent: reads.written,
        latency_ns: reads.latencies.map(|latency| latency.0),
    };
    let document = Document {
        ssd: ssd.to_owned(),
        buffer_bytes: learnt.buffer.map(|buffer| buffer.0),
        price: learnt.prices.iter().map(price).collect(),
        read: learnt.reads.iter().map(read).collect(),
    };
    toml::to_string(&document).expect("a table of texts and numbers below 2⁶³, which TOML can hold")
}

fn decode(text: &str, ssd: &str) -> Result<Learnt, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if document.ssd != ssd {
        return Err(format!("it is of another SSD, {:?}", document.ssd));
    }
    let price = |price: Price| {
        if !(1..=TIME_MAX).contains(&price.time_ns) || price.size == 0 {
            return Err(format!("no IO of {} bytes takes {} ns", price.size, price.time_ns));
        }
        let reads = ReadsPart::ALL[price.reads as usize];
        Ok(LearntPrice { reads, size: Bytes(price.size), time: Nanos(price.time_ns) })
    };
    let prices = document.price.into_iter().map(price).collect::<Result<_, _>>()?;
    let read = |read: Reads| {
        let Reads { size, in_flight_us, written_percent, latency_ns } = read;
        if size == 0 || in_flight_us > TIME_MAX / 1000 || written_percent > 100 {
            return Err(format!(
                "no reads are of {size} bytes beside {in_flight_us} us of others and {written_percent} % written"
            ));
        }
        if !latency_ns.is_sorted() || latency_ns[3] > TIME_MAX {
            return Err(format!(
                "reads do not take {latency_ns:?} ns: these must not fall, or be beyond an hour"
            ));
        }
        let (size, in_flight) = (Bytes(size), Nanos::micros(in_flight_us));
        Ok(LearntReads { size, in_flight, written: written_percent, latencies: latency_ns.map(Nanos) })
    };
    let reads = document.read.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(Learnt { prices, reads, buffer: document.buffer_bytes.map(Bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn learnt() -> Learnt {
        let price = |reads, kib, time| LearntPrice { reads, size: Bytes::kib(kib), time: Nanos(time) };
        let prices = vec![price(ReadsPart::All, 4, 2_410), price(ReadsPart::None, 128, 98_000)];
        let reads = LearntReads {
            size: Bytes::kib(8),
            in_flight: Nanos::micros(100),
            written: 3,
            latencies: [92_000, 140_000, 260_000, 410_000].map(Nanos),
        };
        Learnt { prices, reads: vec![reads], buffer: Some(Bytes::mib(384)) }
    }

    #[test]
    fn what_is_kept_comes_back_and_belongs_to_one_ssd() {
        let folder = std::env::temp_dir().join(format!("gimbal-learnt-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be written");
        let (one, other) = ("wwid eui.1/2", "wwid eui.1-2");
        assert_eq!(load(&folder, one).expect("no file is no error"), None);
        store(&folder, one, &learnt()).expect("there is room");
        store(&folder, one, &learnt()).expect("again");
        assert_eq!(load(&folder, one).expect("it was just stored"), Some(learnt()));
        assert_eq!(load(&folder, other).expect("its name differs in a character"), None);
        fs::rename(path_of(&folder, one), path_of(&folder, other)).expect("same folder");
        let said = load(&folder, other).expect_err("it is of another").to_string();
        assert!(said.contains("of another SSD"), "{said}");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let text = encode("a", &learnt());
        assert_eq!(decode(&text, "a"), Ok(learnt()));
        for (from, to) in [
            ("reads = \"all\"", "reads = \"every\""),
            ("time_ns = 2410", "time_ns = 0"),
            ("time_ns = 2410", "time_ns = 9000000000000"),
            ("size = 4096", "size = 0"),
            ("[[price]]", "[[prices]]"),
            ("written_percent = 3", "written_percent = 101"),
            ("140000", "14"),
            ("in_flight_us = 100", "in_flight_us = 9000000000000"),
        ] {
            assert!(text.contains(from), "{from} is not in {text}");
            assert!(decode(&text.replacen(from, to, 1), "a").is_err(), "{to}");
        }
    }
}
