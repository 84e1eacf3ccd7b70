//! Limits of a probe, and its announcement beforehand.

use serde::{Deserialize, Serialize};
use std::fmt;
use units::{Bytes, Nanos};

/// The least device that can be probed: the write buffer is sought in steps of 64 MiB.
const SIZE_MIN: Bytes = Bytes::mib(256);
/// Limits of `--quick`.
const QUICK_TIME: Nanos = Nanos::secs(115);
const QUICK_WRITES: Bytes = Bytes::gib(64);
const THOROUGH_TIME: Nanos = Nanos::secs(3600);
const THOROUGH_WRITES: Bytes = Bytes::gib(1024);
/// A probe that takes less time or writes less finds nothing.
const TIME_MIN: Nanos = Nanos::secs(10);
const WRITES_MIN: Bytes = Bytes::gib(1);

/// Settings of a probe. Two limits are hard: bytes written, and time taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Size of the device, in bytes.
    pub(crate) size_bytes: u64,
    /// The smallest unit of an IO and its alignment, in bytes.
    pub(crate) block_bytes: u32,
    /// Short loads on a coarse grid.
    pub(crate) quick: bool,
    /// Nothing is written.
    pub(crate) read_only: bool,
    /// The most that is written, in bytes.
    pub(crate) writes_most_bytes: u64,
    /// The longest time that the device is under test, in nanoseconds.
    pub(crate) time_most_ns: u64,
    /// Decides addresses and arrivals.
    pub(crate) seed: u64,
}

/// Why a device cannot be probed this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The device is too small.
    #[error("the device has {0}; a probe needs at least {SIZE_MIN}; choose a larger device or file")]
    TooSmall(Bytes),
    /// The limit on writes is too low.
    #[error(
        "a limit of {0} on what is written is too low to find anything; allow at least {WRITES_MIN}, or use --read-only"
    )]
    TooFewWrites(Bytes),
    /// The limit on time is too low.
    #[error("a limit of {0} on the time is too low to find anything; allow at least {TIME_MIN}")]
    TooShort(Nanos),
    /// Blocks larger than the smallest IO.
    #[error("the device has blocks of {0} bytes; a probe needs blocks of at most 4096 bytes")]
    LargeBlocks(u32),
}

impl Config {
    /// The smallest IO.
    pub(crate) const IO_LEAST: u32 = 4096;

    /// A thorough probe of a device of this size, within an hour and 1 TiB of writes, or twice the capacity if that is less.
    pub fn thorough(size: Bytes, block_bytes: u32) -> Config {
        Config {
            size_bytes: size.get(),
            block_bytes,
            quick: false,
            read_only: false,
            writes_most_bytes: THOROUGH_WRITES.get().min(2 * size.get()).max(WRITES_MIN.get()),
            time_most_ns: THOROUGH_TIME.get(),
            seed: 1,
        }
    }

    /// A quick probe: less than two minutes, and at most 64 GiB of writes.
    pub fn quick(size: Bytes, block_bytes: u32) -> Config {
        Config {
            quick: true,
            writes_most_bytes: QUICK_WRITES.get(),
            time_most_ns: QUICK_TIME.get(),
            ..Config::thorough(size, block_bytes)
        }
    }

    /// The same without writes.
    pub fn read_only(self) -> Config {
        Config { read_only: true, writes_most_bytes: 0, ..self }
    }

    /// The same with another limit on writes.
    pub fn with_writes_most(self, most: Bytes) -> Config {
        Config { writes_most_bytes: most.get(), ..self }
    }

    /// The same with another limit on the time.
    pub fn with_time_most(self, most: Nanos) -> Config {
        Config { time_most_ns: most.get(), ..self }
    }

    /// The same with other addresses and arrivals.
    pub fn with_seed(self, seed: u64) -> Config {
        Config { seed, ..self }
    }

    /// Whether anything can be found this way.
    ///
    /// # Errors
    /// The device is too small or its blocks are too large, or a limit is too low.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.size_bytes < SIZE_MIN.get() {
            return Err(ConfigError::TooSmall(Bytes(self.size_bytes)));
        }
        if self.block_bytes > Config::IO_LEAST {
            return Err(ConfigError::LargeBlocks(self.block_bytes));
        }
        if !self.read_only && self.writes_most_bytes < WRITES_MIN.get() {
            return Err(ConfigError::TooFewWrites(Bytes(self.writes_most_bytes)));
        }
        if self.time_most_ns < TIME_MIN.get() {
            return Err(ConfigError::TooShort(Nanos(self.time_most_ns)));
        }
        Ok(())
    }

    /// Whether the probe writes at all.
    pub fn writes(&self) -> bool {
        !self.read_only
    }

    /// Bytes of the device that are used, from its beginning.
    pub fn size(&self) -> Bytes {
        Bytes(self.size_bytes)
    }

    /// The hard limit on written bytes.
    pub fn writes_most(&self) -> Bytes {
        Bytes(self.writes_most_bytes)
    }

    /// The hard limit on the time.
    pub fn time_most(&self) -> Nanos {
        Nanos(self.time_most_ns)
    }
}

impl fmt::Display for Config {
    /// Announcement of the probe's effects on the device, for the person who must agree.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.time_most_ns.div_ceil(60_000_000_000);
        if self.read_only {
            return write!(f, "writes nothing; takes at most {minutes} min");
        }
        let share = self.writes_most_bytes as f64 / self.size_bytes as f64;
        write!(
            f,
            "overwrites the device; writes at most {:.1} GiB ({share:.2} of its capacity); takes at most {minutes} min",
            self.writes_most_bytes as f64 / units::GIB as f64
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_says_beforehand_what_it_writes_and_how_long_it_takes() {
        let config = Config::quick(Bytes::gib(128), 512);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(
            config.to_string(),
            "overwrites the device; writes at most 64.0 GiB (0.50 of its capacity); takes at most 2 min"
        );
        assert_eq!(config.read_only().to_string(), "writes nothing; takes at most 2 min");
    }

    #[test]
    fn a_probe_that_can_find_nothing_is_refused() {
        let config = Config::quick(Bytes::gib(1), 512);
        let refused = |config: Config| config.check().expect_err("refused").to_string();
        assert!(refused(Config::quick(Bytes::mib(10), 512)).contains("10 MiB"));
        assert!(refused(config.clone().with_writes_most(Bytes::mib(1))).contains("1 MiB"));
        assert!(refused(config.clone().with_time_most(Nanos::secs(1))).contains("1.00 s"));
        assert!(refused(Config::quick(Bytes::gib(1), 8192)).contains("8192"));
    }
}
